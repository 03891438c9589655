/**
 * The file of static tokens (docs/auth.md): read, checked to the last field, with errors that name the place in the file and
 * never anything that stands there in place of a secret.
 */
import { createHash } from "node:crypto";
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { PlainObject, PlainValue } from "../values.js";
import { jsonFaultAt, lineAndColumn } from "../wire/json-fault.js";
import type { Right } from "./contract.js";
import { type Grant, RIGHTS } from "./grant.js";
import { type Pattern, patternOf } from "./pattern.js";

export interface TokenEntry {
  readonly id: string;
  /** SHA-256 of the token. */
  readonly digest: Buffer;
  readonly claims?: PlainObject;
  readonly allow: readonly Grant[];
}

export interface TokenFile {
  readonly tokens: readonly TokenEntry[];
  /** What somebody without a token may do; without it, nothing. */
  readonly anonymous?: readonly Grant[];
}

const TOKENS_MAX = 100_000;
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;
const TOKEN_CHARACTERS_MIN = 16;
const TOKEN_CHARACTERS_MAX = 4_096;
const ID_CHARACTERS_MAX = 256;
const CLAIMS_CHARACTERS_MAX = 16_384;
const CLAIMS_DEPTH_MAX = 16;
const PATTERNS_MAX = 1_000;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** What a pattern of each list may be made of: one that could never match is a mistake. */
const NAMES = {
  apps: { form: /^[a-z0-9*-]+$/, is: "lower-case letters, digits, dashes and *" },
  classes: { form: /^[A-Z*][A-Za-z0-9*]*$/, is: "letters, digits and *, beginning with a capital or *" },
  keys: { form: /^[^\p{Cc}]{1,256}$/u, is: "up to 256 characters, no control characters" },
  methods: { form: /^[A-Za-z0-9_*-]+$/, is: "letters, digits, underscores, dashes and *" },
} as const;

export function tokenDigest(token: string): Buffer {
  return createHash("sha256").update(token, "utf8").digest();
}

/** @throws MoonportError `bad_option`: `auth.json: tokens[0].allow[1].keys[0]: what is wrong there` */
export function parseTokenFile(text: string, name: string): TokenFile {
  const root = new Place(parse(text, name), name, "").table(["tokens", "anonymous"]);
  const tokens = root.optional("tokens")?.list(TOKENS_MAX).map(entryOf) ?? [];
  const anonymous = root.optional("anonymous")?.table(["allow"]).required("allow").list(PATTERNS_MAX).map(grantOf);
  if (tokens.length === 0 && anonymous === undefined) {
    throw MoonportError.of("bad_option", `${name}: it lets nobody in`, {
      hint: "moonport token new makes a token with its line for the file",
    });
  }
  refuseTwins(tokens, name);
  return { tokens, ...(anonymous !== undefined && { anonymous }) };
}

function entryOf(place: Place): TokenEntry {
  const entry = place.table(["id", "token", "sha256", "claims", "allow"]);
  const id = idOf(entry.required("id"));
  const claims = entry.optional("claims");
  const allow = entry.required("allow").list(PATTERNS_MAX).map(grantOf);
  return { id, digest: digestOf(entry), ...(claims !== undefined && { claims: claimsOf(claims) }), allow };
}

export const TOKEN_ID_GRAMMAR = `1 to ${ID_CHARACTERS_MAX} characters without control characters`;

export function isTokenId(id: string): boolean {
  return id.length > 0 && id.length <= ID_CHARACTERS_MAX && !CONTROL.test(id) && id.isWellFormed();
}

function idOf(place: Place): string {
  const id = place.text();
  if (isTokenId(id)) return id;
  throw place.wrong(`an id is ${TOKEN_ID_GRAMMAR}`);
}

function digestOf(entry: Table): Buffer {
  const token = entry.optional("token");
  const sha256 = entry.optional("sha256");
  if ((token === undefined) === (sha256 === undefined)) throw entry.place.wrong("give either token or sha256");
  if (sha256 !== undefined) {
    const hex = sha256.text();
    if (!/^[0-9a-f]{64}$/i.test(hex)) throw sha256.wrong("it is the token's SHA-256 as 64 hexadecimal digits");
    return Buffer.from(hex, "hex");
  }
  const text = token?.text() ?? "";
  if (text.length < TOKEN_CHARACTERS_MIN || text.length > TOKEN_CHARACTERS_MAX || !TOKEN.test(text)) {
    throw (token ?? entry.place).wrong(
      `a token is ${TOKEN_CHARACTERS_MIN} to ${TOKEN_CHARACTERS_MAX} letters, digits and . _ ~ + / -`,
      "moonport token new makes one",
    );
  }
  return tokenDigest(text);
}

function claimsOf(place: Place): PlainObject {
  const claims = place.value;
  if (!isTable(claims)) throw place.wrong("claims are a JSON object");
  if (JSON.stringify(claims).length > CLAIMS_CHARACTERS_MAX) {
    throw place.wrong(`claims are at most ${CLAIMS_CHARACTERS_MAX} characters of JSON`);
  }
  if (!isPlain(claims, CLAIMS_DEPTH_MAX)) {
    throw place.wrong(`claims are finite numbers, well-formed text and at most ${CLAIMS_DEPTH_MAX} levels`);
  }
  return claims;
}

