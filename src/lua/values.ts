/**
 * Values between JavaScript and Lua.
 *
 * - A 32-bit whole number becomes an integer, any other finite number a float; on the way out both are numbers, whole
 *   floats included. NaN and infinities are refused.
 * - A Lua string must be UTF-8 to leave; bytes travel as `blob(...)`. A blob is a value of its own in Lua: `#b` is its
 *   length, `tostring(b)` and `b:bytes()` give the bytes as a Lua string, `..` and `==` work.
 * - A table is an array iff its keys are exactly 1..n. An empty one is a map unless it came in as an array or was made by
 *   `array{}`.
 * - At the top `null` is `nil`; inside arrays and maps it is the value `null`, so that nothing gets lost.
 * - Cycles, holes, mixed keys, functions, and what is too deep or too large, are refused with the path to the offender.
 *   No metamethod is called.
 */
import { isUtf8 } from "node:buffer";
import { type ErrorCode, MoonportError } from "../errors.js";
import { type PlainObject, type PlainValue, type SqlValue, setOwn } from "../values.js";
import { meter } from "./fengari/meter.js";
import { type Table, type TString, type TValue, TYPE, type Userdata } from "./fengari/types.js";
import { argument, isAscii, isString, latin1, type Runtime } from "./runtime.js";

/** Marks a table that is an array even when empty. */
export const ARRAY_MARK: object = Object.freeze({ kind: "array" });
/** What the userdata behind `null` holds. */
const NULL_MARK: object = Object.freeze({ kind: "null" });

/** What a blob's userdata holds; never changed once made. */
export class LuaBytes {
  constructor(readonly bytes: Uint8Array) {}
}

/** Marks tables that stand for something of the host and do not travel. */
export interface HostThing {
  readonly kind: "reference" | "timer" | "message" | "class" | "error";
  readonly refusal: string;
}

export class Values {
  readonly null: TValue;
  readonly #blobMetatable: Table;
  readonly #depthMax: number;
  readonly #bytesMax: number;

  constructor(readonly runtime: Runtime) {
    this.#depthMax = runtime.limits.valueDepthMax;
    this.#bytesMax = runtime.limits.valueBytesMax;
    const nullMetatable = runtime.functions({ __tostring: (L) => runtime.push(L, runtime.string("null")) });
    runtime.addField(nullMetatable, "__name", runtime.string("null"));
    runtime.addField(nullMetatable, "__metatable", runtime.boolean(false));
    this.null = runtime.value(TYPE.userdata, runtime.userdata(NULL_MARK, nullMetatable));
    this.#blobMetatable = this.#makeBlobMetatable();
  }

  // Into Lua

  /** @param value at the top of a call: `null` becomes nil */
  toLua(value: PlainValue | undefined): TValue {
    return value === null || value === undefined ? this.runtime.nil() : this.#inner(value, 1);
  }

  /** @param value of a table that is made of several: `null` is the value `null`, since a table cannot hold nil */
  fieldToLua(value: PlainValue): TValue {
    return this.#inner(value, 1);
  }

  #inner(value: PlainValue, depth: number): TValue {
    const { runtime } = this;
    switch (typeof value) {
      case "string":
        return runtime.string(value);
      case "number":
        if (!Number.isFinite(value)) throw MoonportError.of("bad_value", `${value} cannot travel`);
        return runtime.number(value);
      case "boolean":
        return runtime.boolean(value);
    }
    if (value === null) return runtime.value(TYPE.userdata, this.null.value);
    if (depth > this.#depthMax) throw MoonportError.of("too_deep", `a value is nested deeper than ${this.#depthMax}`);
    if (Array.isArray(value)) return this.#arrayToLua(value, depth);
    if (value instanceof Uint8Array) return this.blob(new Uint8Array(value));
    return this.#objectToLua(value, depth);
  }

  #arrayToLua(array: readonly PlainValue[], depth: number): TValue {
    const { runtime } = this;
    const table = runtime.table();
    table.host = ARRAY_MARK;
    for (let index = 0; index < array.length; index++) {
      runtime.addElement(table, index + 1, this.#inner(array[index] ?? null, depth + 1));
    }
    return runtime.tableValue(table);
  }

  #objectToLua(object: PlainObject, depth: number): TValue {
    const { runtime } = this;
    const table = runtime.table();
    for (const name of Object.keys(object)) {
      const value = object[name];
      if (value !== undefined) runtime.addField(table, name, this.#inner(value, depth + 1));
    }
    return runtime.tableValue(table);
  }

