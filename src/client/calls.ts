/**
 * The calls of a client that are under way. Each has one call id for its whole life: a call whose outcome is not known (the
 * connection was lost, the node said `outcome_unknown`) and one that failed with a retryable error is sent again under it
 * until it has an answer or its time is up, and runs at most once, by whatever way to whichever node.
 *
 * They go by the client's connection, or where the owner of an object is known and reached, by a way of their own to it
 * ({@link Ways}). Those of one object leave in the order in which they were made.
 *
 * An object that has forgotten the calls of an id's time refuses the id, since its call may have run (`id_expired`). Where the
 * refused frame is the only one that was ever sent under the id, it never ran: no other frame can have run it, and this one is
 * answered. Then the call goes out again under a fresh id, unless the id is the caller's own, who may have sent it before.
 *
 * Bounded: so many are with the node at a time, the others wait in the order they came; one beyond `callsMax` is refused.
 */
import { type ErrorCode, isOwn, MoonportError } from "../errors.js";
import type { Consistency, ServingNode } from "../node-api.js";
import type { PlainValue } from "../values.js";
import type { ClientFrame, FrameTarget } from "../wire/frames.js";
import { backoffMs } from "../world/backoff.js";
import { CallOrder } from "./call-order.js";
import { IdSource } from "./id-source.js";
import type { Asked, Lane } from "./lane.js";
import type { ClientOptions } from "./options.js";
import type { ClientPlatform, PlatformTimer } from "./platform.js";
import type { Ways } from "./ways.js";

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

/** Something else that is asked for as a call is; a repeat of it does no harm, unless it says so. */
export interface Instead {
  /** Whether it changes something: then what became of it may be unknown. */
  readonly changes: boolean;
  /** Where it may have been heeded it is not asked for again: the answer to a repeat would be another. */
  readonly once?: boolean;
  /** @param fields `callId`: of all its frames */
  frame(fields: { readonly id: number; readonly timeoutMs: number; readonly callId: string }): ClientFrame;
}

export type CallLane = Lane<PendingCall>;

export interface PendingCall {
  readonly input: CallInput;
  /** Whose owner it may go to; undefined for what only the connection is for. */
  readonly object: string | undefined;
  callId: string;
  /** Frames sent under this id. */
  sends: number;
  readonly expiresMs: number;
  readonly settle: (outcome: { value: PlainValue } | { thrown: unknown }) => void;
  place: Place;
  /** Answers that asked to try again. */
  failures: number;
  /** It was sent, and no later answer told that it did not run. */
  mayHaveRun: boolean;
  lastError: MoonportError | undefined;
}

type Place =
  | { readonly kind: "new" }
  /** Those of its object go another way, and have to be answered first. */
  | { readonly kind: "held" }
  | { readonly kind: "waiting"; readonly lane: CallLane }
  | { readonly kind: "sent"; readonly lane: CallLane; readonly id: number }
  | { readonly kind: "pausing"; readonly timer: PlatformTimer };

const NEW: Place = { kind: "new" };
/** When all are given up. */
const ENDS_AT: Readonly<Record<Place["kind"], number>> = { held: 0, new: 1, waiting: 1, pausing: 1, sent: 2 };
/** Answers to what may have been done all the same. */
const MAY_BE_DONE: readonly ErrorCode[] = ["outcome_unknown", "socket_full", "link_broken"];
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 5_000;
/** The longest time that a node takes from a frame; what is longer is for this side to keep. */
const NODE_TIMEOUT_MAX_MS = 600_000;

export class Calls {
  readonly #options: ClientOptions;
  readonly #platform: ClientPlatform;
  readonly #ids: IdSource;
  readonly #all = new Set<PendingCall>();
  readonly #connection: CallLane;
  readonly #ways: Ways<PendingCall> | undefined;
  readonly #order = new CallOrder<PendingCall>();

