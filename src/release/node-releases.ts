/**
 * A node's part in deployments: what it serves of each app, what it follows, and what it answers to others about it.
 *
 * An app that it follows is served as its current release in the bucket says, whatever files the node was started with; those
 * serve until there is a release. An app that it does not follow (`dev`) is served from the files given, and only that.
 */
import type { AppSource } from "../app-source.js";
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Catalog } from "../object/catalog.js";
import type { Settings } from "../settings/settings.js";
import { migrationHashes } from "../store/migrations.js";
import type { World } from "../world/world.js";
import { decodeBundle, sourceOf } from "./bundle.js";
import type {
  AppReleases,
  Deployed,
  DeployRequest,
  Release,
  ReleaseApi,
  RollbackRequest,
  ServedApp,
} from "./contract.js";
import { Deployments } from "./deployments.js";
import { type CompiledApp, faultsText, ReleaseFollower } from "./follower.js";
import { MigratedList } from "./migrated-objects.js";
import type { MigratedAnswer, ReleaseAnswers, ReleasePeers, ReleaseQuestion } from "./peers.js";
import type { MigrationLimit } from "./record.js";
import { ReleaseStore } from "./store.js";

export interface BegunApps {
  /** Of releases where the bucket has them, else those given. */
  readonly apps: readonly AppSource[];
  readonly releases: ReadonlyMap<string, Release>;
}

export interface NodeReleasesParts {
  readonly world: World;
  readonly bucket: Bucket;
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly follows: readonly string[];
  readonly begun: BegunApps;
  /** Other files serve than before. */
  replaced(): void;
  /** How many migrations this node's own objects of a class have applied, of those that are open. */
  applied(app: string, className: string): Iterable<{ readonly object: string; readonly applied: number }>;
}

/** Shortest pause between two looks that nobody waits for. */
const LOOK_PAUSE_MS = 100;

/**
 * What a node begins to serve.
 * @throws MoonportError `app_not_found` for an app that it follows and that has neither a release nor files here,
 * `bucket_failed`, `release_damaged`
 */
export async function begunApps(
  parts: Pick<NodeReleasesParts, "world" | "bucket" | "settings" | "follows">,
  given: readonly AppSource[],
): Promise<BegunApps> {
  const { world, bucket, settings, follows } = parts;
  const store = new ReleaseStore(bucket, world, settings.BUCKET_TIMEOUT_MS);
  const apps = new Map(given.map((source) => [source.app, source]));
  const releases = new Map<string, Release>();
  for (const app of follows) {
    const found = await store.current(app);
    if (found !== undefined) {
      const { release, bundle } = found;
      const { number, by, message } = release;
      world.log.info(
        { app, release: number, bundle: release.bundle.slice(0, 12), by, message },
        `serves release ${number} of ${app}${apps.has(app) ? "; the files in its folder are not read" : ""}`,
      );
      apps.set(app, sourceOf(app, bundle.files));
      releases.set(app, release);
    } else if (!apps.has(app)) {
      throw MoonportError.of(
        "app_not_found",
        `there is nothing to serve: ${app} has no release in the bucket, and no files here`,
        {
          hint: "deploy it first, or name its folder",
        },
      );
    }
  }
  return { apps: [...apps.values()], releases };
}