  blob(bytes: Uint8Array): TValue {
    this.runtime.charge(bytes.length);
    return this.runtime.value(TYPE.userdata, this.runtime.userdata(new LuaBytes(bytes), this.#blobMetatable));
  }

  /** One column of a row: NULL is nil. */
  sqlToLua(value: SqlValue): TValue {
    if (typeof value === "string") return this.runtime.string(value);
    if (typeof value === "number") return this.runtime.number(value);
    return value === null ? this.runtime.nil() : this.blob(new Uint8Array(value));
  }

  /** A row as a map from column to value; a NULL is absent. */
  rowToLua(columns: readonly TString[], row: readonly SqlValue[]): TValue {
    const { runtime } = this;
    const table = runtime.table();
    for (let index = 0; index < columns.length; index++) {
      const value = row[index];
      if (value === null || value === undefined) continue;
      const key = columns[index] as TString;
      const entry = table.strong.get(key.hash);
      // Two columns may have one name; the last one wins, as in a map.
      if (entry) entry.value = this.sqlToLua(value);
      else runtime.fengari.ltable.add(table, key.hash, runtime.value(TYPE.string, key), this.sqlToLua(value));
    }
    return runtime.tableValue(table);
  }

  // Out of Lua

  /**
   * @param root how errors name the value: `result`, `argument 2`
   * @throws MoonportError `bad_value`, `too_deep`, `too_large`, each with the path to the offender
   */
  toPlain(value: TValue | undefined, root: string): PlainValue {
    if (value === undefined) return null;
    // Most values are scalars; the machinery for paths and cycles is for tables.
    switch (value.type) {
      case TYPE.nil:
        return null;
      case TYPE.boolean:
        return value.value as boolean;
      case TYPE.integer:
        return value.value as number;
    }
    const outward = new Outward(root, this.#depthMax, this.#bytesMax);
    const plain = outward.convert(value);
    meter.countdown -= outward.bytes >> 6;
    return plain;
  }

  /** Several values as one array, a missing one null. */
  listToPlain(values: readonly (TValue | undefined)[], root: string): PlainValue[] {
    const outward = new Outward(root, this.#depthMax, this.#bytesMax);
    return values.map((value, index) => outward.element(value, index + 1));
  }

  /** The text of a string that must be UTF-8. @throws MoonportError `bad_value` */
  textOf(string: TString, root: string): string {
    return textOf(string) ?? refuseBytes(root);
  }

  sqlFromLua(value: TValue | undefined, root: string): SqlValue {
    if (value === undefined) return null;
    switch (value.type) {
      case TYPE.boolean:
        return value.value === true ? 1 : 0;
      case TYPE.table:
        throw MoonportError.of("bad_value", `${root} is a table, which SQL cannot take`, {
          hint: "store json.encode(value), or use state.store for tables",
        });
      default:
        return this.toPlain(value, root) as SqlValue;
    }
  }

  bytesOf(value: TValue): Uint8Array | undefined {
    if (isString(value)) return (value.value as TString).getstr();
    return value.type === TYPE.userdata ? blobBytes(value) : undefined;
  }

  #makeBlobMetatable(): Table {
    const { runtime } = this;
    const self = (value: TValue | undefined): Uint8Array | undefined =>
      value?.type === TYPE.userdata ? blobBytes(value) : undefined;
    const pieces = (value: TValue | undefined): Uint8Array => (value && this.bytesOf(value)) ?? new Uint8Array();
    const methods = runtime.functions({
      bytes: (L) =>
        runtime.push(L, runtime.bytes(self(argument(L, 1)) ?? runtime.fail(L, "use a colon: blob:bytes()"))),
    });
    const metatable = runtime.functions({
      __tostring: (L) => runtime.push(L, runtime.bytes(self(argument(L, 1)) ?? new Uint8Array())),
      __len: (L) => runtime.push(L, runtime.number(self(argument(L, 1))?.length ?? 0)),
      __concat: (L) => {
        const joined = Buffer.concat([pieces(argument(L, 1)), pieces(argument(L, 2))]);
        return runtime.push(L, runtime.bytes(new Uint8Array(joined)));
      },
      __eq: (L) => {
        const [a, b] = [self(argument(L, 1)), self(argument(L, 2))];
        return runtime.push(L, runtime.boolean(a !== undefined && b !== undefined && Buffer.compare(a, b) === 0));
      },
    });
    runtime.addField(metatable, "__index", runtime.tableValue(runtime.freeze(methods, "a blob cannot be changed")));
    runtime.addField(metatable, "__name", runtime.string("blob"));
    runtime.addField(metatable, "__metatable", runtime.boolean(false));
    return metatable;
  }
}

/** One value on its way out. Keeps the path, so that whoever is refused is named. */
class Outward {
  bytes = 0;
  readonly #path: (string | number)[] = [];
  readonly #open: Table[] = [];

  constructor(
    readonly root: string,
    readonly depthMax: number,
    readonly bytesMax: number,
  ) {}

  element(value: TValue | undefined, index: number): PlainValue {
    if (value === undefined || value.type === TYPE.nil) return null;
    this.#path.push(index);
    const plain = this.convert(value);
    this.#path.pop();
    return plain;
  }

  convert(value: TValue): PlainValue {
    switch (value.type) {
      case TYPE.nil:
        return null;
      case TYPE.boolean:
        this.#count(1);
        return value.value as boolean;
      case TYPE.integer:
        this.#count(8);
        return value.value as number;
      case TYPE.number:
        this.#count(8);
        if (!Number.isFinite(value.value)) this.#refuse("bad_value", "is not a finite number");
        return (value.value as number) + 0; // no -0, which neither JSON nor SQLite keeps
      case TYPE.string:
      case TYPE.shortString:
        return this.#string(value.value as TString);
      case TYPE.table:
        return this.#table(value.value as Table);
      case TYPE.userdata:
        return this.#userdata(value.value as Userdata);
      case TYPE.thread:
        return this.#refuse("bad_value", "is a coroutine");
      default:
        return this.#refuse("bad_value", "is a function");
    }
  }

  #string(string: TString): string {
    this.#count(string.tsslen() + 2);
    const text = textOf(string);
    if (text === null) this.#refuse("bad_value", "is not UTF-8 text", "wrap bytes in blob(...)");
    return text;
  }

  #userdata(userdata: Userdata): PlainValue {
    const { data } = userdata;
    if (data === NULL_MARK) return null;
    if (!(data instanceof LuaBytes)) this.#refuse("bad_value", "is not a plain value");
    this.#count(data.bytes.length + 2);
    return new Uint8Array(data.bytes);
  }

  #table(table: Table): PlainValue {
    const first = table.f;
    const isArray = first === undefined ? table.host === ARRAY_MARK : isIntegerKey(first.key);
    const thing = table.host;
    if (thing !== null && thing !== ARRAY_MARK && "refusal" in thing) {
      this.#refuse("bad_value", (thing as HostThing).refusal);
    }
    this.#count(2);
    if (this.#open.includes(table)) this.#refuse("bad_value", "contains itself");
    if (this.#open.length >= this.depthMax) this.#refuse("too_deep", `is nested deeper than ${this.depthMax}`);
    this.#open.push(table);
    const plain = isArray ? this.#array(table) : this.#map(table);
    this.#open.pop();
    return plain;
  }

  #array(table: Table): PlainValue[] {
    const { size } = table.strong;
    const array = new Array<PlainValue>(size);
    for (let entry = table.f; entry !== undefined; entry = entry.n) {
      const index = entry.key.value as number;
      if (!isIntegerKey(entry.key)) this.#refuse("bad_value", "has both numbered and named keys");
      if (index < 1 || index > size) this.#refuse("bad_value", `has holes: ${size} elements, one of them at ${index}`);
      this.#path.push(index);
      array[index - 1] = this.convert(entry.value);
      this.#path.pop();
    }
    return array;
  }

  #map(table: Table): PlainObject {
    const object: PlainObject = {};
    for (let entry = table.f; entry !== undefined; entry = entry.n) {
      const { key } = entry;
      if (!isString(key)) this.#refuse("bad_value", keyRefusal(key));
      const string = key.value as TString;
      const name = textOf(string);
      if (name === null) this.#refuse("bad_value", "has a key that is not UTF-8 text");
      this.#count(string.tsslen() + 3);
      this.#path.push(name);
      setOwn(object, name, this.convert(entry.value));
      this.#path.pop();
    }
    return object;
  }

