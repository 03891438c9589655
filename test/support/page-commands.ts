/**
 * A page's code blocks, run as a reader would run them: in order, in one folder, with `moonport` and `npx moonport` being the
 * build. What follows a fence's language says what becomes of the block:
 *
 *     ```sh                 runs; it must end with 0, and if a ```text block comes right after it, it prints exactly that
 *                           ("…" there stands for anything within a line). `cd` holds for the blocks that follow.
 *     ```sh background      starts a node (`moonport dev`, `moonport start`), waits until it says its address, and stops it at
 *                           the page's end. It gets a free port; http://127.0.0.1:7070 on the page means that one from then on.
 *     ```sh no-run          is only shown: it needs what a test has not, or shows what could be.
 *     ```lua classes/X.lua  (any language, any path with a dot in it) is written to that file.
 *
 * What a reader has by then and the page does not show again stands in a comment, and runs the same way:
 *
 *     <!-- run:             or <!-- run background:
 *     moonport new my-app
 *     -->
 */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { packageRoot } from "../../cli/package-root.js";
import { SETTING_NAMES } from "../../src/settings/settings.js";

export type Block =
  | { readonly kind: "command"; readonly text: string; readonly printed: string | undefined; readonly line: number }
  | { readonly kind: "background"; readonly text: string; readonly line: number }
  | { readonly kind: "file"; readonly text: string; readonly file: string; readonly line: number };

const FENCE = /^```(?<info>[^\n]*)\n(?<text>.*?)^```$(?:\n+```text\n(?<printed>.*?)^```$)?/;
const HIDDEN = /^<!-- run(?<background> background)?:\n(?<hidden>.*?)^-->$/;
const BLOCK = new RegExp(`${FENCE.source}|${HIDDEN.source}`, "gms");

/** @throws Error for a fence that says something else */
export function blocksOf(page: string): Block[] {
  return [...page.matchAll(BLOCK)].flatMap(({ index, groups = {} }): Block[] => {
    const line = page.slice(0, index).split("\n").length;
    const { info = "", text = "", printed, hidden, background } = groups;
    if (hidden === undefined) return shownBlock(info, text, printed, line);
    if (background !== undefined) return [{ kind: "background", text: hidden, line }];
    return [{ kind: "command", text: hidden, printed: undefined, line }];
  });
}

function shownBlock(info: string, text: string, printed: string | undefined, line: number): Block[] {
  const [language, word, ...more] = info.trim().split(/\s+/);
  if (more.length > 0) throw new Error(`line ${line}: a fence has one word after its language: ${info}`);
  if (word?.includes(".")) return [{ kind: "file", text, file: word, line }];
  if (language !== "sh" && word === undefined) return [];
  if (language !== "sh") throw new Error(`line ${line}: what is "${word}"? A file's name has a dot in it`);
  switch (word) {
    case undefined:
      return [{ kind: "command", text, printed, line }];
    case "background":
      return [{ kind: "background", text, line }];
    case "no-run":
      return [];
    default:
      throw new Error(`line ${line}: what is "${word}"? sh has background and no-run`);
  }
}

const SHIM = `#!/bin/sh
# moonport, or npx moonport, with a free port for a node
[ "$(basename "$0")" = npx ] && { [ "$1" = moonport ] || { echo "npx $1 is not for pages" >&2; exit 1; }; shift; }
case "$1" in dev|start) set -- "$@" --port 0 ;; esac
exec "${process.execPath}" "${path.join(packageRoot, "dist", "cli", "main.js")}" "$@"
`;

export class PageRun {
  readonly #folder: string;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #nodes: { readonly child: ChildProcess; readonly ended: Promise<number | null> }[] = [];
  #cwd: string;
  #url = "http://127.0.0.1:7070";

  /** @param folder an empty one */
  constructor(folder: string) {
    this.#folder = folder;
    this.#cwd = path.join(folder, "page");
    const bin = path.join(folder, "bin");
    for (const made of [this.#cwd, bin]) fs.mkdirSync(made);
    for (const name of ["moonport", "npx"]) fs.writeFileSync(path.join(bin, name), SHIM, { mode: 0o755 });
    // Settings of the shell that runs the tests are not part of the page.
    const inherited = Object.entries(process.env).filter(([name]) => !SETTING_NAMES.some((one) => one === name));
    this.#environment = { ...Object.fromEntries(inherited), PATH: `${bin}:${process.env.PATH}`, HOME: folder };
  }

  /** @returns what a command printed. Rejects when it fails. */
  async run(block: Block): Promise<string> {
    const text = block.text.replaceAll("http://127.0.0.1:7070", this.#url);
    switch (block.kind) {
      case "file": {
        const file = path.join(this.#cwd, block.file);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, block.text);
        return "";
      }
      case "background":
        await this.#start(text);
        return "";
      case "command":
        return await this.#command(text);
    }
  }

  /** Stops the nodes. @returns their exit codes */
  async end(): Promise<(number | null)[]> {
    for (const { child } of this.#nodes) child.kill("SIGTERM");
    return await Promise.all(this.#nodes.map(({ ended }) => ended));
  }

  async #command(text: string): Promise<string> {
    const at = path.join(this.#folder, "cwd");
    const child = this.#bash(`${text}\npwd > '${at}'`);
    const [stdout, stderr, code] = await Promise.all([textOf(child.stdout), textOf(child.stderr), endOf(child)]);
    if (code !== 0) throw new Error(`exit code ${code} of\n${text}\n${stdout}${stderr}`);
    this.#cwd = fs.readFileSync(at, "utf8").trim();
    return stdout;
  }

  async #start(text: string): Promise<void> {
    const child = this.#bash(`exec ${text}`);
    const ended = endOf(child);
    this.#nodes.push({ child, ended });
    this.#url = await new Promise((resolve, reject) => {
      let said = "";
      const hear = (part: string): void => {
        said += part;
        const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
        if (url !== undefined) resolve(url);
      };
      for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", hear);
      void ended.then((code) => reject(new Error(`exit code ${code} of\n${text}\n${said}`)));
    });
  }

  #bash(text: string): ChildProcess {
    return spawn("bash", ["-euo", "pipefail", "-c", text], {
      cwd: this.#cwd,
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
  }
}

/** Whether that is what was printed; "…" stands for anything within a line. */
export function isPrinted(stdout: string, expected: string): boolean {
  const pattern = expected
    .trimEnd()
    .split("…")
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${pattern.join(".*")}$`).test(stdout.trimEnd());
}

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = "";
  for await (const part of stream?.setEncoding("utf8") ?? []) text += part;
  return text;
}

function endOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("close", resolve));
}
