/**
 * One node: the composition root. It takes the folder's lock, makes sure of its bucket and fleet, loads the classes, and
 * serves calls until it is stopped.
 */
import type { AppSource } from "./app-source.js";
import { probeBucket } from "./bucket/probe.js";
import type { RequestCounts } from "./bucket/request-counts.js";
import type { DelayApi, ObjectTimers } from "./delay/contract.js";
import { NodeDelay } from "./delay/node-delay.js";
import { delayShardClass } from "./delay/shard-class.js";
import { ShardMap } from "./delay/shard-map.js";
import { delayPort, shardNumberOf } from "./delay-port.js";
import { Directories } from "./directory/directories.js";
import { directoryClass } from "./directory/shard-class.js";
import { asMoonportError, MoonportError } from "./errors.js";
import { identityOf, type ObjectIdentity } from "./identity.js";
import type { Caller, LuaClass, LuaEngine } from "./lua/contract.js";
import { createLuaEngine } from "./lua/engine.js";
import { luaLimits } from "./lua/limits.js";
import { refuseFleetBucket } from "./membership/open-records.js";
import type { MeasuredNode, NodeGauges } from "./metrics/measured.js";
import { NodeCounters } from "./metrics/node-counters.js";
import type {
  CallReply,
  CallRequest,
  CallWaiter,
  ClassInfo,
  DirectoryStatus,
  Drained,
  ExportedDatabase,
  FindRequest,
  FoundPage,
  Inspection,
  NodeApi,
  NodeInfo,
  NodeStatus,
  ObjectHistory,
  PointInTime,
  QuarantineEntry,
  Recovered,
  Restoration,
  Restored,
  RingInfo,
  UnitInfo,
  UnitRequest,
  UnitResponse,
} from "./node-api.js";
import type { CallRouter, JoinedFleet, NodeOptions } from "./node-options.js";
import { Catalog } from "./object/catalog.js";
import { EmptyObjects } from "./object/empty-objects.js";
import { FilePool } from "./object/file-pool.js";
import type { InnerCall } from "./object/inner-call.js";
import { inspectAbsent, inspectOpen, inspectTimers } from "./object/inspect.js";
import { isKernelCall } from "./object/kernel-methods.js";
import { LocalCopies } from "./object/local-copies.js";
import type { ObjectContext } from "./object/object-context.js";
import { Objects } from "./object/objects.js";
import { Quarantine } from "./object/quarantine.js";
import { type Reading, runReading } from "./object/reading.js";
import { ReplicaCopies } from "./object/replica-copies.js";
import type { Position } from "./object/replica-copy.js";
import { Restoring } from "./object/restoring.js";
import { SYSTEM_APP } from "./object/system-class.js";
import { WaitGraph } from "./object/wait-graph.js";
import type { DeferredOutcome, WakeTeller, Woken } from "./object/work.js";
import type { LiveApi, Sink, SubscribeRequest, Subscription, ViewRequest } from "./realtime/contract.js";
import { Feeds } from "./realtime/feeds.js";
import { Hub } from "./realtime/hub.js";
import type { LiveSource } from "./realtime/live-source.js";
import { ObjectSource } from "./realtime/object-source.js";
import type { AppReleases, Deployed, DeployRequest, RollbackRequest } from "./release/contract.js";
import { type BegunApps, begunApps, NodeReleases } from "./release/node-releases.js";
import { Claims } from "./shipping/claims.js";
import { joinFleet } from "./shipping/fleet.js";
import { type FleetView, loneFleet } from "./shipping/fleet-view.js";
import { LandingProbe } from "./shipping/landing-probe.js";
import { PastWalk } from "./shipping/past-walk.js";
import { PermitPool } from "./shipping/permits.js";
import { PageImageCache } from "./shipping/wal/page-image-cache.js";
import { Outbound, type OutboundOptions } from "./units/outbound.js";
import { UnitRunner } from "./units/unit-runner.js";
import type { PlainValue, SqlRows, SqlValue } from "./values.js";
import { VERSION } from "./version.js";
import type { FolderLock } from "./world/folder.js";
import { CONSOLE_ENTRY } from "./world/watchdog/running-record.js";
import { noWatchdog, type Watchdog } from "./world/watchdog/watchdog.js";
import { sleep, uuidv7 } from "./world/world.js";

const LOCK_FILE = "lock";
/** Where no host is allowed, nothing is ever fetched. */
const NO_OUTBOUND: OutboundOptions = {
  allowHosts: [],
  fetcher: { fetch: () => Promise.reject(MoonportError.of("fetch_refused", "this node reaches no network")) },
};
const STORE_LIST_MAX = 1_000;
const NO_CHAIN: readonly string[] = [];

type Phase = "serving" | "settling" | "stopping" | "stopped";
const SYSTEM: Caller = { kind: "system" };
/** What waking an object that is not there comes to. */
const NOWHERE: Woken = { epoch: 0, seq: 0, ran: 0, inMs: null, dueMs: null };

