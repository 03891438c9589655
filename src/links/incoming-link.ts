/**
 * The link on which another node asks this one: each request is given to its handler and answered once, unless the link ends
 * before. Answers go out in the order in which they become known.
 */
import { isOwn, MoonportError } from "../errors.js";
import { Presence } from "../world/presence.js";
import { sleep } from "../world/world.js";
import type { Channel, PeerName, RequestHandler, StreamHandler } from "./contract.js";
import { FrameChannel, type FrameListener } from "./frame-channel.js";
import { type AnsweringFrame, encodeFrame, FRAME, type Frame, failureFrame } from "./frames.js";
import type { Agreed } from "./handshake.js";
import { type LinkContext, streamsAtMost } from "./link-context.js";
import { ServedStream, type StreamSink } from "./streams.js";

export interface Handlers {
  readonly requests: ReadonlyMap<string, RequestHandler>;
  readonly streams: ReadonlyMap<string, StreamHandler>;
}

/** How long a stream rests while the link is full. */
const STREAM_REST_MS = 10;

export class IncomingLink implements FrameListener {
  readonly #context: LinkContext;
  readonly #handlers: Handlers;
  readonly #agreed: Agreed;
  readonly #ended: () => void;
  readonly #streams = new Map<number, ServedStream>();
  readonly frames: FrameChannel;
  /** Requests whose handlers have not answered yet. */
  readonly #requests = new Map<number, Presence>();

  constructor(context: LinkContext, handlers: Handlers, channel: Channel, agreed: Agreed, ended: () => void) {
    this.#context = context;
    this.#handlers = handlers;
    this.#agreed = agreed;
    this.#ended = ended;
    this.frames = new FrameChannel(context, channel, this);
  }

  get peer(): PeerName {
    return this.#agreed.peer;
  }

  frame(frame: Frame): void {
    switch (frame[0]) {
      case FRAME.request:
        return this.#serve(frame[1], frame[2], frame[3]);
      case FRAME.openStream:
        return this.#serveStream(frame[1], frame[2], frame[3], frame[4]);
      case FRAME.credit:
        return this.#streams.get(frame[1])?.grant(frame[2]);
      case FRAME.leaveStream:
        return this.#streams.get(frame[1])?.leave();
      case FRAME.cancel:
        return this.#requests.get(frame[1])?.giveUp();
      default:
        throw MoonportError.of("bad_request", `a link brought a frame of kind ${frame[0]}, which answers`);
    }
  }

  broken(why: string): void {
    this.#context.world.log.debug({ ...this.peer, why }, "a link of another node ended");
    this.#end();
  }

  /** Idempotent. */
  close(why: string): void {
    if (!this.frames.isOpen) return;
    this.frames.close(why);
    this.#end();
  }

  #end(): void {
    for (const stream of this.#streams.values()) stream.leave();
    for (const asker of this.#requests.values()) asker.giveUp();
    this.#ended();
  }

  #serve(id: number, name: string, body: unknown): void {
    try {
      const handler = this.#handlers.requests.get(name);
      if (handler === undefined) throw unknownKind(name);
      this.#checkRoom();
      const asker = new Presence();
      const answer = handler(body, this.peer, asker);
      if (!isPromise(answer)) return this.#answer(id, name, answer);
      this.#requests.set(id, asker);
      this.#answerLater(id, name, answer);
    } catch (error) {
      this.#fail(id, name, error);
    }
  }

