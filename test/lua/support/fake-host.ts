/** A CallHost over plain maps, and an engine over a clock that the test drives. */
import { identityOf, type ObjectIdentity } from "../../../src/identity.js";
import type {
  Caller,
  CallHost,
  LuaClass,
  LuaEngine,
  LuaEntry,
  LuaLimits,
  LuaStep,
  MessageRequest,
  TimerInfo,
  TimerPlan,
  TimerRequest,
  WaitRequest,
} from "../../../src/lua/contract.js";
import { createLuaEngine, type LuaEngineOptions } from "../../../src/lua/engine.js";
import type { PlainValue, SqlParameters, SqlRows } from "../../../src/values.js";
import { type LogFields, type Logger, silentLogger } from "../../../src/world/logger.js";

export const LIMITS: LuaLimits = {
  methodBudgetMs: 1_000,
  sliceMs: 5,
  instructionsMax: 200_000_000,
  directoryBudgetMs: 5,
  memoryBytesMax: 64 * 1024 * 1024,
  stringBytesMax: 16 * 1024 * 1024,
  callDepthMax: 200,
  valueDepthMax: 64,
  valueBytesMax: 1024 * 1024,
};

/** A monotonic clock that moves by `stepMs` each time it is read. */
export class SteppingClock {
  nowMs = 0;
  constructor(public stepMs = 0) {}
  monotonicMs(): number {
    this.nowMs += this.stepMs;
    return this.nowMs;
  }
}

export class FakeHost implements CallHost {
  object: ObjectIdentity = identityOf("default", "Thing", "one");
  caller: Caller = { kind: "client", id: "ada", claims: { role: "admin" } };
  startedMs = 1_700_000_000_250;
  readonly store = new Map<string, PlainValue>();
  readonly statements: { kind: string; sql: string; parameters: SqlParameters }[] = [];
  readonly events: { event: string; data: PlainValue }[] = [];
  readonly timers: TimerRequest[] = [];
  readonly moved: { idOrName: number | string; plan: TimerPlan }[] = [];
  readonly sent: MessageRequest[] = [];
  readonly lines: string[] = [];
  rows: SqlRows = { columns: [], rows: [] };
  cursorsOpen = 0;
  destroyed = false;
  readonly waits: WaitRequest[] = [];
  refusesToWait: Error | undefined;
  failure: Error | undefined;
  timerList: TimerInfo[] = [];

  #sql(kind: string, sql: string, parameters: SqlParameters): void {
    if (this.failure) throw this.failure;
    this.statements.push({ kind, sql, parameters });
  }
  sqlExec(sql: string, parameters: SqlParameters) {
    this.#sql("exec", sql, parameters);
    return { changes: 1, lastId: 7 };
  }
  sqlAll(sql: string, parameters: SqlParameters): SqlRows {
    this.#sql("all", sql, parameters);
    return this.rows;
  }
  sqlOne(sql: string, parameters: SqlParameters): SqlRows {
    this.#sql("one", sql, parameters);
    return { columns: this.rows.columns, rows: this.rows.rows.slice(0, 1) };
  }
  sqlEach(sql: string, parameters: SqlParameters) {
    this.#sql("each", sql, parameters);
    this.cursorsOpen += 1;
    let index = 0;
    let open = true;
    return {
      columns: this.rows.columns,
      next: () => this.rows.rows[index++],
      close: () => {
        if (open) this.cursorsOpen -= 1;
        open = false;
      },
    };
  }
  storeGet(key: string) {
    return this.store.get(key);
  }
  storeSet(key: string, value: PlainValue): void {
    if (this.failure) throw this.failure;
    this.store.set(key, value);
  }
  storeDelete(key: string): boolean {
    return this.store.delete(key);
  }
  storeList(prefix: string) {
    return [...this.store].filter(([key]) => key.startsWith(prefix)).sort(([a], [b]) => (a < b ? -1 : 1));
  }
  storeSetVolatile(key: string, value: PlainValue): void {
    this.store.set(key, value);
  }
  storeAppendVolatile(key: string, text: string): void {
    this.store.set(key, `${this.store.get(key) ?? ""}${text}`);
  }
  emit(event: string, data: PlainValue): void {
    this.events.push({ event, data });
  }
  scheduleSet(request: TimerRequest): number {
    return this.timers.push(request);
  }
  scheduleCancel(idOrName: number | string): boolean {
    return idOrName === "close" || idOrName === 1;
  }
  scheduleMove(idOrName: number | string, plan: TimerPlan): boolean {
    this.moved.push({ idOrName, plan });
    return true;
  }
  scheduleList(): readonly TimerInfo[] {
    return this.timerList;
  }
  send(request: MessageRequest): void {
    this.sent.push(request);
  }
  destroy(): void {
    this.destroyed = true;
  }
  mayWait(request: WaitRequest): void {
    if (this.refusesToWait) throw this.refusesToWait;
    this.waits.push(request);
  }
  random(): number {
    return 0.5;
  }
  uuid(): string {
    return "00000000-0000-7000-8000-000000000000";
  }
  log(level: string, text: string): void {
    this.lines.push(`${level}: ${text}`);
  }
}

export interface LogLine {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

export function recordingLogger(lines: LogLine[]): Logger {
  const at = (level: string) => (fields: LogFields, message: string) => void lines.push({ level, fields, message });
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => recordingLogger(lines),
  };
}

export type EngineChanges = Partial<Omit<LuaEngineOptions, "limits">> & { readonly limits?: Partial<LuaLimits> };

export function makeEngine(options: EngineChanges = {}): LuaEngine {
  return createLuaEngine({
    clock: options.clock ?? new SteppingClock(),
    engineLog: options.engineLog ?? silentLogger,
    limits: { ...LIMITS, ...options.limits },
    ...(options.stepsPerLook !== undefined && { stepsPerLook: options.stepsPerLook }),
  });
}

/** A class Thing with `body` between its first and its last line. */
export function loadThing(
  body: string,
  engine: LuaEngine = makeEngine(),
  known: readonly string[] = ["Auction"],
): LuaClass {
  const text = `local Thing = class "Thing"; ${body}\nreturn Thing\n`;
  return engine.loadClass({ app: "default", name: "Thing", file: "classes/Thing.lua", text }, known);
}

export function step(
  loaded: LuaClass,
  method: string,
  args: readonly PlainValue[] = [],
  host: CallHost = new FakeHost(),
): LuaStep {
  const entry: LuaEntry = { kind: "method", name: method };
  const invocation = loaded.start(entry, args, host);
  for (;;) {
    const result = invocation.resume();
    if (result.kind !== "slice") return result;
  }
}

/** Runs to the end; throws what the call failed with. */
export function run(
  loaded: LuaClass,
  method: string,
  args: readonly PlainValue[] = [],
  host: CallHost = new FakeHost(),
): PlainValue {
  const result = step(loaded, method, args, host);
  if (result.kind === "failed") throw result.error;
  return result.kind === "returned" ? result.value : null;
}

/** The value of Lua code in a method of its own. */
export function evaluate(
  code: string,
  engine?: LuaEngine,
  host?: CallHost,
  args: readonly PlainValue[] = [],
): PlainValue {
  return run(loadThing(`function Thing:go(...) ${code}\nend`, engine), "go", args, host);
}

export function failure(code: string, engine?: LuaEngine, host?: CallHost): Error {
  const result = step(loadThing(`function Thing:go() ${code}\nend`, engine), "go", [], host);
  if (result.kind !== "failed") throw new Error(`did not fail: ${JSON.stringify(result)}`);
  return result.error;
}
