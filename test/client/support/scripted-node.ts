/** The other side of a client's sockets, played by the test, under virtual time: it sees every frame and answers as it is told. */
import { MoonportClient } from "../../../src/client/client.js";
import type { ConnectOptions } from "../../../src/client/options.js";
import type { ClientPlatform, Socket, SocketEvents } from "../../../src/client/platform.js";
import { SeededRandom } from "../../../src/testing/seeded-random.js";
import { VirtualTime } from "../../../src/testing/virtual-time.js";
import { jsonCodec } from "../../../src/wire/codec.js";
import type { ClientFrame, ServerFrame } from "../../../src/wire/frames.js";

export type FrameOf<Type extends ClientFrame["type"]> = Extract<ClientFrame, { type: Type }>;

export class ScriptedNode {
  readonly time = new VirtualTime();
  readonly connections: ScriptedConnection[] = [];
  /** What becomes of a new socket. `welcome`: a hello is answered. `silent`: it opens, and nothing comes. */
  manner: "welcome" | "silent" | "refuse" | { readonly close: number } = "welcome";
  /** Hosts at which nobody answers. */
  readonly away = new Set<string>();
  protocol: string = jsonCodec.protocol;
  readonly #platform: ClientPlatform;

  constructor() {
    const random = new SeededRandom(7);
    this.#platform = {
      clock: { wallMs: () => Date.UTC(2026, 0, 1) + this.time.nowMs, monotonicMs: () => this.time.nowMs },
      random,
      timers: { after: (delayMs, callback) => this.time.after(delayMs, callback) },
      openSocket: (url, _protocol, events) => {
        const connection = new ScriptedConnection(this, url, events);
        this.connections.push(connection);
        return connection.socket;
      },
    };
  }

  client(options: ConnectOptions = {}): MoonportClient {
    return this.clientOf(["ws://node.test:7070"], options);
  }

  /** Of several nodes, all of which this one plays. */
  clientOf(urls: readonly string[], options: ConnectOptions = {}): MoonportClient {
    return new MoonportClient(urls, options, this.#platform);
  }

  /** A client that is connected already. */
  async connected(options: ConnectOptions = {}): Promise<MoonportClient> {
    const client = this.client(options);
    await this.time.settle();
    return client;
  }

  /** The newest connection. */
  get connection(): ScriptedConnection {
    const newest = this.connections.at(-1);
    if (newest === undefined) throw new Error("nobody has connected");
    return newest;
  }
}

export class ScriptedConnection {
  readonly url: string;
  readonly frames: ClientFrame[] = [];
  readonly socket: Socket;
  droppedByClient = false;
  #isOver = false;
  readonly #node: ScriptedNode;
  readonly #events: SocketEvents;

  constructor(node: ScriptedNode, url: string, events: SocketEvents) {
    this.url = url;
    this.#node = node;
    this.#events = events;
    this.socket = {
      send: (data) => this.#received(jsonCodec.decode(data, 100).value as unknown as ClientFrame),
      drop: () => {
        this.droppedByClient = !this.#isOver;
        this.#isOver = true;
      },
    };
    this.#later(() => {
      const { manner, protocol } = node;
      if (manner === "refuse" || node.away.has(new URL(url).host)) this.close(1006, "connect ECONNREFUSED");
      else this.#events.opened(protocol);
    });
  }

  /** By either side. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Frames of one type, in order. */
  of<Type extends ClientFrame["type"]>(type: Type): FrameOf<Type>[] {
    return this.frames.filter((frame): frame is FrameOf<Type> => frame.type === type);
  }

  /** The newest frame of a type. */
  last<Type extends ClientFrame["type"]>(type: Type): FrameOf<Type> {
    const frame = this.of(type).at(-1);
    if (frame === undefined) throw new Error(`no ${type} came`);
    return frame;
  }

  async say(...frames: ServerFrame[]): Promise<void> {
    for (const frame of frames) this.#later(() => this.#events.received(jsonCodec.encode(frame)));
    await this.#node.time.settle();
  }

  async sayRaw(text: string): Promise<void> {
    this.#later(() => this.#events.received(text));
    await this.#node.time.settle();
  }

  close(code = 1006, why = ""): void {
    this.#later(() => {
      this.#isOver = true;
      this.#events.closed(code, why);
    });
  }

  #received(frame: ClientFrame): void {
    this.frames.push(frame);
    if (frame.type !== "hello") return;
    const { manner } = this.#node;
    if (typeof manner === "object") this.close(manner.close, "unauthenticated");
    if (manner === "welcome") void this.say({ type: "welcome", session: "s1", version: "0.0.0" });
  }

  #later(run: () => void): void {
    this.#node.time.soon(() => {
      if (!this.#isOver) run();
    });
  }
}
