/**
 * One node: the composition root. It takes the folder's lock, makes sure of its bucket and fleet, loads the classes, and
 * serves calls until it is stopped.
 */
import type { AppSource } from "./app-source.js";
import type { RequestCounts } from "./bucket/request-counts.js";
import type { DelayApi } from "./delay/contract.js";
import { NodeDelay } from "./delay/node-delay.js";
import { delayShardClass } from "./delay/shard-class.js";
import { Directories } from "./directory/directories.js";
import { directoryClass } from "./directory/shard-class.js";
import { asMoonportError, MoonportError } from "./errors.js";
import { checkUsersAppName, identityOf, type ObjectIdentity, SYSTEM_APP } from "./identity.js";
import type { LuaEngine } from "./lua/contract.js";
import { createLuaEngine } from "./lua/engine.js";
import { luaLimits } from "./lua/limits.js";
import type { MeasuredNode, NodeGauges } from "./metrics/measured.js";
import { NodeCounters } from "./metrics/node-counters.js";
import { Admission } from "./node/admission.js";
import { NO_CHAIN, NodeCalls } from "./node/calls.js";
import { delayPort, shardNumberOf } from "./node/delay-port.js";
import { fleetHooks } from "./node/fleet-hooks.js";
import { type Ground, giveBackGround, takeGround } from "./node/ground.js";
import { NodeLife } from "./node/life.js";
import { ObjectConsole } from "./node/object-console.js";
import { ObjectDues } from "./node/object-dues.js";
import { Ownership } from "./node/ownership.js";
import { gaugesOf, type StandingParts, statusOf } from "./node/standing.js";
import type { CallReply, CallRequest, NodeApi, UnitRequest, UnitResponse } from "./node-api.js";
import type { CallRouter, NodeOptions } from "./node-options.js";
import { CallTraffic } from "./object/call-traffic.js";
import { Catalog } from "./object/catalog.js";
import { EmptyObjects } from "./object/empty-objects.js";
import { FilePool } from "./object/file-pool.js";
import { filesOpenMax } from "./object/files-open-max.js";
import type { InnerCall } from "./object/inner-call.js";
import { LocalCopies } from "./object/local-copies.js";
import type { ObjectContext } from "./object/object-context.js";
import { Objects } from "./object/objects.js";
import { AnswerMemory } from "./object/remembered-answers.js";
import { ReplicaCopies } from "./object/replica-copies.js";
import { Restoring } from "./object/restoring.js";
import { WaitGraph } from "./object/wait-graph.js";
import type { Observer } from "./observation.js";
import type { LiveApi } from "./realtime/contract.js";
import { Feeds } from "./realtime/feeds.js";
import { Hub } from "./realtime/hub.js";
import type { LiveSource } from "./realtime/live-source.js";
import { ObjectSource } from "./realtime/object-source.js";
import { type BegunApps, NodeReleases } from "./release/node-releases.js";
import { Claims } from "./shipping/claims.js";
import { type FleetView, loneFleet } from "./shipping/fleet-view.js";
import { LandingProbe } from "./shipping/landing-probe.js";
import { PastWalk } from "./shipping/past-walk.js";
import { PermitPool } from "./shipping/permits.js";
import { PageImageCache } from "./shipping/wal/page-image-cache.js";
import { NO_OUTBOUND, Outbound } from "./units/outbound.js";
import { UnitRunner } from "./units/unit-runner.js";
import type { PlainValue } from "./values.js";
import type { RunningRecord } from "./world/watchdog/running-record.js";
import { noWatchdog } from "./world/watchdog/watchdog.js";
import { uuidv7 } from "./world/world.js";

const unobserved: Observer = () => {};

