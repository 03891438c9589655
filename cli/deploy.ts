/** Deploying from an app's folder to whichever node there is, and what is said of it. */
import { readAppSource } from "../src/app-source.js";
import { MoonportError } from "../src/errors.js";
import { filesOf } from "../src/release/bundle.js";
import type { AppReleases, Deployed, DeployTerms, NodeRelease, Release } from "../src/release/contract.js";
import { RealFolder } from "../src/world/real-folder.js";
import { checkedFolder, findingsText } from "./check-app.js";
import type { Context } from "./context.js";
import { type FoundNode, withNode } from "./find-node.js";
import { tableOf } from "./table.js";

/** A node says that it cannot serve the release: its classes' doing. */
const UNSERVED_EXIT = 4;
const SHOWN_DIGITS = 12;

export interface CheckWanted {
  readonly native: readonly string[];
  readonly objects: number;
}

/** @throws MoonportError `class_invalid` with what the check found, whatever {@link Deployed} takes */
export async function deployFolder(
  context: Context,
  terms: DeployTerms,
  check: CheckWanted | undefined,
): Promise<void> {
  const { app, dir } = context;
  const files = filesOf(readAppSource(app, new RealFolder(dir)));
  if (check !== undefined) await refuseFindings(context, check);
  await withNode(context, "deploy", async (found) => {
    tell(context, found, await found.node.deploy({ app, files, ...terms }));
  });
}

export async function rollBack(context: Context, terms: DeployTerms, to: number | undefined): Promise<void> {
  const { app } = context;
  await withNode(context, "rollback", async (found) => {
    tell(context, found, await found.node.rollback({ app, ...(to !== undefined && { to }), ...terms }));
  });
}

export async function listReleases(context: Context): Promise<void> {
  await withNode(
    context,
    "releases",
    async ({ node, kind }) => {
      const releases = await node.releases(context.app);
      context.output.result(releasesText(releases, kind), releases);
    },
    { isRepeatable: true },
  );
}

async function refuseFindings(context: Context, { native, objects }: CheckWanted): Promise<void> {
  const report = await checkedFolder(context, native, objects);
  const { findings } = report;
  if (findings.length === 0) return;
  const found = findings.map(({ file, line, column, message }) => ({ file, line, column, message }));
  throw MoonportError.of("class_invalid", `nothing is deployed:\n${findingsText(report).join("\n")}`, {
    hint: "correct them; --no-check deploys whatever compiles",
    details: { findings: found },
  });
}

function tell({ app, output }: Context, { kind }: FoundNode, deployed: Deployed): void {
  const { release, changed, nodes } = deployed;
  const { number, bundle, files, bytes, rollbackOf } = release;
  const back = rollbackOf === undefined ? "" : `, the files of release ${rollbackOf}`;
  const what = `${files} ${files === 1 ? "file" : "files"}, ${bytes} bytes, ${bundle.slice(0, SHOWN_DIGITS)}`;
  const head = changed
    ? `release ${number} of ${app}: ${what}${back}`
    : `release ${number} of ${app} has these files already: nothing to deploy`;
  const lines = kind === "own" ? ["no node runs here: nodes serve it from their start"] : nodes.map(nodeText);
  output.result([head, ...lines].join("\n"), deployed);
  if (nodes.some(({ failed }) => failed?.release === number)) process.exitCode = UNSERVED_EXIT;
}

function nodeText(node: NodeRelease): string {
  return `${node.node ?? "the node"} ${servedText(node)}`;
}

function servedText({ source, release, failed, unreachable }: NodeRelease): string {
  const serves =
    source === "release"
      ? `serves release ${release}`
      : source === "folder"
        ? "serves its folder"
        : "serves nothing yet";
  const but = failed === undefined ? "" : `, and cannot serve release ${failed.release}: ${failed.message}`;
  return unreachable === true ? `does not answer; it last said that it ${serves}${but}` : `${serves}${but}`;
}

function releasesText({ app, releases, nodes }: AppReleases, kind: FoundNode["kind"]): string {
  const current = releases.at(-1);
  const rows = [...releases].reverse().map((release) => rowOf(release, release === current));
  const table =
    rows.length === 0
      ? `nothing was deployed of ${app} yet`
      : tableOf({ columns: ["release", "files", "bytes", "bundle", "when", "by", "message"], rows });
  return [table, ...(kind === "own" ? [] : ["", ...nodes.map(nodeText)])].join("\n");
}

function rowOf(release: Release, isCurrent: boolean): (string | number)[] {
  const { number, files, bytes, bundle, atMs, by, message, rollbackOf } = release;
  const back = rollbackOf === undefined ? "" : `back to ${rollbackOf}`;
  const said = [back, message].filter((text) => text !== "").join(": ");
  const shown = bundle.slice(0, SHOWN_DIGITS);
  return [isCurrent ? `${number} *` : `${number}`, files, bytes, shown, new Date(atMs).toISOString(), by, said];
}
