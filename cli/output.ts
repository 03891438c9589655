/**
 * What a command says, and where: results on stdout, talk on stderr.
 *
 * With `--json` stdout gets exactly one JSON document (long-running commands: one a line), an error included:
 * `{"error": {...}}`. Without it an error is talk. Text that objects or classes made is printed without control characters,
 * so that no stored value can drive a terminal.
 */
import { asMoonportError, isOwn, type MoonportError } from "../src/errors.js";
import type { PlainValue } from "../src/values.js";
import { problemOf } from "../src/wire/problem.js";
import { toWire } from "../src/wire/wire-json.js";

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g;

export class Output {
  readonly json: boolean;
  readonly #quiet: boolean;

  constructor({ json, quiet }: { readonly json: boolean; readonly quiet: boolean }) {
    this.json = json;
    this.#quiet = quiet;
  }

  /** The command's result: `text` for people, `document` for machines. */
  result(text: string, document: object): void {
    process.stdout.write(`${this.json ? jsonText(document as PlainValue) : printable(text)}\n`);
  }

  talk(text: string): void {
    if (!this.#quiet) process.stderr.write(`${printable(text)}\n`);
  }

  /** Tells the error and returns its exit code. Errors are told even to the quiet. */
  fail(thrown: unknown): number {
    const error = asMoonportError(thrown);
    if (this.json) process.stdout.write(`${jsonText({ error: errorDocument(error) })}\n`);
    else process.stderr.write(`${printable(errorText(error))}\n`);
    return error.entry.exit;
  }
}

/** A value on one line. */
export function jsonText(value: PlainValue): string {
  return printable(JSON.stringify(toWire(value)));
}

export function printable(text: string): string {
  return text.replace(CONTROL, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The problem document of the HTTP door, without what only HTTP needs, and with the exit code. */
function errorDocument(error: MoonportError): PlainValue {
  const { type: _type, title: _title, status: _status, detail, ...rest } = problemOf(error);
  return { message: detail, exit: error.entry.exit, ...rest };
}

function errorText(error: MoonportError): string {
  const lines = [`error: ${error.message} (${error.code})`];
  if (error.object !== undefined) lines.push(`  object: ${error.object}`);
  if (error.source === "class" && error.details !== undefined) {
    lines.push(`  details: ${jsonText(error.details as PlainValue)}`);
  }
  if (error.hint !== undefined) lines.push(`  hint: ${error.hint}`);
  if (error.retryable && error.callId !== undefined) lines.push(`  to ask again: --id ${error.callId}`);
  if (isOwn(error, "internal") && error.stack !== undefined) lines.push(error.stack);
  return lines.join("\n");
}