export class MoonportNode implements NodeApi, LiveApi, MeasuredNode {
  /** This life of the node: the session that it began with. */
  readonly session: string;
  readonly counters = new NodeCounters();
  /** What it serves of each app. */
  readonly releasing: NodeReleases;
  /** This node's own objects, for who watches them. */
  readonly source: LiveSource;
  /** For hubs of other nodes. */
  readonly feeds: Feeds;
  readonly #options: NodeOptions;
  readonly #catalog: Catalog;
  readonly #admission: Admission;
  readonly #context: ObjectContext;
  readonly #objects: Objects;
  readonly #ownership: Ownership;
  readonly #calls: NodeCalls;
  readonly #console: ObjectConsole;
  readonly #dues: ObjectDues;
  readonly #restoring: Restoring;
  readonly #units: UnitRunner;
  readonly #directories: Directories;
  readonly #hub: Hub;
  readonly #probe: LandingProbe;
  readonly #delay: NodeDelay;
  readonly #standing: StandingParts;
  readonly #life: NodeLife;
  #router: CallRouter | undefined;

  /**
   * Opens the data folder and begins to serve. Everything taken is given back when it throws.
   * @throws MoonportError `folder_locked`, `bad_setting` (hardly any file descriptors), `bucket_unusable`, `bucket_failed`, `fleet_mismatch`, `class_invalid` (when
   * `onClassError` is `refuse`; its details list every class that did not load), `app_not_found` (an app that it follows has
   * neither a release nor files), `release_damaged`, `storage_*`
   */
  static async open(options: NodeOptions): Promise<MoonportNode> {
    for (const name of [...options.apps.map(({ app }) => app), ...(options.followsReleases ?? [])])
      checkUsersAppName(name);
    const ground = await takeGround(options);
    try {
      return new MoonportNode(options, ground);
    } catch (error) {
      await giveBackGround(ground);
      throw error;
    }
  }

  private constructor(options: NodeOptions, ground: Ground) {
    const { world, settings, bucket, native = {}, watchdog = noWatchdog } = options;
    const { joined, begun } = ground;
    const { counters } = this;
    this.#options = options;
    const fleet = joined ?? loneFleet(uuidv7(world));
    this.session = fleet.session;
    const engine = createLuaEngine({
      clock: world.clock,
      limits: luaLimits(settings),
      engineLog: world.log,
      running: watchdog.running,
      exceeded: (budget) => void counters.budgetsExceeded[budget]++,
    });
    const systemClasses = [delayShardClass, directoryClass({ filterBytesMax: settings.DIRECTORY_FILTER_BYTES_MAX })];
    const catalog = new Catalog(engine, options.observer ?? unobserved, Object.keys(native), systemClasses);
    this.#catalog = catalog;
    const admission = new Admission(catalog);
    this.#admission = admission;
    const releasing = new NodeReleases({
      world,
      bucket,
      settings,
      catalog,
      follows: options.followsReleases ?? [],
      begun,
      replaced: () => this.#appsReplaced(),
      applied: (app, className) => this.#objects.migrationsApplied(app, className),
    });
    this.releasing = releasing;
    const directories = this.#makeDirectories();
    this.#directories = directories;
    const context = this.#makeContext(ground, fleet, watchdog.running);
    this.#context = context;
    const objects = new Objects(context);
    this.#objects = objects;
    const restoring = new Restoring(context, objects);
    this.#restoring = restoring;
    const empty = new EmptyObjects(context);
    const copies = joined && new ReplicaCopies(context, (object, range) => joined.ownEntries(object, range));
    this.source = new ObjectSource(context, objects, empty);
    const hub = new Hub({ source: this.source, world, settings });
    this.#hub = hub;
    const feeds = new Feeds(this.source);
    this.feeds = feeds;
    const probe = new LandingProbe({ world, bucket, settings, session: fleet.session });
    this.#probe = probe;
    const pastWalk = new PastWalk({ world, bucket, settings });
    const units = this.#makeUnits();
    this.#units = units;
    const delay = this.#makeDelay(ground, fleet);
    this.#delay = delay;
    const shardTouched = (shard: number): void => delay.touched(shard);
    this.#ownership = new Ownership(context.claims, objects, admission);
    this.#calls = new NodeCalls({ context, objects, empty, copies, admission, shardTouched });
    this.#console = new ObjectConsole(objects, admission, watchdog.running);
    const dues = new ObjectDues({ world, settings, objects, directories, delay, admission });
    this.#dues = dues;
    const shared = { admission, releasing, objects, copies, units, directories, hub, probe };
    const { files, answers } = context;
    this.#standing = { ...shared, session: fleet.session, bucket, catalog, files, answers };
    const living = { world, settings, ground, engine, watchdog, restoring, empty, delay, dues, feeds, pastWalk };
    this.#life = new NodeLife({ ...shared, ...living });
    this.#begin(begun, engine);
    for (const { name, methods } of systemClasses) counters.calls.know(SYSTEM_APP, name, [...methods.keys()]);
    joined?.begin(fleetHooks({ context, objects, directories, delay, feeds }));
    // Of a fleet's node, when it reaches the others: see routeCalls.
    if (joined === undefined) delay.start();
  }

