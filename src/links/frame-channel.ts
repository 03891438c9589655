/**
 * A channel between two sides that know each other: frames go out in batches and come in one by one, and each side hears of
 * the other at least every LINK_HEARTBEAT_MS.
 *
 * Silence is counted in rounds of one's own, not in time: a node that was stopped for a while finds one silent round when it
 * goes on, not many, and reads what has arrived meanwhile before it gives anybody up.
 */
import { asMoonportError } from "../errors.js";
import type { LinkCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import type { Deadlines, Watch } from "../world/deadlines.js";
import type { World } from "../world/world.js";
import type { Channel } from "./contract.js";
import { decodeFrames, encodeFrame, FRAME, type Frame } from "./frames.js";
import { Outbox } from "./outbox.js";

export interface FrameListener {
  /** A throw breaks the link: the other side has said what it may not. */
  frame(frame: Frame): void;
  /** Once, and nothing after it; not after one's own `close`. */
  broken(why: string): void;
}

export interface FrameChannelContext {
  readonly world: Pick<World, "timers" | "log">;
  readonly settings: Settings;
  readonly deadlines: Deadlines;
  readonly counters: LinkCounters;
}

/** Rounds of silence after which the other side is given up. */
const SILENT_ROUNDS_MAX = 4;

const HEARTBEAT = encodeFrame([FRAME.heartbeat]);

export class FrameChannel {
  readonly #context: FrameChannelContext;
  readonly #channel: Channel;
  readonly #listener: FrameListener;
  readonly #outbox: Outbox;
  readonly #rounds: Watch;
  #isOpen = true;
  #silentRounds = 0;
  #hasHeard = true;
  #hasSpoken = true;

  constructor(context: FrameChannelContext, channel: Channel, listener: FrameListener) {
    this.#context = context;
    this.#channel = channel;
    this.#listener = listener;
    this.#outbox = new Outbox(channel, context.world);
    this.#rounds = context.deadlines.watch((nowMs) => this.#round(nowMs));
    this.#rounds.lookAfter(this.#rounds.nowMs + context.settings.LINK_HEARTBEAT_MS);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Not yet taken by the network. */
  get bufferedBytes(): number {
    return this.#outbox.bytes;
  }

  /** An encoded frame. */
  send(frame: Uint8Array): void {
    if (!this.#isOpen) return;
    this.#hasSpoken = true;
    this.#context.counters.sentBytes += frame.length;
    this.#outbox.push(frame);
  }

  /** What the channel brought. */
  received(message: Uint8Array): void {
    if (!this.#isOpen) return;
    this.#hasHeard = true;
    this.#context.counters.receivedBytes += message.length;
    try {
      for (const frame of decodeFrames(message)) {
        if (!this.#isOpen) return;
        if (frame[0] !== FRAME.heartbeat) this.#listener.frame(frame);
      }
    } catch (error) {
      this.breakOff(asMoonportError(error).message);
    }
  }

  /** The channel says that it is over. */
  channelClosed(why: string): void {
    if (this.#end()) this.#listener.broken(why);
  }

  /** The other side is not to be talked to any more. */
  breakOff(why: string): void {
    if (!this.#end()) return;
    this.#channel.close(why);
    this.#listener.broken(why);
  }

  /** What was sent leaves first. Idempotent. */
  close(why: string): void {
    if (!this.#isOpen) return;
    this.#outbox.flush();
    this.#end();
    this.#channel.close(why);
  }

  #end(): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.#outbox.stop();
    this.#rounds.cancel();
    return true;
  }

  #round(nowMs: number): number {
    const { LINK_HEARTBEAT_MS } = this.#context.settings;
    this.#silentRounds = this.#hasHeard ? 0 : this.#silentRounds + 1;
    this.#hasHeard = false;
    if (this.#silentRounds >= SILENT_ROUNDS_MAX) {
      this.breakOff(`nothing was heard for ${SILENT_ROUNDS_MAX} times ${LINK_HEARTBEAT_MS} ms`);
      return Number.POSITIVE_INFINITY;
    }
    if (!this.#hasSpoken) this.send(HEARTBEAT);
    this.#hasSpoken = false;
    return nowMs + LINK_HEARTBEAT_MS;
  }
}
