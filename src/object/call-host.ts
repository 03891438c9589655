/** What one call may do to its object: the engine's `CallHost` over the open file. Everything is in the call's transaction (O2). */
import { assert, MoonportError } from "../errors.js";
import { type ObjectIdentity, SYSTEM_APP } from "../identity.js";
import type {
  Caller,
  MessageRequest,
  RowCursor,
  TimerInfo,
  TimerPlan,
  TimerRequest,
  WaitRequest,
} from "../lua/contract.js";
import type { ObjectDatabase } from "../store/object-database.js";
import type { ObjectTables } from "../store/object-tables.js";
import type { PlainValue, SqlParameters, SqlRows } from "../values.js";
import { faultPoint } from "../world/fault-point.js";
import { uuidv7 } from "../world/world.js";
import { dueTimeMs } from "./due-time.js";
import type { ObjectContext } from "./object-context.js";
import { isAsking, type OutgoingCalls, textOfAsking } from "./outgoing-calls.js";
import { seededRandom } from "./seeded-random.js";
import type { SystemHost } from "./system-class.js";

/** What a host needs of the file: an object's own, or the empty one of a key that was never written. */
export interface HostFile {
  readonly object: ObjectIdentity;
  readonly database: ObjectDatabase;
  readonly tables: ObjectTables;
}

export interface HostEvent {
  readonly number: number;
  readonly name: string;
  readonly data: PlainValue;
  /** Wall clock, milliseconds. */
  readonly atMs: number;
}

export type HostContext = Pick<ObjectContext, "world" | "settings" | "catalog" | "log">;

export class CallHost implements SystemHost {
  readonly object: ObjectIdentity;
  readonly callId: string | undefined;
  readonly #caller: Caller;
  readonly #startedMs: number;
  readonly #context: HostContext;
  readonly #file: HostFile;
  readonly #access: "method" | "read";
  readonly #isHook: boolean;
  readonly #outgoing: OutgoingCalls | undefined;
  readonly #emitted: HostEvent[] = [];
  #timersSet = 0;
  #messagesSent = 0;
  #destroys = false;
  #random: (() => number) | undefined;
  #isRepeatable = true;
  readonly #variedReads: number;
  #isClosed = false;

  /** @param more `outgoing` is absent where code may not wait for other objects: reading methods, hooks, rows */
  constructor(
    context: HostContext,
    file: HostFile,
    caller: Caller,
    access: "method" | "read",
    more: {
      readonly callId?: string | undefined;
      readonly outgoing?: OutgoingCalls | undefined;
      readonly isHook?: boolean;
    } = {},
  ) {
    this.#isHook = more.isHook === true;
    this.#outgoing = more.outgoing;
    this.callId = more.callId;
    this.#context = context;
    this.#file = file;
    this.#access = access;
    this.object = file.object;
    this.#caller = caller;
    this.#startedMs = context.world.clock.wallMs();
    this.#variedReads = file.database.variedReads;
  }

  get caller(): Caller {
    this.#isRepeatable = false;
    return this.#caller;
  }

  get startedMs(): number {
    this.#isRepeatable = false;
    return this.#startedMs;
  }

  /** Whether the same call on the same database would answer the same, and leave no more behind. Of reading methods. */
  get isRepeatable(): boolean {
    const { database } = this.#file;
    return this.#isRepeatable && database.variedReads === this.#variedReads && !database.hasVaryingViews();
  }

  get emitted(): readonly HostEvent[] {
    return this.#emitted;
  }

  get destroys(): boolean {
    return this.#destroys;
  }

  /** The call is over: what Lua code may have kept of this host does nothing any more. */
  close(): void {
    this.#isClosed = true;
  }

  sqlExec(sql: string, parameters: SqlParameters): { changes: number; lastId: number | string } {
    this.#assertOpen();
    const done = this.#file.database.exec(sql, parameters, this.#access);
    faultPoint("method.writes", this.object.id);
    return done;
  }

  sqlAll(sql: string, parameters: SqlParameters): SqlRows {
    this.#assertOpen();
    return this.#file.database.all(sql, parameters, this.#access);
  }

  sqlOne(sql: string, parameters: SqlParameters): SqlRows {
    this.#assertOpen();
    return this.#file.database.one(sql, parameters, this.#access);
  }

  sqlEach(sql: string, parameters: SqlParameters): RowCursor {
    this.#assertOpen();
    return this.#file.database.each(sql, parameters, this.#access);
  }

  /** For classes of Moonport's own. */
  changeSchema(sql: string): void {
    this.#assertWriting("changeSchema");
    assert(this.object.app === SYSTEM_APP, "class code changes its tables by migrations");
    this.#file.database.migrate(sql);
  }

  storeGet(key: string): PlainValue | undefined {
    this.#assertOpen();
    return this.#file.tables.store.get(key);
  }

  storeSet(key: string, value: PlainValue): void {
    this.#assertWriting("state.store.set");
    this.#file.tables.store.set(key, value);
  }

  storeDelete(key: string): boolean {
    this.#assertWriting("state.store.delete");
    return this.#file.tables.store.delete(key);
  }

