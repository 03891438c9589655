/**
 * The calls of a client that are under way. Each has one call id for its whole life: a call whose outcome is not known (the
 * connection was lost, the node said `outcome_unknown`) and one that failed with a retryable error is sent again under it
 * until it has an answer or its time is up, and runs at most once.
 *
 * An object that has forgotten the calls of an id's time refuses the id, since its call may have run (`id_expired`). Where the
 * refused frame is the only one that was ever sent under the id, it never ran: no other frame can have run it, and this one is
 * answered. Then the call goes out again under a fresh id, unless the id is the caller's own, who may have sent it before.
 *
 * Bounded: so many are with the node at a time, the others wait in the order they came; one beyond `callsMax` is refused.
 */
import { MoonportError } from "../errors.js";
import type { Consistency } from "../node-api.js";
import type { PlainValue } from "../values.js";
import type { ClientFrame, FrameTarget } from "../wire/frames.js";
import { backoffMs } from "../world/backoff.js";
import { IdSource } from "./id-source.js";
import type { ClientOptions } from "./options.js";
import type { ClientPlatform, PlatformTimer } from "./platform.js";

export interface CallInput {
  readonly target: FrameTarget;
  readonly method: string;
  readonly args: readonly PlainValue[];
  /** What is sent in place of a call. */
  readonly instead?: Instead;
  /** The caller's own, who may have sent it before. */
  readonly callId: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** Default: the owner answers. */
  readonly consistency?: Consistency | undefined;
}

/** Something else that is asked for as a call is; a repeat of it does no harm. */
export interface Instead {
  /** Whether it changes something: then what became of it may be unknown. */
  readonly changes: boolean;
  /** @param fields `callId`: of all its frames */
  frame(fields: { readonly id: number; readonly timeoutMs: number; readonly callId: string }): ClientFrame;
}

/** What calls and watches need of the connection. */
export interface Wire {
  readonly isUp: boolean;
  /** A number that no other frame of this client has carried. */
  nextId(): number;
  /** @returns the frame's size in bytes or characters. Only while it is up. */
  send(frame: ClientFrame): number;
}

interface PendingCall {
  readonly input: CallInput;
  callId: string;
  /** Frames sent under this id. */
  sends: number;
  readonly expiresMs: number;
  readonly settle: (outcome: { value: PlainValue } | { thrown: unknown }) => void;
  place: { kind: "waiting" } | { kind: "sent"; id: number; size: number } | { kind: "pausing"; timer: PlatformTimer };
  /** Answers that asked to try again. */
  failures: number;
  /** It was sent, and no later answer told that it did not run. */
  mayHaveRun: boolean;
  lastError: MoonportError | undefined;
}

const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 5_000;
/** The longest time that a node takes from a frame; what is longer is for this side to keep. */
const NODE_TIMEOUT_MAX_MS = 600_000;

export class Calls {
  readonly #options: ClientOptions;
  readonly #platform: ClientPlatform;
  readonly #wire: Wire;
  readonly #ids: IdSource;
  readonly #all = new Set<PendingCall>();
  /** In the order they are to be sent. */
  #waiting = new Set<PendingCall>();
  readonly #sent = new Map<number, PendingCall>();

  constructor(options: ClientOptions, platform: ClientPlatform, wire: Wire) {
    this.#options = options;
    this.#platform = platform;
    this.#wire = wire;
    this.#ids = new IdSource(platform);
  }

