/**
 * The link on which this node asks one other: dialled when there is something to ask, kept, and dialled again when it is
 * needed after a loss. What is asked while it is being made waits for it; after a try that failed everything fails at once
 * until a pause is over.
 *
 * Everything asked is answered once: by the other side, by its time being up, or by the end of the link. What never left
 * fails with `node_unreachable` (or `link_refused`), what did fails with `link_broken`, for it may have been heeded.
 */
import { asMoonportError, type ErrorCode, isOwn, MoonportError } from "../errors.js";
import { backoffMs } from "../world/backoff.js";
import type { Watch } from "../world/deadlines.js";
import type { Asker, Channel, ChannelEvents, PeerAddress } from "./contract.js";
import { Dialling } from "./dialling.js";
import { FrameChannel } from "./frame-channel.js";
import { encodeFrame, errorOfFailure, FRAME, type Frame } from "./frames.js";
import { type Agreed, CANCEL_PROTOCOL } from "./handshake.js";
import { type LinkContext, streamsAtMost } from "./link-context.js";
import type { StreamControl, StreamReader } from "./streams.js";
import { type Asked, type Failure, UnderWay } from "./under-way.js";

type State =
  /** Nothing stands in the way of dialling. */
  | { readonly kind: "idle" }
  | { readonly kind: "dialling"; readonly dialling: Dialling }
  | {
      readonly kind: "up";
      readonly frames: FrameChannel;
      readonly sinceMs: number;
      /** Of this node, as the other side knows it. */
      readonly session: string;
      readonly messageBytesMax: number;
      readonly protocol: number;
    }
  | { readonly kind: "pausing"; readonly untilMs: number; readonly error: MoonportError }
  | { readonly kind: "stopped" };

/** The pause after the first failure; it doubles up to LINK_BACKOFF_MAX_MS. */
const FIRST_PAUSE_MS = 50;

const IDLE = { kind: "idle" } as const;

export class OutgoingLink {
  readonly #context: LinkContext;
  readonly #to: PeerAddress;
  readonly #forget: () => void;
  readonly #underWay = new UnderWay();
  readonly #watch: Watch;
  #state: State = IDLE;
  #lastId = 0;
  /** Tries that came to nothing, and links that did not last, in a row. */
  #failures = 0;
  /** The last that the log was told of: an operator has to see it, once. */
  #refusal: string | undefined;

  /** @param forget it is down, for a while if it failed, and nothing is under way */
  constructor(context: LinkContext, to: PeerAddress, forget: () => void) {
    this.#context = context;
    this.#to = to;
    this.#forget = forget;
    this.#watch = context.deadlines.watch((nowMs) => this.#look(nowMs));
  }

  get isUp(): boolean {
    return this.#state.kind === "up";
  }

  /** Asked and not answered yet. */
  get size(): number {
    return this.#underWay.size;
  }

