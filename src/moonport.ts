/**
 * A node inside your program: `await Moonport.open({ dataDir, dir })`.
 *
 * It is the node that `moonport start` runs, with the same objects, gates and errors; calls reach it without a wire between.
 * Whatever it answered is durable, so a program that ends without {@link Moonport.close} loses nothing that it was told;
 * `close` also lets running calls finish and what has not landed land.
 */
import path from "node:path";
import { type AnnouncedNode, openAnnounced } from "./announced-node.js";
import { openBucket } from "./bucket/open-bucket.js";
import { type FindOptions, type FindQuery, queryOf } from "./client/find.js";
import type { AnyMethods } from "./client/object-handle.js";
import type { DelayApi } from "./delay/contract.js";
import { orAborted } from "./embed/aborted.js";
import { type AppReader, appReader } from "./embed/app-reader.js";
import { authenticatorOf } from "./embed/authenticator.js";
import type { MoonportObject } from "./embed/handle.js";
import { inTime } from "./embed/in-time.js";
import { EmbeddedObject } from "./embed/object.js";
import { guardedObserver, logFormatOf, loggerOf } from "./embed/observing.js";
import {
  checkDeployOptions,
  checkMoonportOptions,
  checkRollbackOptions,
  type DeployOptions,
  type ListenOptions,
  type MoonportOptions,
  type ReplacedTexts,
  type RollbackOptions,
  type UnitCall,
  type UnitOptions,
} from "./embed/options.js";
import { MoonportPast } from "./embed/past.js";
import { unitRequestOf } from "./embed/unit.js";
import { MoonportError } from "./errors.js";
import { fleetOptionsOf } from "./fleet/checked-config.js";
import { bucketUrlOf, rememberBucket } from "./folder-bucket.js";
import { EMBEDDED } from "./folder-holder.js";
import { checkClassName, checkUnitName, DEFAULT_APP, identityOf } from "./identity.js";
import type { ClassInfo, DirectoryStatus, FoundPage, NodeInfo, NodeStatus, UnitResponse } from "./node-api.js";
import { filesOf } from "./release/bundle.js";
import type { AppReleases, Deployed } from "./release/contract.js";
import { type Doors, openDoors } from "./server/doors.js";
import { resolveSettings, type Settings } from "./settings/settings.js";
import { type RemoteMethods, withMethods } from "./typed-methods.js";
import { realFetcher } from "./world/real-fetcher.js";
import { realWorld } from "./world/real-world.js";
import { threadWatchdog } from "./world/watchdog/thread-watchdog.js";
import { uuidv7, type World } from "./world/world.js";

const HOST = "127.0.0.1";
const PORT = 7070;

interface MoonportParts {
  readonly app: string;
  readonly world: World;
  readonly settings: Settings;
  readonly announced: AnnouncedNode;
  /** Absent where what was deployed is served. */
  readonly readApp: AppReader | undefined;
  readonly doors: Doors | undefined;
}

