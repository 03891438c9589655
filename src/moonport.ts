/**
 * A node inside your program: `await Moonport.open({ dataDir, dir })`.
 *
 * It is the node that `moonport start` runs, with the same objects, gates and errors; calls reach it without a wire between.
 * Whatever it answered is durable, so a program that ends without {@link Moonport.close} loses nothing that it was told;
 * `close` also lets running calls finish and what has not landed land.
 */
import path from "node:path";
import { type AnnouncedNode, EMBEDDED, openAnnounced } from "./announced-node.js";
import { openBucket } from "./bucket/open-bucket.js";
import type { AnyMethods } from "./client/object-handle.js";
import { type AppReader, appReader } from "./embed/app-reader.js";
import { EmbeddedObject, type MoonportObject } from "./embed/object.js";
import { guardedObserver, loggerOf } from "./embed/observing.js";
import { checkMoonportOptions, type MoonportOptions } from "./embed/options.js";
import { DEFAULT_APP, identityOf } from "./identity.js";
import type { ClassInfo, NodeStatus } from "./node-api.js";
import { type Doors, openDoors } from "./server/doors.js";
import { resolveSettings } from "./settings/settings.js";
import { type RemoteMethods, withMethods } from "./typed-methods.js";
import { realWorld } from "./world/real-world.js";
import type { World } from "./world/world.js";

const HOST = "127.0.0.1";
const PORT = 7070;

interface MoonportParts {
  readonly app: string;
  readonly world: World;
  readonly announced: AnnouncedNode;
  readonly readApp: AppReader;
  readonly doors: Doors | undefined;
}

export class Moonport {
  readonly #parts: MoonportParts;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  /**
   * Opens a node on the data folder. Everything taken is given back when it throws.
   * @throws MoonportError `bad_option`, `bad_setting`, `folder_locked` naming who has the folder, `class_invalid` naming every
   * file that does not load, `address_in_use`, `insecure_bind`, `bucket_*`, `storage_*`
   */
  static async open(options: MoonportOptions): Promise<Moonport> {
    checkMoonportOptions(options);
    const { app = DEFAULT_APP, onClassError = "refuse", observer, listen } = options;
    const settings = resolveSettings(options.settings);
    const dataDir = path.resolve(options.dataDir);
    const world = realWorld(dataDir, loggerOf(options.log));
    const readApp = appReader(app, options);
    const bucketUrl = options.bucket ?? `sqlite:${path.join(dataDir, "bucket.db")}`;
    const announced = await openAnnounced(
      {
        world,
        bucket: openBucket(bucketUrl, world, settings),
        apps: [readApp()],
        settings,
        onClassError,
        observer: guardedObserver(observer, world.log, onClassError === "report"),
      },
      EMBEDDED,
    );
    const parts = { app, world, announced, readApp };
    if (listen === undefined) return new Moonport({ ...parts, doors: undefined });
    try {
      const { node } = announced;
      const { host = HOST, port = PORT } = listen;
      const doors = await openDoors({ node, session: node.session, settings, world, host, port });
      announced.announce(doors.url);
      return new Moonport({ ...parts, doors });
    } catch (error) {
      await announced.close();
      throw error;
    }
  }

  private constructor(parts: MoonportParts) {
    this.#parts = parts;
  }

  /** Where the doors answer, `http://127.0.0.1:7070`; undefined without `listen`. */
  get url(): string | undefined {
    return this.#parts.doors?.url;
  }

  /**
   * The object, whether it exists or not: nothing is asked of the node. `Methods` describes the class's methods, for arguments
   * and replies that the compiler checks: `object<AuctionMethods>("Auction", "lot-42").bid("ada", 25)`.
   * @throws MoonportError `bad_name`, `bad_key`
   */
  object<Methods extends object = AnyMethods>(className: string, key: string): MoonportObject<Methods> {
    const { app, world, announced } = this.#parts;
    const context = { node: announced.node, world, closing: this.#closing.signal };
    const handle = new EmbeddedObject(context, identityOf(app, className, key));
    const typed = withMethods<EmbeddedObject, AnyMethods>(handle, (method, args) => handle.call(method, args));
    // What the class returns is known to its author alone: the node says what it is, the type says what it should be.
    return typed as EmbeddedObject & RemoteMethods<AnyMethods> as unknown as MoonportObject<Methods>;
  }

  /** The classes that serve, with their methods. */
  classes(): Promise<readonly ClassInfo[]> {
    return this.#parts.announced.node.classes();
  }

  status(): Promise<NodeStatus> {
    return this.#parts.announced.node.status();
  }

  /**
   * Takes over the app's files as they are now, or the texts given, between calls. What does not load is told, and its last
   * good version goes on serving.
   * @param classes in place of those that `open` was given
   * @returns what did not load; empty when everything did
   * @throws MoonportError `bad_option`, `bad_name`, `storage_*`
   */
  async reload(classes?: Readonly<Record<string, string>>): Promise<NodeStatus["classErrors"]> {
    const { announced, readApp } = this.#parts;
    announced.node.reload([readApp(classes)]);
    return (await announced.node.status()).classErrors;
  }

  /**
   * Ends loops over subscriptions and views, takes no new calls, lets running ones finish and everything land, within
   * DRAIN_MS. Idempotent.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** As {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    await this.#parts.doors?.stop();
    await this.#parts.announced.close();
  }
}
