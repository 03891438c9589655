/** A WebSocket door on a free port over a fake node and a fake hub, and a client that says exactly what a test tells it to. */
import { type ClientOptions, WebSocket } from "ws";
import type { Authenticator } from "../../src/auth/contract.js";
import type {
  Delivery,
  LiveApi,
  Sink,
  SubscribeRequest,
  Subscription,
  ViewRequest,
} from "../../src/realtime/contract.js";
import { HttpDoor } from "../../src/server/http-door.js";
import { WebSocketDoor } from "../../src/server/websocket-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainObject } from "../../src/values.js";
import { codecOf, type FrameCodec, jsonCodec, msgpackCodec } from "../../src/wire/codec.js";
import type { ClientFrame } from "../../src/wire/frames.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { FakeNode } from "../support/fake-node.js";
import { world } from "./door.js";

export const CODECS: readonly FrameCodec[] = [jsonCodec, msgpackCodec];

/** Takes every subscription; the test delivers. */
export class FakeLive implements LiveApi {
  readonly subscriptions: { request: SubscribeRequest | ViewRequest; sink: Sink; isClosed: boolean }[] = [];
  refuse: Error | undefined;
  #prepared: Promise<void> = Promise.resolve();

  /** From now on none stands before the test says so. */
  holdBack(): Deferred<void> {
    const held = deferred();
    this.#prepared = held.promise;
    return held;
  }

  get open(): number {
    return this.subscriptions.filter(({ isClosed }) => !isClosed).length;
  }

  async subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    return this.#take(request, sink);
  }

  async view(request: ViewRequest, sink: Sink): Promise<Subscription> {
    return this.#take(request, sink);
  }

  deliver(delivery: Delivery): void {
    for (const { sink, isClosed } of this.subscriptions) if (!isClosed) sink.deliver(delivery);
  }

  async #take(request: SubscribeRequest | ViewRequest, sink: Sink): Promise<Subscription> {
    if (this.refuse !== undefined) throw this.refuse;
    const entry = { request, sink, isClosed: false };
    this.subscriptions.push(entry);
    await this.#prepared;
    return {
      after: 4,
      close: () => {
        entry.isClosed = true;
      },
    };
  }
}

export interface OpenSockets {
  readonly node: FakeNode;
  readonly live: FakeLive;
  readonly door: WebSocketDoor;
  readonly port: number;
  stop(): Promise<void>;
}

export async function openSockets(
  overrides: Record<string, number> = {},
  auth?: Authenticator,
  over: { readonly node?: FakeNode } = {},
): Promise<OpenSockets> {
  const node = over.node ?? new FakeNode();
  const live = new FakeLive();
  const settings = resolveSettings({ DRAIN_MS: 2_000, ...overrides });
  const shared = { node, settings, world, ...(auth !== undefined && { auth }) };
  const door = new WebSocketDoor({ ...shared, live, session: "session-1" });
  const http = new HttpDoor({ ...shared, host: "127.0.0.1", port: 0, upgrades: [door] });
  const { url } = await http.start();
  return { node, live, door, port: Number(new URL(url).port), stop: () => http.stop() };
}

export interface Closed {
  readonly code: number;
  readonly reason: string;
}

export class TestClient {
  readonly ws: WebSocket;
  readonly frames: PlainObject[] = [];
  readonly closed: Promise<Closed>;
  readonly #codec: FrameCodec;
  #waiting: (() => void)[] = [];
  #isClosed = false;

  private constructor(ws: WebSocket, codec: FrameCodec) {
    this.ws = ws;
    this.#codec = codec;
    ws.on("message", (data: Buffer, isBinary) => {
      const message = isBinary ? data : data.toString("utf8");
      this.frames.push(codec.decode(message, 100).value as PlainObject);
      this.#wake();
    });
    ws.on("error", () => {});
    this.closed = new Promise((resolve) => {
      ws.on("close", (code, reason) => {
        this.#isClosed = true;
        resolve({ code, reason: reason.toString("utf8") });
        this.#wake();
      });
    });
  }

  static async connect(
    port: number,
    codec = jsonCodec as FrameCodec,
    options: ClientOptions = {},
  ): Promise<TestClient> {
    const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/socket`, codec.protocol, options);
    const client = new TestClient(ws, codecOf(ws.protocol) ?? codec);
    await new Promise<void>((resolve, reject) => {
      ws.on("open", resolve);
      ws.on("error", reject);
    });
    return client;
  }

  /** Connected and welcome. */
  static async greeted(port: number, codec?: FrameCodec, token?: string): Promise<TestClient> {
    const client = await TestClient.connect(port, codec);
    client.send(token === undefined ? { type: "hello" } : { type: "hello", token });
    await client.next("welcome");
    return client;
  }

  send(frame: ClientFrame): void {
    this.ws.send(this.#codec.encode(frame));
  }

  /** Whatever it is, as a message of the codec's kind. */
  sendRaw(message: string | Uint8Array): void {
    this.ws.send(message);
  }

  sendValue(frame: unknown): void {
    this.ws.send(this.#codec.encode(frame as ClientFrame));
  }

  /** The next frame of that type (and number), taken out of those that came. */
  async next(type: string, id?: number): Promise<PlainObject> {
    for (;;) {
      const at = this.frames.findIndex((frame) => frame.type === type && (id === undefined || frame.id === id));
      if (at >= 0) return this.frames.splice(at, 1)[0] as PlainObject;
      if (this.#isClosed) throw new Error(`the socket closed before a ${type} frame came`);
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    }
  }

  /** Everything that was sent before has been read by the node, and what it answered at once has come. */
  async roundTrip(): Promise<void> {
    const n = 1_000_000 + Math.floor(this.frames.length);
    this.send({ type: "ping", n });
    await this.next("pong");
  }

  async close(): Promise<void> {
    this.ws.close();
    await this.closed;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}

/** Resolves once the condition holds; the test's own timeout is its bound. */
export async function eventually(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => void setImmediate(resolve));
}
