import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { EXIT_CODES } from "../../cli/exit-codes.js";
import { packageRoot } from "../../cli/package-root.js";
import { buildProgram } from "../../cli/program.js";

const page = fs.readFileSync(path.join(packageRoot, "docs", "cli.md"), "utf8");

describe("docs/cli.md", () => {
  it("has a row for every exit code", () => {
    for (const [code, meaning] of Object.entries(EXIT_CODES)) {
      expect(page.replaceAll("`", "")).toContain(`| ${code} | ${meaning} |`);
    }
  });

  it("names every command and every flag", () => {
    const program = buildProgram();
    for (const command of [program, ...program.commands]) {
      if (command !== program) expect(page).toMatch(new RegExp(`^\\| \`${command.name()}\\b`, "m"));
      for (const { long } of command.options) if (long !== "--version") expect(page).toContain(`\`${long}`);
    }
  });
});
