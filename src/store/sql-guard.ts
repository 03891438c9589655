/**
 * The allow-list that every statement of class code passes before SQLite sees it.
 *
 * SQLite's own `readonly` flag is not enough: COMMIT, ATTACH and some PRAGMAs carry it. What passes here can neither end the
 * transaction of the call (O2), nor make TEMP objects, which are never shipped, nor touch the kernel's own tables. Each
 * statement of a migration is prepared by itself, so a wrong cut between statements can only make SQLite refuse, never let a
 * second statement ride along. Pure.
 */
import { MoonportError } from "../errors.js";
import { type SqlToken, tokenize } from "./sql-tokens.js";
import { withSteadyLimits } from "./steady-limit.js";
import { varies } from "./varying-sql.js";

/**
 * `method`: one statement that reads or writes. `read` and `console`: one that only reads. `migration`: any number, with
 * CREATE, ALTER and DROP too.
 */
export type SqlMode = "method" | "read" | "migration" | "console";
export type SqlKind = "select" | "write" | "ddl";
/** `upsert`: an INSERT that may update instead. */
export type SqlVerb = "select" | "insert" | "upsert" | "update" | "delete" | "explain" | "create" | "alter" | "drop";

export interface CheckedStatement {
  readonly sql: string;
  readonly kind: SqlKind;
  readonly verb: SqlVerb;
  /** Every parameter as written, in order: `?`, `?3`, `:name`. */
  readonly parameters: readonly string[];
  /** Whether it may give something else on the same database: see {@link varies}. */
  readonly varies: boolean;
  /** Whether it may fail and keep what it did before (`OR FAIL`). */
  readonly failsHalfway: boolean;
  /** The table of an INSERT that makes rows and nothing else. */
  readonly insertsInto: string | undefined;
}

export interface CheckedSql {
  /** The strongest among the statements: `ddl`, then `write`, then `select`. */
  readonly kind: SqlKind;
  /** Exactly one, except in a migration. */
  readonly statements: readonly CheckedStatement[];
}

/** Tables and names with this prefix are the kernel's own. */
export const KERNEL_PREFIX = "_mp_";

/** What may be read of one object's file at all; `pragma_*` and the temporary schema are tested by their beginning. */
const HIDDEN_TABLES = new Set(["dbstat", "sqlite_dbpage", "sqlite_stmt"]);
const REFUSED_FUNCTIONS = new Set(["load_extension", "fts3_tokenizer"]);
const VIRTUAL_MODULES = new Set(["fts5", "rtree", "rtree_i32"]);
const CREATABLE = new Set(["table", "index", "view", "trigger"]);
const READING_VERBS = new Set(["select", "values"]);
const WRITING_VERBS: Readonly<Record<string, SqlVerb>> = {
  insert: "insert",
  replace: "insert",
  update: "update",
  delete: "delete",
};

/** @throws MoonportError `sql_refused`; `read_only` for a writing statement where only reading ones may run; `too_large` */
export function checkSql(sql: string, mode: SqlMode, maxBytes: number): CheckedSql {
  checkText(sql, maxBytes);
  const statements = splitStatements(tokenize(sql)).map((tokens) => checkStatement(sql, tokens, mode));
  if (statements.length === 0) throw refused("there is no statement in the text");
  if (statements.length > 1 && mode !== "migration") {
    throw refused(`one statement at a time; this text has ${statements.length}`, "run each with a call of its own");
  }
  const kinds = new Set(statements.map((statement) => statement.kind));
  return { kind: kinds.has("ddl") ? "ddl" : kinds.has("write") ? "write" : "select", statements };
}

function checkText(sql: string, maxBytes: number): void {
  const bytes = sql.length > maxBytes ? sql.length : Buffer.byteLength(sql, "utf8");
  if (bytes > maxBytes) {
    throw MoonportError.of("too_large", `a statement may be ${maxBytes} bytes long; this one has ${bytes}`, {
      hint: "pass values as parameters instead of writing them into the statement",
    });
  }
  if (sql.includes("\0")) throw refused("the statement holds a NUL character");
  if (!sql.isWellFormed()) throw refused("the statement is not well-formed Unicode text");
}

/** Cuts at semicolons; those of a trigger's body belong to the trigger, whose end is `; END`. */
function splitStatements(tokens: readonly SqlToken[]): SqlToken[][] {
  const statements: SqlToken[][] = [];
  let current: SqlToken[] = [];
  for (const token of tokens) {
    const isEnd = token.kind === "sign" && token.text === ";";
    if (isEnd && !isInsideTrigger(current)) {
      if (current.length > 0) statements.push(current);
      current = [];
    } else {
      current.push(token);
    }
  }
  if (current.length > 0) statements.push(current);
  return statements;
}

