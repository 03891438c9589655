/**
 * The calls that a method makes to other objects: ask first, write after, then send.
 *
 * Promises, for whoever waits and for whoever is asked:
 * - A call leaves before the method's first write alone (`call_after_write`): no transaction is open across a wait, and no
 *   other object acts on what may still be rolled back.
 * - A call to an object that waits in the same chain would wait for ever: `call_cycle`, at once, with the path.
 * - What others did for a method that then fails stays done. An error which says that nothing has happened, as that of a later
 *   call or of a session that lapses may do, is not true of such a method, whatever it ends by: whoever repeats it, as the fleet
 *   itself does, would have it done twice.
 */
import { isOwn, MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import { type AskRequest, type ObjectCall, principalOf, type WaitAnswer, type WaitRequest } from "../lua/contract.js";
import { uuidv7 } from "../world/world.js";
import type { InnerCall } from "./inner-call.js";
import { InnerCallIds } from "./inner-call-ids.js";
import type { ObjectContext } from "./object-context.js";
import { type CallWork, failsAs } from "./work.js";

export class OutgoingCalls {
  readonly #context: Pick<ObjectContext, "world" | "settings" | "catalog">;
  readonly #self: ObjectIdentity;
  readonly #work: CallWork;
  readonly #hasWritten: () => boolean;
  #ids: InnerCallIds | undefined;
  /** Whether another object may have done something for the method. */
  #hasActed = false;

  /** @param hasWritten whether the method has, by now */
  constructor(
    context: Pick<ObjectContext, "world" | "settings" | "catalog">,
    self: ObjectIdentity,
    work: CallWork,
    hasWritten: () => boolean,
  ) {
    this.#context = context;
    this.#self = self;
    this.#work = work;
    this.#hasWritten = hasWritten;
  }

  /** @throws MoonportError `call_after_write`, `call_cycle`, `call_chain_too_long`, `bad_key`, `method_error` for a native class */
  check(request: AskRequest): void {
    if (this.#hasWritten()) throw afterWrite(request);
    if (request.kind === "call") this.#checkCall(request);
  }

  #checkCall(call: ObjectCall): void {
    const { className, key, method } = call;
    const what = `${className}("${key}"):${method}`;
    if (this.#context.catalog.isNative(className)) {
      throw MoonportError.of("method_error", `${what}: a native class is called by units, not by objects`, {
        hint: `send(${className}("${key}")):${method}(...) has it done once this call is committed`,
      });
    }
    const target = identityOf(this.#self.app, className, key).id;
    const chain = this.#chain();
    if (chain.includes(target)) throw cycle([...chain, target]);
    const { CALL_CHAIN_MAX } = this.#context.settings;
    if (chain.length > CALL_CHAIN_MAX) {
      throw MoonportError.of(
        "call_chain_too_long",
        `${[...chain, target].join(" → ")}: CALL_CHAIN_MAX is ${CALL_CHAIN_MAX}`,
      );
    }
  }

  make({ className, key, method, args }: ObjectCall): InnerCall {
    const object = identityOf(this.#self.app, className, key);
    const principal = principalOf(this.#work.caller);
    this.#ids ??= new InnerCallIds(this.#work.callId ?? uuidv7(this.#context.world), `object ${this.#self.id}`);
    return {
      object,
      method,
      args,
      caller: { kind: "object", id: this.#self.id, ...(principal !== undefined && { onBehalfOf: principal }) },
      callId: this.#ids.next(object.id, method),
      expiresMs: this.#work.expiresMs,
      chain: this.#chain(),
    };
  }

  /** What a call came to, before the method goes on with it or is given up. */
  took(request: AskRequest, answer: WaitAnswer): void {
    if (request.kind !== "call" || this.#hasActed) return;
    if (answer.kind === "failed" && saysNothingHappened(answer.error)) return;
    this.#hasActed = true;
    failsAs(this.#work, (error) => this.failure(error));
  }

  /** What a method that fails with `error` is told as. */
  failure(error: MoonportError): MoonportError {
    if (!this.#hasActed || !saysNothingHappened(error)) return error;
    const { method, callId } = this.#work;
    return MoonportError.of(
      "outcome_unknown",
      `${method} had other objects do something, and failed: ${error.message}`,
      {
        object: this.#self.id,
        hint:
          callId === undefined
            ? "give such calls an id: repeated with the same one, they do not have done again what was done"
            : "repeat the call with the same id: what was done is not done again",
        details: { code: error.code, ...(callId !== undefined && { callId }) },
        cause: error,
      },
    );
  }

  #chain(): readonly string[] {
    return [...this.#work.chain, this.#self.id];
  }
}

export function isAsking(request: WaitRequest): request is AskRequest {
  return request.kind === "call" || request.kind === "find";
}

/** As the code wrote it. */
export function textOfAsking(request: AskRequest): string {
  if (request.kind === "find") return `find "${request.className}"`;
  return `${request.className}("${request.key}"):${request.method}`;
}

/** Moonport's own word that whoever is told may simply ask again. */
function saysNothingHappened(error: MoonportError): boolean {
  return error.source === "moonport" && error.retryable && !isOwn(error, "outcome_unknown");
}

function afterWrite(request: AskRequest): MoonportError {
  const what = textOfAsking(request);
  const instead =
    request.kind === "call"
      ? `, or have it done once this call is committed: send(${request.className}("${request.key}")):${request.method}(...)`
      : "";
  return MoonportError.of("call_after_write", `${what}: this call has already written, and may not wait any more`, {
    hint: `ask before the first write${instead}`,
  });
}

function cycle(path: readonly string[]): MoonportError {
  return MoonportError.of("call_cycle", `a call that would wait for itself: ${path.join(" → ")}`, {
    hint: "send(...) has it done afterwards",
    details: { path: [...path] },
  });
}
