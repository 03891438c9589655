/**
 * The seam between the Lua engine and the objects it serves.
 *
 * The engine knows classes, budgets and values; it knows no SQLite, no mailbox, no gate. An object hands it a
 * {@link CallHost} for the length of one call; everything Lua code can do to the outside goes through it, synchronously.
 * A host function that throws a MoonportError raises a Lua error that `pcall` can catch and that, uncaught, comes out of
 * the invocation as that same MoonportError.
 */
import type { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { PlainObject, PlainValue, SqlParameters, SqlRows, SqlValue } from "../values.js";

export type CallerKind = "client" | "unit" | "object" | "timer" | "message" | "system";

export interface Caller {
  readonly kind: CallerKind;
  readonly id?: string;
  readonly claims?: PlainObject;
  /**
   * Of a unit or an object that calls: the id of the client whose request it does that for, where a token names one. For
   * Moonport alone: code does not see it.
   */
  readonly onBehalfOf?: string;
}

/** Whoever asks in the end, as his token names him; undefined where nobody is known, and for what nobody waits for. */
export function principalOf({ kind, id, onBehalfOf }: Caller): string | undefined {
  return kind === "client" ? id : onBehalfOf;
}

/** A row at a time; the engine calls `close` when Lua is done with it or the call ends. */
export interface RowCursor {
  readonly columns: readonly string[];
  next(): readonly SqlValue[] | undefined;
  close(): void;
}

/** What becomes of runs that nobody could start in time: all of them, the latest alone, or none. */
export type MissedPolicy = "all" | "latest" | "skip";

export type TimerPlan = (
  | { readonly kind: "after"; readonly delayMs: number }
  | { readonly kind: "at"; readonly atMs: number }
  | { readonly kind: "every"; readonly everyMs: number }
  | { readonly kind: "cron"; readonly expression: string; readonly timeZone?: string }
) & {
  /** Default `latest`. */
  readonly missed?: MissedPolicy;
};

export interface TimerRequest {
  readonly plan: TimerPlan;
  /** A second timer of the same name replaces the first. */
  readonly name?: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
}

/** One of the object's own timers, as `schedule.list()` shows it. */
export interface TimerInfo {
  readonly id: number;
  readonly name?: string;
  readonly method: string;
  readonly dueMs: number;
}

export interface MessageRequest {
  readonly className: string;
  readonly key: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly delayMs?: number;
  /** Wall clock, milliseconds: from then on it is not delivered any more. */
  readonly expiresMs?: number;
  /** Makes sending idempotent. */
  readonly id?: string;
  /** How the sender is told what became of it: a writing method of its own, or an event that it emits. */
  readonly outcome?: { readonly method: string } | { readonly event: string };
}

/** A call to another object, or to a native class. */
export interface ObjectCall {
  readonly className: string;
  readonly key: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
}

export interface FetchCall {
  readonly url: string;
  /** Upper case. */
  readonly method: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
  readonly timeoutMs: number | undefined;
}

/** A question to the directory of a class. */
export interface DirectoryQuery {
  /** `top > 100 and status = 'open'`; absent: all. */
  readonly where?: string;
  /** For `?` in order, or for `:name`. */
  readonly params?: readonly PlainValue[] | PlainObject;
  /** `-top, status`; absent: by key. */
  readonly order?: string;
  readonly limit?: number;
  /** Where the page before ended. */
  readonly after?: string;
  /** How many there are in all, too. */
  readonly count?: boolean;
}

/** What a method may wait for. */
export type AskRequest =
  | ({ readonly kind: "call" } & ObjectCall)
  | { readonly kind: "find"; readonly className: string; readonly query: DirectoryQuery };

/** What Lua code may stand still for. Whoever runs the invocation answers. */
export type WaitRequest =
  | AskRequest
  /** Units only: until everything done so far is durable. */
  | { readonly kind: "settle" }
  /** Units only. */
  | ({ readonly kind: "fetch" } & FetchCall);

export type WaitAnswer =
  | { readonly kind: "returned"; readonly value: PlainValue }
  /** Raised in Lua; uncaught it comes out of the invocation as itself. */
  | { readonly kind: "failed"; readonly error: MoonportError };

/** What any running code may ask of its host, be it a method's or a unit's. */
export interface CodeHost {
  readonly caller: Caller;
  /** For the log. Absent for a call that has none, and for what no call asked for. */
  readonly callId?: string | undefined;
  /** `now()`: wall clock at the call's start. */
  readonly startedMs: number;
  /** Asked before the code stands still. @throws MoonportError why it may not wait for this */
  mayWait(request: WaitRequest): void;
  /** [0, 1), seeded per call. */
  random(): number;
  uuid(): string;
  log(level: "debug" | "info" | "warn" | "error", text: string): void;
  /** Something that the code asked for failed outside of Lua; it may have caught that. */
  failedOutside?(): void;
}

export interface CallHost extends CodeHost {
  readonly object: ObjectIdentity;
  sqlExec(sql: string, parameters: SqlParameters): { readonly changes: number; readonly lastId: number | string };
  sqlAll(sql: string, parameters: SqlParameters): SqlRows;
  /** At most one row. */
  sqlOne(sql: string, parameters: SqlParameters): SqlRows;
  sqlEach(sql: string, parameters: SqlParameters): RowCursor;
  storeGet(key: string): PlainValue | undefined;
  storeSet(key: string, value: PlainValue): void;
  storeDelete(key: string): boolean;
  /** In key order. */
  storeList(prefix: string): readonly (readonly [string, PlainValue])[];
  storeSetVolatile(key: string, value: PlainValue): void;
  storeAppendVolatile(key: string, text: string): void;
  emit(event: string, data: PlainValue): void;
  /** Returns the timer's id. */
  scheduleSet(request: TimerRequest): number;
  scheduleCancel(idOrName: number | string): boolean;
  scheduleMove(idOrName: number | string, plan: TimerPlan): boolean;
  scheduleList(): readonly TimerInfo[];
  send(request: MessageRequest): void;
  destroy(): void;
}

export type ColumnType = "text" | "integer" | "real" | "boolean";

export interface DirectoryDeclaration {
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly index: readonly string[];
}

/** What an invocation runs. Private methods (leading underscore) are runnable here; doors refuse them. */
export type LuaEntry =
  | { readonly kind: "method"; readonly name: string }
  | { readonly kind: "hook"; readonly name: "on_create" | "on_wake" }
  /** `directory.row(self)`: DIRECTORY_BUDGET_MS, never yields a slice. */
  | { readonly kind: "row" };

export type LuaStep =
  | { readonly kind: "returned"; readonly value: PlainValue }
  /** Thrown, killed, or returned something that cannot travel. Always a MoonportError. */
  | { readonly kind: "failed"; readonly error: Error }
  /** The time slice is over; resume once others had their turn. */
  | { readonly kind: "slice" }
  /** The code stands still; resume with the answer. The host's `mayWait` has agreed. */
  | { readonly kind: "wait"; readonly request: WaitRequest };

export interface LuaInvocation {
  /**
   * Runs until the next step. Not to be called again after `returned` or `failed`.
   * @param answer after `wait`, and only then
   */
  resume(answer?: WaitAnswer): LuaStep;
  /** Gives the call up between steps; its coroutine is never resumed. Idempotent. */
  abandon(): void;
}

export type MethodKind = "write" | "read";

export interface LuaClass {
  readonly name: string;
  /** As errors show it: `classes/Auction.lua`. */
  readonly file: string;
  /** SHA-256, hex, of the text and of the modules that it requires. */
  readonly version: string;
  readonly migrations: readonly string[];
  readonly directory: DirectoryDeclaration | undefined;
  /** Every method, private ones included. */
  readonly methods: ReadonlyMap<string, MethodKind>;
  readonly hooks: { readonly on_create: boolean; readonly on_wake: boolean };
  start(entry: LuaEntry, args: readonly PlainValue[], host: CallHost): LuaInvocation;
}

export interface ClassSource {
  readonly app: string;
  /** Also the file's base name. */
  readonly name: string;
  readonly file: string;
  readonly text: string;
}

export interface UnitSource {
  readonly kind: "unit";
  readonly app: string;
  /** Also the file's base name. */
  readonly name: string;
  /** As errors show it: `units/bid.lua`. */
  readonly file: string;
  readonly text: string;
}

/** A file of the app that its other files get by `require("money.rates")`. */
export interface ModuleSource {
  readonly kind: "module";
  readonly app: string;
  /** Its path in `lib/`, with dots. */
  readonly name: string;
  /** As errors show it: `lib/money/rates.lua`. */
  readonly file: string;
  readonly text: string;
}

/** A file of the app's own tests. */
export interface TestSource {
  readonly kind: "test";
  readonly app: string;
  /** The file's base name. */
  readonly name: string;
  /** As errors show it: `tests/auction.lua`. */
  readonly file: string;
  readonly text: string;
}

/** A test asks whoever runs it by calls to this class, which no app can have: `advance`, `restart`, `events`, `unit`, `call_as`. */
export const TEST_RUNNER = "test";

export type LuaFileKind = "class" | "unit" | "module" | "test";

/** Names and, for a table, the names of its fields. */
export type NameTree = ReadonlyMap<string, NameTree | undefined>;

export interface GlobalNames {
  readonly known: NameTree;
  /** What an author may look for, and why it is not there. */
  readonly absent: Readonly<Record<string, string>>;
}

export interface LoadedModule {
  readonly name: string;
  readonly file: string;
  /** As a class's. */
  readonly version: string;
}

/** The modules of one release of an app. */
export interface LuaModules {
  readonly loaded: readonly LoadedModule[];
  /** Those that do not load; requiring one is an error. */
  readonly faults: readonly { readonly source: ModuleSource; readonly error: MoonportError }[];
}

export interface LuaUnit {
  readonly name: string;
  readonly file: string;
  /** As a class's. */
  readonly version: string;
  start(request: PlainObject, host: CodeHost): LuaInvocation;
}

export interface LuaEngine {
  /** Loads all modules of an app, for the files that are loaded next. Never throws: what does not load is among the faults. */
  loadModules(sources: readonly ModuleSource[], knownClasses: readonly string[]): LuaModules;
  /**
   * Compiles one class. `knownClasses` become globals of its code, so that `Auction("lot-42")` makes a reference.
   * @param modules of this engine; default none
   * @throws MoonportError `class_invalid` with file, line and what is wrong
   */
  loadClass(source: ClassSource, knownClasses: readonly string[], modules?: LuaModules): LuaClass;
  /** As `loadClass`. @throws MoonportError `unit_invalid` */
  loadUnit(source: UnitSource, knownClasses: readonly string[], modules?: LuaModules): LuaUnit;
  /** The globals of a kind of file, without the app's classes. */
  names(kind: LuaFileKind): GlobalNames;
  /** Drops pooled states; invocations under way must have ended. */
  close(): void;
}

export interface LuaLimits {
  readonly methodBudgetMs: number;
  readonly sliceMs: number;
  readonly instructionsMax: number;
  readonly directoryBudgetMs: number;
  readonly memoryBytesMax: number;
  readonly stringBytesMax: number;
  readonly callDepthMax: number;
  readonly valueDepthMax: number;
  readonly valueBytesMax: number;
}
