/**
 * One Lua state and the handles to build values, tables and functions in it directly.
 *
 * Owns what all classes of an engine share; knows which call runs right now, so that host functions reach its host. Direct
 * work on fengari's tables and strings is what makes calls cheap: nothing here goes through Lua's stack protocol.
 */
import { MoonportError } from "../errors.js";
import type { Logger } from "../world/logger.js";
import type { CallHost, CodeHost, LuaLimits, RowCursor, WaitAnswer, WaitRequest } from "./contract.js";
import { loadFengari } from "./fengari/load.js";
import { meter } from "./fengari/meter.js";
import {
  type Fengari,
  type FrozenGuard,
  type LuaFunction,
  type LuaState,
  type Table,
  type TString,
  type TValue,
  TYPE,
  type Userdata,
} from "./fengari/types.js";

/** The call that runs now, as host functions see it. */
export interface RunningCall {
  readonly host: CodeHost;
  /** The object whose method it is; a unit has none. */
  readonly objectHost: CallHost | undefined;
  readonly thread: LuaState;
  /** Names a method of the object's own class, for timers. */
  readonly methods: ReadonlyMap<string, unknown>;
  /** Open row cursors; closed when the call ends. */
  readonly cursors: Set<RowCursor>;
  /** The table behind the global `caller`, once asked for. */
  callerValue: TValue | null;
}

/** A call to the host counts as this many instructions. */
const HOST_CALL_STEPS = 100;
/** Of a message to Lua code: what it names may be as long as any string. */
const MESSAGE_CHARACTERS_MAX = 2_000;
/** Keys seen as JavaScript text; bounded, since callers choose the keys of their arguments. */
const INTERNED_MAX = 20_000;
const encoder = new TextEncoder();

export class Runtime {
  readonly fengari: Fengari = loadFengari();
  readonly main: LuaState;
  /** Bytes of a string that a conversion may make; the machine's own cap is the meter's. */
  readonly stringBytesMax: number;
  call: RunningCall | null = null;
  /** The thread that Lua was entered with, and the coroutines resumed from it, each by the one before. */
  readonly active: LuaState[] = [];
  /** Set while a call is being put aside, from the instruction it stands at out to its own thread. */
  pausing = false;
  /** What the code that is being put aside stands still for; null when only its slice is over. */
  waitsFor: WaitRequest | null = null;
  /** What it goes on with. */
  answer: WaitAnswer | null = null;
  /** Functions that hold a coroutine. */
  readonly carriers = new WeakSet<LuaFunction>();
  /** Set by errors.ts, which needs the runtime first. */
  nativeError: (L: LuaState, error: unknown) => TValue = () => this.string("error");
  readonly #interned = new Map<string, TString>();

  constructor(
    readonly limits: LuaLimits,
    readonly log: Logger,
  ) {
    this.main = this.fengari.lua.lua_newstate();
    this.stringBytesMax = limits.stringBytesMax;
  }

  // Values

  value(type: number, value: unknown): TValue {
    return new this.fengari.lobject.TValue(type, value);
  }

  nil(): TValue {
    return new this.fengari.lobject.TValue(TYPE.nil, null);
  }

  boolean(value: boolean): TValue {
    return new this.fengari.lobject.TValue(TYPE.boolean, value);
  }

  /** An integer where the number is one of 32 bits, else a float. */
  number(value: number): TValue {
    const integer = value | 0;
    return integer === value
      ? new this.fengari.lobject.TValue(TYPE.integer, integer)
      : new this.fengari.lobject.TValue(TYPE.number, value);
  }

  string(text: string): TValue {
    return new this.fengari.lobject.TValue(TYPE.string, this.text(text));
  }

  bytes(bytes: Uint8Array): TValue {
    return new this.fengari.lobject.TValue(TYPE.string, this.byteString(bytes));
  }

