/**
 * The part of fengari's inside that the engine works with, typed. Names and shapes are fengari's own (0.1.5), plus the
 * fields that the edits in edits.ts add.
 */

export const TYPE = {
  none: -1,
  nil: 0,
  boolean: 1,
  lightUserdata: 2,
  /** A float. */
  number: 3,
  integer: 3 | (1 << 4),
  shortString: 4,
  /** What fengari uses for every string. */
  string: 4 | (1 << 4),
  table: 5,
  luaFunction: 6,
  jsFunction: 6 | (1 << 4),
  jsClosure: 6 | (2 << 4),
  userdata: 7,
  thread: 8,
} as const;

export const STATUS = { ok: 0, yield: 1 } as const;

export interface TValue {
  type: number;
  value: unknown;
  setfrom(other: TValue): void;
}

/** A Lua string: bytes, or the JavaScript text they were made from (then the bytes are made on first use). */
export interface TString {
  /** The bytes as latin1 text: the key in tables, and the order of strings. */
  hash: string | null;
  /** The string as JavaScript text, once known to be valid UTF-8. */
  text: string | null;
  realstring: Uint8Array | null;
  getstr(): Uint8Array;
  tsslen(): number;
}

export interface TableEntry {
  key: TValue;
  value: TValue;
  /** Previous and next in order of insertion. */
  p: TableEntry | undefined;
  n: TableEntry | undefined;
}

/** Raises the error of a write to a frozen table. */
export type FrozenGuard = (L: LuaState | null, key: TValue) => void;

export interface Table {
  strong: Map<unknown, TableEntry>;
  f: TableEntry | undefined;
  l: TableEntry | undefined;
  metatable: Table | null;
  flags: number;
  /** Set: every way to write to the table, raw ones included, runs into this instead. */
  frozen: FrozenGuard | null;
  /** What the engine itself keeps with a table; invisible to Lua. */
  host: object | null;
}

export interface Proto {
  /** Constants. */
  readonly k: readonly TValue[];
  readonly p: readonly Proto[];
  readonly code: readonly { readonly opcode: number; readonly A: number; readonly B: number }[];
  readonly lineinfo: readonly number[];
  readonly upvalues: readonly { readonly instack: boolean; readonly idx: number; readonly name: TString | null }[];
  readonly linedefined: number;
  /** `@` and the file. */
  readonly source: TString | null;
}

export interface LuaClosure {
  readonly p: Proto;
  readonly upvals: TValue[];
}

export interface Userdata {
  metatable: Table | null;
  data: object;
}

export interface CallInfo {
  /** Not set at the bottom of a thread. */
  func: TValue | undefined;
  funcOff: number;
  top: number;
  extra: number;
  depth: number;
  callstatus: number;
  l_savedpc: number;
  previous: CallInfo | null;
}

export interface GlobalState {
  readonly mt: (Table | null | undefined)[];
  readonly mainthread: LuaState;
}

export interface LuaState {
  stack: (TValue | undefined)[];
  top: number;
  ci: CallInfo;
  base_ci: CallInfo;
  status: number;
  nny: number;
  nCcalls: number;
  allowhook: number;
  readonly l_G: GlobalState;
}

/** A function of the host: takes its arguments from the stack, pushes results, returns how many. */
export type LuaFunction = (L: LuaState) => number;

export interface Fengari {
  readonly lua: {
    lua_newstate(): LuaState;
    lua_newthread(L: LuaState): LuaState;
    lua_pop(L: LuaState, n: number): void;
    lua_gettop(L: LuaState): number;
    lua_resume(L: LuaState, from: LuaState | null, nargs: number): number;
    lua_pcall(L: LuaState, nargs: number, nresults: number, handler: number): number;
    lua_pushcfunction(L: LuaState, f: LuaFunction): void;
    lua_error(L: LuaState): never;
    lua_settop(L: LuaState, index: number): void;
    lua_checkstack(L: LuaState, n: number): boolean;
    lua_xmove(from: LuaState, to: LuaState, n: number): void;
    /** Never returns; once resumed, `k` goes on with `context`. */
    lua_yieldk<T>(
      L: LuaState,
      nresults: number,
      context: T,
      k: ((L: LuaState, status: number, context: T) => number) | null,
    ): never;
  };
  readonly lauxlib: {
    luaL_loadbufferx(L: LuaState, text: Uint8Array, size: number, name: Uint8Array, mode: Uint8Array): number;
    luaL_traceback(L: LuaState, of: LuaState, message: Uint8Array | null, level: number): void;
    luaL_tolstring(L: LuaState, index: number): Uint8Array;
    luaL_where(L: LuaState, level: number): void;
  };
  readonly ldo: {
    luaD_throw(L: LuaState, status: number): never;
    luaD_checkstack(L: LuaState, n: number): void;
    luaD_rawrunprotected(L: LuaState, f: (L: LuaState, ud: unknown) => void, ud: unknown): number;
  };
  readonly ldebug: {
    luaG_runerror(L: LuaState, format: Uint8Array, ...args: unknown[]): never;
    luaG_typeerror(L: LuaState, value: TValue, what: Uint8Array): never;
  };
  readonly lobject: {
    readonly TValue: new (type: number, value: unknown) => TValue;
    readonly Udata: new (L: LuaState, size: number) => Userdata;
    readonly luaO_nilobject: TValue;
  };
  readonly lstring: { readonly TString: new (L: LuaState | null, bytes: Uint8Array | null) => TString };
  readonly ltable: {
    readonly Table: new (L: LuaState) => Table;
    /** Adds an entry that is not there yet. */
    add(table: Table, hash: unknown, key: TValue, value: TValue): void;
    luaH_get(L: LuaState, table: Table, key: TValue): TValue;
  };
  readonly libraries: {
    readonly base: LuaFunction;
    readonly string: LuaFunction;
    readonly table: LuaFunction;
    readonly math: LuaFunction;
    readonly utf8: LuaFunction;
  };
  /** Numbers of the opcodes, by name. */
  readonly opcodes: Readonly<Record<string, number>>;
}
