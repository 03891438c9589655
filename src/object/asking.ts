/**
 * One wait of an object for another's answer, between two of its transactions.
 *
 * The call leaves when everything the object committed before has landed, and comes back through the other's gate (G1). It
 * ends with the answer, with the deadline of the chain, or when the object's residency does.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { DirectoryQuery, WaitAnswer } from "../lua/contract.js";
import type { PlainValue } from "../values.js";
import { deferred } from "../world/deferred.js";
import type { WaitingCall } from "./burst.js";
import type { InnerCall } from "./inner-call.js";
import type { ObjectContext } from "./object-context.js";
import type { OpenObject } from "./open-object.js";
import { type CallWork, notDurableYet } from "./work.js";

/** What is asked for. */
type What =
  | { readonly kind: "call"; readonly call: InnerCall }
  | { readonly kind: "find"; readonly className: string; readonly query: DirectoryQuery };

export class Asking {
  /** The call that waits. */
  readonly work: CallWork;
  readonly #context: ObjectContext;
  readonly #open: OpenObject;
  readonly #what: What;
  readonly #expiresMs: number;
  readonly #early = deferred<WaitAnswer>();
  #stage: "landing" | "left" | "over" = "landing";
  #leaveGraph: (() => void) | undefined;

  constructor(context: ObjectContext, open: OpenObject, { running, request, work }: WaitingCall) {
    this.work = work;
    this.#context = context;
    this.#open = open;
    this.#what =
      request.kind === "call"
        ? { kind: "call", call: running.outgoing.make(request) }
        : { kind: "find", className: request.className, query: request.query };
    this.#expiresMs = work.expiresMs;
  }

  /** Never rejects: what goes wrong is the answer. */
  async answer(): Promise<WaitAnswer> {
    const { clock, timers } = this.#context.world;
    const leftMs = Math.max(0, this.#expiresMs - clock.monotonicMs());
    const timer = timers.after(leftMs, () => this.#endEarly(this.#late()));
    const answer = await Promise.race([this.#early.promise, this.#ask()]);
    timer.cancel();
    this.#stage = "over";
    this.#leaveGraph?.();
    return answer;
  }

  /** The answer is not waited for any longer. */
  end(cause: MoonportError): void {
    const isDoubtful = this.#stage === "left" && this.#what.kind === "call";
    this.#endEarly(isDoubtful ? unanswered(this.#what.call, "is not waited for any longer", cause) : cause);
  }

  #endEarly(error: MoonportError): void {
    // At once: what it waits for before it leaves may come in this very tick.
    this.#stage = "over";
    this.#early.resolve({ kind: "failed", error });
  }

  async #ask(): Promise<WaitAnswer> {
    try {
      await this.#landed();
      if (this.#stage === "over") throw this.#late();
      this.#enterGraph();
      this.#stage = "left";
      return { kind: "returned", value: await this.#answerOf(this.#what) };
    } catch (thrown) {
      return { kind: "failed", error: asMoonportError(thrown) };
    }
  }

  #answerOf(what: What): Promise<PlainValue> {
    if (what.kind === "call") return this.#context.call(what.call);
    const { app } = this.#open.object;
    return this.#context.find(what.className, what.query, { app, expiresMs: this.#expiresMs });
  }

  /** A reading method runs beside the mailbox and waits for nobody's task. @throws MoonportError `call_deadlock` */
  #enterGraph(): void {
    if (this.#what.kind === "find") return;
    const { catalog, waits } = this.#context;
    const { object, method } = this.#what.call;
    const access = catalog.methodOf(catalog.classOf(object.app, object.className), method);
    if (access === "write") this.#leaveGraph = waits.enter(this.#open.object.id, object.id);
  }

  /** No other object acts on what could still be lost here. */
  #landed(): Promise<void> | undefined {
    const { shipper, object } = this.#open;
    if (shipper.durable) return undefined;
    return new Promise((resolve, reject) => {
      shipper.readGate({ release: resolve, fail: (cause) => reject(notDurableYet(object.id, cause)) });
    });
  }

  #late(): MoonportError {
    if (this.#what.kind === "find") {
      return MoonportError.of("deadline_exceeded", `the directory of ${this.#what.className} did not answer in time`);
    }
    const { call } = this.#what;
    if (this.#stage === "left") return unanswered(call, "did not answer in time");
    const { object, method } = call;
    return MoonportError.of("deadline_exceeded", `${object.id} ${method} was not asked in time`, about(call));
  }
}

/** It has left: it may have been done. */
function unanswered(call: InnerCall, why: string, cause?: MoonportError): MoonportError {
  return MoonportError.of("outcome_unknown", `${call.object.id} ${call.method} ${why}`, {
    ...about(call),
    hint: "repeat the call with the same id: what was done is not done again",
    cause,
  });
}

function about({ object, method, callId }: InnerCall) {
  return { object: object.id, details: { object: object.id, method, callId } };
}
