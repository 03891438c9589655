/** `moonport directory Class [--rebuild]` */
import type { Command } from "commander";
import { checkClassName } from "../../src/identity.js";
import type { DirectoryStatus, NodeApi } from "../../src/node-api.js";
import { type Context, contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { ProgressBar } from "../progress.js";
import { propertiesOf } from "../table.js";

const LOOK_EVERY_MS = 200;

export function addDirectory(program: Command): void {
  program
    .command("directory")
    .description("show how a class's directory stands, or fill it anew from its objects")
    .argument("<class>")
    .option("--rebuild", "have every object of the class tell its row again, and wait for the end")
    .addHelpText("after", "\nExample:\n  moonport directory Auction --rebuild")
    .action(async (className: string, flags: { readonly rebuild?: boolean }, command: Command) => {
      const context = contextOf(command);
      checkClassName(className);
      const status = await withNode(context, "directory", ({ node }) =>
        flags.rebuild === true ? rebuilt(context, node, className) : node.directory(context.app, className),
      );
      context.output.result(propertiesOf(propertyLines(status)), status);
    });
}

async function rebuilt({ app, quiet, output }: Context, node: NodeApi, className: string): Promise<DirectoryStatus> {
  const bar = new ProgressBar(process.stderr, () => performance.now());
  let status = await node.rebuildDirectory(app, className);
  while (status.walk?.state === "running") {
    if (!quiet && !output.json) bar.show(status.walk.progress, `${status.walk.objects} objects`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    status = await node.directory(app, className);
  }
  bar.clear();
  return status;
}

function propertyLines({ columns, index, ...it }: DirectoryStatus): (readonly [string, string])[] {
  const indexed = (name: string): string => (index.includes(name) ? ", indexed" : "");
  const lines: (readonly [string, string])[] = [
    ["directory", `${it.app}/${it.className}`],
    [
      "columns",
      Object.entries(columns)
        .map(([name, type]) => `${name} (${type}${indexed(name)})`)
        .join(", "),
    ],
    ["rows", `${it.rows}, ${it.current} of them with these columns`],
    ["stale", it.stale === 0 ? "none" : `${it.stale}: they cannot be derived, the last good ones stay`],
    ["complete", it.complete ? "yes" : "no: not every object has been asked since the class got these columns"],
    ["waiting", it.waiting === 0 ? "nothing" : `${it.waiting} rows of this node, for ${Math.round(it.lagMs)} ms`],
  ];
  if (it.walk === undefined) return lines;
  const { why, state, objects, failed, progress, error } = it.walk;
  const failures = failed === 0 ? "" : `, ${failed} could not tell their row`;
  lines.push(["walk", `${why}, ${state}: ${objects} objects, ${Math.floor(progress * 100)} %${failures}`]);
  if (error !== undefined) lines.push(["failed", error]);
  return lines;
}
