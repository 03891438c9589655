/** A real node behind its doors, and a raw reader of its event streams. */
import http from "node:http";
import { onTestFinished } from "vitest";
import type { Authenticator } from "../../src/auth/contract.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import type { MemoryContents } from "../../src/bucket/memory-contents.js";
import { MoonportNode } from "../../src/node.js";
import { type Doors, openDoors } from "../../src/server/doors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { type StreamMessage, StreamReader } from "../../src/wire/event-stream.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "./temporary-folder.js";

export interface ServedNode {
  readonly node: MoonportNode;
  readonly doors: Doors;
  readonly bucket: MemoryBucket;
  readonly port: number;
  stop(): Promise<void>;
}

export interface ServeOptions {
  readonly classes: Readonly<Record<string, string>>;
  readonly settings?: Readonly<Record<string, number>>;
  /** What an earlier node left. */
  readonly contents?: MemoryContents;
  readonly port?: number;
  readonly auth?: Authenticator;
}

export async function serveNode({
  classes,
  settings: given,
  contents,
  port = 0,
  auth,
}: ServeOptions): Promise<ServedNode> {
  const settings = resolveSettings({ DRAIN_MS: 5_000, ...given });
  const world = realWorld(temporaryFolder(), silentLogger);
  const sources = Object.entries(classes).map(([name, text]) => ({
    app: "default",
    name,
    file: `classes/${name}.lua`,
    text,
  }));
  const bucket = new MemoryBucket(world, contents && { contents });
  const node = await MoonportNode.open({
    world,
    bucket,
    apps: [{ app: "default", classes: sources }],
    settings,
    onClassError: "refuse",
  });
  const { session } = node;
  const doors = await openDoors({ node, session, settings, world, host: "127.0.0.1", port, ...(auth && { auth }) });
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= doors.stop().then(() => node.stop());
    return stopped;
  };
  onTestFinished(stop);
  return { node, doors, bucket, port: Number(new URL(doors.url).port), stop };
}

/** One event stream as a browser would read it, but one that shows everything. */
export class StreamClient {
  readonly messages: StreamMessage[] = [];
  readonly response: http.IncomingMessage;
  readonly #reader = new StreamReader();
  readonly #waiting = new Set<() => void>();
  text = "";
  isEnded = false;

  private constructor(response: http.IncomingMessage) {
    this.response = response;
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      this.text += text;
      this.messages.push(...this.#reader.push(text));
      this.#wake();
    });
    response.on("close", () => {
      this.isEnded = true;
      this.#wake();
    });
    response.on("error", () => {});
    onTestFinished(() => void response.destroy());
  }

  static open(port: number, path: string, headers: http.OutgoingHttpHeaders = {}): Promise<StreamClient> {
    return new Promise((resolve, reject) => {
      const request = http.get({ host: "127.0.0.1", port, path, headers, agent: false });
      request.on("error", reject);
      request.on("response", (response) => resolve(new StreamClient(response)));
    });
  }

  /** The last id that was said. */
  get id(): string {
    return this.#reader.id;
  }

  async until(reached: (client: StreamClient) => boolean): Promise<void> {
    while (!reached(this)) {
      if (this.isEnded) throw new Error(`the stream ended: ${this.text}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  async ended(): Promise<void> {
    while (!this.isEnded) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  /** In short: `said 3 "hi"`. */
  get story(): string[] {
    return this.messages.map(({ name, id, data }) => `${name} ${id} ${data}`);
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
