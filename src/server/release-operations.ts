/** Bodies of the routes that deploy, checked for their form; what they say is the node's to judge. */
import { MoonportError } from "../errors.js";
import type { DeployRequest, DeployTerms, ReleaseFile, RollbackRequest } from "../release/contract.js";
import type { PlainObject, PlainValue } from "../values.js";

const TERMS = ["by", "message", "over", "acceptMigrated", "force"];

/** @throws MoonportError `bad_request` */
export function deployOf(app: string, body: PlainObject): DeployRequest {
  checkFields(body, ["files", ...TERMS]);
  const { files } = body;
  if (!Array.isArray(files)) throw wrong("files is a list of paths and texts");
  return { app, files: files.map(fileOf), ...termsOf(body) };
}

/** @throws MoonportError `bad_request` */
export function rollbackOf(app: string, body: PlainObject): RollbackRequest {
  checkFields(body, ["to", ...TERMS]);
  return { app, ...numberIn(body, "to"), ...termsOf(body) };
}

function termsOf(body: PlainObject): DeployTerms {
  const { by, message } = body;
  if (typeof by !== "string") throw wrong("by is a text that says who deploys");
  if (message !== undefined && typeof message !== "string") throw wrong("message is a text");
  return {
    by,
    ...(message !== undefined && { message }),
    ...numberIn(body, "over"),
    ...flagIn(body, "acceptMigrated"),
    ...flagIn(body, "force"),
  };
}

function fileOf(value: PlainValue): ReleaseFile {
  const { path, text } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof path === "string" && typeof text === "string") return { path, text };
  throw wrong("a file has a path and a text");
}

function numberIn<Name extends string>(body: PlainObject, name: Name): { [name in Name]?: number } {
  const value = body[name];
  if (value === undefined) return {};
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return { [name]: value } as never;
  throw wrong(`${name} is the number of a release`);
}

function flagIn<Name extends string>(body: PlainObject, name: Name): { [name in Name]?: boolean } {
  const value = body[name];
  if (value === undefined) return {};
  if (typeof value === "boolean") return { [name]: value } as never;
  throw wrong(`${name} is true or false`);
}

function checkFields(body: PlainObject, known: readonly string[]): void {
  const unknown = Object.keys(body).find((name) => !known.includes(name));
  if (unknown !== undefined) throw wrong(`${JSON.stringify(unknown.slice(0, 80))} is none of ${known.join(", ")}`);
}

function wrong(what: string): MoonportError {
  return MoonportError.of("bad_request", `the body is not understood: ${what}`, {
    hint: '{"files": [{"path": "classes/Auction.lua", "text": "..."}], "by": "ada"}',
  });
}
