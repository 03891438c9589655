/**
 * What is on its way out of a link: frames of one turn leave together as one channel message, in their order, so that many
 * small ones cost as much as one. A large one travels alone, so that it is not copied.
 */
import type { Timer, World } from "../world/world.js";
import type { Channel } from "./contract.js";

/** So that the other side can begin with the first while the last is still being written. */
const MESSAGE_BYTES = 256 * 1_024;

export class Outbox {
  readonly #channel: Channel;
  readonly #world: Pick<World, "timers">;
  #frames: Uint8Array[] = [];
  #gatheredBytes = 0;
  #flush: Timer | undefined;

  constructor(channel: Channel, world: Pick<World, "timers">) {
    this.#channel = channel;
    this.#world = world;
  }

  /** Waiting here or in the channel. */
  get bytes(): number {
    return this.#gatheredBytes + this.#channel.bufferedBytes;
  }

  push(frame: Uint8Array): void {
    this.#frames.push(frame);
    this.#gatheredBytes += frame.length;
    this.#flush ??= this.#world.timers.soon(() => this.flush());
  }

  flush(): void {
    this.#flush?.cancel();
    this.#flush = undefined;
    const frames = this.#frames;
    this.#frames = [];
    this.#gatheredBytes = 0;
    let first = 0;
    let bytes = 0;
    for (const [index, frame] of frames.entries()) {
      if (bytes > 0 && bytes + frame.length > MESSAGE_BYTES) {
        this.#channel.send(joined(frames, first, index, bytes));
        first = index;
        bytes = 0;
      }
      bytes += frame.length;
    }
    if (bytes > 0) this.#channel.send(joined(frames, first, frames.length, bytes));
  }

  /** What was not sent is dropped. */
  stop(): void {
    this.#flush?.cancel();
    this.#flush = undefined;
    this.#frames = [];
    this.#gatheredBytes = 0;
  }
}

function joined(frames: readonly Uint8Array[], from: number, until: number, bytes: number): Uint8Array {
  if (until - from === 1) return frames[from] as Uint8Array;
  const message = new Uint8Array(bytes);
  let at = 0;
  for (let index = from; index < until; index++) {
    const frame = frames[index] as Uint8Array;
    message.set(frame, at);
    at += frame.length;
  }
  return message;
}