export class MoonportNode implements NodeApi, LiveApi, MeasuredNode {
  /** This life of the node: the session that it began with. */
  readonly session: string;
  readonly counters = new NodeCounters();
  /** What it serves of each app. */
  readonly releasing: NodeReleases;
  readonly #options: NodeOptions;
  readonly #lock: FolderLock;
  readonly #watchdog: Watchdog;
  readonly #engine: LuaEngine;
  readonly #catalog: Catalog;
  readonly #files: FilePool;
  readonly #context: ObjectContext;
  readonly #objects: Objects;
  readonly #restoring: Restoring;
  readonly #empty: EmptyObjects;
  /** Of other nodes' objects; absent where there is no other node. */
  readonly #copies: ReplicaCopies | undefined;
  readonly #units: UnitRunner;
  readonly #directories: Directories;
  /** This node's own objects, for who watches them. */
  readonly source: LiveSource;
  readonly #hub: Hub;
  /** For hubs of other nodes. */
  readonly feeds: Feeds;
  readonly #probe: LandingProbe;
  readonly #pastWalk: PastWalk;
  readonly #fleet: JoinedFleet | FleetView;
  readonly #delay: NodeDelay;
  #router: CallRouter | undefined;
  #phase: Phase = "serving";
  #left: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #unlanded: Error | undefined;

  /**
   * Opens the data folder and begins to serve. Everything taken is given back when it throws.
   * @throws MoonportError `folder_locked`, `bad_setting` (hardly any file descriptors), `bucket_unusable`, `bucket_failed`, `fleet_mismatch`, `class_invalid` (when
   * `onClassError` is `refuse`; its details list every class that did not load), `app_not_found` (an app that it follows has
   * neither a release nor files), `release_damaged`, `storage_*`
   */
  static async open(options: NodeOptions): Promise<MoonportNode> {
    const { world, bucket } = options;
    world.folder.ensureDirectory(".");
    const lock = world.folder.lock(LOCK_FILE);
    let joined: JoinedFleet | undefined;
    try {
      await bucket.start();
      await probeBucket(bucket, world);
      const { settings } = options;
      const { DELAY_SHARDS: wanted } = settings;
      const { fleet, delayShards } = await joinFleet({
        bucket,
        world,
        delayShards: wanted,
        ...(options.fleet && { settings }),
      });
      if (options.fleet === undefined) await refuseFleetBucket(bucket, world, settings.BUCKET_TIMEOUT_MS);
      const quarantine = await Quarantine.open(world, bucket, options.settings);
      joined = await options.fleet?.({ world, bucket, settings, fleet });
      const { followsReleases: follows = [] } = options;
      const begun = await begunApps({ world, bucket, settings, follows }, options.apps);
      return new MoonportNode(options, begun, lock, quarantine, joined, new ShardMap(delayShards));
    } catch (error) {
      await joined?.stop();
      await bucket.stop();
      lock.release();
      throw error;
    }
  }