  #makeDirectories(): Directories {
    const { world, settings, bucket } = this.#options;
    return new Directories({
      world,
      settings,
      counters: this.counters,
      bucket,
      classes: () => this.#catalog.list(),
      declarationOf: (app, className) => this.#catalog.usersClassOf(app, className).directory,
      call: (inner) => this.#callFromObject(inner),
      tellRow: (object) => (this.#router ?? this).tellRow(object),
      debts: {
        offered: (...offered) => this.#delay.rowDebts.offered(...offered),
        told: (...told) => this.#delay.rowDebts.told(...told),
      },
      isHome: (object) => this.#router?.isHome(object) ?? true,
    });
  }

  #makeContext({ quarantine, joined }: Ground, fleet: FleetView, running: RunningRecord): ObjectContext {
    const { world, settings, bucket, observer = unobserved } = this.#options;
    const copiesMax = joined === undefined ? 0 : settings.REPLICA_COPIES_MAX;
    return {
      world,
      settings,
      log: world.log,
      bucket,
      claims: new Claims(world, bucket, fleet, settings, {
        lost: (object) => {
          this.feeds.lost(object.id);
          const shard = shardNumberOf(object);
          if (shard !== undefined) this.#delay.lost(shard);
        },
        claimed: (object, reason) => joined?.claimed(object, reason),
        beforeTail: (object) => this.#delay.beforeTail(object),
        tailEnded: (object) => this.#delay.tailEnded(object),
      }),
      fleet,
      catalog: this.#catalog,
      // The embedded bucket commits together whatever arrives together: it bounds itself.
      permits: bucket.atomic
        ? undefined
        : new PermitPool(settings.OBJECT_SHIP_CONCURRENCY, settings.OBJECT_SHIP_RESERVED),
      images: new PageImageCache(settings.DELTA_CACHE_BYTES),
      answers: new AnswerMemory(settings.ANSWERS_BYTES),
      files: new FilePool(world, filesOpenMax(world, settings, copiesMax), settings.CALL_TIMEOUT_MS),
      localCopies: new LocalCopies(world.folder, settings.LOCAL_BYTES_MAX),
      observe: observer,
      counters: this.counters,
      traffic: new CallTraffic(),
      waits: new WaitGraph(),
      running,
      quarantine,
      call: (inner) => this.#callFromObject(inner),
      find: async (className, query, { app, expiresMs }) =>
        ({
          ...(await this.#directories.find({ app, className, query, expiresMs })),
        }) as unknown as PlainValue,
      rows: this.#directories.rows,
      whyBehind: (object, applied, declared) => this.releasing.whyBehind(object, applied, declared),
      obligations: {
        opened: (...opened) => this.#delay.obligations.opened(...opened),
        listed: (...listed) => this.#delay.obligations.listed(...listed),
        renews: (object) => this.#delay.obligations.renews(object),
        named: (...named) => this.#delay.obligations.named(...named),
        landed: (...landed) => this.#delay.obligations.landed(...landed),
      },
      landed: (landing) => {
        this.#probe.landed();
        this.#hub.landed(landing);
        this.feeds.landed(landing);
      },
    };
  }

  #makeUnits(): UnitRunner {
    const { world, settings, native = {}, outbound = NO_OUTBOUND } = this.#options;
    return new UnitRunner({
      world,
      settings,
      native,
      outbound: new Outbound(world, settings, outbound),
      unitOf: (app, unit) => this.#catalog.unitOf(app, unit),
      access: ({ app, className }, method) => this.#catalog.methodOf(this.#catalog.classOf(app, className), method),
      callDeferred: (request) => (this.#router ?? this).callDeferred(request),
      find: this.#context.find,
    });
  }