function isInsideTrigger(tokens: readonly SqlToken[]): boolean {
  const isTrigger =
    isWord(tokens[0], "create") &&
    tokens.slice(1, 3).some((token) => token.kind === "word" && token.lower === "trigger");
  if (!isTrigger) return false;
  return !(isWord(tokens.at(-1), "end") && isSign(tokens.at(-2), ";"));
}

function checkStatement(sql: string, tokens: readonly SqlToken[], mode: SqlMode): CheckedStatement {
  const verb = verbOf(tokens);
  const kind = kindOf(verb);
  if (kind !== "select" && (mode === "read" || mode === "console")) {
    throw MoonportError.of("read_only", `${verb.toUpperCase()} writes, and only reading statements may run here`, {
      hint:
        mode === "read"
          ? "make it a writing method: function Class:name(), not Class.read:name()"
          : "call a method that writes",
    });
  }
  if (kind === "ddl" && mode !== "migration") {
    throw refused(`${verb.toUpperCase()} changes the schema`, "put it into the class's migrations");
  }
  if (kind === "ddl") checkSchemaChange(verb, tokens);
  for (let index = 0; index < tokens.length; index++) checkToken(tokens, index, kind);
  const text = withSteadyLimits(sql, tokens);
  if (isVirtual(tokens) && text.toLowerCase().includes(KERNEL_PREFIX)) throw kernelName(KERNEL_PREFIX);
  const parameters = tokens.filter((token) => token.kind === "parameter").map((token) => token.text);
  // What EXPLAIN shows of a statement's program is the connection's.
  const isVarying = verb === "explain" || varies(tokens);
  const failsHalfway = tokens.some((token) => isWord(token, "fail"));
  const insertsInto = verb === "insert" ? targetOf(tokens) : undefined;
  return { sql: text, kind, verb, parameters, varies: isVarying, failsHalfway, insertsInto };
}

function verbOf(tokens: readonly SqlToken[]): SqlVerb {
  const first = tokens[0];
  const word = first?.kind === "word" ? first.lower : "";
  if (word === "explain") {
    verbOf(tokens.slice(isWord(tokens[1], "query") && isWord(tokens[2], "plan") ? 3 : 1));
    return "explain";
  }
  if (word === "with") return verbOf(tokens.slice(endOfWith(tokens)));
  if (READING_VERBS.has(word)) return "select";
  if (word === "insert" && tokens.some((token, at) => isWord(token, "do") && isWord(tokens[at + 1], "update"))) {
    return "upsert";
  }
  if (Object.hasOwn(WRITING_VERBS, word)) return WRITING_VERBS[word] as SqlVerb;
  if (word === "create" || word === "alter" || word === "drop") return word;
  throw refusedVerb(first);
}

function kindOf(verb: SqlVerb): SqlKind {
  if (verb === "select" || verb === "explain") return "select";
  return verb === "create" || verb === "alter" || verb === "drop" ? "ddl" : "write";
}

/** The index behind `WITH [RECURSIVE] name [(columns)] AS [[NOT] MATERIALIZED] (query), ...`. */
function endOfWith(tokens: readonly SqlToken[]): number {
  let at = isWord(tokens[1], "recursive") && !isWord(tokens[2], "as") && !isSign(tokens[2], "(") ? 2 : 1;
  for (;;) {
    at += 1;
    if (isSign(tokens[at], "(")) at = endOfParentheses(tokens, at);
    if (!isWord(tokens[at], "as")) throw refused("a WITH clause without AS");
    at += 1;
    if (isWord(tokens[at], "not")) at += 1;
    if (isWord(tokens[at], "materialized")) at += 1;
    if (!isSign(tokens[at], "(")) throw refused("a WITH clause without a query in parentheses");
    at = endOfParentheses(tokens, at);
    if (!isSign(tokens[at], ",")) return at;
    at += 1;
  }
}

/** Of `[WITH ...] INSERT [OR ...] INTO [schema.]table`. INTO is no name without quotes, so its first is the statement's. */
function targetOf(tokens: readonly SqlToken[]): string | undefined {
  const into = tokens.findIndex((token) => isWord(token, "into"));
  const name = tokens[isSign(tokens[into + 2], ".") ? into + 3 : into + 1];
  return name?.text;
}

function endOfParentheses(tokens: readonly SqlToken[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    if (isSign(tokens[at], "(")) depth += 1;
    if (isSign(tokens[at], ")")) depth -= 1;
    if (depth === 0) return at + 1;
  }
  throw refused("a parenthesis is never closed");
}

