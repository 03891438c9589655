/**
 * A client of a node, or of a fleet: one connection, and everything that goes over it. Calls and subscriptions outlive the
 * connection; they wait while there is none and go on when there is one again, to the same node or another. Where it may learn
 * nodes, calls also go to the owners of their objects, by ways of their own.
 */
import { MoonportError } from "../errors.js";
import type { FoundPage } from "../node-api.js";
import { type RemoteMethods, withMethods } from "../typed-methods.js";
import type { PlainValue } from "../values.js";
import { type FrameCodec, jsonCodec, type Message, msgpackCodec } from "../wire/codec.js";
import { CLOSE_CODES, type DelayAsk, type ServerFrame } from "../wire/frames.js";
import { errorOf } from "../wire/problem.js";
import { Addresses } from "./addresses.js";
import { type CallLane, Calls, type PendingCall } from "./calls.js";
import { ClientDelay } from "./client-delay.js";
import { type FindOptions, type FindQuery, queryOf } from "./find.js";
import { type Asked, Lane, type Wire } from "./lane.js";
import { type ClientState, Link, type LinkListener, type Loss } from "./link.js";
import { type AnyMethods, ClientObject, type HandleContext, type RemoteObject } from "./object-handle.js";
import { type ClientOptions, type ConnectOptions, clientOptions } from "./options.js";
import type { ClientPlatform } from "./platform.js";
import { Watches } from "./watch.js";
import { type WayListener, Ways } from "./ways.js";

const UTF8 = new TextEncoder();

export class MoonportClient {
  readonly #options: ClientOptions;
  readonly #codec: FrameCodec;
  readonly #link: Link;
  /** What goes by the connection. */
  readonly #connection: CallLane;
  readonly #ways: Ways<PendingCall> | undefined;
  readonly #calls: Calls;
  readonly #watches: Watches;
  readonly #context: HandleContext;
  readonly #listeners = new Set<(state: ClientState) => void>();
  #lastId = 0;

  /** Use `connect`, which knows the platform. @throws MoonportError `bad_option` */
  constructor(urls: string | readonly string[], given: ConnectOptions, platform: ClientPlatform) {
    const options = clientOptions(given);
    this.#options = options;
    const codec = options.codec === "json" ? jsonCodec : msgpackCodec;
    this.#codec = codec;
    const addresses = new Addresses(urls);
    this.#link = new Link(addresses, options, codec, platform, this.#listener());
    const wire = this.#wireOf(this.#link);
    this.#connection = new Lane(wire);
    const once = { ...options, learnNodes: false, reconnectAttemptsMax: 1 };
    this.#ways = options.learnNodes
      ? new Ways({
          options,
          platform,
          connectedTo: () => addresses.current,
          makeLink: (url, listener) => new Link(new Addresses(url), once, codec, platform, listener),
          wireOf: (link) => this.#wireOf(link),
          listener: (lane) => this.#wayListener(lane),
        })
      : undefined;
    this.#calls = new Calls(options, platform, this.#connection, this.#ways);
    this.#watches = new Watches(platform, wire);
    const assertOpen = (): void => this.#assertOpen();
    this.#context = { options, calls: this.#calls, watches: this.#watches, assertOpen };
    this.#link.start();
  }

  /** Where the connection stands. */
  get state(): ClientState {
    return this.#link.state;
  }

  /** Tells of each change of {@link state}. @returns a function that ends it */
  onStateChange(listener: (state: ClientState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * The object, whether it exists or not: nothing is sent. `Methods` describes the class's methods, for arguments and results
   * that the compiler checks: `object<AuctionMethods>("Auction", "lot-42").bid("ada", 25)`.
   */
  object<Methods extends object = AnyMethods>(className: string, key: string): RemoteObject<Methods> {
    const target = { app: this.#options.app, class: className, key };
    const handle = new ClientObject(this.#context, target);
    const typed = withMethods<ClientObject, AnyMethods>(handle, (method, args) => handle.call(method, args));
    // What the class returns is known to its author alone: the node says what it is, the type says what it should be.
    return typed as ClientObject & RemoteMethods<AnyMethods> as unknown as RemoteObject<Methods>;
  }

  /**
   * A page of the objects of a class, by their directory: no object is woken.
   * @throws MoonportError `no_directory`, `bad_filter`, `bad_order`, `bad_cursor`, `bad_option`; or the signal's reason
   */
  async find(className: string, query: FindQuery = {}, options: FindOptions = {}): Promise<FoundPage> {
    this.#assertOpen();
    const { app, timeoutMs } = this.#options;
    const asked = queryOf(query, options);
    options.signal?.throwIfAborted();
    const page = await this.#calls.start({
      target: { app, class: className, key: "" },
      method: "find",
      args: [],
      instead: {
        changes: false,
        frame: ({ id, timeoutMs: waitMs }) => ({
          type: "find",
          id,
          timeoutMs: waitMs,
          app,
          class: className,
          query: asked,
        }),
      },
      callId: undefined,
      timeoutMs: options.timeoutMs ?? timeoutMs,
      signal: options.signal,
    });
    return page as unknown as FoundPage;
  }

  /** Delayed commands, for operators: listed, looked at, taken back, moved, delivered after all. */
  get delay(): ClientDelay {
    return new ClientDelay((ask) => this.#askDelay(ask));
  }

  async #askDelay(ask: DelayAsk): Promise<PlainValue> {
    this.#assertOpen();
    const { app, timeoutMs } = this.#options;
    const changes = ask.kind !== "list" && ask.kind !== "get";
    return await this.#calls.start({
      target: { app, class: "delay", key: "command" in ask ? ask.command : "" },
      method: ask.kind,
      args: [],
      instead: {
        changes,
        // A command that was moved may be delivered by the second time, one that was retried is no dead letter any more.
        once: ask.kind === "move" || ask.kind === "retry",
        frame: ({ id, timeoutMs: waitMs }) => ({ type: "delay", id, timeoutMs: waitMs, ask }),
      },
      callId: undefined,
      timeoutMs,
      signal: undefined,
    });
  }

