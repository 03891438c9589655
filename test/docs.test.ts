/** Pages that are made from tables in the code stay what the tables say. MOONPORT_WRITE_DOCS=1 writes them. */
import fs from "node:fs";
import { expect, it } from "vitest";
import { CLASS_ERROR, ERROR_CODES, type ErrorCodeEntry } from "../src/errors.js";
import { SETTINGS, type SettingEntry } from "../src/settings/settings.js";
import { VERSION } from "../src/version.js";
import { CLOSE_CODES } from "../src/wire/frames.js";

const NOTE = "<!-- Made from the table in the code. Change that, then run: npm run docs -->";

function isCurrent(file: string, text: string): void {
  if (process.env.MOONPORT_WRITE_DOCS === "1") fs.writeFileSync(file, text);
  expect(fs.readFileSync(file, "utf8"), `${file} is not current: run npm run docs`).toBe(text);
}

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}

it("docs/errors.md lists every code with its HTTP status and exit code", () => {
  const groups: Record<ErrorCodeEntry["group"], string> = {
    refuse: "The request is wrong: sending it again changes nothing",
    class: "The class's own doing",
    retry: "Try again: nothing happened, or the call id makes a repeat safe",
    unknown: "The outcome is unknown",
    operator: "Storage or configuration needs an operator",
  };
  const sections = Object.entries(groups).map(([group, title]) => {
    const entries = Object.entries(ERROR_CODES as Record<string, ErrorCodeEntry>).filter(
      ([, one]) => one.group === group,
    );
    const rows = entries.map(([code, one]) => [
      `\`${code}\``,
      one.status,
      one.exit,
      one.retryable ? "yes" : "no",
      one.meaning,
    ]);
    return `## ${title}\n\n${table(["code", "HTTP", "exit", "retryable", "meaning"], rows)}`;
  });
  const intro = `# Errors

${NOTE}

Every door gives the same errors: over HTTP as [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem documents, from the
command line with an exit code, in TypeScript as \`MoonportError\`. An error has a \`code\`, a message, often a \`hint\`, the object
and the call id it concerns, and says whether it is \`retryable\`. A WebSocket gives them in frames; one that is closed has
a [close code](websocket.md#close-codes).

An error that a class throws itself, \`error { code = "too_low", message = ... }\`, reaches the caller with that code, its other
fields as details, HTTP status ${CLASS_ERROR.status} and exit code ${CLASS_ERROR.exit}. It may use a
code of the tables below: the field \`source\` says \`class\` or \`moonport\`, and what a class throws is never retryable.

`;
  isCurrent("docs/errors.md", intro + sections.join("\n"));
});

it("docs/settings.md lists every setting with its default and bounds", () => {
  const rows = Object.entries(SETTINGS as Record<string, SettingEntry>).map(([name, one]) => [
    `\`${name}\``,
    one.default,
    `${one.min} to ${one.max}`,
    one.unit,
    one.scope,
    one.meaning,
  ]);
  const intro = `# Settings

${NOTE}

Each is set by an environment variable of its name, or by \`--set NAME=VALUE\` on the command line, which wins. A name that is
not in this table is refused with the nearest right one; a value out of bounds is refused too. A *fleet* setting must be the
same on every node of a fleet, a *node* setting may differ.

`;
  isCurrent("docs/settings.md", intro + table(["setting", "default", "bounds", "unit", "scope", "meaning"], rows));
});

it("docs/websocket.md has a row for every close code", () => {
  const page = fs.readFileSync("docs/websocket.md", "utf8");
  for (const [name, code] of Object.entries(CLOSE_CODES)) expect(page).toContain(`| ${code} | \`${name}\` |`);
});

it("the version in the code is the package's", () => {
  expect(VERSION).toBe(JSON.parse(fs.readFileSync("package.json", "utf8")).version);
});