  /** @returns what the method returned; rejects with MoonportError, or with the signal's reason */
  start(input: CallInput): Promise<PlainValue> {
    const { callsMax } = this.#options;
    if (this.#all.size >= callsMax) {
      const message = `the client has ${callsMax} calls under way`;
      return Promise.reject(
        MoonportError.of("client_full", message, { hint: "wait for some of them, or raise callsMax" }),
      );
    }
    const { timers, clock } = this.#platform;
    return new Promise((resolve, reject) => {
      const timer = timers.after(input.timeoutMs, () => this.#end(call, this.#timeIsUp(call)));
      const abort = (): void => this.#end(call, input.signal?.reason);
      const call: PendingCall = {
        input,
        callId: input.callId ?? this.#ids.next(),
        sends: 0,
        expiresMs: clock.monotonicMs() + input.timeoutMs,
        settle: (outcome) => {
          timer.cancel();
          input.signal?.removeEventListener("abort", abort);
          if ("value" in outcome) resolve(outcome.value);
          else reject(outcome.thrown);
        },
        place: { kind: "waiting" },
        failures: 0,
        mayHaveRun: false,
        lastError: undefined,
      };
      input.signal?.addEventListener("abort", abort, { once: true });
      this.#all.add(call);
      this.#wait(call);
    });
  }

  /** The connection is there: what waits is sent. */
  up(): void {
    this.#pump();
  }

  /** The connection is gone: nobody knows what became of the calls that were sent. */
  down(error: MoonportError): void {
    const again = [...this.#sent.values()];
    this.#sent.clear();
    for (const call of again) {
      call.place = { kind: "waiting" };
      call.mayHaveRun = changes(call);
      call.lastError = error;
    }
    this.#waiting = new Set([...again, ...this.#waiting]);
  }

  /** Fails the largest call that was sent: the node closes the connection over a frame that is too large, and cannot say which. */
  failLargest(error: MoonportError): void {
    let largest: { call: PendingCall; size: number } | undefined;
    for (const call of this.#sent.values()) {
      if (call.place.kind === "sent" && call.place.size > (largest?.size ?? 0))
        largest = { call, size: call.place.size };
    }
    if (largest === undefined) return;
    this.#finish(largest.call, { thrown: this.#named(largest.call, error) });
  }

  /** False when no call has this number (any more). */
  reply(id: number, value: PlainValue): boolean {
    const call = this.#sent.get(id);
    if (call === undefined) return false;
    this.#finish(call, { value });
    return true;
  }

  /** False when no call has this number (any more). */
  fail(id: number, error: MoonportError): boolean {
    const call = this.#sent.get(id);
    if (call === undefined) return false;
    if (error.retryable || this.#renewed(call, error)) this.#again(call, error);
    else this.#finish(call, { thrown: this.#named(call, error) });
    return true;
  }

  /** The client is closing. */
  failAll(error: MoonportError): void {
    this.#waiting.clear();
    for (const call of this.#all) {
      const mayHaveRun = call.mayHaveRun || (call.place.kind === "sent" && changes(call));
      this.#end(call, mayHaveRun ? unknown(call, error.message, error) : this.#named(call, error));
    }
  }

  #wait(call: PendingCall): void {
    call.place = { kind: "waiting" };
    this.#waiting.add(call);
    this.#pump();
  }

  #pump(): void {
    for (const call of this.#waiting) {
      if (!this.#wire.isUp || this.#sent.size >= this.#options.callsInFlightMax) return;
      this.#waiting.delete(call);
      this.#send(call);
    }
  }

  #send(call: PendingCall): void {
    const { target, method, args, instead, consistency } = call.input;
    const { callId } = call;
    const leftMs = Math.max(1, Math.ceil(call.expiresMs - this.#platform.clock.monotonicMs()));
    const timeoutMs = Math.min(leftMs, NODE_TIMEOUT_MAX_MS);
    const id = this.#wire.nextId();
    this.#sent.set(id, call);
    call.sends += 1;
    const size = this.#wire.send(
      instead?.frame({ id, timeoutMs, callId }) ?? {
        type: "call",
        id,
        ...target,
        method,
        args,
        callId,
        timeoutMs,
        ...(consistency && { consistency }),
      },
    );
    call.place = { kind: "sent", id, size };
  }

  /** Gives a call that was refused for its id, and never ran, a fresh one. */
  #renewed(call: PendingCall, { code, source, details }: MoonportError): boolean {
    // A method that asked another object may pass on what that one said of an id of its own making.
    const isRefused = code === "id_expired" && source === "moonport" && details?.callId === call.callId;
    if (!isRefused || call.sends > 1 || call.input.callId !== undefined) return false;
    if (!this.#ids.catchUp(details.freshFromMs)) return false;
    call.callId = this.#ids.next();
    call.sends = 0;
    return true;
  }

  /** Sent again after a pause, unless that would be too late. */
  #again(call: PendingCall, error: MoonportError): void {
    this.#leave(call);
    call.failures += 1;
    call.lastError = error;
    if (error.code === "outcome_unknown") call.mayHaveRun = true;
    const fraction = this.#platform.random.fraction();
    const asked = (error.retryAfterMs ?? 0) * (1 + fraction / 2);
    const delayMs = Math.max(asked, backoffMs(call.failures, RETRY_FIRST_MS, RETRY_MAX_MS, fraction));
    if (this.#platform.clock.monotonicMs() + delayMs >= call.expiresMs) {
      this.#finish(call, { thrown: this.#timeIsUp(call) });
      return;
    }
    call.place = { kind: "pausing", timer: this.#platform.timers.after(delayMs, () => this.#wait(call)) };
    this.#pump();
  }

  /** The caller does not wait any longer. */
  #end(call: PendingCall, thrown: unknown): void {
    if (call.place.kind === "sent" && this.#wire.isUp) this.#wire.send({ type: "cancel", id: call.place.id });
    this.#finish(call, { thrown });
  }

  #finish(call: PendingCall, outcome: { value: PlainValue } | { thrown: unknown }): void {
    this.#leave(call);
    this.#all.delete(call);
    call.settle(outcome);
    this.#pump();
  }

  #leave(call: PendingCall): void {
    const { place } = call;
    if (place.kind === "sent") this.#sent.delete(place.id);
    else if (place.kind === "pausing") place.timer.cancel();
    else this.#waiting.delete(call);
    call.place = { kind: "waiting" };
  }

  #timeIsUp(call: PendingCall): MoonportError {
    const { input, place, lastError } = call;
    const message = `no answer within ${input.timeoutMs} ms`;
    if (!changes(call) && place.kind === "sent") return MoonportError.of("deadline_exceeded", message);
    if (call.mayHaveRun || place.kind === "sent") return unknown(call, message, lastError);
    if (lastError !== undefined) return this.#named(call, lastError);
    const why = this.#wire.isUp ? "too many other calls were under way" : "there was no connection to the node";
    const code = this.#wire.isUp ? "deadline_exceeded" : "node_unreachable";
    return this.#named(call, MoonportError.of(code, `${message}: ${why}; the call was not sent`));
  }

  #named({ input, callId }: PendingCall, error: MoonportError): MoonportError {
    return input.instead === undefined ? error.with({ callId, object: objectId(input.target) }) : error;
  }
}

function changes({ input }: PendingCall): boolean {
  return input.instead?.changes ?? true;
}

function unknown({ input, callId }: PendingCall, message: string, cause: MoonportError | undefined): MoonportError {
  const isCall = input.instead === undefined;
  return MoonportError.of("outcome_unknown", `${message}; ${isCall ? "the call may have run" : "it may be done"}`, {
    callId,
    object: objectId(input.target),
    hint: isCall ? "call again with this callId: it does not run twice" : "ask again: done twice it is done once",
    ...(cause !== undefined && { cause }),
  });
}

function objectId(target: FrameTarget): string {
  return `${target.app}/${target.class}/${target.key}`;
}
