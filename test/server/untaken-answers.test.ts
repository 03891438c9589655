/** A socket that takes nothing of what it is sent, without a system between that would hide it in buffers of its own. */
import type { IncomingMessage } from "node:http";
import { Duplex } from "node:stream";
import { describe, expect, it } from "vitest";
import { WebSocketDoor } from "../../src/server/websocket-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { FrameCodec } from "../../src/wire/codec.js";
import type { ClientFrame } from "../../src/wire/frames.js";
import { FakeNode } from "../support/fake-node.js";
import { world } from "./door.js";
import { CODECS, FakeLive } from "./sockets.js";

const READ_BYTES = 4_096;
const BUFFER_BYTES = 16_384;
const ANSWER_BYTES_MAX = 400;

/** Gives one read after the other as long as it is read, and never says that a write was taken. */
class Untaken extends Duplex {
  readonly #reads: Buffer[];

  constructor(reads: readonly Buffer[]) {
    super();
    this.#reads = [...reads];
  }

  get unread(): number {
    return this.#reads.length;
  }

  override _read(): void {
    setImmediate(() => {
      const read = this.#reads.shift();
      if (read !== undefined) this.push(read);
    });
  }

  override _write(): void {}
}

function masked({ encode, isBinary }: FrameCodec, frame: unknown): Buffer {
  const payload = Buffer.from(encode(frame as ClientFrame));
  return Buffer.concat([Buffer.of(isBinary ? 0x82 : 0x81, 0x80 | payload.length, 0, 0, 0, 0), payload]);
}

function upgradeTo({ protocol }: FrameCodec): IncomingMessage {
  const headers = {
    upgrade: "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
    "sec-websocket-protocol": protocol,
  };
  return { method: "GET", url: "/v1/socket", headers } as unknown as IncomingMessage;
}

describe.each(CODECS)("a client of $protocol that takes no answers", (codec) => {
  it.each([
    ["pings", { type: "ping" }],
    ["frames that are refused", { type: "call", id: 1 }],
  ])("is not read while its buffer is full of those to %s", async (_, frame) => {
    const one = masked(codec, frame);
    const framesPerRead = Math.floor(READ_BYTES / one.length);
    const read = Buffer.concat(Array.from({ length: framesPerRead }, () => one));
    const raw = new Untaken([masked(codec, { type: "hello" }), ...Array.from({ length: 16 }, () => read)]);
    const settings = resolveSettings({ SOCKET_BUFFER_BYTES_MAX: BUFFER_BYTES });
    const door = new WebSocketDoor({ node: new FakeNode(), live: new FakeLive(), settings, world, session: "session" });
    door.upgrade(upgradeTo(codec), raw, Buffer.alloc(0));
    // More turns than it takes to read everything.
    for (let turn = 0; turn < 60; turn++) await new Promise((resolve) => void setImmediate(resolve));
    expect(raw.unread).toBeGreaterThan(0);
    expect(raw.writableLength).toBeGreaterThanOrEqual(BUFFER_BYTES);
    // What came with the read that filled it is answered still.
    expect(raw.writableLength).toBeLessThan(BUFFER_BYTES + framesPerRead * ANSWER_BYTES_MAX);
    raw.destroy();
    await door.stop();
  });
});
