/**
 * The one connection of a client: it connects, says hello, asks a silent node for a sign of life, and connects again after a
 * loss, with growing pauses. Whoever uses it is told `up` once the node has welcomed it and `down` when it is lost; between
 * the two, frames go out and come in whole and in order. What was sent before `down` may or may not have arrived.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { FrameCodec } from "../wire/codec.js";
import { CLOSE_CODES, type ClientFrame, type ServerFrame } from "../wire/frames.js";
import { backoffMs } from "../world/backoff.js";
import type { Addresses } from "./addresses.js";
import type { ClientOptions } from "./options.js";
import type { ClientPlatform, PlatformTimer, Socket } from "./platform.js";

/** Where the connection stands, as users see it. */
export type ClientState =
  /** `attempt`: from 1, since there was a connection. */
  | { readonly kind: "connecting"; readonly attempt: number }
  /** `session`: the node's life it is connected to. */
  | { readonly kind: "open"; readonly session: string; readonly version: string }
  /** Pausing before the next try. `error`: why there is no connection. */
  | { readonly kind: "waiting"; readonly attempt: number; readonly delayMs: number; readonly error: MoonportError }
  /** For good. `error` is there when it was not {@link close} that ended it. */
  | { readonly kind: "closed"; readonly error?: MoonportError };

/** How a connection ended. */
export interface Loss {
  readonly code: number;
  readonly error: MoonportError;
}

export interface LinkListener {
  changed(state: ClientState): void;
  up(): void;
  frame(frame: Exclude<ServerFrame, { type: "welcome" | "pong" | "leaving" }>): void;
  down(loss: Loss): void;
  /** No connection is tried any more. */
  failed(error: MoonportError): void;
}

/** Deeper than any value that a node may be set to send, and the frame around it. */
const FRAME_DEPTH_MAX = 1_016;
/** A code of our own for a connection that this side gave up. */
const CLOSED_HERE = 1_006;

export class Link {
  readonly #addresses: Addresses;
  readonly #options: ClientOptions;
  readonly #codec: FrameCodec;
  readonly #platform: ClientPlatform;
  readonly #listener: LinkListener;
  #state: ClientState = { kind: "connecting", attempt: 1 };
  #socket: Socket | undefined;
  /** Of the phase it is in: the pause, the connecting, or the watch over the node's silence. */
  #timer: PlatformTimer | undefined;
  /** Tries and short-lived connections in a row that came to nothing. */
  #failures = 0;
  #wasRefusedToken = false;
  #heardMs = 0;

  constructor(
    addresses: Addresses,
    options: ClientOptions,
    codec: FrameCodec,
    platform: ClientPlatform,
    listener: LinkListener,
  ) {
    this.#addresses = addresses;
    this.#options = options;
    this.#codec = codec;
    this.#platform = platform;
    this.#listener = listener;
  }

  get state(): ClientState {
    return this.#state;
  }

  start(): void {
    void this.#connect();
  }

  /** Idempotent; nothing is told afterwards but the change of state. */
  stop(error?: MoonportError): void {
    if (this.#state.kind === "closed") return;
    this.#release();
    this.#change(error === undefined ? { kind: "closed" } : { kind: "closed", error });
  }

  /** Only while it is up. */
  send(frame: ClientFrame): void {
    this.#socket?.send(this.#codec.encode(frame));
  }

  async #connect(): Promise<void> {
    const attempt: ClientState = { kind: "connecting", attempt: this.#failures + 1 };
    this.#change(attempt);
    let token: string | undefined;
    try {
      token = await this.#token();
    } catch (error) {
      if (this.#state === attempt) this.#lost({ code: CLOSED_HERE, error: asMoonportError(error) });
      return;
    }
    if (this.#state !== attempt) return;
    const { connectTimeoutMs } = this.#options;
    this.#timer = this.#platform.timers.after(connectTimeoutMs, () =>
      this.#giveUp(`did not welcome us within ${connectTimeoutMs} ms`),
    );
    this.#socket = this.#platform.openSocket(this.#addresses.current, this.#codec.protocol, {
      opened: (protocol) => this.#opened(protocol, token),
      received: (data) => this.#received(data),
      closed: (code, why) => this.#lost({ code, error: this.#closeError(code, why) }),
    });
  }

