/**
 * Calls to objects that live on this node: which way each goes, and that each is counted once, whoever made it.
 *
 * A writing method goes through the object's mailbox. A reading one goes beside it where nothing has to run before it, to the
 * class's empty database where the object has no content, and else through the mailbox too. All others learn of an outcome
 * when it is durable; only a unit's own request learns of it before ({@link NodeCalls.deferred}).
 *
 * What is answered at once, as most reads are, is handed on at once: each promise on the way of a call costs it some percent.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import { type ObjectIdentity, SYSTEM_APP } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import type { CallReply, CallRequest, CallWaiter } from "../node-api.js";
import { noSuchApp } from "../object/catalog.js";
import type { EmptyObjects } from "../object/empty-objects.js";
import type { InnerCall } from "../object/inner-call.js";
import { isKernelCall } from "../object/kernel-methods.js";
import type { ObjectContext } from "../object/object-context.js";
import type { CallInput, Objects } from "../object/objects.js";
import { answerReading, type Reading, runReading } from "../object/reading.js";
import type { ReplicaCopies } from "../object/replica-copies.js";
import type { Position } from "../object/replica-copy.js";
import type { DeferredOutcome } from "../object/work.js";
import type { PlainValue } from "../values.js";
import type { Admission } from "./admission.js";
import { shardNumberOf } from "./delay-port.js";

export interface NodeCallsParts {
  readonly context: ObjectContext;
  readonly objects: Objects;
  readonly empty: EmptyObjects;
  /** Of other nodes' objects; absent where there is no other node. */
  readonly copies: ReplicaCopies | undefined;
  readonly admission: Admission;
  /** A call has reached a delay shard of this node. */
  readonly shardTouched: (shard: number) => void;
}

export const NO_CHAIN: readonly string[] = [];

export class NodeCalls {
  readonly #parts: NodeCallsParts;
  readonly #context: ObjectContext;
  readonly #objects: Objects;
  readonly #admission: Admission;

  constructor(parts: NodeCallsParts) {
    this.#parts = parts;
    this.#context = parts.context;
    this.#objects = parts.objects;
    this.#admission = parts.admission;
  }

  /** @param chain the objects that wait for it */
  async inChain(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    const begunMs = this.#nowMs();
    this.#context.traffic.begun();
    try {
      const answer = this.#call(request, chain);
      const reply = answer instanceof Promise ? await answer : answer;
      this.#ended(request, begunMs);
      return reply;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      const named = error.with({
        object: request.object.id,
        ...(request.callId !== undefined && { callId: request.callId }),
      });
      throw named;
    } finally {
      this.#context.traffic.ended();
    }
  }

  async fromObject({ expiresMs, chain, ...call }: InnerCall): Promise<PlainValue> {
    const begunMs = this.#nowMs();
    const timeoutMs = Math.max(0, expiresMs - begunMs);
    try {
      const { value } = await this.#call({ ...call, timeoutMs }, chain);
      this.#ended(call, begunMs);
      return value;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(call, begunMs, error);
      throw error.with({ object: call.object.id });
    }
  }

  /**
   * A call whose outcome comes before it is durable. Nothing of it may leave the caller's own request before `settled`
   * resolves. A reading method too goes through the mailbox, so that a request reads its own writes.
   * @throws MoonportError when the call never ran
   */
  async deferred(request: CallRequest): Promise<DeferredOutcome> {
    const begunMs = this.#nowMs();
    this.#context.traffic.begun();
    try {
      const outcome = await this.#callDeferred(request);
      const { result } = outcome;
      this.#ended(request, begunMs, result.kind === "failed" ? result.error : undefined);
      return outcome;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      throw error;
    } finally {
      this.#context.traffic.ended();
    }
  }

  /**
   * A call of a reading method, answered from a copy of another node's object that is at the position at least.
   * @returns undefined where there can be none: its owner is to be asked. @throws MoonportError what the method throws
   */
  async onCopy(request: CallRequest, position: Position): Promise<CallReply | undefined> {
    const begunMs = this.#nowMs();
    this.#admission.assertServing();
    assertMayReach(request);
    const { object, method, args, caller, callId } = request;
    const { catalog, counters } = this.#context;
    const lua = catalog.classOf(object.app, object.className);
    try {
      const read = await this.#parts.copies?.read(object, position, { lua, method, args, caller, callId });
      counters.replicaReads[read === undefined ? "owner" : "copy"]++;
      if (read === undefined) return undefined;
      this.#ended(request, begunMs);
      return { value: read.value, seq: read.seq, from: "replica" };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      throw error.with({ object: object.id, ...(callId !== undefined && { callId }) });
    }
  }

