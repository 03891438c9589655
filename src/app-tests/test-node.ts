/**
 * The node under an app's test: all of it real but time, which passes only when the test says so, and the bucket, which is
 * memory and outlives the node's crashes.
 */
import type { AppSource } from "../app-source.js";
import type { Bucket } from "../bucket/bucket.js";
import { openBucket } from "../bucket/open-bucket.js";
import { MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import type { Caller, DirectoryQuery } from "../lua/contract.js";
import { MoonportNode } from "../node.js";
import type { UnitResponse } from "../node-api.js";
import type { Observation } from "../observation.js";
import type { Settings } from "../settings/settings.js";
import { lastingBucket } from "../testing/lasting-bucket.js";
import { VirtualTime } from "../testing/virtual-time.js";
import { VirtualWorld } from "../testing/virtual-world.js";
import type { PlainObject, PlainValue } from "../values.js";
import type { Logger } from "../world/logger.js";

export interface TestNodeOptions {
  readonly app: AppSource;
  readonly settings: Settings;
  /** A folder that is not there yet, in one that is this node's alone. */
  readonly root: string;
  readonly log: Logger;
}

type SeenEvent = Extract<Observation, { kind: "event" }>;

export class TestNode {
  readonly #options: TestNodeOptions;
  readonly #time = new VirtualTime();
  readonly #bucket: Bucket;
  readonly #events: SeenEvent[] = [];
  #world: VirtualWorld;
  #node: MoonportNode | undefined;
  caller: Caller = { kind: "client" };

  private constructor(options: TestNodeOptions) {
    this.#options = options;
    const { root, log, settings } = options;
    this.#world = new VirtualWorld({ time: this.#time, root, log });
    // In a world of its own: a node's crash does not touch it.
    const cloud = new VirtualWorld({ time: this.#time, root: `${root}-bucket`, seed: 2 });
    this.#bucket = openBucket("memory:", cloud, settings);
  }

  /** @throws MoonportError `class_invalid` with every file that does not load */
  static async open(options: TestNodeOptions): Promise<TestNode> {
    const node = new TestNode(options);
    await node.#bucket.start();
    await node.#open();
    return node;
  }

  get wallMs(): number {
    return this.#world.clock.wallMs();
  }

  async call(object: string | ObjectIdentity, method: string, args: readonly PlainValue[]): Promise<PlainValue> {
    const identity = typeof object === "string" ? this.#identity(object) : object;
    return (await this.#until(this.#running.call({ object: identity, method, args, caller: this.caller }))).value;
  }

  /** Directories hear of everything first: a test asks for what it has just done. */
  async find(className: string, query: DirectoryQuery): Promise<PlainValue> {
    const node = this.#running;
    await this.#until(node.rowsTold());
    return {
      ...(await this.#until(node.find({ app: this.#options.app.app, className, query }))),
    } as unknown as PlainValue;
  }

  async unit(unit: string, request: PlainObject): Promise<PlainValue> {
    const { method, path, query, headers, body } = request;
    const response = await this.#until(
      this.#running.runUnit({
        app: this.#options.app.app,
        unit,
        method: typeof method === "string" ? method : body === undefined ? "GET" : "POST",
        path: typeof path === "string" ? path : "/",
        query: (query ?? {}) as Readonly<Record<string, string>>,
        headers: lowerCase((headers ?? {}) as Readonly<Record<string, string>>),
        ...(body !== undefined && { body }),
        caller: this.caller,
      }),
    );
    return { status: response.status, headers: { ...response.headers }, body: bodyOf(response) };
  }

  /** What the object has told so far, in order. */
  async events(object: string): Promise<PlainValue> {
    const { id } = this.#identity(object);
    await this.#time.settle();
    const own = this.#events.filter((event) => event.object === id);
    return own.map(({ number, name, data }) => ({ number, name, data }));
  }

  async advance(durationMs: number): Promise<void> {
    await this.#time.advance(durationMs);
  }

  /** The power goes and comes back: what was answered is there, nothing else is. */
  async restart(): Promise<void> {
    this.#world = this.#world.crash();
    await this.#open();
  }

  /** Lets go of everything; the folder is the caller's to remove. */
  close(): void {
    this.#world.revoke();
  }

  get #running(): MoonportNode {
    if (this.#node === undefined) throw MoonportError.of("node_stopping", "the node is not open");
    return this.#node;
  }

  async #open(): Promise<void> {
    const { app, settings } = this.#options;
    this.#node = await this.#until(
      MoonportNode.open({
        world: this.#world,
        bucket: lastingBucket(this.#bucket),
        apps: [app],
        settings,
        onClassError: "refuse",
        observer: (observation) => {
          if (observation.kind === "event") this.#events.push(observation);
        },
      }),
    );
  }

  #identity(object: string): ObjectIdentity {
    const slash = object.indexOf("/");
    if (slash < 0) throw MoonportError.of("bad_name", `"${object}" names no object: write Class/key`);
    return identityOf(this.#options.app.app, object.slice(0, slash), object.slice(slash + 1));
  }

  #until<T>(promise: Promise<T>): Promise<T> {
    return this.#time.until(promise);
  }
}

/** As the doors give them to a unit. */
function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function bodyOf({ headers, body }: UnitResponse): PlainValue {
  if (typeof body !== "string" || !/json/.test(headers["content-type"] ?? "")) return body;
  return JSON.parse(body) as PlainValue;
}