  async #token(): Promise<string | undefined> {
    const { token } = this.#options;
    return typeof token === "function" ? await token() : token;
  }

  #opened(protocol: string, token: string | undefined): void {
    if (protocol !== this.#codec.protocol) return this.#giveUp(`does not speak ${this.#codec.protocol}`);
    this.send(token === undefined ? { type: "hello" } : { type: "hello", token });
  }

  #received(data: string | Uint8Array): void {
    this.#heardMs = this.#platform.clock.monotonicMs();
    const frame = this.#read(data);
    if (frame instanceof MoonportError) return this.#giveUp(`sent what is no frame (${frame.message})`);
    if (this.#state.kind !== "open") {
      if (frame.type !== "welcome") return this.#giveUp("did not begin with a welcome");
      return this.#welcomed(frame);
    }
    this.#failures = 0;
    if (frame.type === "leaving") this.#nodeLeaves(frame.nodes);
    else if (frame.type !== "welcome" && frame.type !== "pong") this.#listener.frame(frame);
  }

  #read(data: string | Uint8Array): ServerFrame | MoonportError {
    try {
      const { value, fault } = this.#codec.decode(data, FRAME_DEPTH_MAX);
      if (fault !== undefined) return fault;
      const frame = (value ?? {}) as { readonly type?: unknown };
      if (typeof frame.type !== "string") return MoonportError.of("bad_request", "it has no type");
      // Both ends are this package: a frame of the node has its type's shape.
      return frame as ServerFrame;
    } catch (error) {
      return asMoonportError(error);
    }
  }

  #welcomed({ session, version }: ServerFrame & { type: "welcome" }): void {
    this.#wasRefusedToken = false;
    this.#change({ kind: "open", session, version });
    this.#watch();
    this.#listener.up();
  }

  /** A connection whose other side has vanished stays silent: only asking tells. */
  #watch(): void {
    const { pingIntervalMs, pingTimeoutMs } = this.#options;
    const { timers, clock } = this.#platform;
    this.#timer?.cancel();
    const silentMs = clock.monotonicMs() - this.#heardMs;
    if (silentMs < pingIntervalMs) {
      this.#timer = timers.after(pingIntervalMs - silentMs, () => this.#watch());
      return;
    }
    const heardMs = this.#heardMs;
    this.send({ type: "ping" });
    this.#timer = timers.after(pingTimeoutMs, () => {
      if (this.#heardMs > heardMs) this.#watch();
      else this.#giveUp(`gave no sign of life for ${pingIntervalMs + pingTimeoutMs} ms`);
    });
  }

  /** Where there is another node the client goes there at once, and does not wait for this one's end. */
  #nodeLeaves(nodes: readonly string[]): void {
    if (this.#options.learnNodes) this.#addresses.learn(nodes);
    if (this.#addresses.size > 1) this.#giveUp("is about to stop");
  }

  #giveUp(why: string): void {
    this.#lost({ code: CLOSED_HERE, error: this.#unreachable(why) });
  }

  #lost(loss: Loss): void {
    const wasUp = this.#state.kind === "open";
    this.#release();
    this.#failures += 1;
    this.#addresses.next();
    if (this.#isFinal(loss)) {
      this.#change({ kind: "closed", error: loss.error });
      if (wasUp) this.#listener.down(loss);
      return this.#listener.failed(loss.error);
    }
    this.#pause(loss.error);
    if (wasUp) this.#listener.down(loss);
  }

  #pause(error: MoonportError): void {
    const { reconnectDelayMs, reconnectDelayMaxMs } = this.#options;
    const { random, timers } = this.#platform;
    // Each address is tried once before the first pause: one that is away says nothing of the others.
    const rounds = this.#failures / this.#addresses.size;
    const isRoundOver = Number.isInteger(rounds);
    const delayMs = isRoundOver
      ? Math.ceil(backoffMs(rounds, reconnectDelayMs, reconnectDelayMaxMs, random.fraction()))
      : 0;
    this.#timer = timers.after(delayMs, () => void this.#connect());
    this.#change({ kind: "waiting", attempt: this.#failures + 1, delayMs, error });
  }

  /** A token that does not change is refused once; one that is asked for may just have run out, and gets a second try. */
  #isFinal({ code }: Loss): boolean {
    // This side and the node do not speak of the same frames: another try would end as this one did.
    if (code === CLOSE_CODES.bad_frame) return true;
    if (code === CLOSE_CODES.unauthenticated) {
      if (this.#wasRefusedToken || typeof this.#options.token !== "function") return true;
      this.#wasRefusedToken = true;
    }
    return this.#failures >= this.#options.reconnectAttemptsMax;
  }

  #closeError(code: number, why: string): MoonportError {
    if (code === CLOSE_CODES.unauthenticated) {
      return MoonportError.of(
        "unauthenticated",
        `${this.#addresses.current} refused the token`,
        why === "" ? {} : { hint: why },
      );
    }
    return this.#unreachable(`closed the connection (${code}${why === "" ? "" : `, ${why}`})`);
  }

  #unreachable(what: string): MoonportError {
    return MoonportError.of("node_unreachable", `${this.#addresses.current} ${what}`);
  }

  #release(): void {
    this.#timer?.cancel();
    this.#socket?.drop();
    this.#socket = undefined;
  }

  #change(state: ClientState): void {
    this.#state = state;
    this.#listener.changed(state);
  }
}