  #makeDelay({ joined, shards }: Ground, fleet: FleetView): NodeDelay {
    const { world, settings, bucket, native = {} } = this.#options;
    const isHomeOf = (partition: number): boolean => joined?.isHomeOf(partition) ?? true;
    return new NodeDelay({
      world,
      settings,
      bucket,
      counters: this.counters.delay,
      shards,
      // Of each session its own: what one that has lapsed owed is others' to see to, and theirs to delete.
      session: () => fleet.session,
      isDead: async (session) => (await fleet.standing(session)) === "dead",
      isHomeOf,
      messages: (object, limit) => this.#objects.messages(object, limit),
      sent: (object, numbers) => this.#objects.messagesSent(object, numbers),
      checkMethod: (app, className, method) => this.#admission.checkMethod(app, className, method),
      checkClass: (app, className) => this.#admission.checkClass(app, className),
      port: delayPort({
        router: () => this.#router,
        isHomeOf,
        holds: (object) => this.holds(object),
        manifest: (object) => this.#objects.manifest(object),
        call: (request) => this.call(request),
        callHere: async (request) => this.#calls.dispatch(request, NO_CHAIN),
        callObject: (inner) => this.#callFromObject(inner),
        wake: (object, teller) => this.wake(object, teller),
        native,
        depthMax: settings.VALUE_DEPTH_MAX,
      }),
    });
  }

  #begin({ apps, releases }: BegunApps, engine: LuaEngine): void {
    try {
      this.reload(apps);
      for (const [app, release] of releases) this.#catalog.renumber(app, release);
      if (this.#options.onClassError === "refuse") this.#catalog.refuseFaults();
      this.#life.start();
    } catch (error) {
      this.#directories.stop();
      engine.close();
      throw error;
    }
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

  /** From now on objects and units of this node reach others through `router`. */
  routeCalls(router: CallRouter): void {
    this.#router = router;
    this.#delay.start();
  }

  /** From now on who subscribes here hears of objects through `source`, wherever they live. */
  routeLive(source: LiveSource): void {
    this.#hub.useSource(source);
  }

  leave: NodeLife["leave"] = () => this.#life.leave();
  stop: NodeLife["stop"] = () => this.#life.stop();

  /** Of a node that has stopped: why something that was committed has not landed, if so. */
  get unlanded(): Error | undefined {
    return this.#life.unlanded;
  }

  call(request: CallRequest): Promise<CallReply> {
    return this.#calls.inChain(request, NO_CHAIN);
  }

  /** @param chain the objects that wait for it */
  callInChain(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    return this.#calls.inChain(request, chain);
  }

  #callFromObject(inner: InnerCall): Promise<PlainValue> {
    return this.#router?.callFromObject(inner) ?? this.#calls.fromObject(inner);
  }

  callDeferred: NodeCalls["deferred"] = (request) => this.#calls.deferred(request);
  callCopy: NodeCalls["onCopy"] = (request, position) => this.#calls.onCopy(request, position);
  position: NodeCalls["position"] = (object, journal) => this.#calls.position(object, journal);
  isReading: NodeCalls["isReading"] = (object, method) => this.#calls.isReading(object, method);

  holds(object: ObjectIdentity): boolean {
    return this.#ownership.holds(object);
  }

  owns: Ownership["owns"] = (object) => this.#ownership.owns(object);
  ownerOf: Ownership["ownerOf"] = (object) => this.#ownership.ownerOf(object);
  settle: Ownership["settle"] = (object) => this.#ownership.settle(object);
  recover: NodeApi["recover"] = (object) => this.#ownership.recover(object);
  moving: Objects["moving"] = (object) => this.#objects.moving(object);

  wake: ObjectDues["wake"] = (object, teller) => this.#dues.wake(object, teller);
  tellRow: ObjectDues["tellRow"] = (object) => this.#dues.tellRow(object);
  rowsTold: ObjectDues["rowsTold"] = () => this.#dues.rowsTold();

  get delay(): DelayApi {
    return this.#delay.operations;
  }

  subscribe: LiveApi["subscribe"] = (request, sink) => this.#hub.subscribe(request, sink);
  view: LiveApi["view"] = (request, sink) => this.#hub.view(request, sink);

  storeGet: NodeApi["storeGet"] = (object, key) => this.#console.storeGet(object, key);
  storeList: NodeApi["storeList"] = (object, prefix) => this.#console.storeList(object, prefix);
  sql: NodeApi["sql"] = (object, statement, parameters) => this.#console.sql(object, statement, parameters);
  inspect: NodeApi["inspect"] = (object) => this.#console.inspect(object);
  timers: NodeApi["timers"] = (object) => this.#console.timers(object);

  directory: NodeApi["directory"] = (app, className) => this.#directories.status(app, className);
  rebuildDirectory: NodeApi["rebuildDirectory"] = (app, className) => this.#directories.rebuild(app, className);
  find: NodeApi["find"] = ({ app, className, query, timeoutMs }) => {
    const expiresMs = this.#nowMs() + (timeoutMs ?? this.#options.settings.CALL_TIMEOUT_MS);
    return this.#directories.find({ app, className, query, expiresMs });
  };

  destroy: NodeApi["destroy"] = async (object) => {
    this.#admission.assertKnown(object);
    await this.#objects.destroy(object);
  };

  history: NodeApi["history"] = async (object, limit) => {
    this.#admission.assertKnownToOperators(object);
    return await this.#restoring.history(object, limit);
  };

  restore: NodeApi["restore"] = async (object, restoration) => {
    this.#admission.assertKnown(object);
    return await this.#delay.renewed(object, () => this.#restoring.restore(object, restoration));
  };

  fork: NodeApi["fork"] = async (object, restoration, key) => {
    this.#admission.assertKnown(object);
    const copy = identityOf(object.app, object.className, key);
    return await this.#delay.renewed(copy, () => this.#restoring.fork(object, restoration, copy));
  };

  exportDatabase: NodeApi["exportDatabase"] = async (object, at) => {
    this.#admission.assertKnownToOperators(object);
    return await this.#restoring.export(object, at);
  };

  async runUnit(request: UnitRequest): Promise<UnitResponse> {
    const begunMs = this.#nowMs();
    const { app, unit } = request;
    try {
      this.#admission.assertServing();
      const response = await this.#units.run(request);
      this.counters.units.ended(app, unit, this.#nowMs() - begunMs);
      return response;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.counters.units.ended(app, unit, this.#nowMs() - begunMs, error);
      throw error;
    }
  }

  classes: NodeApi["classes"] = async () => this.#catalog.list();
  units: NodeApi["units"] = async () => this.#catalog.listUnits();
  status: NodeApi["status"] = async () => statusOf(this.#standing);
  nodes: NodeApi["nodes"] = async () => [];
  ring: NodeApi["ring"] = async () => ({ partitions: [] });
  drain: NodeApi["drain"] = async () => {
    throw MoonportError.of("bad_option", "the node is alone: nobody is there to take its objects");
  };

  gauges(): NodeGauges {
    return gaugesOf(this.#standing);
  }

  get bucketRequests(): RequestCounts | undefined {
    return this.#options.bucket.requests;
  }

  get fleetMeasures(): undefined {
    return undefined;
  }

  quarantine: NodeApi["quarantine"] = async () => {
    this.#admission.assertServing();
    return this.#context.quarantine.list();
  };

  clearQuarantine: NodeApi["clearQuarantine"] = async (object, method) => {
    this.#admission.assertServing();
    return this.#context.quarantine.clear(object, method);
  };

  /** Takes over the apps' classes between calls; one that does not load keeps its last good version. */
  reload(apps: readonly AppSource[]): void {
    this.#catalog.load(apps);
    this.#appsReplaced();
  }

  deploy: NodeApi["deploy"] = async (request) => {
    this.#admission.assertServing();
    return await this.releasing.deploy(request);
  };

  rollback: NodeApi["rollback"] = async (request) => {
    this.#admission.assertServing();
    return await this.releasing.rollback(request);
  };

  releases: NodeApi["releases"] = async (app) => {
    this.#admission.assertServing();
    return await this.releasing.releases(app);
  };

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }
}