  function(f: LuaFunction): TValue {
    return new this.fengari.lobject.TValue(TYPE.jsFunction, f);
  }

  tableValue(table: Table): TValue {
    return new this.fengari.lobject.TValue(TYPE.table, table);
  }

  /** A string of Lua from JavaScript text. @throws MoonportError `bad_value`, `too_large` */
  text(text: string): TString {
    if (text.length > this.stringBytesMax) throw stringTooLong(text.length, this.stringBytesMax);
    if (!isAscii(text)) return this.#wideText(text);
    const string = new this.fengari.lstring.TString(this.main, null);
    string.hash = text;
    string.text = text;
    if (text.length > 64) this.charge(text.length);
    return string;
  }

  #wideText(text: string): TString {
    if (!text.isWellFormed()) {
      throw MoonportError.of("bad_value", "text holds half a surrogate pair, which UTF-8 cannot");
    }
    const string = this.byteString(encoder.encode(text));
    string.text = text;
    return string;
  }

  byteString(bytes: Uint8Array): TString {
    if (bytes.length > this.stringBytesMax) throw stringTooLong(bytes.length, this.stringBytesMax);
    this.charge(bytes.length);
    return new this.fengari.lstring.TString(this.main, bytes);
  }

  /** The same string object for the same text, as long as there is room. */
  key(text: string): TString {
    let string = this.#interned.get(text);
    if (string === undefined) {
      if (this.#interned.size >= INTERNED_MAX) this.#interned.clear();
      string = this.text(text);
      if (string.hash === null) string.hash = latin1(string.getstr());
      if (text.length <= 100) this.#interned.set(text, string);
    }
    return string;
  }

  /** Work on so many bytes by the host, which no instruction shows. */
  chargeWork(bytes: number): void {
    meter.countdown -= bytes >> 6;
  }

  charge(bytes: number): void {
    meter.bytes -= bytes;
    if (meter.bytes < 0) meter.exhausted();
  }

  // Tables

  table(): Table {
    return new this.fengari.ltable.Table(this.main);
  }

  /** Sets a string key that the table does not have yet. */
  addField(table: Table, name: string, value: TValue): void {
    const key = this.key(name);
    this.fengari.ltable.add(table, key.hash, this.value(TYPE.string, key), value);
  }

  /** Sets the integer key that comes next in an array. */
  addElement(table: Table, index: number, value: TValue): void {
    this.fengari.ltable.add(table, index, this.value(TYPE.integer, index), value);
  }

  field(table: Table, name: string): TValue | undefined {
    return table.strong.get(this.key(name).hash)?.value;
  }

  tableOf(fields: Readonly<Record<string, TValue>>): Table {
    const table = this.table();
    for (const [name, value] of Object.entries(fields)) this.addField(table, name, value);
    return table;
  }

  functions(fields: Readonly<Record<string, LuaFunction>>): Table {
    const table = this.table();
    for (const [name, f] of Object.entries(fields)) this.addField(table, name, this.function(f));
    return table;
  }

  /** Frozen, with `message` for whoever tries; `%s` in it becomes the key. */
  freeze(table: Table, message: string): Table {
    table.frozen = this.guard(message);
    return table;
  }

  guard(message: string): FrozenGuard {
    return (L, key) => {
      const text = message.replaceAll("%s", () => this.keyText(key));
      if (L === null) throw MoonportError.of("method_error", text);
      throw this.fail(L, text);
    };
  }

  keyText(key: TValue): string {
    if (isString(key)) return latin1((key.value as TString).getstr());
    return key.type === TYPE.integer || key.type === TYPE.number ? `[${key.value}]` : "[...]";
  }

  userdata(data: object, metatable: Table): Userdata {
    const userdata = new this.fengari.lobject.Udata(this.main, 0);
    userdata.data = data;
    userdata.metatable = metatable;
    return userdata;
  }

  // Host functions

  /** What the object of the running method offers. */
  host(L: LuaState, what: string): CallHost {
    const { objectHost } = this.running(L, what);
    if (objectHost !== undefined) return objectHost;
    throw MoonportError.of("not_in_unit", `${what} belongs to the methods of objects: a unit has none of it`, {
      hint: 'call an object\'s method that does it, and wait: Auction("lot-42"):bid("ada", 25)',
    });
  }

  /** What methods and units have alike. */
  codeHost(L: LuaState, what: string): CodeHost {
    return this.running(L, what).host;
  }

  /** The call that runs. Outside of one, at the top of a file, it is an error. */
  running(L: LuaState, what: string): RunningCall {
    if (this.call === null) {
      throw this.fail(L, `${what} can only be used inside a method or a unit's function, not while the file loads`);
    }
    // The host takes time that no instruction shows: the clock is looked at more often.
    meter.countdown -= HOST_CALL_STEPS;
    return this.call;
  }

  push(L: LuaState, value: TValue): 1 {
    L.stack[L.top++] = value;
    return 1;
  }

  /** Raises a Lua error with the line of the Lua code that called the host function. */
  fail(L: LuaState, message: string): never {
    const { lauxlib, lua } = this.fengari;
    // In a Lua frame itself (a write to a frozen table) the frame is the one at fault.
    lauxlib.luaL_where(L, (L.ci.callstatus & LUA_FRAME) === 0 ? 1 : 0);
    const where = (L.stack[L.top - 1] as TValue).value as TString;
    const text = Buffer.concat([where.getstr(), Buffer.from(shortened(message))]);
    meter.countdown -= HOST_CALL_STEPS;
    this.charge(text.length);
    L.stack[L.top - 1] = this.value(TYPE.string, new this.fengari.lstring.TString(L, new Uint8Array(text)));
    throw lua.lua_error(L);
  }
}