  storeList(prefix: string): readonly (readonly [string, PlainValue])[] {
    this.#assertOpen();
    return this.#file.tables.store.list(prefix);
  }

  storeSetVolatile(key: string, value: PlainValue): void {
    this.#assertWriting("state.store.set_volatile");
    this.#file.tables.store.setVolatile(key, value);
  }

  storeAppendVolatile(key: string, text: string): void {
    this.#assertWriting("state.store.append_volatile");
    this.#file.tables.store.appendVolatile(key, text);
  }

  emit(event: string, data: PlainValue): void {
    this.#assertWriting("emit");
    this.#bound("events", this.#emitted.length);
    const number = this.#file.tables.events.append(event, data, this.#startedMs);
    this.#emitted.push({ number, name: event, data, atMs: this.#startedMs });
  }

  scheduleSet(request: TimerRequest): number {
    this.#assertWriting("schedule");
    this.#bound("timers", this.#timersSet++);
    this.#assertOwnMethod(request.method);
    return this.#file.tables.timers.set(request, dueTimeMs(request.plan, this.#startedMs));
  }

  scheduleCancel(idOrName: number | string): boolean {
    this.#assertWriting("schedule.cancel");
    return this.#file.tables.timers.cancel(idOrName);
  }

  scheduleMove(idOrName: number | string, plan: TimerPlan): boolean {
    this.#assertWriting("schedule.move");
    return this.#file.tables.timers.move(idOrName, plan, dueTimeMs(plan, this.#startedMs));
  }

  scheduleList(): readonly TimerInfo[] {
    this.#assertOpen();
    return this.#file.tables.timers.list();
  }

  send(request: MessageRequest): void {
    this.#assertWriting("send");
    this.#bound("messages", this.#messagesSent++);
    const { catalog } = this.#context;
    if (!catalog.isNative(request.className)) {
      catalog.methodOf(catalog.classOf(this.object.app, request.className), request.method);
    }
    const { className, key, method, args, delayMs = 0, expiresMs, outcome } = request;
    if (outcome !== undefined && "method" in outcome) this.#assertTold(outcome.method);
    const id = request.id ?? uuidv7(this.#context.world);
    const dueMs = this.#startedMs + delayMs;
    const isDelayed = delayMs > 0;
    this.#file.tables.outbox.add({ id, className, key, method, args, dueMs, isDelayed, expiresMs, outcome });
  }

  /** It is told as a message is: by a method that others may call. */
  #assertTold(method: string): void {
    const { catalog } = this.#context;
    const { app, className } = this.object;
    if (catalog.methodOf(catalog.classOf(app, className), method) === "write") return;
    throw MoonportError.of("method_not_found", `${className}.${method} is a reading method: it can be told nothing`);
  }

  destroy(): void {
    this.#assertWriting("destroy");
    if (this.#isHook) {
      throw MoonportError.of(
        "method_error",
        "destroy() in a hook: on_create and on_wake run before a call, which comes",
        {
          hint: "let a method or a timer end the object",
        },
      );
    }
    this.#destroys = true;
  }

  mayWait(request: WaitRequest): void {
    this.#assertOpen();
    assert(isAsking(request), "methods wait for other objects alone");
    if (this.#outgoing !== undefined) return this.#outgoing.check(request);
    const what = request.kind === "find" ? "asks a directory" : "calls other objects";
    throw MoonportError.of("method_error", `${textOfAsking(request)}: only a writing method ${what}`, {
      hint: "reading methods, on_create, on_wake and directory.row answer from their own object",
    });
  }

  random(): number {
    this.#isRepeatable = false;
    this.#random ??= seededRandom(this.#context.world.random.bytes(4));
    return this.#random();
  }

  uuid(): string {
    this.#isRepeatable = false;
    return uuidv7(this.#context.world);
  }

  log(level: "debug" | "info" | "warn" | "error", text: string): void {
    this.#isRepeatable = false;
    const { object, callId } = this;
    this.#context.log[level]({ object: object.id, ...(callId !== undefined && { callId }) }, text);
  }

  failedOutside(): void {
    this.#isRepeatable = false;
  }

  #assertOpen(): void {
    if (this.#isClosed) throw MoonportError.of("method_error", "this call has ended; state belongs to a running call");
  }

  #assertWriting(what: string): void {
    this.#assertOpen();
    if (this.#access !== "read") return;
    throw MoonportError.of("read_only", `${what} in a reading method`, {
      hint: "reading methods change nothing; define the method on the class itself instead of on .read",
    });
  }

  #bound(what: string, already: number): void {
    const max = this.#context.settings.CALL_EVENTS_MAX;
    if (already < max) return;
    throw MoonportError.of("too_large", `one call may make ${max} ${what} at most`);
  }

  /** A timer that names no method would fail when it fires, when nobody looks. */
  #assertOwnMethod(method: string): void {
    const { methods } = this.#context.catalog.classOf(this.object.app, this.object.className);
    if (methods.get(method) === "write") return;
    throw MoonportError.of("method_not_found", `${this.object.className} has no writing method "${method}"`, {
      hint: "a timer calls a writing method of its own object; a private one (leading underscore) is fine",
    });
  }
}
