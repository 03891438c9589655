/** What a class table must look like, checked once when its file is loaded. */
import type { ErrorOptionsBag } from "../errors.js";
import { nearest } from "../nearest.js";
import type { PlainValue } from "../values.js";
import type { ClassSource, ColumnType, DirectoryDeclaration, MethodKind } from "./contract.js";
import { type LuaClosure, type Table, type TString, type TValue, TYPE } from "./fengari/types.js";
import type { Machine } from "./invocation.js";
import { fileInvalid } from "./lua-file.js";
import { isFunction, isString, isTable } from "./runtime.js";
import { textOf } from "./values.js";

export interface ClassShape {
  readonly methods: ReadonlyMap<string, MethodKind>;
  readonly functions: ReadonlyMap<string, TValue>;
  /** All that `self.name` finds: methods of both kinds and the class's constants. */
  readonly members: ReadonlyMap<string, TValue>;
  readonly migrations: readonly string[];
  readonly directory: DirectoryDeclaration | undefined;
  readonly row: TValue | undefined;
  readonly hooks: { readonly on_create?: TValue; readonly on_wake?: TValue };
}

const METHOD_NAME = /^[a-z_][A-Za-z0-9_]{0,62}$/;
const COLUMN_NAME = /^[a-z][a-z0-9_]{0,62}$/;
/** Of a directory: each is one of an SQLite table, and what an index costs is paid with each row. */
const COLUMNS_MAX = 64;
const COLUMN_TYPES: readonly ColumnType[] = ["text", "integer", "real", "boolean"];
const HOOKS = ["on_create", "on_wake"] as const;
const NO_METHODS = ["read", "migrations", "directory", "find", ...HOOKS];

/** @throws MoonportError `class_invalid` */
export function checkedClass(machine: Machine, source: ClassSource, table: Table): ClassShape {
  const check = new ClassCheck(machine, source);
  return check.shape(table);
}

class ClassCheck {
  readonly #methods = new Map<string, MethodKind>();
  readonly #functions = new Map<string, TValue>();
  readonly #members = new Map<string, TValue>();
  readonly #hooks: { on_create?: TValue; on_wake?: TValue } = {};

  constructor(
    readonly machine: Machine,
    readonly source: ClassSource,
  ) {}

  shape(table: Table): ClassShape {
    const fields = this.#fields(table, `the class`);
    for (const [name, value] of fields) this.#classField(name, value);
    this.#readingMethods(fields.get("read"));
    const directory = fields.get("directory");
    return {
      methods: this.#methods,
      functions: this.#functions,
      members: this.#members,
      migrations: this.#migrations(fields.get("migrations")),
      ...this.#directory(directory),
      hooks: this.#hooks,
    };
  }