export class NodeReleases implements ReleaseApi {
  readonly #parts: NodeReleasesParts;
  readonly #followers = new Map<string, ReleaseFollower>();
  readonly #deployments: Deployments;
  #peers: ReleasePeers | undefined;
  #told: (served: readonly ServedApp[]) => void = () => {};
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: NodeReleasesParts) {
    this.#parts = parts;
    const { world, bucket, settings, catalog, follows, begun } = parts;
    const store = new ReleaseStore(bucket, world, settings.OBJECT_ACK_GATE_MS);
    for (const app of follows) {
      const release = begun.releases.get(app);
      const follower = new ReleaseFollower({
        app,
        world,
        store,
        pollMs: settings.RELEASE_POLL_MS,
        served: release === undefined ? { kind: "folder" } : { kind: "release", release },
        compile: (source) => this.#compile(source),
        renumber: (to) => catalog.renumber(app, to),
        changed: () => this.#told(this.served),
      });
      this.#followers.set(app, follower);
    }
    this.#deployments = new Deployments({
      world,
      bucket,
      settings,
      store,
      peers: () => this.#peers,
      standing: (app) => this.standing(app),
      look: async (app) => this.#followers.get(app)?.look(),
      compile: (bundle, app) => this.#compile(sourceOf(app, bundle.files)),
      migrated: (app, limits) => this.#migrated(app, limits),
    });
  }

  start(): void {
    for (const follower of this.#followers.values()) follower.start();
  }

  /** Resolves when the bucket is asked for nothing any more. */
  async stop(): Promise<void> {
    await Promise.all([...this.#followers.values()].map((follower) => follower.stop()));
  }

  /** From now on others are asked and told, and are listened to. */
  joinPeers(peers: ReleasePeers, told: (served: readonly ServedApp[]) => void): void {
    this.#peers = peers;
    this.#told = told;
    told(this.served);
    // Nobody could tell of a release since the node began.
    this.lookSoon();
  }

  /** Of all apps that the node serves. */
  get served(): readonly ServedApp[] {
    return this.#parts.catalog.apps.map((app) => this.standing(app));
  }

  /** @throws MoonportError `app_not_found` */
  standing(app: string): ServedApp {
    const follower = this.#followers.get(app);
    if (follower !== undefined) return follower.standing;
    if (this.#parts.catalog.apps.includes(app)) return { app, source: "folder" };
    throw MoonportError.of("app_not_found", `this node serves no app that is called "${app}"`, {
      hint: `it serves ${this.#parts.catalog.apps.join(", ")}; --app names one`,
    });
  }

  /** Of the release that serves; 0 where none does. */
  numberOf(app: string): number {
    return this.#followers.get(app)?.number ?? 0;
  }

  /**
   * Whoever asks serves that release: before this node answers it looks for it. What it cannot serve it says of itself, and
   * answers as it can.
   * @throws MoonportError `release_behind` when the bucket does not tell
   */
  async atLeast(app: string, number: number): Promise<void> {
    try {
      await this.#followers.get(app)?.atLeast(number);
    } catch (cause) {
      throw MoonportError.of("release_behind", `the release ${number} of ${app} cannot be looked for here now`, {
        cause,
      });
    }
  }

  /** Others serve such releases. */
  seen(served: readonly ServedApp[]): void {
    const isNewer = served.some(({ app, release = 0 }) => this.#followers.has(app) && release > this.numberOf(app));
    if (isNewer) this.lookSoon();
  }

  /** Unless it has only just done so. */
  lookSoon(): void {
    const nowMs = this.#parts.world.clock.monotonicMs();
    if (nowMs < this.#lookedMs + LOOK_PAUSE_MS) return;
    this.#lookedMs = nowMs;
    // The log hears of what fails when the next look of the follower's own does.
    for (const follower of this.#followers.values()) follower.look().catch(() => {});
  }

  /**
   * An object has applied more migrations than its class declares: why it may not be served. Undefined where it may: the app
   * has no release, or one that was deployed to serve such objects.
   */
  whyBehind(object: ObjectIdentity, applied: number, declared: number): MoonportError | undefined {
    const release = this.#parts.catalog.releaseOf(object.app);
    if (release === undefined || release.acceptsMigrated === true) return undefined;
    this.lookSoon();
    const { id } = object;
    return MoonportError.of(
      "release_behind",
      `${id} has applied ${applied} migrations, and release ${release.number} declares ${declared}`,
      { object: id, retryAfterMs: LOOK_PAUSE_MS, details: { release: release.number, applied, declared } },
    );
  }

  /** To a peer. @throws MoonportError `app_not_found`, `bucket_failed`, `release_damaged` */
  async answer(question: ReleaseQuestion): Promise<ReleaseAnswers[ReleaseQuestion["kind"]]> {
    const { app } = question;
    const follower = this.#followers.get(app);
    switch (question.kind) {
      case "prepare": {
        const faults = follower?.prepare(decodeBundle(question.bundle, question.bytes)) ?? [];
        return { faults: faults.slice(0, 1).map(({ file }) => ({ file, message: faultsText(faults) })) };
      }
      case "look":
        await follower?.look();
        return this.standing(app);
      case "standing":
        return this.standing(app);
      case "migrated":
        return this.#migrated(app, question.limits);
    }
  }

  deploy(request: DeployRequest): Promise<Deployed> {
    return this.#deployments.deploy(request);
  }

  rollback(request: RollbackRequest): Promise<Deployed> {
    return this.#deployments.rollback(request);
  }

  releases(app: string): Promise<AppReleases> {
    return this.#deployments.releases(app);
  }

  #compile(source: AppSource): CompiledApp {
    const { catalog, replaced } = this.#parts;
    const prepared = catalog.prepare(source);
    return {
      faults: prepared.faults,
      declared: new Map(prepared.classes.map((lua) => [lua.name, migrationHashes(lua)])),
      serve: (release) => {
        catalog.serve(prepared, release);
        replaced();
      },
    };
  }

  #migrated(app: string, limits: readonly MigrationLimit[]): MigratedAnswer {
    const found = new MigratedList();
    for (const { className, declared } of limits) {
      for (const { object, applied } of this.#parts.applied(app, className)) {
        if (applied > declared) found.add({ object, applied, declared });
      }
    }
    return { objects: found.objects, count: found.count };
  }
}
