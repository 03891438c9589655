/**
 * One request of a unit, from its first line to its response.
 *
 * Every call it makes is deferred: it goes on as soon as the call is committed, and everything is settled in one wait before
 * anything may leave: the response, an error too, a `fetch`, a call of a native class (G1; seed: a request's writes,
 * together). If something cannot be settled, the request ends with `outcome_unknown` and says what is known of each call.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import {
  type Caller,
  type FetchCall,
  type LuaUnit,
  type ObjectCall,
  principalOf,
  type WaitAnswer,
  type WaitRequest,
} from "../lua/contract.js";
import type { UnitRequest, UnitResponse } from "../node-api.js";
import { InnerCallIds } from "../object/inner-call-ids.js";
import type { PlainObject, PlainValue } from "../values.js";
import { deferred } from "../world/deferred.js";
import { yieldTurn } from "../world/world.js";
import { MadeCalls } from "./made-calls.js";
import { callNative, type NativeClass } from "./native.js";
import { responseOf } from "./response.js";
import type { UnitContext } from "./unit-context.js";
import { UnitHost } from "./unit-host.js";

const REPEAT = "repeat the request with the same id: what was done is not done again";

/** Why a request ends before its code does. */
type EarlyEnd =
  | { readonly kind: "late" }
  | { readonly kind: "gone" }
  | { readonly kind: "cut"; readonly error: MoonportError };

export class UnitRun {
  readonly #context: UnitContext;
  readonly #unit: LuaUnit;
  readonly #request: UnitRequest;
  /** `app/name` */
  readonly #id: string;
  readonly #callId: string;
  readonly #caller: Caller;
  readonly #ids: InnerCallIds;
  readonly #calls = new MadeCalls();
  readonly #deadlineMs: number;
  readonly #early = deferred<EarlyEnd>();
  #ended: EarlyEnd | undefined;
  /** Aborted with it: calls that have not begun are skipped, a fetch is broken off. */
  readonly #over = new AbortController();