  /**
   * Closes the connection. Loops over subscriptions and views end; calls under way reject, with `outcome_unknown` when they
   * had been sent. Idempotent.
   */
  async close(): Promise<void> {
    if (this.state.kind === "closed") return;
    this.#watches.closeAll();
    this.#calls.failAll(MoonportError.of("caller_gone", "the client was closed"));
    this.#ways?.stop();
    this.#link.stop();
  }

  #listener(): LinkListener {
    return {
      changed: (state) => this.#tell(state),
      up: () => {
        this.#watches.up();
        this.#calls.up(this.#connection);
      },
      frame: (frame) => this.#take(frame),
      down: (loss) => this.#down(loss),
      failed: (error) => {
        this.#watches.failAll(error);
        this.#calls.failAll(error);
        this.#ways?.stop();
      },
    };
  }

  #wayListener(lane: CallLane): ReturnType<WayListener<PendingCall>> {
    return {
      up: () => this.#calls.up(lane),
      frame: (frame) => {
        if (frame.type === "reply") this.#calls.reply(lane, frame.id, frame.value, frame.node);
        else if (frame.type === "error") this.#calls.fail(lane, frame.id, errorIn(frame));
      },
      down: ({ code, error }) => {
        if (code === CLOSE_CODES.too_large) this.#failLargest(this.#calls.asked(lane));
        this.#calls.down(lane, error);
      },
    };
  }

  #wireOf(link: Link): Wire {
    return {
      get isUp() {
        return link.state.kind === "open";
      },
      nextId: () => ++this.#lastId,
      send: (frame) => link.send(frame),
    };
  }

  #take(frame: Exclude<ServerFrame, { type: "welcome" | "pong" | "leaving" }>): void {
    switch (frame.type) {
      case "reply":
        this.#calls.reply(this.#connection, frame.id, frame.value, frame.node);
        return;
      case "error":
        if (!this.#calls.fail(this.#connection, frame.id, errorIn(frame))) this.#watches.take(frame);
        return;
      default:
        this.#watches.take(frame);
    }
  }

  #down({ code, error }: Loss): void {
    if (code === CLOSE_CODES.too_large) {
      this.#failLargest([...this.#calls.asked(this.#connection), ...this.#watches.asked()]);
    }
    this.#watches.down();
    this.#calls.down(this.#connection, error);
  }

  /** Sent once more it would end the next connection as well. */
  #failLargest(asked: readonly Asked[]): void {
    let largest: Asked | undefined;
    let bytesMax = 0;
    for (const one of asked) {
      const bytes = bytesOf(this.#codec.encode(one.frame));
      if (bytes <= bytesMax) continue;
      largest = one;
      bytesMax = bytes;
    }
    const hint = "the limit is SOCKET_FRAME_BYTES_MAX";
    largest?.fail(MoonportError.of("too_large", "the request is larger than the node takes", { hint }));
  }

  #assertOpen(): void {
    const { state } = this;
    if (state.kind !== "closed") return;
    if (state.error !== undefined) throw state.error;
    throw MoonportError.of("caller_gone", "the client is closed");
  }

  /** In a turn of their own: a listener may close the client, and its errors are its own. */
  #tell(state: ClientState): void {
    for (const listener of this.#listeners) queueMicrotask(() => listener(state));
  }
}

/** As the node counts: text by its UTF-8. */
function bytesOf(message: Message): number {
  return typeof message === "string" ? UTF8.encode(message).length : message.length;
}

function errorIn({ error }: ServerFrame & { type: "error" }): MoonportError {
  return errorOf(error) ?? MoonportError.of("internal", "the node sent an error that is none");
}