  /** For a copy elsewhere: as {@link Objects.position}, with the class that the owner serves. */
  async position(object: ObjectIdentity, journal: string): Promise<Position | undefined> {
    this.#admission.assertServing();
    const { version } = this.#context.catalog.classOf(object.app, object.className);
    const position = await this.#objects.position(object, journal);
    return position && { ...position, version };
  }

  /** Whether a call of the method changes nothing; not of a class or method that is not known here. */
  isReading({ app, className }: ObjectIdentity, method: string): boolean {
    try {
      return this.#context.catalog.classOf(app, className).methods.get(method) === "read";
    } catch {
      return false;
    }
  }

  /** Past the node's admission, uncounted, and without a word to a shard's driver. @param chain the objects that wait for it */
  dispatch(request: CallRequest, chain: readonly string[]): CallReply | Promise<CallReply> {
    const { object, method, caller } = request;
    const { catalog } = this.#context;
    const lua = catalog.classOf(object.app, object.className);
    const access = isKernelCall(method, caller) ? "write" : catalog.methodOf(lua, method);
    if (access === "read") return this.#read(request, lua);
    if (request.mustRead === true || request.consistency === "replica") {
      throw MoonportError.of("not_a_reading_method", `${object.className}.${method} is a writing method`, {
        hint: "call it with POST, and without a consistency",
      });
    }
    return this.#objects.call(object, this.#input(request, access, chain));
  }

  #call(request: CallRequest, chain: readonly string[]): CallReply | Promise<CallReply> {
    this.#admission.assertServing(request.caller);
    if (request.object.app !== SYSTEM_APP) return this.dispatch(request, chain);
    assertMayReach(request);
    return this.#callSystem(request, chain);
  }

  async #callSystem(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    const reply = await this.dispatch(request, chain);
    const shard = shardNumberOf(request.object);
    if (shard !== undefined) this.#parts.shardTouched(shard);
    return reply;
  }

  async #callDeferred(request: CallRequest): Promise<DeferredOutcome> {
    this.#admission.assertServing();
    const { object, method, args, caller, callId } = request;
    assertMayReach(request);
    const { catalog } = this.#context;
    const lua = catalog.classOf(object.app, object.className);
    const access = catalog.methodOf(lua, method);
    if (access === "read" && !(await this.#objects.exists(object))) {
      const value = await this.#readEmpty(object, { lua, method, args, caller, callId });
      return { result: { kind: "returned", value }, settled: Promise.resolve() };
    }
    return this.#objects.callDeferred(object, this.#input(request, access, NO_CHAIN));
  }

  #read(request: CallRequest, lua: LuaClass): CallReply | Promise<CallReply> {
    const { object, method, args, caller, callId } = request;
    const reading: Reading = { lua, method, args, caller, callId };
    const answered = this.#objects.readAwake(object, lua, (open) => answerReading(this.#context, open, reading));
    if (answered instanceof Promise) return answered.then((reply) => reply ?? this.#readAsleep(request, reading));
    return answered ?? this.#readAsleep(request, reading);
  }

  async #readAsleep(request: CallRequest, reading: Reading): Promise<CallReply> {
    const { object } = request;
    if (!(await this.#objects.exists(object))) return { value: await this.#readEmpty(object, reading) };
    // Migrations or hooks may have to run first, and only the task runs those.
    const { value } = await this.#objects.call(object, this.#input(request, "read", NO_CHAIN));
    return { value };
  }

  #readEmpty(object: ObjectIdentity, reading: Reading): PlainValue | Promise<PlainValue> {
    return runReading(this.#context, this.#parts.empty.fileFor(object, reading.lua), reading);
  }

  #input(request: CallRequest, access: "write" | "read", chain: readonly string[]): CallInput {
    const { world, settings } = this.#context;
    const sinceMs = world.clock.monotonicMs();
    return {
      method: request.method,
      access,
      args: request.args,
      caller: request.caller,
      callId: request.callId,
      waiter: request.waiter ?? waiterOf(request.signal),
      chain,
      sinceMs,
      expiresMs: sinceMs + (request.timeoutMs ?? settings.CALL_TIMEOUT_MS),
    };
  }

  #ended({ object, method }: Pick<CallRequest, "object" | "method">, begunMs: number, error?: MoonportError): void {
    this.#context.counters.calls.ended(object.app, object.className, method, this.#nowMs() - begunMs, error);
  }

  #nowMs(): number {
    return this.#context.world.clock.monotonicMs();
  }
}

/** Objects of Moonport's own are its own affair. @throws MoonportError `app_not_found` */
function assertMayReach({ object, caller }: CallRequest): void {
  if (object.app === SYSTEM_APP && caller.kind !== "system") throw noSuchApp(object.app);
}

/** Nobody listens to the signal: it may be shared by any number of calls, and is asked where it matters. */
function waiterOf(signal: AbortSignal | undefined): CallWaiter | undefined {
  return signal && { isGone: () => signal.aborted, whenGone: () => {} };
}
