/** Rows as an aligned table: text to the left, numbers to the right. */
import type { PlainValue, SqlRows } from "../src/values.js";
import { jsonText, printable } from "./output.js";

/** Longer cells are cut; `--json` gives them whole. */
const CELL_CHARACTERS_MAX = 60;

export function tableOf({ columns, rows }: SqlRows): string {
  const cells = rows.map((row) => row.map(cellText));
  const widths = columns.map((name, column) => {
    return Math.max(length(name), ...cells.map((row) => length(row[column] ?? "")));
  });
  const numeric = columns.map((_, column) => rows.length > 0 && rows.every((row) => isNumeric(row[column] ?? null)));
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, column) => aligned(text, widths[column] ?? 0, numeric[column] === true))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width));
  return [line(columns), line(rule), ...cells.map(line)].join("\n");
}

/** Lines of `name  value`, for one thing with many properties. */
export function propertiesOf(entries: readonly (readonly [string, string])[]): string {
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join("\n");
}

function cellText(value: PlainValue): string {
  const text = typeof value === "string" ? value : value instanceof Uint8Array ? hex(value) : jsonText(value);
  const line = printable(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  const signs = [...line];
  return signs.length > CELL_CHARACTERS_MAX ? `${signs.slice(0, CELL_CHARACTERS_MAX - 3).join("")}...` : line;
}

function hex(bytes: Uint8Array): string {
  return `x'${Buffer.from(bytes).toString("hex")}'`;
}

function isNumeric(value: PlainValue): boolean {
  return value === null || typeof value === "number";
}

function aligned(text: string, width: number, toTheRight: boolean): string {
  const space = " ".repeat(Math.max(0, width - length(text)));
  return toTheRight ? space + text : text + space;
}

function length(text: string): number {
  return [...text].length;
}