  request(name: string, body: unknown, timeoutMs: number, asker?: Asker): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const dueMs = this.#watch.nowMs + timeoutMs;
      this.#watch.lookAfter(dueMs);
      const asked: Asked = { kind: "request", resolve, reject };
      const id = this.#ask(asked, name, dueMs, (given) => [FRAME.request, given, name, body]);
      if (id !== undefined) asker?.whenGone(() => this.#cancel(id));
    });
  }

  /** Asks for a stream. Undefined when that failed; the reader was told. */
  openStream(reader: StreamReader, name: string, body: unknown): StreamControl | undefined {
    const window = this.#context.settings.LINK_STREAM_WINDOW;
    const id = this.#ask({ kind: "stream", reader }, name, Number.POSITIVE_INFINITY, (given) => [
      FRAME.openStream,
      given,
      name,
      body,
      window,
    ]);
    if (id === undefined) return undefined;
    return { grant: (items) => this.#grant(id, items), leave: () => this.#leaveStream(id) };
  }

  /** Fails whatever is under way. Idempotent. */
  stop(why: string): void {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    if (state.kind === "up") state.frames.close(why);
    if (state.kind === "dialling") state.dialling.cancel(why);
    this.#watch.cancel();
    this.#underWay.failAll({ ...this.#broken(why), unsent: () => MoonportError.of("node_stopping", why) });
  }

  #ask(asked: Asked, name: string, dueMs: number, frameOf: (id: number) => Frame): number | undefined {
    try {
      this.#admit(asked.kind);
      const id = this.#lastId + 1;
      const frame = encodeFrame(frameOf(id));
      this.#checkSize(frame);
      this.#lastId = id;
      if (this.#state.kind === "idle" || this.#state.kind === "pausing") this.#dial();
      const isUp = this.#state.kind === "up";
      this.#underWay.add(id, asked, name, dueMs, isUp ? undefined : frame);
      if (this.#state.kind === "up") this.#state.frames.send(frame);
      return id;
    } catch (error) {
      if (asked.kind === "request") asked.reject(asMoonportError(error));
      else asked.reader.end(asMoonportError(error));
      return undefined;
    }
  }

  /** @throws MoonportError when nothing may be asked now */
  #admit(kind: Asked["kind"]): void {
    const state = this.#state;
    if (state.kind === "stopped") throw MoonportError.of("node_stopping", "the node is shutting down");
    if (state.kind === "pausing" && state.untilMs > this.#watch.nowMs) throw this.#again(state.error, state.untilMs);
    // The other side knows this node by a life that is over.
    if (state.kind === "up" && state.session !== this.#context.self().session) {
      state.frames.close("the node has a new session");
      this.#state = IDLE;
      this.#underWay.failAll(this.#broken("this node has a new session"));
    }
    const { LINK_REQUESTS_MAX } = this.#context.settings;
    if (this.#underWay.size >= LINK_REQUESTS_MAX) {
      throw MoonportError.of("link_full", `${this.#to.node} owes ${LINK_REQUESTS_MAX} answers already`);
    }
    const streamsMax = streamsAtMost(this.#context.settings);
    if (kind === "stream" && this.#underWay.streams >= streamsMax) {
      throw MoonportError.of("link_full", `${this.#to.node} serves ${streamsMax} streams already`);
    }
  }

  /** @throws MoonportError `too_large`, `link_full` */
  #checkSize(frame: Uint8Array): void {
    const { LINK_BUFFER_BYTES_MAX } = this.#context.settings;
    const bytesMax = Math.min(LINK_BUFFER_BYTES_MAX, this.#messageBytesMax);
    if (frame.length > bytesMax) throw tooLarge(frame, bytesMax);
    const waiting = this.#state.kind === "up" ? this.#state.frames.bufferedBytes : this.#underWay.heldBytes;
    if (waiting + frame.length > LINK_BUFFER_BYTES_MAX) {
      throw MoonportError.of("link_full", `${waiting} bytes wait to be sent to ${this.#to.node} already`);
    }
  }

  get #messageBytesMax(): number {
    const own = this.#context.settings.LINK_MESSAGE_BYTES_MAX;
    return this.#state.kind === "up" ? Math.min(own, this.#state.messageBytesMax) : own;
  }

  #dial(): void {
    const dialling: Dialling = new Dialling(this.#context, this.#to, {
      made: (channel, agreed) => this.#made(channel, agreed, dialling.session),
      failed: (error) => this.#failed(error),
    });
    this.#state = { kind: "dialling", dialling };
  }

  #made(channel: Channel, { messageBytesMax, version, protocol }: Agreed, session: string): ChannelEvents {
    const frames = new FrameChannel(this.#context, channel, {
      frame: (frame) => this.#received(frame),
      broken: (why) => this.#lost(why),
    });
    this.#refusal = undefined;
    this.#state = { kind: "up", frames, sinceMs: this.#watch.nowMs, session, messageBytesMax, protocol };
    this.#context.world.log.debug({ ...this.#to, version, protocol }, "a link was made");
    for (const [id, frame] of this.#underWay.release()) {
      if (frame.length <= this.#messageBytesMax) frames.send(frame);
      else this.#underWay.fail(id, always(tooLarge(frame, this.#messageBytesMax)));
    }
    return { message: (message) => frames.received(message), closed: (reason) => frames.channelClosed(reason) };
  }

  #failed(error: MoonportError): void {
    if (isOwn(error, "link_refused") && error.message !== this.#refusal) {
      this.#refusal = error.message;
      this.#context.world.log.warn({ ...this.#to }, `a link was refused: ${error.message}`);
    }
    this.#pause(error);
    this.#underWay.failAll(always(error));
  }

  #lost(why: string): void {
    const state = this.#state;
    if (state.kind !== "up") return;
    const { world, settings } = this.#context;
    world.log.info({ ...this.#to, why }, "a link broke");
    const hasLasted = this.#watch.nowMs - state.sinceMs >= settings.LINK_BACKOFF_MAX_MS;
    if (hasLasted) this.#failures = 0;
    // One that breaks as soon as it stands is no better than one that cannot be made.
    if (hasLasted) this.#state = IDLE;
    else this.#pause(MoonportError.of("node_unreachable", `the link to ${this.#to.node} broke just now: ${why}`));
    this.#underWay.failAll(this.#broken(why));
    this.#context.lost();
    if (this.#state.kind === "idle") this.#forget();
  }

  #pause(error: MoonportError): void {
    const { world, settings } = this.#context;
    this.#failures += 1;
    const pauseMs = backoffMs(this.#failures, FIRST_PAUSE_MS, settings.LINK_BACKOFF_MAX_MS, world.random.fraction());
    const untilMs = this.#watch.nowMs + pauseMs;
    this.#state = { kind: "pausing", untilMs, error };
    this.#watch.lookAfter(untilMs + settings.LINK_BACKOFF_MAX_MS);
  }

  #received(frame: Frame): void {
    switch (frame[0]) {
      case FRAME.answer: {
        const asked = this.#underWay.take(frame[1]);
        if (asked?.kind === "request") asked.resolve(frame[2]);
        return;
      }
      case FRAME.failure: {
        const asked = this.#underWay.take(frame[1]);
        if (asked?.kind === "request") asked.reject(errorOfFailure(frame[2]));
        else asked?.reader.end(errorOfFailure(frame[2]));
        return;
      }
      case FRAME.item: {
        const asked = this.#underWay.get(frame[1]);
        if (asked?.kind === "stream") asked.reader.item(frame[2]);
        return;
      }
      case FRAME.endStream: {
        const asked = this.#underWay.take(frame[1]);
        if (asked?.kind === "stream") asked.reader.end();
        return;
      }
      default:
        throw MoonportError.of("bad_request", `a link brought a frame of kind ${frame[0]}, which asks`);
    }
  }

  #grant(id: number, items: number): void {
    if (this.#state.kind === "up" && this.#underWay.get(id) !== undefined) {
      this.#state.frames.send(encodeFrame([FRAME.credit, id, items]));
    }
  }

  /** Nobody waits for the answer any longer. One that never left is not heard at all. */
  #cancel(id: number): void {
    if (this.#underWay.isHeld(id)) {
      const gone = MoonportError.of("caller_gone", "the caller went away before another node was asked");
      return this.#underWay.fail(id, always(gone));
    }
    const isOpen = this.#underWay.get(id) !== undefined;
    if (!isOpen || this.#state.kind !== "up" || this.#state.protocol < CANCEL_PROTOCOL) return;
    this.#state.frames.send(encodeFrame([FRAME.cancel, id]));
  }

  #leaveStream(id: number): void {
    const hasLeft = !this.#underWay.isHeld(id);
    const wasOpen = this.#underWay.take(id) !== undefined;
    if (wasOpen && hasLeft && this.#state.kind === "up") {
      this.#state.frames.send(encodeFrame([FRAME.leaveStream, id]));
    }
  }

  #look(nowMs: number): number {
    const nextMs = this.#underWay.expire(nowMs, {
      unsent: (name) => this.#error("node_unreachable", `was not reached in time to be asked "${name}"`),
      sent: (name) => this.#error("link_broken", `did not answer "${name}" in time`),
    });
    const { LINK_BACKOFF_MAX_MS } = this.#context.settings;
    if (this.#state.kind !== "pausing" || this.#underWay.size > 0) return nextMs;
    const forgetMs = this.#state.untilMs + LINK_BACKOFF_MAX_MS;
    if (forgetMs > nowMs) return Math.min(nextMs, forgetMs);
    this.#forget();
    return nextMs;
  }

  #broken(why: string): Failure {
    return always(this.#error("link_broken", `did not answer before the link broke: ${why}`));
  }

  #error(code: ErrorCode, what: string): MoonportError {
    return MoonportError.of(code, `${this.#to.node} ${what}`);
  }

  #again({ code, message, hint }: MoonportError, untilMs: number): MoonportError {
    return MoonportError.of(code as ErrorCode, message, {
      ...(hint !== undefined && { hint }),
      retryAfterMs: Math.ceil(untilMs - this.#watch.nowMs),
    });
  }
}

function always(error: MoonportError): Failure {
  return { unsent: () => error, sent: () => error };
}

function tooLarge(frame: Uint8Array, bytesMax: number): MoonportError {
  const message = `a message to another node has ${frame.length} bytes, ${bytesMax} may be sent`;
  return MoonportError.of("too_large", message, { hint: "the limits are LINK_MESSAGE_BYTES_MAX of both nodes" });
}