function isPlain(value: PlainValue, depthLeft: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depthLeft === 0) return false;
  const keys = Array.isArray(value) ? [] : Object.keys(value);
  return keys.every((key) => key.isWellFormed()) && Object.values(value).every((one) => isPlain(one, depthLeft - 1));
}

function grantOf(place: Place): Grant {
  const grant = place.table(["apps", "classes", "keys", "methods", "rights"]);
  const rights = new Set(grant.required("rights").filledList().map(rightOf));
  const limits = (["apps", "classes", "keys", "methods"] as const).flatMap((list) => {
    const found = grant.optional(list);
    return found === undefined ? [] : [[list, patternsOf(found, list)] as const];
  });
  const methods = grant.optional("methods");
  if (methods !== undefined && rights.has("admin")) {
    throw methods.wrong("the right admin is about no methods", "give it an entry of its own, without methods");
  }
  return { rights, ...Object.fromEntries(limits) };
}

function rightOf(place: Place): Right {
  const text = place.text();
  const right = RIGHTS.find((one) => one === text);
  if (right !== undefined) return right;
  const guess = nearest(text, RIGHTS);
  throw place.wrong(
    `a right is one of ${RIGHTS.join(", ")}`,
    guess === undefined ? undefined : `did you mean ${guess}?`,
  );
}

function patternsOf(place: Place, list: keyof typeof NAMES): readonly Pattern[] {
  const { form, is } = NAMES[list];
  return place.filledList().map((one) => {
    const text = one.text();
    if (!form.test(text) || !text.isWellFormed()) throw one.wrong(`a pattern of ${list} is ${is}`);
    return patternOf(text);
  });
}

/** One id may have several tokens, so that a token can be replaced without a gap; one token has one entry. */
function refuseTwins(tokens: readonly TokenEntry[], name: string): void {
  const seen = new Map<string, number>();
  for (const [index, { digest }] of tokens.entries()) {
    const twin = seen.get(digest.toString("hex"));
    if (twin !== undefined) {
      throw MoonportError.of("bad_option", `${name}: tokens[${index}]: this token stands at tokens[${twin}] already`);
    }
    seen.set(digest.toString("hex"), index);
  }
}

/** The cause is left out on purpose: it quotes the text around the fault, which may be a token. */
function parse(text: string, name: string): PlainValue {
  try {
    return JSON.parse(text) as PlainValue;
  } catch {
    const { line, column } = lineAndColumn(text, Math.max(jsonFaultAt(text), 0));
    throw MoonportError.of("bad_option", `${name}: it is not JSON: see line ${line}, column ${column}`);
  }
}

function isTable(value: PlainValue): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value with its way through the file. */
class Place {
  constructor(
    readonly value: PlainValue,
    readonly file: string,
    readonly path: string,
  ) {}

  wrong(what: string, hint?: string): MoonportError {
    const where = this.path === "" ? this.file : `${this.file}: ${this.path}`;
    return MoonportError.of("bad_option", `${where}: ${what}`, hint === undefined ? {} : { hint });
  }

  text(): string {
    if (typeof this.value === "string") return this.value;
    throw this.wrong("it is to be text");
  }

  list(max: number): Place[] {
    if (!Array.isArray(this.value)) throw this.wrong("it is to be a list");
    if (this.value.length > max) throw this.wrong(`it holds more than ${max} entries`);
    return this.value.map((value, index) => new Place(value, this.file, `${this.path}[${index}]`));
  }

  filledList(): Place[] {
    const list = this.list(PATTERNS_MAX);
    if (list.length === 0) throw this.wrong("it is empty, which allows nothing", "leave it out to allow any");
    return list;
  }

  table(known: readonly string[]): Table {
    if (!isTable(this.value)) throw this.wrong(`it is to be a table with ${known.join(", ")}`);
    const unknown = Object.keys(this.value).findIndex((name) => !known.includes(name));
    if (unknown < 0) return new Table(this, this.value);
    // Its name is not told: a token may have got into the wrong place.
    const guess = nearest(Object.keys(this.value)[unknown] ?? "", known);
    const hint = guess === undefined ? `it may hold ${known.join(", ")}` : `did you mean ${guess}?`;
    throw this.wrong(`its field number ${unknown + 1} is not one of ${known.join(", ")}`, hint);
  }
}

class Table {
  constructor(
    readonly place: Place,
    readonly value: PlainObject,
  ) {}

  optional(name: string): Place | undefined {
    if (!Object.hasOwn(this.value, name)) return undefined;
    const { file, path } = this.place;
    return new Place(this.value[name] as PlainValue, file, path === "" ? name : `${path}.${name}`);
  }

  required(name: string): Place {
    const found = this.optional(name);
    if (found === undefined) throw this.place.wrong(`${name} is missing`);
    return found;
  }
}