  #classField(name: string, value: TValue): void {
    if (name === "on_create" || name === "on_wake") {
      if (!isFunction(value)) this.#invalid(this.#lineOf(name), `${name} must be a function`);
      this.#hooks[name] = value;
    } else if (name === "find") {
      this.#invalid(lineOfFunction(value) ?? this.#lineOf(name), "'find' is no method name: it queries the directory");
    } else if (!NO_METHODS.includes(name)) {
      this.#members.set(name, value);
      if (isFunction(value)) this.#method(name, value, "write");
    }
  }

  #method(name: string, value: TValue, kind: MethodKind): void {
    if (!METHOD_NAME.test(name)) {
      this.#invalid(lineOfFunction(value), `'${name}' is no method name`, {
        hint: "a method is a lower-case letter or an underscore followed by letters, digits or underscores",
      });
    }
    this.#methods.set(name, kind);
    this.#functions.set(name, value);
  }

  #readingMethods(value: TValue | undefined): void {
    if (!isTable(value)) this.#invalid(this.#lineOf("read"), "`read` holds the reading methods and must stay a table");
    for (const [name, method] of this.#fields(value.value as Table, "`read`")) {
      if (!isFunction(method)) this.#invalid(this.#lineOf(name), `read.${name} must be a function`);
      if (NO_METHODS.includes(name)) this.#invalid(lineOfFunction(method), `'${name}' is no method name`);
      if (this.#members.has(name)) {
        this.#invalid(lineOfFunction(method), `'${name}' is both a writing and a reading method`);
      }
      this.#members.set(name, method);
      this.#method(name, method, "read");
    }
  }

  #migrations(value: TValue | undefined): readonly string[] {
    if (value === undefined) return [];
    const line = this.#lineOf("migrations");
    const list = this.#plain(value, "migrations", line);
    if (isEmptyMap(list)) return [];
    if (!Array.isArray(list)) this.#invalid(line, "migrations must be a list of SQL texts");
    return list.map((sql, index) => {
      if (typeof sql !== "string" || sql.trim() === "")
        this.#invalid(line, `migrations[${index + 1}] must be SQL text`);
      return sql;
    });
  }

  #directory(value: TValue | undefined): { directory: DirectoryDeclaration | undefined; row: TValue | undefined } {
    if (value === undefined) return { directory: undefined, row: undefined };
    const line = this.#lineOf("directory");
    if (!isTable(value)) this.#invalid(line, "directory must be a table with columns, index and row");
    const fields = this.#fields(value.value as Table, "directory");
    for (const name of fields.keys()) {
      if (!["columns", "index", "row"].includes(name))
        this.#unknown(line, `directory.${name}`, name, ["columns", "index", "row"]);
    }
    const row = fields.get("row");
    if (!isFunction(row)) this.#invalid(line, "directory.row must be a function(self) that returns the row");
    const columns = this.#columns(fields.get("columns"), line);
    return { directory: { columns, index: this.#index(fields.get("index"), columns, line) }, row };
  }

  #columns(value: TValue | undefined, line: number | undefined): Record<string, ColumnType> {
    const plain = this.#plain(value, "directory.columns", line);
    if (!isMap(plain) || isEmptyMap(plain)) this.#invalid(line, "directory.columns must name at least one column");
    const columns: Record<string, ColumnType> = {};
    if (Object.keys(plain).length > COLUMNS_MAX) {
      this.#invalid(line, `directory.columns: a directory has ${COLUMNS_MAX} columns at most`);
    }
    for (const [name, type] of Object.entries(plain)) {
      if (!COLUMN_NAME.test(name)) this.#invalid(line, `directory.columns: '${name}' is no column name`);
      if (name === "key") this.#invalid(line, "directory.columns: every row has a key already, the object's");
      const known = COLUMN_TYPES.find((candidate) => candidate === type);
      if (known === undefined) {
        this.#unknown(line, `directory.columns.${name}: the type ${JSON.stringify(type)}`, String(type), COLUMN_TYPES);
      }
      columns[name] = known;
    }
    return columns;
  }

  #index(value: TValue | undefined, columns: Record<string, ColumnType>, line: number | undefined): string[] {
    const plain = value === undefined ? [] : this.#plain(value, "directory.index", line);
    if (isEmptyMap(plain)) return [];
    if (!Array.isArray(plain)) this.#invalid(line, "directory.index must be a list of column names");
    return plain.map((name) => {
      if (typeof name !== "string" || !Object.hasOwn(columns, name)) {
        this.#unknown(line, `directory.index: ${JSON.stringify(name)}`, String(name), Object.keys(columns));
      }
      return name;
    });
  }

  #fields(table: Table, what: string): Map<string, TValue> {
    const fields = new Map<string, TValue>();
    for (const { key, value } of table.strong.values()) {
      const name = isString(key) ? textOf(key.value as TString) : null;
      if (name === null) this.#invalid(undefined, `${what} may only have named fields`);
      fields.set(name, value);
    }
    return fields;
  }

  #plain(value: TValue | undefined, name: string, line: number | undefined): PlainValue {
    try {
      return this.machine.values.toPlain(value, name);
    } catch (refusal) {
      this.#invalid(line, (refusal as Error).message, { cause: refusal });
    }
  }

  /** Declarations carry no line in Lua; the text does. */
  #lineOf(name: string): number | undefined {
    const declared = new RegExp(`[.:]${name}\\b`);
    const index = this.source.text.split("\n").findIndex((line) => declared.test(line));
    return index === -1 ? undefined : index + 1;
  }

  #unknown(line: number | undefined, what: string, name: string, known: readonly string[]): never {
    const guess = nearest(name, known);
    this.#invalid(line, `${what} is not one of ${known.join(", ")}`, guess ? { hint: `did you mean ${guess}?` } : {});
  }

  #invalid(line: number | undefined, what: string, bag: ErrorOptionsBag = {}): never {
    throw fileInvalid(this.source, line, what, bag);
  }
}

function isMap(value: PlainValue): value is Record<string, PlainValue> {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function isEmptyMap(value: PlainValue): boolean {
  return isMap(value) && Object.keys(value).length === 0;
}

function lineOfFunction(value: TValue): number | undefined {
  return value.type === TYPE.luaFunction ? (value.value as LuaClosure).p.linedefined : undefined;
}
