/**
 * One WebSocket from its first frame to its end: hello, then calls, subscriptions and pings; see docs/websocket.md.
 *
 * It is told of by {@link WebSocketDoor} and owns nothing but what runs for its client: when it ends, its calls are given up
 * and its subscriptions closed. A client that sends more than may be under way is not read; one that does not read is closed.
 */
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import type { Authenticator, Principal } from "../auth/contract.js";
import { LastingRight, renewed } from "../auth/lasting-right.js";
import { callerOf, checkAny, checkMethod, type Target } from "../auth/principal-calls.js";
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import { checkAppName, checkClassName, DEFAULT_APP, type ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { NodeApi } from "../node-api.js";
import type { LiveApi, ReadingCall, Sink, Subscription } from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import { VERSION } from "../version.js";
import { readClientFrame } from "../wire/client-frames.js";
import type { FrameCodec } from "../wire/codec.js";
import { CLOSE_CODES, type ClientFrame, type ServerFrame } from "../wire/frames.js";
import { problemOf } from "../wire/problem.js";
import type { Deadlines } from "../world/deadlines.js";
import type { Timer, World } from "../world/world.js";
import { objectOf } from "./frame-target.js";
import { SocketCalls } from "./socket-calls.js";
import { type DelayFrame, delayWork } from "./socket-delay.js";
import { SocketSubscriptions } from "./socket-subscriptions.js";
import { SocketWriter } from "./socket-writer.js";
import type { TurnEnd } from "./turn-end.js";

export interface SocketContext {
  readonly node: NodeApi;
  readonly live: LiveApi;
  readonly auth: Authenticator;
  readonly settings: Settings;
  readonly world: Pick<World, "timers" | "log">;
  /** Of the calls that wait on their sockets. */
  readonly deadlines: Deadlines;
  readonly turnEnd: TurnEnd;
  /** The node's life, as `welcome` names it. */
  readonly session: string;
}

export type CloseKind = keyof typeof CLOSE_CODES;

type Phase =
  | { readonly kind: "greeting"; readonly timeout: Timer }
  | { readonly kind: "open"; readonly principal: Principal; readonly caller: Caller }
  | { readonly kind: "closed" };

type FrameOf<T extends ClientFrame["type"]> = Extract<ClientFrame, { readonly type: T }>;

const CLOSED: Phase = { kind: "closed" };
/** Nobody has said yet who they are: a token fits, and there is nothing else to say. */
const HELLO_BYTES_MAX = 16_384;
/** What RFC 6455 leaves for a reason. */
const REASON_BYTES_MAX = 123;
/** Of the largest of the last replies, what is kept of it as the guess for the next, each time. */
const REPLY_GUESS_DECAY = 0.9;
const BUFFER_RETRY_MS = 100;

export class ClientSocket {
  readonly #context: SocketContext;
  readonly #codec: FrameCodec;
  readonly #ws: WebSocket;
  readonly #raw: Duplex;
  readonly #writer: SocketWriter;
  readonly #calls: SocketCalls;
  readonly #subscriptions: SocketSubscriptions;
  #phase: Phase;
  #isStopping = false;
  #isPaused = false;
  /** Whether {@link #lookWhenTaken} will be called back. */
  #isLooking = false;
  /** Since the last ping. */
  #wasHeard = true;
  #takenAtLastPing = 0;
  #replyBytesGuess = 0;

  constructor(context: SocketContext, codec: FrameCodec, ws: WebSocket, raw: Duplex) {
    const { settings, world, node: served, deadlines } = context;
    this.#context = context;
    this.#codec = codec;
    this.#ws = ws;
    this.#raw = raw;
    this.#writer = new SocketWriter(raw, codec.isBinary, context.turnEnd);
    this.#calls = new SocketCalls({
      node: served,
      callsMax: settings.SOCKET_CALLS_MAX,
      objectCallsMax: settings.SOCKET_OBJECT_CALLS_MAX,
      timeoutMs: settings.CALL_TIMEOUT_MS,
      deadlines,
      hasRoom: (running) => this.#expectedBytes(running) < settings.SOCKET_BUFFER_BYTES_MAX,
      replied: (id, { value, seq, from, node }) => {
        const reply =
          seq === undefined ? { type: "reply" as const, id, value } : { type: "reply" as const, id, value, seq };
        // The common case has neither, and is not copied.
        const isPlain = from === undefined && node === undefined;
        this.#reply(id, isPlain ? reply : { ...reply, ...(from && { from }), ...(node && { node }) });
      },
      failed: (id, error) => this.#refuse(id, readersOnly(error)),
      eased: () => this.#readOn(),
    });
    this.#subscriptions = new SocketSubscriptions({
      codec,
      writer: this.#writer,
      subscriptionsMax: settings.SOCKET_SUBSCRIPTIONS_MAX,
      bufferBytesMax: settings.SOCKET_BUFFER_BYTES_MAX,
      send: (frame) => this.#send(frame),
      slow: () => this.#slow(),
    });
    const timeout = world.timers.after(settings.HELLO_TIMEOUT_MS, () =>
      this.close("hello_timeout", `no hello within ${settings.HELLO_TIMEOUT_MS} ms`),
    );
    this.#phase = { kind: "greeting", timeout };
    ws.on("message", (data, isBinary) => this.#message(data as Buffer, isBinary));
    ws.on("pong", () => {
      this.#wasHeard = true;
    });
    // What is no WebSocket frame, too large or no UTF-8: ws closes with the code that RFC 6455 has for it.
    ws.on("error", (error) => {
      world.log.debug({ error: error.message }, "a WebSocket broke the protocol");
      this.#end();
    });
    ws.on("close", () => this.#end());
  }

  /** What is under way: nothing once it is closed. */
  get load(): { readonly calls: number; readonly subscriptions: number } {
    return { calls: this.#calls.size, subscriptions: this.#subscriptions.size };
  }

  /** Every SOCKET_PING_MS: whether somebody is still there, and reads. */
  ping(): void {
    if (this.#phase.kind === "closed") return;
    const taken = this.#writer.takenBytes;
    const isStuck = this.#writer.bufferedBytes > 0 && taken === this.#takenAtLastPing;
    this.#takenAtLastPing = taken;
    // What is not read because it is paused cannot have answered; it must take what it is sent, that is all.
    if (this.#isPaused) return isStuck ? this.#slow() : undefined;
    if (!this.#wasHeard) {
      this.close("dead", "the last ping was not answered");
      // Nor would the close be.
      return this.#ws.terminate();
    }
    this.#wasHeard = false;
    this.#writer.flush();
    this.#ws.ping();
  }

  /** The node is about to stop. @param nodes addresses of others */
  leaving(nodes: readonly string[]): void {
    if (this.#phase.kind === "open") this.#send({ type: "leaving", nodes });
  }

  /** Subscriptions are told, calls under way answered; then the socket closes. Resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#subscriptions.stop(nodeStopping());
    await this.#calls.drain(nodeStopping());
    this.close("stopping", "the node is stopping: connect again");
  }

  /**
   * Tokens have changed: it goes on as whom its token now says, with the subscriptions and views that this one may have, or
   * it closes. Each step looks at one thing.
   */
  *renew(): Generator<void> {
    if (this.#phase.kind !== "open") return;
    let principal: Principal;
    try {
      principal = renewed(this.#phase.principal);
    } catch (error) {
      return this.close("unauthenticated", asMoonportError(error).message);
    }
    this.#phase = { kind: "open", principal, caller: callerOf(principal) };
    yield;
    yield* this.#subscriptions.renew(principal);
  }

  close(kind: CloseKind, detail: string): void {
    if (this.#phase.kind === "closed") return;
    this.#writer.flush();
    this.#end();
    // A client that is not read would never be seen to answer the close.
    if (this.#isPaused) this.#ws.resume();
    this.#ws.close(CLOSE_CODES[kind], clipReason(`${kind}: ${detail}`));
  }

  #end(): void {
    if (this.#phase.kind === "closed") return;
    if (this.#phase.kind === "greeting") this.#phase.timeout.cancel();
    this.#phase = CLOSED;
    this.#subscriptions.closeAll();
    this.#calls.giveUpAll();
    this.#writer.end();
  }

  // What comes in

  #message(data: Buffer, isBinary: boolean): void {
    this.#wasHeard = true;
    // What a socket had read ahead before it broke is told still; its client is gone.
    if (this.#phase.kind === "closed" || this.#raw.destroyed) return;
    try {
      this.#read(data, isBinary);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (isOwn(error, "internal")) this.#context.world.log.error({ error }, "a frame hit a fault");
      const hint = error.hint === undefined ? "" : ` (${error.hint})`;
      this.close("bad_frame", error.message + hint);
    }
    if (this.#mustPause()) this.#pause();
  }

  #read(data: Buffer, isBinary: boolean): void {
    if (isBinary !== this.#codec.isBinary) {
      throw MoonportError.of("bad_request", `${this.#codec.protocol} has ${isBinary ? "text" : "binary"} frames only`);
    }
    if (this.#phase.kind === "greeting" && data.length > HELLO_BYTES_MAX) {
      throw MoonportError.of("too_large", `hello is longer than ${HELLO_BYTES_MAX} bytes`);
    }
    const message = isBinary ? data : data.toString("utf8");
    const incoming = readClientFrame(this.#codec, message, this.#context.settings.VALUE_DEPTH_MAX);
    if (this.#phase.kind === "greeting") {
      if (incoming.kind === "frame" && incoming.frame.type === "hello") return this.#hello(incoming.frame.token);
      throw MoonportError.of("bad_request", "the first frame must be hello");
    }
    if (incoming.kind === "refused") return this.#refuse(incoming.id, incoming.error);
    this.#frame(incoming.frame);
  }

  #hello(token: string | undefined): void {
    if (this.#phase.kind !== "greeting") return;
    let principal: Principal;
    try {
      principal = this.#context.auth.authenticate(token);
    } catch (error) {
      return this.close("unauthenticated", asMoonportError(error).message);
    }
    this.#phase.timeout.cancel();
    this.#phase = { kind: "open", principal, caller: callerOf(principal) };
    this.#send({ type: "welcome", session: this.#context.session, version: VERSION });
  }

  #frame(frame: ClientFrame): void {
    switch (frame.type) {
      case "call":
        return this.#ask(frame, () => this.#call(frame));
      case "find":
        return this.#ask(frame, () => this.#find(frame));
      case "send":
      case "timers":
      case "delay":
        return this.#ask(frame, () => this.#delayed(frame));
      case "subscribe":
        return this.#ask(frame, () => this.#subscribe(frame));
      case "view":
        return this.#ask(frame, () => this.#view(frame));
      case "cancel":
        return this.#calls.cancel(frame.id);
      case "unsubscribe":
        return this.#subscriptions.end(frame.id);
      case "ping":
        return this.#send(frame.n === undefined ? { type: "pong" } : { type: "pong", n: frame.n });
      case "hello":
        throw MoonportError.of("bad_request", "hello was said already");
    }
  }

  /** Runs what a numbered frame asks for; what it throws is its answer. */
  #ask({ id, type }: { readonly id: number; readonly type: string }, run: () => void): void {
    if (this.#calls.has(id) || this.#subscriptions.has(id)) {
      throw MoonportError.of("bad_request", `the id ${id} of a ${type} frame is under way`);
    }
    try {
      if (this.#isStopping) throw nodeStopping();
      run();
    } catch (error) {
      this.#refuse(id, asMoonportError(error));
    }
  }

  #call(frame: FrameOf<"call">): void {
    const { id, method, args = [], callId, timeoutMs, consistency } = frame;
    const object = objectOf(frame);
    const { caller, principal } = this.#opened();
    const mustRead = !this.#context.auth.isOpen && checkMethod(principal, targetOf(object, method)) === "read";
    this.#calls.begin({ id, object, method, args, caller, callId, timeoutMs, mustRead, consistency });
  }

  #find({ id, app = DEFAULT_APP, class: className, query = {}, timeoutMs: waitMs }: FrameOf<"find">): void {
    checkAppName(app);
    checkClassName(className);
    const { caller, principal } = this.#opened();
    principal.check({ right: "query", app, className });
    this.#calls.begin({
      id,
      // The class as a whole.
      object: { app, className, key: "", id: `${app}/${className}` },
      method: "find",
      args: [],
      caller,
      timeoutMs: waitMs,
      instead: async (timeoutMs) => {
        const { node } = this.#context;
        const page = await node.find({ app, className, query, ...(timeoutMs !== undefined && { timeoutMs }) });
        return { value: { ...page } as unknown as PlainValue };
      },
    });
  }

  #delayed(frame: DelayFrame): void {
    const { caller, principal } = this.#opened();
    const { object, method, run } = delayWork(frame, principal, caller);
    this.#calls.begin({
      id: frame.id,
      object,
      method,
      args: [],
      caller,
      timeoutMs: frame.timeoutMs,
      // What a node reports is plain.
      instead: async () => ({ value: (await run(this.#context.node)) as PlainValue }),
    });
  }

  #subscribe(frame: FrameOf<"subscribe">): void {
    const { from = { kind: "now" }, names, snapshotAfterGap } = frame;
    const object = objectOf(frame);
    const { caller, principal } = this.#opened();
    const { app, className, key } = object;
    const readings = [
      ...(from.kind === "snapshot" ? [from.reading] : []),
      ...(snapshotAfterGap === undefined ? [] : [snapshotAfterGap]),
    ];
    const check = (who: Principal): void => {
      who.check({ right: "subscribe", app, className, key });
      for (const { method } of readings) mayRead(who, object, method);
    };
    const right = new LastingRight(principal, check, readings.length > 0);
    this.#subscriptions.begin(frame.id, right, from.kind === "snapshot", (sink) =>
      this.#context.live.subscribe(
        {
          object,
          from,
          caller,
          ...(names !== undefined && { names }),
          ...(snapshotAfterGap !== undefined && { snapshotAfterGap }),
        },
        sink,
      ),
    );
  }

  #view(frame: FrameOf<"view">): void {
    const object = objectOf(frame);
    const { caller, principal } = this.#opened();
    const right = new LastingRight(principal, (who) => mayRead(who, object, frame.method), true);
    const reading: ReadingCall = { method: frame.method, args: frame.args ?? [] };
    const view = (sink: Sink): Promise<Subscription> => this.#context.live.view({ object, reading, caller }, sink);
    this.#subscriptions.begin(frame.id, right, false, view);
  }

  #opened(): Extract<Phase, { readonly kind: "open" }> {
    if (this.#phase.kind === "open") return this.#phase;
    throw MoonportError.of("caller_gone", "the socket is closed");
  }

  // What goes out

  #send(frame: ServerFrame): void {
    if (this.#phase.kind === "closed") return;
    this.#writer.send(this.#encoded(frame));
    if (this.#isPaused) this.#lookWhenTaken();
  }

  #reply(id: number, frame: ServerFrame): void {
    if (this.#phase.kind === "closed") return;
    const bytes = this.#encoded(frame);
    this.#replyBytesGuess = Math.max(bytes.length, this.#replyBytesGuess * REPLY_GUESS_DECAY);
    if (this.#isBufferFull()) return this.#refuse(id, bufferFull(this.#writer.bufferedBytes));
    this.#writer.send(bytes);
    if (this.#isPaused) this.#lookWhenTaken();
  }

  #refuse(id: number, error: MoonportError): void {
    if (isOwn(error, "internal")) {
      const { object, callId } = error;
      this.#context.world.log.error({ error: error.cause ?? error, object, callId }, "a call hit a fault");
    }
    this.#send({ type: "error", id, error: problemOf(error) });
  }

  #encoded(frame: ServerFrame): Uint8Array {
    const message = this.#codec.encode(frame);
    return typeof message === "string" ? Buffer.from(message, "utf8") : message;
  }

  #slow(): void {
    this.close("slow", "too much waits to be read here: connect again and resume");
  }

  // Who sends faster than is answered, or than it reads, is not read

  #expectedBytes(running: number): number {
    return this.#writer.bufferedBytes + running * this.#replyBytesGuess;
  }

  #isBufferFull(): boolean {
    return this.#writer.bufferedBytes >= this.#context.settings.SOCKET_BUFFER_BYTES_MAX;
  }

  #mustPause(): boolean {
    return !this.#isPaused && this.#phase.kind === "open" && (this.#calls.isAtBound || this.#isBufferFull());
  }

  #pause(): void {
    this.#isPaused = true;
    this.#ws.pause();
    this.#lookWhenTaken();
  }

  /** While paused, whatever is sent brings us back here; with nothing to send, a call under way will. */
  #lookWhenTaken(): void {
    if (this.#isLooking || this.#writer.bufferedBytes === 0) return;
    this.#isLooking = true;
    this.#writer.onTaken(() => {
      this.#isLooking = false;
      if (this.#phase.kind !== "open" || !this.#isPaused) return;
      this.#calls.resume();
      this.#readOn();
      if (this.#isPaused) this.#lookWhenTaken();
    });
  }

  #readOn(): void {
    if (!this.#isPaused || this.#phase.kind !== "open" || this.#calls.isAtBound || this.#isBufferFull()) return;
    this.#isPaused = false;
    this.#ws.resume();
  }
}

/** @throws MoonportError `forbidden` */
function mayRead(principal: Principal, object: ObjectIdentity, method: string): void {
  checkAny(principal, targetOf(object, method), ["read", "call"]);
}

function targetOf({ app, className, key }: ObjectIdentity, method: string): Target {
  return { app, className, key, method };
}

/** A socket asks for a reading method only where its token allows no other. */
function readersOnly(error: MoonportError): MoonportError {
  if (!isOwn(error, "not_a_reading_method")) return error;
  return MoonportError.of("forbidden", "the token allows reading methods only").with(error as { object?: string });
}

function nodeStopping(): MoonportError {
  return MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
}

function bufferFull(bytes: number): MoonportError {
  return MoonportError.of("socket_full", `the reply did not fit: ${bytes} bytes wait to be read on this socket`, {
    hint: "read faster or ask for less at once; ask again with the same call id",
    retryAfterMs: BUFFER_RETRY_MS,
  });
}

/** Cut to what a close frame holds, between characters. */
function clipReason(reason: string): string {
  const bytes = Buffer.from(reason, "utf8");
  if (bytes.length <= REASON_BYTES_MAX) return reason;
  return new TextDecoder().decode(bytes.subarray(0, REASON_BYTES_MAX - 3), { stream: true });
}