  #count(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes > this.bytesMax) this.#refuse("too_large", `makes the value larger than ${this.bytesMax} bytes`);
  }

  #refuse(code: ErrorCode, what: string, hint?: string): never {
    throw MoonportError.of(code, `${this.#where()} ${what}`, hint === undefined ? {} : { hint });
  }

  #where(): string {
    return this.#path.reduce<string>((path, part) => {
      if (typeof part === "number") return `${path}[${part}]`;
      return /^[A-Za-z_][A-Za-z0-9_]*$/.test(part)
        ? `${path}.${part}`
        : `${path}[${JSON.stringify(part.slice(0, 40))}]`;
    }, this.root);
  }
}

function isIntegerKey(key: TValue): boolean {
  return key.type === TYPE.integer;
}

function keyRefusal(key: TValue): string {
  if (isIntegerKey(key)) return "has both numbered and named keys";
  return key.type === TYPE.number
    ? "has a key that is a fraction"
    : "has a key that is neither text nor a whole number";
}

function blobBytes(value: TValue): Uint8Array | undefined {
  const { data } = value.value as Userdata;
  return data instanceof LuaBytes ? data.bytes : undefined;
}

const { utf8Slice } = Buffer.prototype as unknown as { utf8Slice(this: Uint8Array, from: number, to: number): string };

/** The text of a string, remembered with it; null when its bytes are not UTF-8. */
export function textOf(string: TString): string | null {
  if (string.text !== null) return string.text;
  const bytes = string.getstr();
  const hash = string.hash ?? latin1(bytes);
  string.hash = hash;
  if (isAscii(hash)) string.text = hash;
  else if (isUtf8(bytes)) string.text = utf8Slice.call(bytes, 0, bytes.length);
  return string.text;
}

function refuseBytes(root: string): never {
  throw MoonportError.of("bad_value", `${root} is not UTF-8 text`, { hint: "wrap bytes in blob(...)" });
}