  #answerLater(id: number, name: string, answer: PromiseLike<unknown>): void {
    answer.then(
      (value) => {
        this.#requests.delete(id);
        this.#answer(id, name, value);
      },
      (error) => {
        this.#requests.delete(id);
        this.#fail(id, name, error);
      },
    );
  }

  #serveStream(id: number, name: string, body: unknown, window: number): void {
    try {
      const handler = this.#handlers.streams.get(name);
      if (handler === undefined) throw unknownKind(name);
      this.#checkRoom();
      this.#checkStreams();
      const iterator = handler(body, this.peer)[Symbol.asyncIterator]();
      const stream = new ServedStream(iterator, window, this.#sink(id, name));
      this.#streams.set(id, stream);
      void stream.run().finally(() => this.#streams.delete(id));
    } catch (error) {
      this.#fail(id, name, error);
    }
  }

  #sink(id: number, name: string): StreamSink {
    return {
      item: (value) => this.#send(this.#encoded([FRAME.item, id, value])),
      end: () => this.#send(encodeFrame([FRAME.endStream, id])),
      failed: (error) => this.#fail(id, name, error),
      room: () => {
        const { world, settings } = this.#context;
        // Half is left for answers, which cannot be held back.
        if (this.frames.bufferedBytes * 2 <= settings.LINK_BUFFER_BYTES_MAX) return undefined;
        return sleep(world, STREAM_REST_MS);
      },
    };
  }

  /** @throws MoonportError `link_full` */
  #checkRoom(): void {
    const { LINK_REQUESTS_MAX } = this.#context.settings;
    if (this.#requests.size + this.#streams.size < LINK_REQUESTS_MAX) return;
    const { node } = this.#context.self();
    throw MoonportError.of("link_full", `${node} owes ${this.peer.node} ${LINK_REQUESTS_MAX} answers already`);
  }

  /** @throws MoonportError `link_full` */
  #checkStreams(): void {
    const { settings, self } = this.#context;
    const streamsMax = streamsAtMost(settings);
    if (this.#streams.size < streamsMax) return;
    throw MoonportError.of("link_full", `${self().node} serves ${this.peer.node} ${streamsMax} streams already`);
  }

  #answer(id: number, name: string, value: unknown): void {
    if (!this.frames.isOpen) return;
    try {
      this.#send(this.#encoded([FRAME.answer, id, value]));
    } catch (error) {
      this.#fail(id, name, error);
    }
  }

  #fail(id: number, name: string, thrown: unknown): void {
    if (!this.frames.isOpen) return;
    this.#send(encodeFrame(failureFrame(id, this.#tellable(name, thrown))));
  }

  /** A fault of ours may quote anything in its message: the log keeps it. */
  #tellable(name: string, thrown: unknown): MoonportError {
    if (thrown instanceof MoonportError && !isOwn(thrown, "internal")) return thrown;
    const { world, self } = this.#context;
    const { node } = self();
    world.log.error({ ...this.peer, name, error: thrown }, "what another node asked failed");
    return MoonportError.of("internal", `${node} failed at "${name}"`, { hint: "its log says more" });
  }

  /** @throws MoonportError `bad_value`, `too_large` */
  #encoded(frame: AnsweringFrame): Uint8Array {
    const encoded = encodeFrame(frame);
    const bytesMax = Math.min(this.#agreed.messageBytesMax, this.#context.settings.LINK_MESSAGE_BYTES_MAX);
    if (encoded.length <= bytesMax) return encoded;
    throw MoonportError.of("too_large", `the answer has ${encoded.length} bytes, ${bytesMax} may be sent`, {
      hint: "the limits are LINK_MESSAGE_BYTES_MAX of both nodes",
    });
  }

  /** An answer can be neither refused nor dropped: who asks so much and does not read loses the link. */
  #send(frame: Uint8Array): void {
    const { LINK_BUFFER_BYTES_MAX } = this.#context.settings;
    const { bufferedBytes } = this.frames;
    if (bufferedBytes <= LINK_BUFFER_BYTES_MAX) return this.frames.send(frame);
    const why = `${bufferedBytes} bytes of answers were not read`;
    this.#context.world.log.warn({ ...this.peer, why }, "a link of another node is given up");
    this.frames.breakOff(why);
  }
}

function unknownKind(name: string): MoonportError {
  return MoonportError.of("bad_request", `this node does not know what "${name}" asks`, {
    hint: "the asking node is of another release",
  });
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}