  /**
   * @param connection by which any call may go
   * @param ways to the nodes that own objects; without them all go by the connection
   */
  constructor(
    options: ClientOptions,
    platform: ClientPlatform,
    connection: CallLane,
    ways: Ways<PendingCall> | undefined,
  ) {
    this.#options = options;
    this.#platform = platform;
    this.#connection = connection;
    this.#ways = ways;
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
        object: this.#ways !== undefined && isForOwner(input) ? objectId(input.target) : undefined,
        callId: input.callId ?? this.#ids.next(),
        sends: 0,
        expiresMs: clock.monotonicMs() + input.timeoutMs,
        settle: (outcome) => {
          timer.cancel();
          input.signal?.removeEventListener("abort", abort);
          if ("value" in outcome) resolve(outcome.value);
          else reject(outcome.thrown);
        },
        place: NEW,
        failures: 0,
        mayHaveRun: false,
        lastError: undefined,
      };
      input.signal?.addEventListener("abort", abort, { once: true });
      this.#all.add(call);
      this.#wait(call);
    });
  }

  /** The lane's node is there: what waits for it is sent. */
  up(lane: CallLane): void {
    this.#pump(lane);
  }

  /** It is gone: nobody knows what became of the calls that were sent. They go again, by whatever way there is. */
  down(lane: CallLane, error: MoonportError): void {
    const { sent, waiting } = lane.empty();
    for (const call of sent) {
      call.mayHaveRun = changes(call);
      call.lastError = error;
    }
    for (const call of sent.filter(isOnce)) this.#finish(call, { thrown: unknown(call, error.message, error) });
    const again = [...sent.filter((call) => !isOnce(call)), ...waiting];
    const held = again.flatMap((call) => this.#released(call));
    for (const call of [...again, ...held]) this.#wait(call);
  }

  asked(lane: CallLane): Asked[] {
    return [...lane.sent].map(([id, call]) => ({
      frame: this.#frame(call, id),
      fail: (error) => this.#finish(call, { thrown: this.#named(call, error) }),
    }));
  }

  /** @param node that owns the object, where the one on this lane had to ask it. False when no call has this number (any more). */
  reply(lane: CallLane, id: number, value: PlainValue, node?: ServingNode): boolean {
    const call = lane.sent.get(id);
    if (call === undefined) return false;
    if (call.object !== undefined) this.#ways?.answered(call.object, lane, node);
    this.#finish(call, { value });
    return true;
  }

  /** False when no call has this number (any more). */
  fail(lane: CallLane, id: number, error: MoonportError): boolean {
    const call = lane.sent.get(id);
    if (call === undefined) return false;
    if (call.object !== undefined) this.#ways?.refused(call.object, error);
    if (isOnce(call) && isOwn(error, ...MAY_BE_DONE))
      this.#finish(call, { thrown: unknown(call, error.message, error) });
    else if (error.retryable || this.#renewed(call, error)) this.#again(call, error);
    else this.#finish(call, { thrown: this.#named(call, error) });
    return true;
  }

  /** The client is closing. Those that were sent come last: the end of one lets others go that wait for it. */
  failAll(error: MoonportError): void {
    const all = [...this.#all].sort((left, right) => ENDS_AT[left.place.kind] - ENDS_AT[right.place.kind]);
    for (const call of all) {
      const mayHaveRun = call.mayHaveRun || (call.place.kind === "sent" && changes(call));
      this.#end(call, mayHaveRun ? unknown(call, error.message, error) : this.#named(call, error));
    }
  }

  #wait(call: PendingCall): void {
    const { object } = call;
    const lane = (object !== undefined && this.#ways?.of(object)) || this.#connection;
    if (object !== undefined && !this.#order.enters(object, call, lane)) {
      call.place = { kind: "held" };
      return;
    }
    call.place = { kind: "waiting", lane };
    lane.waiting.add(call);
    this.#pump(lane);
  }

  #pump(lane: CallLane): void {
    for (const call of lane.waiting) {
      if (!lane.wire.isUp || lane.sent.size >= this.#options.callsInFlightMax) return;
      lane.waiting.delete(call);
      this.#send(call, lane);
    }
  }

  #send(call: PendingCall, lane: CallLane): void {
    const id = lane.wire.nextId();
    lane.sent.set(id, call);
    call.sends += 1;
    call.place = { kind: "sent", lane, id };
    lane.wire.send(this.#frame(call, id));
  }

  #frame(call: PendingCall, id: number): ClientFrame {
    const { target, method, args, instead, consistency } = call.input;
    const { callId } = call;
    const leftMs = Math.max(1, Math.ceil(call.expiresMs - this.#platform.clock.monotonicMs()));
    const timeoutMs = Math.min(leftMs, NODE_TIMEOUT_MAX_MS);
    return (
      instead?.frame({ id, timeoutMs, callId }) ?? {
        type: "call",
        id,
        ...target,
        method,
        args,
        callId,
        timeoutMs,
        ...(consistency && { consistency }),
      }
    );
  }

  /** Gives a call that was refused for its id, and never ran, a fresh one. */
  #renewed(call: PendingCall, error: MoonportError): boolean {
    // A method that asked another object may pass on what that one said of an id of its own making.
    const { callId, hasRun } = error.details ?? {};
    const isRefused = isOwn(error, "id_expired") && callId === call.callId && hasRun !== true;
    if (!isRefused || call.sends > 1 || call.input.callId !== undefined) return false;
    if (!this.#ids.catchUp(error.details?.freshFromMs)) return false;
    call.callId = this.#ids.next();
    call.sends = 0;
    return true;
  }

  /** Sent again after a pause, unless that would be too late. */
  #again(call: PendingCall, error: MoonportError): void {
    this.#leave(call);
    call.failures += 1;
    call.lastError = error;
    // A call whose reply finds no room on its socket has run.
    if (isOwn(error, "outcome_unknown", "socket_full")) call.mayHaveRun ||= changes(call);
    const fraction = this.#platform.random.fraction();
    const asked = (error.retryAfterMs ?? 0) * (1 + fraction / 2);
    const delayMs = Math.max(asked, backoffMs(call.failures, RETRY_FIRST_MS, RETRY_MAX_MS, fraction));
    if (this.#platform.clock.monotonicMs() + delayMs >= call.expiresMs) {
      this.#finish(call, { thrown: this.#timeIsUp(call) });
      return;
    }
    call.place = { kind: "pausing", timer: this.#platform.timers.after(delayMs, () => this.#wait(call)) };
  }

  /** The caller does not wait any longer. */
  #end(call: PendingCall, thrown: unknown): void {
    const { place } = call;
    if (place.kind === "sent" && place.lane.wire.isUp) place.lane.wire.send({ type: "cancel", id: place.id });
    this.#finish(call, { thrown });
  }

  #finish(call: PendingCall, outcome: { value: PlainValue } | { thrown: unknown }): void {
    this.#all.delete(call);
    call.settle(outcome);
    this.#leave(call);
  }

  /** What waited for its place goes. */
  #leave(call: PendingCall): void {
    const { place, object } = call;
    if (place.kind === "held" && object !== undefined) this.#order.dropped(object, call);
    if (place.kind === "pausing") place.timer.cancel();
    if (place.kind === "sent") place.lane.sent.delete(place.id);
    if (place.kind === "waiting") place.lane.waiting.delete(call);
    for (const held of this.#released(call)) this.#wait(held);
    if (place.kind === "sent") this.#pump(place.lane);
  }

  /** It is on no lane any more. @returns the calls that were held for it, and go now */
  #released(call: PendingCall): readonly PendingCall[] {
    const { place, object } = call;
    const wasUnderWay = place.kind === "sent" || place.kind === "waiting";
    call.place = NEW;
    return wasUnderWay && object !== undefined ? [...this.#order.left(object)] : [];
  }

  #timeIsUp(call: PendingCall): MoonportError {
    const { input, place, lastError } = call;
    const message = `no answer within ${input.timeoutMs} ms`;
    if (!changes(call) && place.kind === "sent") return MoonportError.of("deadline_exceeded", message);
    if (call.mayHaveRun || place.kind === "sent") return unknown(call, message, lastError);
    if (lastError !== undefined) return this.#named(call, lastError);
    const { isUp } = this.#connection.wire;
    const why = isUp ? "too many other calls were under way" : "there was no connection to the node";
    const code = isUp ? "deadline_exceeded" : "node_unreachable";
    return this.#named(call, MoonportError.of(code, `${message}: ${why}; the call was not sent`));
  }

  #named({ input, callId }: PendingCall, error: MoonportError): MoonportError {
    return input.instead === undefined ? error.with({ callId, object: objectId(input.target) }) : error;
  }
}

/** A copy beside the node that is asked answers no sooner for being asked elsewhere. */
function isForOwner({ instead, consistency }: CallInput): boolean {
  return instead === undefined && consistency === undefined;
}

function changes({ input }: PendingCall): boolean {
  return input.instead?.changes ?? true;
}

function isOnce({ input }: PendingCall): boolean {
  return input.instead?.once === true;
}

function unknown({ input, callId }: PendingCall, message: string, cause: MoonportError | undefined): MoonportError {
  const isCall = input.instead === undefined;
  const askAgain = input.instead?.once
    ? "look what became of it before you ask again"
    : "ask again: done twice it is done once";
  return MoonportError.of("outcome_unknown", `${message}; ${isCall ? "the call may have run" : "it may be done"}`, {
    callId,
    object: objectId(input.target),
    hint: isCall ? "call again with this callId: it does not run twice" : askAgain,
    ...(cause !== undefined && { cause }),
  });
}

function objectId(target: FrameTarget): string {
  return `${target.app}/${target.class}/${target.key}`;
}
