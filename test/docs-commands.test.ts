/** Every command on every page is run, in order, and prints what the page says. test/support/page-commands.ts has the rules. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../cli/package-root.js";
import { blocksOf, isPrinted, PageRun } from "./support/page-commands.js";

/** By tests of their own, which start what the page takes for granted. */
const RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  "docs/subscriptions.md": "test/cli/subscriptions-page.test.ts",
};

const docs = fs.readdirSync(path.join(packageRoot, "docs")).map((name) => `docs/${name}`);
const pages = ["README.md", ...docs].filter((page) => page.endsWith(".md") && RUN_ELSEWHERE[page] === undefined);

function read(page: string): string {
  return fs.readFileSync(path.join(packageRoot, page), "utf8");
}

describe("pages", () => {
  it("have no commands outside of blocks that run", () => {
    const stray = [...pages, ...Object.keys(RUN_ELSEWHERE)].flatMap((page) =>
      [...read(page).matchAll(/^ {4}(?:\$ )?(?:npx|npm|moonport|curl|node) .*$/gm)].map(
        ([line]) => `${page}: ${line.trim()}`,
      ),
    );
    expect(stray).toEqual([]);
  });

  it("that run elsewhere do", () => {
    for (const [page, test] of Object.entries(RUN_ELSEWHERE)) {
      expect(fs.readFileSync(path.join(packageRoot, test), "utf8")).toContain(path.basename(page));
    }
  });

  it("may say no more about a block than there are rules for", () => {
    expect(() => blocksOf("```sh later\nls\n```\n")).toThrow(/line 1: what is "later"/);
    expect(blocksOf("```sh no-run\nrm -rf /\n```\n```js\n1\n```\n")).toEqual([]);
    expect(isPrinted('{"id":"abc"}\nx\n', '{"id":"…"}\nx')).toBe(true);
    expect(isPrinted('{"id":"abc"}\ny\n', '{"id":"…"}\nx')).toBe(false);
  });
});

describe.concurrent.each(pages.filter((page) => blocksOf(read(page)).length > 0))("%s", (page) => {
  it("does what it says", async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-page-"));
    const run = new PageRun(folder);
    try {
      for (const block of blocksOf(read(page))) {
        const stdout = await run.run(block).catch((error: Error) => {
          throw new Error(`${page}:${block.line}: ${error.message}`);
        });
        if (block.kind !== "command" || block.printed === undefined) continue;
        if (!isPrinted(stdout, block.printed)) expect(stdout, `${page}:${block.line}`).toBe(block.printed);
      }
    } finally {
      const codes = await run.end();
      fs.rmSync(folder, { recursive: true, force: true });
      expect(codes.filter((code) => code !== 0)).toEqual([]);
    }
    // A page starts a process for each of its commands, and the pages run beside each other.
  }, 240_000);
});