function checkSchemaChange(verb: SqlVerb, tokens: readonly SqlToken[]): void {
  const [, second, third] = tokens;
  const what = second?.kind === "word" ? second.lower : "";
  if (what === "temp" || what === "temporary") {
    throw refused("temporary objects are not part of the object's file", "create it without TEMP");
  }
  if (verb === "create" && what === "virtual") return checkVirtualTable(tokens);
  if (verb === "create" && what === "unique" && isWord(third, "index")) return;
  const allowed = verb === "alter" ? what === "table" : CREATABLE.has(what);
  if (!allowed)
    throw refused(`${verb.toUpperCase()} ${second?.text ?? ""} is not on the list of what migrations may do`);
}

function checkVirtualTable(tokens: readonly SqlToken[]): void {
  const using = tokens.findIndex((token) => token.kind === "word" && token.lower === "using");
  const module = using < 0 ? undefined : tokens[using + 1];
  const name = module !== undefined && "lower" in module ? module.lower : "";
  if (!VIRTUAL_MODULES.has(name)) {
    throw refused(`virtual tables are made with fts5 or rtree, not with ${name || "nothing"}`);
  }
}

function isVirtual(tokens: readonly SqlToken[]): boolean {
  return isWord(tokens[0], "create") && isWord(tokens[1], "virtual");
}

/** What no statement may say, wherever it stands. */
function checkToken(tokens: readonly SqlToken[], index: number, kind: SqlKind): void {
  const token = tokens[index];
  if (token === undefined || !("lower" in token)) return;
  const name = token.lower;
  // A virtual table called _mp would make tables called _mp_data and the like.
  if (name.startsWith(KERNEL_PREFIX) || name === "_mp") throw kernelName(token.text);
  if (name.startsWith("pragma_") || name.startsWith("sqlite_temp_") || HIDDEN_TABLES.has(name)) {
    throw refused(`${token.text} is not open to class code`, "pass text that only looks like it as a parameter");
  }
  if (token.kind === "word") checkWord(tokens, index, name);
  const next = tokens[index + 1];
  if (isSign(next, "(") && REFUSED_FUNCTIONS.has(name)) throw refused(`the function ${name} is not open to class code`);
  if (name === "temp" && isSign(next, ".") && !isSign(tokens[index - 1], ".")) {
    throw refused("the temporary schema is not part of the object's file");
  }
  // Where a name is wanted SQLite takes a text in quotes for one.
  if (kind !== "select" && name.startsWith("sqlite_") && !isSign(next, "(")) {
    throw refused(
      `a writing statement may not name ${token.text}`,
      "read it with a SELECT of its own; pass text that only looks like it as a parameter",
    );
  }
}

function checkWord(tokens: readonly SqlToken[], index: number, name: string): void {
  if (name === "rollback") {
    throw refused(
      "ROLLBACK in any form would end the call's transaction",
      "use OR ABORT, ON CONFLICT ABORT or RAISE(ABORT, ...), which undo the statement alone",
    );
  }
  if (name === "deferred" && isWord(tokens[index - 1], "initially")) {
    throw refused(
      "INITIALLY DEFERRED would make one call's fault fail the commit that other calls share",
      "leave constraints immediate",
    );
  }
}

const VERB_HINTS: Readonly<Record<string, string>> = {
  begin: "every call is a transaction already",
  commit: "every call is a transaction already; it commits when the method returns",
  end: "every call is a transaction already; it commits when the method returns",
  rollback: "throw an error instead: nothing of the call is kept",
  savepoint: "throw an error to undo the call; pcall keeps what was written before",
  release: "every call is a transaction already",
  pragma: "to look at the schema, read sqlite_schema",
  attach: "an object sees its own database only; call the other object instead",
  vacuum: "the file is kept in order by the node",
};

function refusedVerb(first: SqlToken | undefined): MoonportError {
  const word = first?.kind === "word" ? first.lower : "";
  const shown = first === undefined ? "nothing" : first.text.slice(0, 40).toUpperCase();
  const hint = Object.hasOwn(VERB_HINTS, word) ? VERB_HINTS[word] : undefined;
  return refused(
    `a statement may not begin with ${shown}`,
    hint ?? "SELECT, VALUES, WITH, INSERT, UPDATE, DELETE, REPLACE",
  );
}

function kernelName(name: string): MoonportError {
  return refused(
    `names that begin with ${KERNEL_PREFIX} belong to Moonport (${name.slice(0, 60)})`,
    "use another name; pass text that only looks like one as a parameter",
  );
}

function refused(message: string, hint?: string): MoonportError {
  return MoonportError.of("sql_refused", message, hint === undefined ? {} : { hint });
}

function isWord(token: SqlToken | undefined, lower: string): boolean {
  return token?.kind === "word" && token.lower === lower;
}

function isSign(token: SqlToken | undefined, text: string): boolean {
  return token?.kind === "sign" && token.text === text;
}