/** fengari's CIST_LUA. */
const LUA_FRAME = 1 << 1;

export function argumentCount(L: LuaState): number {
  return L.top - L.ci.funcOff - 1;
}

/** The argument at `index`, from 1; `undefined` where there is none. */
export function argument(L: LuaState, index: number): TValue | undefined {
  const slot = L.ci.funcOff + index;
  return slot < L.top ? L.stack[slot] : undefined;
}

interface NilValue extends TValue {
  value: null;
}
interface StringValue extends TValue {
  value: TString;
}
interface TableValue extends TValue {
  value: Table;
}
interface NumberValue extends TValue {
  value: number;
}

export function isNil(value: TValue | undefined): value is NilValue | undefined {
  return value === undefined || value.type === TYPE.nil;
}

export function isString(value: TValue | undefined): value is StringValue {
  return value !== undefined && (value.type & 0x0f) === 4;
}

export function isTable(value: TValue | undefined): value is TableValue {
  return value !== undefined && value.type === TYPE.table;
}

export function isNumber(value: TValue | undefined): value is NumberValue {
  return value !== undefined && (value.type & 0x0f) === 3;
}

export function isFunction(value: TValue | undefined): value is TValue {
  return value !== undefined && (value.type & 0x0f) === 6;
}

const { latin1Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
};

export function latin1(bytes: Uint8Array): string {
  return latin1Slice.call(bytes, 0, bytes.length);
}

export function isAscii(text: string): boolean {
  const { length } = text;
  if (length > 64) return Buffer.byteLength(text) === length;
  for (let index = 0; index < length; index++) if (text.charCodeAt(index) > 0x7f) return false;
  return true;
}

function shortened(message: string): string {
  return message.length > MESSAGE_CHARACTERS_MAX ? `${message.slice(0, MESSAGE_CHARACTERS_MAX)}...` : message;
}

function stringTooLong(bytes: number, bytesMax: number): MoonportError {
  return MoonportError.of(
    "too_large",
    `a string of ${bytes} bytes is longer than the ${bytesMax} that Lua code may hold`,
  );
}
