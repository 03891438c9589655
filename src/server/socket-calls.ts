/**
 * The calls of one WebSocket.
 *
 * At most SOCKET_CALLS_MAX are under way, and of one object SOCKET_OBJECT_CALLS_MAX. They begin in the order they came:
 * whatever is behind one that may not begin waits here as well, and the socket is not read meanwhile. A call that is cancelled,
 * or whose socket is gone, is not run unless it has begun. The time that a call may wait counts from when it was read: one
 * whose time is up while it waits here is answered here.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import { checkMethodName, type ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { CallReply, CallRequest, CallWaiter, Consistency, NodeApi } from "../node-api.js";
import type { PlainValue } from "../values.js";
import type { Deadlines, Watch } from "../world/deadlines.js";
import { Presence } from "../world/presence.js";

export interface SocketCallInput {
  readonly id: number;
  readonly object: ObjectIdentity;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly mustRead?: boolean;
  readonly consistency?: Consistency | undefined;
  /** What is done instead of the call: a query of a class's directory. */
  readonly instead?: (timeoutMs: number | undefined) => Promise<CallReply>;
}

export interface SocketCallsOptions {
  readonly node: NodeApi;
  readonly callsMax: number;
  readonly objectCallsMax: number;
  /** How long a call waits in all that does not say it. */
  readonly timeoutMs: number;
  readonly deadlines: Deadlines;
  /** Whether there is room for the reply of one more call. */
  hasRoom(running: number): boolean;
  replied(id: number, reply: CallReply): void;
  failed(id: number, error: MoonportError): void;
  /** A call ended, and none waits any longer. */
  eased(): void;
}

export class SocketCalls {
  readonly #options: SocketCallsOptions;
  readonly #underWay = new Map<number, SocketCall>();
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #watch: Watch;
  /** In the node: those under way, and those that were cancelled and have not ended yet. */
  #running = 0;
  /** The same by object. */
  readonly #runningOf = new Map<string, number>();
  #idle: (() => void) | undefined;

  constructor(options: SocketCallsOptions) {
    this.#options = options;
    this.#watch = options.deadlines.watch((nowMs) => this.#look(nowMs));
  }

  has(id: number): boolean {
    return this.#underWay.has(id) || this.#waiting.has(id);
  }

  get isAtBound(): boolean {
    return this.#waiting.size > 0 || this.#running >= this.#options.callsMax;
  }

  get size(): number {
    return this.#underWay.size + this.#waiting.size;
  }

  /** @throws MoonportError `bad_name` */
  begin(input: SocketCallInput): void {
    checkMethodName(input.method);
    const call = new SocketCall(input);
    if (this.#waiting.size === 0 && this.#mayRun(call)) this.#run(call);
    else this.#wait(call);
  }

  /** Nobody waits for its answer any longer. */
  cancel(id: number): void {
    if (this.#waiting.delete(id)) return this.#waitsNoLonger();
    const call = this.#underWay.get(id);
    if (call === undefined) return;
    call.giveUp();
    this.#ended(call);
  }

  /** Begins what may begin now. */
  resume(): void {
    for (const [id, { call, expiresMs }] of this.#waiting) {
      if (!this.#mayRun(call)) return;
      this.#waiting.delete(id);
      call.timeoutMs = Math.max(0, expiresMs - this.#watch.nowMs);
      this.#run(call);
    }
  }

  /** The socket is gone. */
  giveUpAll(): void {
    this.#waiting.clear();
    this.#watch.cancel();
    for (const call of this.#underWay.values()) call.giveUp();
    this.#underWay.clear();
    this.#idle?.();
  }

  /** Those that have not begun are refused; resolves when the others have ended. */
  drain(refusal: MoonportError): Promise<void> {
    for (const id of this.#waiting.keys()) this.#options.failed(id, refusal);
    this.#waiting.clear();
    if (this.#underWay.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  #mayRun({ object }: SocketCall): boolean {
    const { callsMax, objectCallsMax, hasRoom } = this.#options;
    if (this.#running >= callsMax || !hasRoom(this.#running)) return false;
    return (this.#runningOf.get(object.id) ?? 0) < objectCallsMax;
  }

  #wait(call: SocketCall): void {
    const expiresMs = this.#watch.nowMs + (call.timeoutMs ?? this.#options.timeoutMs);
    this.#waiting.set(call.id, { call, expiresMs });
    if (expiresMs < this.#watch.dueMs) this.#watch.lookAfter(expiresMs);
  }

  #look(nowMs: number): number {
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const [id, { call, expiresMs }] of this.#waiting) {
      if (nowMs <= expiresMs) {
        earliestMs = Math.min(earliestMs, expiresMs);
        continue;
      }
      this.#waiting.delete(id);
      this.#options.failed(id, expired(call));
    }
    this.#waitsNoLonger();
    return earliestMs;
  }

  /** One that waited is gone: those behind it may have stood there for its object alone. */
  #waitsNoLonger(): void {
    this.resume();
    if (this.#waiting.size === 0) this.#options.eased();
  }

  #run(call: SocketCall): void {
    this.#running++;
    this.#runningOf.set(call.object.id, (this.#runningOf.get(call.object.id) ?? 0) + 1);
    this.#underWay.set(call.id, call);
    const answer = call.instead === undefined ? this.#options.node.call(call) : call.instead(call.timeoutMs);
    answer.then(
      (reply) => {
        if (this.#ended(call)) this.#options.replied(call.id, reply);
        this.#next(call);
      },
      (error: unknown) => {
        if (this.#ended(call)) this.#options.failed(call.id, asMoonportError(error));
        this.#next(call);
      },
    );
  }

  /** False when it was cancelled before, its number perhaps given to another. */
  #ended(call: SocketCall): boolean {
    if (this.#underWay.get(call.id) !== call) return false;
    this.#underWay.delete(call.id);
    return true;
  }

  #next({ object }: SocketCall): void {
    this.#running--;
    const others = (this.#runningOf.get(object.id) ?? 0) - 1;
    if (others > 0) this.#runningOf.set(object.id, others);
    else this.#runningOf.delete(object.id);
    if (this.#waiting.size > 0) this.resume();
    if (this.#waiting.size === 0) this.#options.eased();
    if (this.#underWay.size === 0) this.#idle?.();
  }
}

interface WaitingCall {
  readonly call: SocketCall;
  /** Monotonic. */
  readonly expiresMs: number;
}

function expired({ method, object: { id } }: SocketCall): MoonportError {
  return MoonportError.of("deadline_exceeded", `the deadline of ${method} passed behind other calls of its socket`, {
    object: id,
  });
}

class SocketCall extends Presence implements CallRequest {
  readonly id: number;
  readonly object: ObjectIdentity;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId?: string;
  /** Counts from when the node is asked. */
  timeoutMs?: number;
  readonly mustRead?: boolean;
  readonly consistency?: Consistency;
  readonly instead?: (timeoutMs: number | undefined) => Promise<CallReply>;

  constructor(input: SocketCallInput) {
    super();
    this.id = input.id;
    this.object = input.object;
    this.method = input.method;
    this.args = input.args;
    this.caller = input.caller;
    if (input.callId !== undefined) this.callId = input.callId;
    if (input.timeoutMs !== undefined) this.timeoutMs = input.timeoutMs;
    if (input.mustRead === true) this.mustRead = true;
    if (input.consistency !== undefined) this.consistency = input.consistency;
    if (input.instead !== undefined) this.instead = input.instead;
  }

  get waiter(): CallWaiter {
    return this;
  }
}
