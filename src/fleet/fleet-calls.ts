/**
 * Calls of a fleet's node: here while the object is here, else wherever it lives, or from a copy where the caller asked for that.
 *
 * A call to an object of this node's own costs what it costs on a node that is alone, and no promise more but the one that would
 * have it go elsewhere when the object has.
 */
import { asMoonportError, type ErrorCode, isOwn, type MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Asker } from "../links/contract.js";
import type { MoonportNode } from "../node.js";
import type { CallReply, CallRequest } from "../node-api.js";
import type { InnerCall } from "../object/inner-call.js";
import type { Position } from "../object/replica-copy.js";
import type { DeferredOutcome } from "../object/work.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import type { World } from "../world/world.js";
import type { FleetMember } from "./fleet-member.js";
import { encoded, type Operation } from "./operation.js";
import { isHarmless, type Routing } from "./routing.js";

export interface FleetCallsParts {
  readonly node: MoonportNode;
  readonly fleet: FleetMember;
  readonly routing: Routing;
  readonly world: World;
  readonly settings: Pick<Settings, "CALL_TIMEOUT_MS">;
}

const NO_CHAIN: readonly string[] = [];

/** What may be tried again though it may have run. */
const AFTER_RUNNING: readonly ErrorCode[] = ["outcome_unknown", "not_durable_yet"];

export class FleetCalls {
  readonly #parts: FleetCallsParts;
  readonly #node: MoonportNode;

  constructor(parts: FleetCallsParts) {
    this.#parts = parts;
    this.#node = parts.node;
  }

  call(request: CallRequest): Promise<CallReply> {
    return request.consistency === "replica" ? this.#callNearby(request) : this.#call(request, NO_CHAIN);
  }

  /** Of an object of this node to another, wherever that lives. */
  async fromObject({ expiresMs, chain, ...call }: InnerCall): Promise<PlainValue> {
    const timeoutMs = Math.max(0, expiresMs - this.#nowMs());
    return (await this.#call({ ...call, timeoutMs }, chain)).value;
  }

  /** Of a unit: what runs elsewhere is durable when its outcome is known. @throws MoonportError when the call never ran */
  async deferred(request: CallRequest): Promise<DeferredOutcome> {
    if (!this.#node.holds(request.object)) return this.#landed(request, undefined);
    const askedMs = this.#nowMs();
    try {
      return await this.#node.callDeferred(request);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!isHarmless(error)) throw error;
      return this.#landed(this.#since(askedMs, request), error);
    }
  }

  /** @param failed why it did not run here @throws MoonportError when it ran nowhere */
  async #landed(request: CallRequest, failed: MoonportError | undefined): Promise<DeferredOutcome> {
    const settled = Promise.resolve();
    try {
      const calling = failed === undefined ? this.call(request) : this.#callElsewhere(request, NO_CHAIN, failed);
      return { result: { kind: "returned", value: (await calling).value }, settled };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (isOwn(error, "outcome_unknown")) return { result: { kind: "failed", error }, settled: rejected(error) };
      if (hasNotRun(error, request.object)) throw error;
      return { result: { kind: "failed", error }, settled };
    }
  }

  #call(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    // The common case first, and without a promise more: the object is this node's.
    if (this.#node.holds(request.object)) {
      const askedMs = this.#nowMs();
      return this.#node
        .callInChain(request, chain)
        .catch((error: unknown) => this.#callElsewhere(this.#since(askedMs, request), chain, asMoonportError(error)));
    }
    return this.#callElsewhere(request, chain, undefined);
  }

  #callElsewhere(
    request: CallRequest,
    chain: readonly string[],
    failed: MoonportError | undefined,
  ): Promise<CallReply> {
    if (failed !== undefined && !isHarmless(failed)) throw failed;
    const { object, method, args, caller, callId, timeoutMs } = request;
    const { routing, settings } = this.#parts;
    // What no copy may answer for being a write is refused where the class is known.
    const mustRead = request.consistency === "replica" ? true : request.mustRead;
    const operation: Operation = {
      kind: "call",
      method,
      args: encoded([...args]),
      caller,
      chain,
      ...(callId !== undefined && { callId }),
      ...(mustRead !== undefined && { mustRead }),
    };
    return whileListening(request, (asker) =>
      routing.ask({
        object,
        operation,
        expiresMs: this.#nowMs() + (timeoutMs ?? settings.CALL_TIMEOUT_MS),
        hops: 0,
        isRepeatable: callId !== undefined || this.#node.isReading(object, method),
        asker,
        here: () => this.#node.callInChain(request, chain),
      }),
    );
  }

  /** Of a reading method: a copy answers that is no older than what its owner had committed when it was asked. */
  async #callNearby(request: CallRequest): Promise<CallReply> {
    const { object, method } = request;
    const { routing, fleet, settings } = this.#parts;
    const isElsewhere = routing.believed(object) !== fleet.node;
    if (!isElsewhere || !this.#node.isReading(object, method)) return this.#call(request, NO_CHAIN);
    const expiresMs = this.#nowMs() + (request.timeoutMs ?? settings.CALL_TIMEOUT_MS);
    const operation: Operation = { kind: "position", journal: fleet.self.journal };
    const asking = routing.reading<Position | undefined>(object, operation, expiresMs);
    const position = await whileListening(request, (asker) => routing.ask({ ...asking, asker }));
    const reply = position && (await this.#node.callCopy(request, position));
    if (position === undefined) this.#node.counters.replicaReads.owner++;
    return reply ?? this.#call({ ...request, timeoutMs: Math.max(0, expiresMs - this.#nowMs()) }, NO_CHAIN);
  }

  /** With what is left of its time. */
  #since(askedMs: number, request: CallRequest): CallRequest {
    const { timeoutMs = this.#parts.settings.CALL_TIMEOUT_MS } = request;
    return { ...request, timeoutMs: Math.max(0, timeoutMs - (this.#nowMs() - askedMs)) };
  }

  #nowMs(): number {
    return this.#parts.world.clock.monotonicMs();
  }
}

/** A method that ran may pass on what it was told of another object. */
function hasNotRun(error: MoonportError, { id }: ObjectIdentity): boolean {
  const { source, retryable, object = id } = error;
  return source === "moonport" && retryable && object === id && !isOwn(error, ...AFTER_RUNNING);
}

/** A signal may be that of any number of calls: it is listened to once for each, and no longer than the call is asked for. */
function whileListening<T>({ waiter, signal }: CallRequest, ask: (asker: Asker | undefined) => Promise<T>): Promise<T> {
  if (waiter !== undefined || signal === undefined) return ask(waiter);
  let tell = (): void => {};
  const gone = (): void => tell();
  signal.addEventListener("abort", gone, { once: true });
  const asker: Asker = {
    isGone: () => signal.aborted,
    whenGone: (told) => {
      tell = told;
      if (signal.aborted) told();
    },
  };
  return ask(asker).finally(() => signal.removeEventListener("abort", gone));
}

function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