export class Moonport {
  readonly #parts: MoonportParts;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  /**
   * Opens a node on the data folder. Everything taken is given back when it throws.
   * @throws MoonportError `bad_option`, `bad_setting`, `folder_locked` naming who has the folder, `class_invalid` naming every
   * file that does not load, `app_not_found` without files when nothing was deployed, `address_in_use`, `insecure_bind`, `bucket_*`, `storage_*`; in a fleet also `fleet_mismatch`,
   * `fleet_full`
   */
  static async open(options: MoonportOptions): Promise<Moonport> {
    checkMoonportOptions(options);
    const { app = DEFAULT_APP, onClassError = "refuse", observer, native, allowFetch, listen } = options;
    const settings = resolveSettings(options.settings);
    const dataDir = path.resolve(options.dataDir);
    const world = realWorld(dataDir, loggerOf(options.log));
    const readApp = appReader(app, options);
    const bucketUrl = bucketUrlOf(world.folder, options.bucket);
    const fleet = options.fleet && fleetOptionsOf(options.fleet, bucketUrl, settings);
    const announced = await openAnnounced(
      {
        world,
        bucket: openBucket(bucketUrl, world, settings),
        apps: readApp === undefined ? [] : [readApp()],
        followsReleases: readApp === undefined ? [app] : [],
        settings,
        onClassError,
        observer: guardedObserver(observer, world.log, onClassError === "report"),
        watchdog: threadWatchdog({
          stallMs: settings.NODE_STALL_MS,
          world,
          format: logFormatOf(options.log),
          // Whatever else blocks the program is its own affair.
          outsideClassCode: "report",
        }),
        ...(native !== undefined && { native }),
        ...(allowFetch !== undefined && { outbound: { allowHosts: allowFetch, fetcher: realFetcher } }),
      },
      EMBEDDED,
      fleet,
    );
    const parts = { app, world, settings, announced, readApp };
    try {
      rememberBucket(world.folder, bucketUrl, world.log);
      return new Moonport({ ...parts, doors: listen && (await Moonport.#openDoors(parts, listen)) });
    } catch (error) {
      await announced.close();
      throw error;
    }
  }

  static async #openDoors(parts: Omit<MoonportParts, "doors">, listen: ListenOptions): Promise<Doors> {
    const { announced, settings, world } = parts;
    const { node } = announced;
    const { host = HOST, port = PORT, auth, allowOrigins } = listen;
    const doors = await openDoors({
      node,
      session: node.session,
      settings,
      world,
      host,
      port,
      ...(auth !== undefined && { auth: authenticatorOf(auth, world) }),
      ...(allowOrigins !== undefined && { allowOrigins }),
    });
    try {
      announced.announce(doors.url);
    } catch (error) {
      await doors.stop();
      throw error;
    }
    return doors;
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

  /**
   * What the object was, and putting it to use (docs/history.md).
   * @throws MoonportError `bad_name`, `bad_key`
   */
  past(className: string, key: string): MoonportPast {
    const { app, announced } = this.#parts;
    return new MoonportPast(announced.node, identityOf(app, className, key));
  }

  /**
   * Runs a unit; resolves with its response once everything that it did is durable.
   * @throws MoonportError what the unit throws, `unit_not_found`, `outcome_unknown` naming its calls; or the signal's reason
   */
  async unit(name: string, request: UnitCall = {}, options: UnitOptions = {}): Promise<UnitResponse> {
    const { app, world, settings, announced } = this.#parts;
    checkUnitName(name);
    const callId = options.callId ?? uuidv7(world);
    const wanted = unitRequestOf({ app, unit: name }, request, { ...options, callId }, settings.VALUE_DEPTH_MAX);
    return await orAborted(options.signal, () =>
      inTime(world, { timeoutMs: options.timeoutMs, callId }, () => announced.node.runUnit(wanted)),
    );
  }

  /**
   * A page of the objects of a class, by their directory: no object is woken.
   * @throws MoonportError `no_directory`, `bad_filter`, `bad_order`, `bad_cursor`, `bad_option`; or the signal's reason
   */
  async find(className: string, query: FindQuery = {}, options: FindOptions = {}): Promise<FoundPage> {
    const { app, announced } = this.#parts;
    checkClassName(className);
    const { timeoutMs, signal } = options;
    const request = { app, className, query: queryOf(query, options), ...(timeoutMs !== undefined && { timeoutMs }) };
    return await orAborted(signal, () => announced.node.find(request));
  }

  /** Delayed commands, whoever sent them: listed, looked at, taken back, moved, delivered after all (docs/timers.md). */
  get delay(): Omit<DelayApi, "send"> {
    return this.#parts.announced.node.delay;
  }

  /** How a class's directory stands. @throws MoonportError `no_directory` */
  directory(className: string): Promise<DirectoryStatus> {
    return this.#parts.announced.node.directory(this.#parts.app, className);
  }

  /** The classes that serve, with their methods. */
  classes(): Promise<readonly ClassInfo[]> {
    return this.#parts.announced.node.classes();
  }

  status(): Promise<NodeStatus> {
    return this.#parts.announced.node.status();
  }

  /** The nodes of the fleet as this one sees them; none when it is alone. */
  nodes(): Promise<readonly NodeInfo[]> {
    return this.#parts.announced.node.nodes();
  }

  /**
   * Takes over the app's files as they are now, or the texts given, between calls. What does not load is told, and its last
   * good version goes on serving.
   * @param replaced Lua in place of what `open` was given; what is left out stays
   * @returns what did not load; empty when everything did
   * @throws MoonportError `bad_option`, `bad_name`, `storage_*`
   */
  async reload(replaced?: ReplacedTexts): Promise<NodeStatus["classErrors"]> {
    const { announced, readApp } = this.#parts;
    if (readApp === undefined) {
      throw MoonportError.of(
        "bad_option",
        "reload takes over files that the node was opened with: it has none, and serves what is deployed",
      );
    }
    announced.node.reload([readApp(replaced)]);
    return (await announced.node.status()).classErrors;
  }

  /**
   * Makes files the app's current release, which every node that follows releases then serves; one that was opened with files
   * of its own, as this may be, goes on with those. Resolves when all that answer have switched, or said why not.
   * @throws MoonportError `bad_option`, `bad_release`, `too_large`, `class_invalid`, `deploy_conflict`, `objects_migrated`,
   * `objects_unread`, `release_unloadable`, `bucket_failed`
   */
  async deploy(options: DeployOptions): Promise<Deployed> {
    checkDeployOptions(options);
    const { app, announced, readApp } = this.#parts;
    const { dir, classes, units, modules, ...terms } = options;
    const read = appReader(app, given({ dir, classes, units, modules })) ?? readApp;
    if (read === undefined)
      throw MoonportError.of("bad_option", "deploy needs either dir, the app's folder, or classes");
    return await announced.node.deploy({ app, files: filesOf(read()), ...given(terms) });
  }

  /** Deploys the files of an earlier release again. @throws MoonportError as {@link deploy}, `release_not_found` */
  async rollback(options: RollbackOptions): Promise<Deployed> {
    checkRollbackOptions(options);
    const { app, announced } = this.#parts;
    return await announced.node.rollback({ app, ...given(options) });
  }

  /** The app's releases that are kept, and which of them each node serves. */
  async releases(): Promise<AppReleases> {
    return await this.#parts.announced.node.releases(this.#parts.app);
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
    const { doors, announced } = this.#parts;
    this.#closing.abort();
    doors?.leaving();
    await announced.node.leave();
    await doors?.stop();
    await announced.close();
  }
}

/** What is undefined counts as left out. */
function given<Options extends object>(
  options: Options,
): { [Name in keyof Options]: Exclude<Options[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