  private constructor(
    options: NodeOptions,
    begun: BegunApps,
    lock: FolderLock,
    quarantine: Quarantine,
    joined: JoinedFleet | undefined,
    shards: ShardMap,
  ) {
    const { world, settings, bucket } = options;
    this.#options = options;
    this.#lock = lock;
    const fleet = joined ?? loneFleet(uuidv7(world));
    this.#fleet = fleet;
    this.session = fleet.session;
    const observe = options.observer ?? (() => {});
    this.#watchdog = options.watchdog ?? noWatchdog;
    const { running } = this.#watchdog;
    this.#engine = createLuaEngine({
      clock: world.clock,
      limits: luaLimits(settings),
      engineLog: world.log,
      running,
      exceeded: (budget) => void this.counters.budgetsExceeded[budget]++,
    });
    const systemClasses = [delayShardClass, directoryClass({ filterBytesMax: settings.DIRECTORY_FILTER_BYTES_MAX })];
    this.#catalog = new Catalog(this.#engine, observe, Object.keys(options.native ?? {}), systemClasses);
    this.releasing = new NodeReleases({
      world,
      bucket,
      settings,
      catalog: this.#catalog,
      follows: options.followsReleases ?? [],
      begun,
      replaced: () => this.#appsReplaced(),
      applied: (app, className) => this.#objects.migrationsApplied(app, className),
    });
    const call = (inner: InnerCall): Promise<PlainValue> =>
      this.#router?.callFromObject(inner) ?? this.#callFromObject(inner);
    this.#directories = new Directories({
      world,
      settings,
      counters: this.counters,
      bucket,
      classes: () => this.#catalog.list(),
      declarationOf: (app, className) => this.#catalog.classOf(app, className).directory,
      call,
      tellRow: (object) => (this.#router ?? this).tellRow(object),
      debts: {
        offered: (...offered) => this.#delay.rowDebts.offered(...offered),
        told: (...told) => this.#delay.rowDebts.told(...told),
      },
      isHome: (object) => this.#router?.isHome(object) ?? true,
    });
    this.#files = new FilePool(world, filesOpenMax(options), settings.CALL_TIMEOUT_MS);
    this.#context = {
      world,
      settings,
      log: world.log,
      bucket,
      claims: new Claims(world, bucket, fleet, settings, {
        lost: (id) => this.feeds.lost(id),
        claimed: (object, reason) => joined?.claimed(object, reason),
        beforeTail: (object) => this.#delay.beforeTail(object),
      }),
      fleet,
      catalog: this.#catalog,
      // The embedded bucket commits together whatever arrives together: it bounds itself.
      permits: bucket.atomic
        ? undefined
        : new PermitPool(settings.OBJECT_SHIP_CONCURRENCY, settings.OBJECT_SHIP_RESERVED),
      images: new PageImageCache(settings.DELTA_CACHE_BYTES),
      files: this.#files,
      localCopies: new LocalCopies(world.folder, settings.LOCAL_BYTES_MAX),
      observe,
      counters: this.counters,
      waits: new WaitGraph(),
      running,
      quarantine,
      call,
      find: async (className, query, { app, expiresMs }) =>
        ({
          ...(await this.#directories.find({ app, className, query, expiresMs })),
        }) as unknown as PlainValue,
      rows: this.#directories.rows,
      whyBehind: (object, applied, declared) => this.releasing.whyBehind(object, applied, declared),
      obligations: {
        opened: (...opened) => this.#delay.obligations.opened(...opened),
        listed: (...listed) => this.#delay.obligations.listed(...listed),
        named: (...named) => this.#delay.obligations.named(...named),
        landed: (...landed) => this.#delay.obligations.landed(...landed),
      },
      landed: (landing) => {
        this.#probe.landed();
        this.#hub.landed(landing);
        this.feeds.landed(landing);
      },
    };
    this.#objects = new Objects(this.#context);
    this.#restoring = new Restoring(this.#context, this.#objects);
    this.#empty = new EmptyObjects(this.#context);
    this.#copies = joined && new ReplicaCopies(this.#context, (object, range) => joined.ownEntries(object, range));
    this.source = new ObjectSource(this.#context, this.#objects, this.#empty);
    this.#hub = new Hub({ source: this.source, world, settings });
    this.feeds = new Feeds(this.source);
    this.#probe = new LandingProbe({ world, bucket, settings, session: this.session });
    this.#pastWalk = new PastWalk({ world, bucket, settings });
    this.#units = new UnitRunner({
      world,
      settings,
      native: options.native ?? {},
      outbound: new Outbound(world, settings, options.outbound ?? NO_OUTBOUND),
      unitOf: (app, unit) => this.#catalog.unitOf(app, unit),
      access: ({ app, className }, method) => this.#catalog.methodOf(this.#catalog.classOf(app, className), method),
      callDeferred: (request) => (this.#router ?? this).callDeferred(request),
      find: this.#context.find,
    });
    this.#delay = new NodeDelay({
      world,
      settings,
      bucket,
      counters: this.counters.delay,
      shards,
      // Of each session its own: what one that has lapsed owed is others' to see to, and theirs to delete.
      session: () => fleet.session,
      isDead: async (session) => (await fleet.standing(session)) === "dead",
      isHomeOf: (partition) => joined?.isHomeOf(partition) ?? true,
      messages: (object, limit) => this.#objects.messages(object, limit),
      sent: (object, numbers) => this.#objects.messagesSent(object, numbers),
      checkMethod: (app, className, method) => {
        if (app === SYSTEM_APP) throw noSuchApp(app);
        if (!this.#catalog.isNative(className)) this.#catalog.methodOf(this.#catalog.classOf(app, className), method);
      },
      checkClass: (app, className) => {
        if (app === SYSTEM_APP) throw noSuchApp(app);
        this.#catalog.classOf(app, className);
      },
      port: delayPort({
        router: () => this.#router,
        isHomeOf: (partition) => joined?.isHomeOf(partition) ?? true,
        holds: (object) => this.holds(object),
        manifest: (object) => this.#objects.manifest(object),
        call: (request) => this.call(request),
        callHere: (request) => this.#dispatch(request, NO_CHAIN),
        callObject: (call) => this.#context.call(call),
        wake: (object, teller) => this.wake(object, teller),
        native: options.native ?? {},
        depthMax: settings.VALUE_DEPTH_MAX,
      }),
    });
    this.#begin(begun);
    for (const { name, methods } of systemClasses) this.counters.calls.know(SYSTEM_APP, name, [...methods.keys()]);
    joined?.begin({
      claims: this.#context.claims,
      lapsed: () => this.#lapsed(),
      membersChanged: () => {
        this.#objects.renewSets();
        this.#directories.changed();
        this.#delay.membersChanged();
      },
      sessionEnded: () => this.#delay.membersChanged(),
      takenOver: async (object) => void (await this.wake(object, "owner")),
      handOver: (object, to) => this.#objects.handOver(object, to),
      lastUsedMs: (object) => this.#objects.lastUsedMs(object),
    });
    // Of a fleet's node, when it reaches the others: see routeCalls.
    if (joined === undefined) this.#delay.start();
  }

  /** For operators: see {@link Claims.recover}. Resolves with the seq that the object goes on from. */
  async recover(object: ObjectIdentity): Promise<Recovered> {
    this.#assertServing();
    if ((await this.#objects.manifest(object)) === undefined) {
      throw MoonportError.of("object_not_found", `${object.id} was never written`, { object: object.id });
    }
    return { object: object.id, seq: await this.#context.claims.recover(object) };
  }

  /** From now on objects and units of this node reach others through `router`. */
  routeCalls(router: CallRouter): void {
    this.#router = router;
    this.#delay.start();
  }

  get delay(): DelayApi {
    return this.#delay.operations;
  }

  /**
   * Has an object run its due timers and take up what else it owes; resolves when what they did is durable, and whoever is to
   * know of its next one does.
   * @throws MoonportError `moved` when the object is another node's
   */
  async wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken> {
    this.#assertServing(SYSTEM);
    const exists = await this.#objects.exists(object);
    const expiresMs = this.#nowMs() + this.#options.settings.CALL_TIMEOUT_MS;
    return this.#delay.waking(object, teller, async () => {
      if (exists) return this.#objects.runTimers(object, teller, expiresMs);
      await this.#tellGone(object);
      return NOWHERE;
    });
  }

  /** Of an object that has ended, its directory may not know so yet. */
  async #tellGone(object: ObjectIdentity): Promise<void> {
    const manifest = await this.#objects.manifest(object);
    // Claimed since by a call that wrote nothing, it is no less gone.
    if (manifest === undefined || (!manifest.destroyed && manifest.pages > 0)) return;
    this.#directories.rows.gone(object, manifest.epoch, manifest.seq);
  }

  async timers(object: ObjectIdentity): Promise<ObjectTimers> {
    if (!(await this.#exists(object))) {
      throw MoonportError.of("object_not_found", `${object.id} does not exist`, { object: object.id });
    }
    return this.#objects.read(object, inspectTimers);
  }

  /** From now on who subscribes here hears of objects through `source`, wherever they live. */
  routeLive(source: LiveSource): void {
    this.#hub.useSource(source);
  }

  /** Whether the object is this node's, as far as is known here. */
  holds(object: ObjectIdentity): boolean {
    return this.#context.claims.held(object) !== undefined;
  }

  /** Also of one whose claim has been forgotten: its record says so. @throws MoonportError `bucket_failed` */
  async owns(object: ObjectIdentity): Promise<boolean> {
    return this.holds(object) || this.#context.claims.isOwn(await this.#objects.manifest(object));
  }

  /** See {@link Objects.moving}. @throws MoonportError `mailbox_full` */
  moving(object: ObjectIdentity): Promise<string | undefined> | undefined {
    return this.#objects.moving(object);
  }

  /** As {@link Objects.position}. */
  async position(object: ObjectIdentity, journal: string): Promise<Position | undefined> {
    this.#assertServing();
    const { version } = this.#catalog.classOf(object.app, object.className);
    const position = await this.#objects.position(object, journal);
    return position && { ...position, version };
  }

  /**
   * A call of a reading method, answered from a copy of another node's object that is at the position at least.
   * @returns undefined where there can be none: its owner is to be asked. @throws MoonportError what the method throws
   */
  async callCopy(request: CallRequest, position: Position): Promise<CallReply | undefined> {
    const begunMs = this.#nowMs();
    this.#assertServing();
    const { object, method, args, caller, callId } = request;
    const lua = this.#catalog.classOf(object.app, object.className);
    try {
      const read = await this.#copies?.read(object, position, { lua, method, args, caller, callId });
      this.counters.replicaReads[read === undefined ? "owner" : "copy"]++;
      if (read === undefined) return undefined;
      this.#ended(request, begunMs);
      return { value: read.value, seq: read.seq, from: "replica" };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      throw error.with({ object: object.id, ...(callId !== undefined && { callId }) });
    }
  }

  /** Whether a call of the method changes nothing; not of a class or method that is not known here. */
  isReading(object: ObjectIdentity, method: string): boolean {
    try {
      return this.#catalog.classOf(object.app, object.className).methods.get(method) === "read";
    } catch {
      return false;
    }
  }

  #lapsed(): void {
    const cause = MoonportError.of("node_fenced", "the session of this node has lapsed", { retryAfterMs: 1_000 });
    this.#options.world.log.error({ session: this.#fleet.session }, "the session has lapsed: every object closes");
    this.#context.claims.sessionEnded();
    this.#objects.loseAll(cause);
    this.#delay.lapsed();
    this.feeds.allLost(cause);
  }

  call(request: CallRequest): Promise<CallReply> {
    return this.callInChain(request, NO_CHAIN);
  }

  /** @param chain the objects that wait for it */
  async callInChain(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    const begunMs = this.#nowMs();
    try {
      const reply = await this.#call(request, chain);
      this.#ended(request, begunMs);
      return reply;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      const named = error.with({
        object: request.object.id,
        ...(request.callId !== undefined && { callId: request.callId }),
      });
      throw named;
    }
  }

  /**
   * A call whose outcome comes before it is durable. Nothing of it may leave the caller's own request before `settled`
   * resolves. A reading method too goes through the mailbox, so that a request reads its own writes.
   * @throws MoonportError when the call never ran
   */
  async callDeferred(request: CallRequest): Promise<DeferredOutcome> {
    const begunMs = this.#nowMs();
    try {
      const outcome = await this.#callDeferred(request);
      const { result } = outcome;
      this.#ended(request, begunMs, result.kind === "failed" ? result.error : undefined);
      return outcome;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(request, begunMs, error);
      throw error;
    }
  }

  async #callDeferred(request: CallRequest): Promise<DeferredOutcome> {
    this.#assertServing();
    const { object, method, args, caller, callId } = request;
    if (object.app === SYSTEM_APP && caller.kind !== "system") throw noSuchApp(object.app);
    const lua = this.#catalog.classOf(object.app, object.className);
    const access = this.#catalog.methodOf(lua, method);
    if (access === "read" && !(await this.#objects.exists(object))) {
      const reading: Reading = { lua, method, args, caller, callId };
      const value = await runReading(this.#context, this.#empty.fileFor(object, lua), reading);
      return { result: { kind: "returned", value }, settled: Promise.resolve() };
    }
    return this.#objects.callDeferred(object, this.#input(request, access));
  }

  subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    return this.#hub.subscribe(request, sink);
  }

  view(request: ViewRequest, sink: Sink): Promise<Subscription> {
    return this.#hub.view(request, sink);
  }

  async storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    if (!(await this.#exists(object))) return undefined;
    return this.#objects.read(object, (open) => open.tables.store.get(key));
  }

  async storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    if (!(await this.#exists(object))) return [];
    return this.#objects.read(object, (open) => open.tables.store.list(prefix, STORE_LIST_MAX));
  }

  async sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    if (!(await this.#exists(object))) {
      throw MoonportError.of("object_not_found", `${object.id} does not exist`, { object: object.id });
    }
    const { running } = this.#watchdog;
    return this.#objects.read(object, (open) => {
      running.enter(object.id, CONSOLE_ENTRY);
      try {
        return open.database.all(statement, parameters, "console");
      } finally {
        running.leave();
      }
    });
  }

  async inspect(object: ObjectIdentity): Promise<Inspection> {
    if (!(await this.#exists(object))) return inspectAbsent(object, await this.#objects.manifest(object));
    return this.#objects.read(object, (open) => inspectOpen(open, this.#objects.resident(object)?.mailboxCalls ?? 0));
  }

  /** Makes sure that the object, if it is there, is this node's. @throws MoonportError `moved` when another one's */
  async settle(object: ObjectIdentity): Promise<void> {
    await this.#exists(object);
  }

  async destroy(object: ObjectIdentity): Promise<void> {
    this.#assertKnown(object);
    await this.#objects.destroy(object);
  }

  find({ app, className, query, timeoutMs }: FindRequest): Promise<FoundPage> {
    const expiresMs = this.#nowMs() + (timeoutMs ?? this.#options.settings.CALL_TIMEOUT_MS);
    return this.#directories.find({ app, className, query, expiresMs });
  }

  directory(app: string, className: string): Promise<DirectoryStatus> {
    return this.#directories.status(app, className);
  }

  rebuildDirectory(app: string, className: string): Promise<DirectoryStatus> {
    return this.#directories.rebuild(app, className);
  }

  /** Resolves when directories have heard of everything that was committed before. */
  async rowsTold(): Promise<void> {
    await this.#objects.rowsLanded();
    await this.#directories.whenIdle();
  }

  /** The object tells its row again, or that it is gone; resolves when its directory has it. */
  async tellRow(object: ObjectIdentity): Promise<void> {
    this.#assertServing();
    this.#directories.forget(object);
    if (await this.#exists(object)) await this.#objects.tellRow(object);
    else await this.#tellGone(object);
    await this.#directories.whenTold(object);
  }

  async history(object: ObjectIdentity, limit?: number): Promise<ObjectHistory> {
    this.#assertKnown(object);
    return await this.#restoring.history(object, limit);
  }

  async restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored> {
    this.#assertKnown(object);
    return await this.#delay.renewed(object, () => this.#restoring.restore(object, restoration));
  }

  async fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored> {
    this.#assertKnown(object);
    const copy = identityOf(object.app, object.className, key);
    return await this.#delay.renewed(copy, () => this.#restoring.fork(object, restoration, copy));
  }

  async exportDatabase(object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase> {
    this.#assertKnown(object);
    return await this.#restoring.export(object, at);
  }

  async runUnit(request: UnitRequest): Promise<UnitResponse> {
    const begunMs = this.#nowMs();
    const { app, unit } = request;
    try {
      this.#assertServing();
      const response = await this.#units.run(request);
      this.counters.units.ended(app, unit, this.#nowMs() - begunMs);
      return response;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.counters.units.ended(app, unit, this.#nowMs() - begunMs, error);
      throw error;
    }
  }

  async classes(): Promise<readonly ClassInfo[]> {
    return this.#catalog.list();
  }

  async units(): Promise<readonly UnitInfo[]> {
    return this.#catalog.listUnits();
  }

  async status(): Promise<NodeStatus> {
    return {
      version: VERSION,
      session: this.session,
      ready: this.#phase === "serving",
      writesLand: this.#probe.writesLand,
      sinceLandedMs: Math.round(this.#probe.sinceLandedMs),
      bucket: this.#options.bucket.name,
      residents: this.#objects.residents,
      openFiles: this.#files.size,
      subscriptions: this.#hub.subscriptions,
      watchedObjects: this.#hub.watchedObjects,
      classes: this.#catalog.list().length,
      classErrors: this.#catalog.faults().map(({ file, error }) => ({ file, message: error.message })),
      releases: this.releasing.served,
    };
  }

  async ring(): Promise<RingInfo> {
    return { partitions: [] };
  }

  async drain(): Promise<Drained> {
    throw MoonportError.of("bad_option", "the node is alone: nobody is there to take its objects");
  }

  /** The session that the object's record names, if it has not given the object up; nothing is claimed. */
  async ownerOf(object: ObjectIdentity): Promise<string | undefined> {
    this.#assertServing();
    const manifest = await this.#objects.manifest(object);
    return manifest === undefined || manifest.replicas?.clean === true ? undefined : manifest.owner;
  }

  async nodes(): Promise<readonly NodeInfo[]> {
    return [];
  }

  get bucketRequests(): RequestCounts | undefined {
    return this.#options.bucket.requests;
  }

  get fleetMeasures(): undefined {
    return undefined;
  }

  gauges(): NodeGauges {
    return {
      version: VERSION,
      session: this.session,
      bucket: this.#options.bucket.name,
      writesLand: this.#probe.writesLand,
      sinceLandedMs: this.#probe.sinceLandedMs,
      loadFaults: this.#catalog.faults().length,
      releases: this.releasing.served,
      unitsRunning: this.#units.running,
      ...this.#objects.waiting,
      residents: this.#objects.residents,
      openFiles: this.#files.size,
      copies: this.#copies?.size ?? 0,
      copyBytes: this.#copies?.bytes ?? 0,
      subscriptions: this.#hub.subscriptions,
      watchedObjects: this.#hub.watchedObjects,
      directory: this.#directories.gauges,
    };
  }

  async quarantine(): Promise<readonly QuarantineEntry[]> {
    this.#assertServing();
    return this.#context.quarantine.list();
  }

  async clearQuarantine(object: ObjectIdentity, method: string): Promise<boolean> {
    this.#assertServing();
    return this.#context.quarantine.clear(object, method);
  }

  /** Takes over the apps' classes between calls; one that does not load keeps its last good version. */
  reload(apps: readonly AppSource[]): void {
    this.#catalog.load(apps);
    this.#appsReplaced();
  }

  async deploy(request: DeployRequest): Promise<Deployed> {
    this.#assertServing();
    return await this.releasing.deploy(request);
  }

  async rollback(request: RollbackRequest): Promise<Deployed> {
    this.#assertServing();
    return await this.releasing.rollback(request);
  }

  async releases(app: string): Promise<AppReleases> {
    this.#assertServing();
    return await this.releasing.releases(app);
  }

  #appsReplaced(): void {
    for (const { app, name, methods } of this.#catalog.list()) {
      this.counters.calls.know(
        app,
        name,
        methods.map((method) => method.name),
      );
    }
    for (const { app, name } of this.#catalog.listUnits()) this.counters.units.know(app, name);
    this.#hub.classesChanged();
    this.#directories.changed();
  }

  /**
   * Of a node that goes on stopping: gives every object to the rest of the fleet, each served until its turn has come, within
   * DRAIN_MS. Its doors may answer on: who calls meanwhile, or has come to the wrong node, is sent on. A node that is alone has
   * nobody to give them to. Idempotent, and a part of {@link stop}.
   */
  leave(): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  /**
   * Stops: new calls are refused, running ones end, everything committed lands, within DRAIN_MS. What could not land is
   * logged and its callers get `outcome_unknown`. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** Of a node that has stopped: why something that was committed has not landed, if so. */
  get unlanded(): Error | undefined {
    return this.#unlanded;
  }

  #begin({ apps, releases }: BegunApps): void {
    try {
      this.reload(apps);
      for (const [app, release] of releases) this.#catalog.renumber(app, release);
      this.#refuseBrokenClasses();
      this.#objects.start();
      this.#restoring.start();
      this.#probe.start();
      this.#pastWalk.start();
      this.releasing.start();
      this.#watchdog.start(this.#options.world.timers);
    } catch (error) {
      this.#directories.stop();
      this.#engine.close();
      throw error;
    }
  }

  async #leave(): Promise<void> {
    if (!("leave" in this.#fleet)) return;
    const { DRAIN_MS } = this.#options.settings;
    const untilMs = this.#nowMs() + DRAIN_MS;
    await this.#restDelays();
    await this.#fleet.leave(untilMs);
  }

  /** What is under way of delayed work ends first: its outcomes are writes of objects. */
  async #restDelays(): Promise<void> {
    this.#directories.rest();
    await this.#within(this.#options.settings.DRAIN_MS / 2, this.#delay.rest());
  }

  async #stop(): Promise<void> {
    const { world, settings, bucket } = this.#options;
    const untilMs = this.#nowMs() + settings.DRAIN_MS;
    const following = this.releasing.stop();
    if ("leave" in this.#fleet) await this.leave();
    else await this.#restDelays();
    // What they owe is told now that nobody from outside has them owe more.
    this.#phase = "settling";
    await this.#tellOwedWithin((untilMs - this.#nowMs()) / 2);
    this.#phase = "stopping";
    this.#hub.stop();
    this.feeds.stop();
    await this.#drainWithin(Math.max(1, untilMs - this.#nowMs())).catch((error: Error) => {
      this.#unlanded = error;
      world.log.error({ error: error.message }, "stopped with writes that have not landed");
    });
    const cause = MoonportError.of("node_stopping", "the node has stopped");
    this.#units.stop(cause);
    await this.#within(settings.DRAIN_MS / 2, this.#delay.stop());
    this.#objects.abandon(cause);
    this.#empty.close();
    this.#copies?.close();
    this.#probe.stop();
    this.#pastWalk.stop();
    if ("stop" in this.#fleet) await this.#fleet.stop();
    await following;
    await bucket.stop();
    this.#engine.close();
    await this.#watchdog.stop();
    this.#lock.release();
    this.#phase = "stopped";
  }

  #drainWithin(boundMs: number): Promise<void> {
    return this.#inTime(boundMs, this.#objects.drain(), `not everything landed within ${boundMs} ms`);
  }

  /** Of what landed last: messages, wake times, directory rows. What is not told in time is told when its object wakes (W1). */
  async #tellOwedWithin(boundMs: number): Promise<void> {
    const rowsTold = this.#inTime(boundMs, this.rowsTold(), "not every directory row was told");
    await Promise.all([
      this.#within(boundMs, this.#delay.settled()),
      rowsTold.catch((error: Error) => this.#options.world.log.warn(this.#directories.gauges, error.message)),
    ]);
    this.#directories.stop();
  }

  #inTime(boundMs: number, work: Promise<void>, late: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#options.world.timers.after(Math.max(1, boundMs), () =>
        reject(MoonportError.of("node_stopping", late)),
      );
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  /** Waits for it so long, and goes on. */
  async #within(boundMs: number, work: Promise<void>): Promise<void> {
    const over = new AbortController();
    await Promise.race([work.catch(() => {}), sleep(this.#options.world, boundMs, over.signal)]);
    over.abort();
  }

  async #callFromObject({ expiresMs, chain, ...call }: InnerCall): Promise<PlainValue> {
    const begunMs = this.#nowMs();
    const timeoutMs = Math.max(0, expiresMs - begunMs);
    try {
      const { value } = await this.#call({ ...call, timeoutMs }, chain);
      this.#ended(call, begunMs);
      return value;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#ended(call, begunMs, error);
      throw error.with({ object: call.object.id });
    }
  }

  #ended({ object, method }: Pick<CallRequest, "object" | "method">, begunMs: number, error?: MoonportError): void {
    this.counters.calls.ended(object.app, object.className, method, this.#nowMs() - begunMs, error);
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }

  /** @param chain the objects that wait for it */
  async #call(request: CallRequest, chain: readonly string[] = NO_CHAIN): Promise<CallReply> {
    this.#assertServing(request.caller);
    if (request.object.app !== SYSTEM_APP) return this.#dispatch(request, chain);
    if (request.caller.kind !== "system") throw noSuchApp(request.object.app);
    const reply = await this.#dispatch(request, chain);
    const shard = shardNumberOf(request.object);
    if (shard !== undefined) this.#delay.touched(shard);
    return reply;
  }

  async #dispatch(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    const { object, method, caller } = request;
    const lua = this.#catalog.classOf(object.app, object.className);
    const access = isKernelCall(method, caller) ? "write" : this.#catalog.methodOf(lua, method);
    if (access === "read") return { value: await this.#read(request, lua) };
    if (request.mustRead === true || request.consistency === "replica") {
      throw MoonportError.of("not_a_reading_method", `${object.className}.${method} is a writing method`, {
        hint: "call it with POST, and without a consistency",
      });
    }
    const reply = await this.#objects.call(object, this.#input(request, access, chain));
    return reply.seq === undefined ? { value: reply.value } : { value: reply.value, seq: reply.seq };
  }

  async #read(request: CallRequest, lua: LuaClass): Promise<PlainValue> {
    const { object, method, args, caller, callId } = request;
    const reading: Reading = { lua, method, args, caller, callId };
    if (this.#objects.canSkipMailbox(object, lua)) {
      return this.#objects.read(object, (open) => runReading(this.#context, open, reading));
    }
    if (!(await this.#objects.exists(object))) {
      return runReading(this.#context, this.#empty.fileFor(object, lua), reading);
    }
    // Migrations or hooks may have to run first, and only the task runs those.
    return (await this.#objects.call(object, this.#input(request, "read"))).value;
  }

  #input(
    request: CallRequest,
    access: "write" | "read",
    chain: readonly string[] = NO_CHAIN,
  ): Parameters<Objects["call"]>[1] {
    const { world, settings } = this.#options;
    const sinceMs = world.clock.monotonicMs();
    return {
      method: request.method,
      access,
      args: request.args,
      caller: request.caller,
      callId: request.callId,
      waiter: request.waiter ?? waiterOf(request.signal),
      chain,
      sinceMs,
      expiresMs: sinceMs + (request.timeoutMs ?? settings.CALL_TIMEOUT_MS),
    };
  }

  async #exists(object: ObjectIdentity): Promise<boolean> {
    this.#assertKnown(object);
    return this.#objects.exists(object);
  }

  #assertKnown(object: ObjectIdentity): void {
    this.#assertServing();
    this.#catalog.classOf(object.app, object.className);
  }

  /** @param caller what is under way of the node's own work may go on until the node drains */
  #assertServing(caller?: Caller): void {
    if (this.#phase === "serving") return;
    if (this.#phase === "settling" && caller !== undefined && caller.kind !== "client" && caller.kind !== "unit")
      return;
    throw MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
  }

  #refuseBrokenClasses(): void {
    const faults = this.#catalog.faults();
    if (this.#options.onClassError === "report" || faults.length === 0) return;
    const listed = faults.map(({ error }) => error.message);
    throw MoonportError.of("class_invalid", listed.join("\n"), {
      hint: "moonport dev keeps serving the classes that do load",
      details: {
        files: faults.map(({ file, error }) => ({ file, message: error.message, line: error.details?.line })),
      },
    });
  }
}

function noSuchApp(app: string): MoonportError {
  return MoonportError.of("app_not_found", `no app is called ${app}`, {
    hint: "objects of Moonport's own take no calls",
  });
}

/** An open object has its file, its WAL, and the WAL once more for the capture. */
const DESCRIPTORS_PER_FILE = 3;
/** A copy has its file and its WAL. */
const DESCRIPTORS_PER_COPY = 2;
/** For the process itself, the bucket and connections. */
const DESCRIPTORS_KEPT = 256;

/**
 * How many object files may be open: OBJECT_FILES_OPEN_MAX, or fewer where the process may not have that many descriptors.
 * Running out of them would fail calls at random.
 */
function filesOpenMax({ world, settings, fleet }: NodeOptions): number {
  const wanted = settings.OBJECT_FILES_OPEN_MAX;
  if (world.descriptorsMax === undefined) return wanted;
  const copies = fleet === undefined ? 0 : settings.REPLICA_COPIES_MAX * DESCRIPTORS_PER_COPY;
  const kept = DESCRIPTORS_KEPT + copies;
  const fits = Math.floor((world.descriptorsMax - kept) / DESCRIPTORS_PER_FILE);
  if (wanted <= fits) return wanted;
  const needed = wanted * DESCRIPTORS_PER_FILE + kept;
  if (fits < 1) {
    throw MoonportError.of(
      "bad_setting",
      `the process may have ${world.descriptorsMax} file descriptors, which is too few`,
      {
        hint: `raise the limit: ulimit -n ${needed}`,
      },
    );
  }
  const fields = { OBJECT_FILES_OPEN_MAX: wanted, descriptors: world.descriptorsMax, needed };
  world.log.warn(fields, `at most ${fits} object files are kept open: the process may not have more descriptors`);
  return fits;
}

/** Nobody listens to the signal: it may be shared by any number of calls, and is asked where it matters. */
function waiterOf(signal: AbortSignal | undefined): CallWaiter | undefined {
  return signal && { isGone: () => signal.aborted, whenGone: () => {} };
}