  constructor(context: UnitContext, unit: LuaUnit, request: UnitRequest, callId: string) {
    this.#context = context;
    this.#unit = unit;
    this.#request = request;
    this.#id = `${request.app}/${request.unit}`;
    this.#callId = callId;
    const { claims } = request.caller;
    const principal = principalOf(request.caller);
    this.#caller = {
      kind: "unit",
      id: request.unit,
      ...(claims !== undefined && { claims }),
      ...(principal !== undefined && { onBehalfOf: principal }),
    };
    this.#ids = new InnerCallIds(callId, `unit ${this.#id}`);
    this.#deadlineMs = context.world.clock.monotonicMs() + (request.timeoutMs ?? context.settings.CALL_TIMEOUT_MS);
  }

  /** @throws MoonportError what the unit throws, `outcome_unknown`, `not_durable_yet`, `deadline_exceeded`, `caller_gone` */
  async run(): Promise<UnitResponse> {
    const { world, settings } = this.#context;
    const { signal, timeoutMs = settings.CALL_TIMEOUT_MS } = this.#request;
    const gone = (): void => this.#end({ kind: "gone" });
    const timer = world.timers.after(timeoutMs, () => this.#end({ kind: "late" }));
    signal?.addEventListener("abort", gone, { once: true });
    if (signal?.aborted) gone();
    try {
      return await this.#toTheEnd();
    } catch (thrown) {
      const error = asMoonportError(thrown instanceof RequestEnded ? thrown.error : thrown);
      throw error.with({ callId: this.#callId });
    } finally {
      timer.cancel();
      signal?.removeEventListener("abort", gone);
      this.#over.abort();
    }
  }

  /** The node goes away. */
  cut(error: MoonportError): void {
    this.#end({ kind: "cut", error });
  }

  #end(early: EarlyEnd): void {
    if (this.#ended !== undefined) return;
    this.#ended = early;
    this.#early.resolve(early);
    this.#over.abort();
  }

  async #toTheEnd(): Promise<UnitResponse> {
    const { world } = this.#context;
    const host = new UnitHost(world, this.#id, this.#request.caller, this.#callId);
    const invocation = this.#unit.start(requestTable(this.#request), host);
    try {
      let step = invocation.resume();
      for (;;) {
        switch (step.kind) {
          case "slice":
            await yieldTurn(world);
            step = invocation.resume();
            break;
          case "wait":
            step = invocation.resume(await this.#answer(step.request));
            break;
          case "failed":
            return await this.#failed(asMoonportError(step.error));
          case "returned":
            return await this.#returned(step.value);
        }
      }
    } finally {
      invocation.abandon();
    }
  }

  async #returned(value: PlainValue): Promise<UnitResponse> {
    let response: UnitResponse;
    try {
      response = responseOf(value);
    } catch (error) {
      return this.#failed(asMoonportError(error));
    }
    await this.#settle();
    return response;
  }

  /** An error tells something of the state, too: it passes the gate like any response (G1). */
  async #failed(error: MoonportError): Promise<never> {
    await this.#settle(error);
    throw error;
  }

  /** What Lua code hears. Throws only what ends the request, which no `pcall` sees. */
  async #answer(request: WaitRequest): Promise<WaitAnswer> {
    if (this.#ended !== undefined) throw new RequestEnded(this.#endedEarly(this.#ended));
    try {
      switch (request.kind) {
        case "call":
          return await this.#call(request);
        case "find":
          return { kind: "returned", value: await this.#find(request) };
        case "settle":
          await this.#settle();
          return { kind: "returned", value: null };
        case "fetch":
          return await this.#fetch(request);
      }
    } catch (error) {
      if (error instanceof RequestEnded) throw error;
      return { kind: "failed", error: asMoonportError(error) };
    }
  }

  /** What directories know is durable; what this request has written may not be in them yet. */
  #find({ className, query }: Extract<WaitRequest, { kind: "find" }>): Promise<PlainValue> {
    const asker = { app: this.#request.app, expiresMs: this.#deadlineMs };
    return this.#inTime(this.#context.find(className, query, asker));
  }

  async #call(call: ObjectCall): Promise<WaitAnswer> {
    const { settings, native } = this.#context;
    if (this.#calls.count >= settings.UNIT_CALLS_MAX) {
      throw MoonportError.of("unit_calls_exceeded", `one request may make ${settings.UNIT_CALLS_MAX} calls`, {
        hint: "UNIT_CALLS_MAX is the limit; let one object's method do more at once",
      });
    }
    const { className, key, method } = call;
    const object = identityOf(this.#request.app, className, key);
    const callId = this.#ids.next(object.id, method);
    const own = Object.hasOwn(native, className) ? native[className] : undefined;
    return own === undefined ? this.#callObject(object, call, callId) : this.#callNative(own, object, call, callId);
  }

  async #callObject(object: ObjectIdentity, call: ObjectCall, callId: string): Promise<WaitAnswer> {
    const { world, callDeferred, access } = this.#context;
    const { method, args } = call;
    const reads = access(object, method) === "read";
    const made = this.#calls.add({ object: object.id, method, callId, reads });
    const outcome = callDeferred({
      object,
      method,
      args,
      callId,
      caller: this.#caller,
      signal: this.#over.signal,
      timeoutMs: Math.max(0, this.#deadlineMs - world.clock.monotonicMs()),
    });
    outcome.catch((error) => made.notRun(asMoonportError(error)));
    const { result, settled } = await this.#inTime(outcome).catch((error) => {
      throw error instanceof MoonportError ? error.with({ object: object.id }) : error;
    });
    if (result.kind === "returned") {
      made.ran(settled);
      return result;
    }
    made.ran(settled, result.error);
    return { kind: "failed", error: result.error.with({ object: object.id }) };
  }

  /** Host code is the outside: what it hears must be durable. */
  async #callNative(
    native: NativeClass,
    object: ObjectIdentity,
    call: ObjectCall,
    callId: string,
  ): Promise<WaitAnswer> {
    await this.#settle();
    const made = this.#calls.add({ object: object.id, method: call.method, callId, reads: false });
    const context = { app: object.app, key: object.key, caller: this.#caller, callId, signal: this.#over.signal };
    const answer = callNative(native, call, context, this.#context.settings.VALUE_DEPTH_MAX);
    answer.then(
      () => made.ran(Promise.resolve()),
      (error) => made.ran(Promise.resolve(), asMoonportError(error)),
    );
    return { kind: "returned", value: await this.#inTime(answer) };
  }

  async #fetch(call: FetchCall): Promise<WaitAnswer> {
    const { outbound } = this.#context;
    outbound.check(call);
    await this.#settle();
    return { kind: "returned", value: await this.#inTime(outbound.fetch(call, this.#over.signal)) };
  }

  /**
   * One wait for all tickets that are open.
   * @param cause the error that is to leave when it is over
   */
  async #settle(cause?: MoonportError): Promise<void> {
    const { tickets } = this.#calls;
    if (tickets.length === 0) return;
    const results = await this.#inTime(Promise.allSettled(tickets), cause);
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined) throw new RequestEnded(this.#unsettled(asMoonportError(failed.reason), cause));
  }

  /** @throws RequestEnded when the request's time is up or its caller has gone before `promise` settles */
  async #inTime<T>(promise: Promise<T>, cause?: MoonportError): Promise<T> {
    // Whoever comes too late is not heard any more.
    promise.catch(() => {});
    const early = this.#early.promise.then((end) => {
      throw new RequestEnded(this.#endedEarly(end, cause));
    });
    return await Promise.race([early, promise]);
  }

  #endedEarly(end: EarlyEnd, cause?: MoonportError): MoonportError {
    const { unit } = this.#request;
    if (end.kind === "gone") return MoonportError.of("caller_gone", `the caller of the unit ${unit} has gone`);
    if (this.#calls.inDoubt) {
      return this.#outcomeUnknown(end.kind === "cut" ? "the node is shutting down" : "its time was up", cause);
    }
    if (end.kind === "cut") return end.error;
    const message = `the time of the unit ${unit} was up before it had ended`;
    const details = { calls: this.#calls.report() };
    // Who hears `deadline_exceeded` takes it that nothing was done.
    if (this.#calls.haveLeftSomething) {
      return MoonportError.of("outcome_unknown", message, { hint: REPEAT, details, cause });
    }
    return MoonportError.of("deadline_exceeded", message, { details, cause });
  }

  #unsettled(reason: MoonportError, cause: MoonportError | undefined): MoonportError {
    if (this.#calls.inDoubt) return this.#outcomeUnknown("not all of it has landed", cause ?? reason);
    return MoonportError.of("not_durable_yet", `what the unit ${this.#request.unit} read has not landed`, {
      hint: "try again shortly",
      retryAfterMs: 1_000,
      details: { calls: this.#calls.report() },
      cause: cause ?? reason,
    });
  }

  #outcomeUnknown(why: string, cause: MoonportError | undefined): MoonportError {
    return MoonportError.of("outcome_unknown", `what the unit ${this.#request.unit} did is not known to last: ${why}`, {
      hint: REPEAT,
      details: { calls: this.#calls.report() },
      cause,
    });
  }
}

/** Ends the whole request; no Lua code hears of it. */
class RequestEnded {
  constructor(readonly error: MoonportError) {}
}

function requestTable({ method, path, query, headers, body, caller }: UnitRequest): PlainObject {
  const { kind, id, claims } = caller;
  return {
    method,
    path,
    query: { ...query } as PlainObject,
    headers: { ...headers },
    ...(body !== undefined && { body }),
    caller: { kind, ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) },
  };
}
