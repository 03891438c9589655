/**
 * Deploying: the checks before, the one write that makes a release current, and who serves it after.
 *
 * Everything that can be refused is refused before that write: files that are none, files that do not load here or on another
 * node, objects that have come further than the release. After it nothing is taken back: nodes switch to the release as they
 * hear of it, and those that do not are listed.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import { checkUsersAppName } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { uuidv7, type World } from "../world/world.js";
import { type Bundle, bundleOf } from "./bundle.js";
import type {
  AppReleases,
  Deployed,
  DeployRequest,
  DeployTerms,
  NodeRelease,
  Release,
  ReleaseApi,
  RollbackRequest,
  ServedApp,
} from "./contract.js";
import type { CompiledApp } from "./follower.js";
import { findMigrated, MigratedList, type MigratedParts } from "./migrated-objects.js";
import type { MigratedAnswer, ReleasePeers } from "./peers.js";
import { currentOf, limitsOf, type MigrationLimit, nextRecord, type ReleaseRecord } from "./record.js";
import type { ReleaseStore, StandingRecord } from "./store.js";

export interface DeploymentParts extends MigratedParts {
  readonly world: World;
  readonly settings: Settings;
  readonly store: ReleaseStore;
  /** Undefined for a node that is alone. */
  peers(): ReleasePeers | undefined;
  /** @throws MoonportError `app_not_found` for an app that this node does not serve */
  standing(app: string): ServedApp;
  /** Switches to the current release, where this node follows the app's. */
  look(app: string): Promise<void>;
  compile(bundle: Bundle, app: string): CompiledApp;
  /** Of this node's own objects that are open. */
  migrated(app: string, limits: readonly MigrationLimit[]): MigratedAnswer;
}

const BY_MAX = 200;
const MESSAGE_MAX = 1_000;

/** What is about to be published. */
interface Candidate {
  readonly app: string;
  readonly bundle: Bundle;
  readonly compiled: CompiledApp;
  readonly terms: DeployTerms;
  readonly rollbackOf?: number;
}

export class Deployments implements ReleaseApi {
  readonly #parts: DeploymentParts;
  /** Apps that are being deployed by this node. */
  readonly #underWay = new Set<string>();

  constructor(parts: DeploymentParts) {
    this.#parts = parts;
  }

  async deploy({ app, files, ...terms }: DeployRequest): Promise<Deployed> {
    checkUsersAppName(app);
    checkTerms(terms);
    this.#parts.standing(app);
    const bundle = bundleOf(files, this.#parts.settings);
    return await this.#alone(app, async () => {
      const before = await this.#parts.store.read(app);
      return await this.#publish({ app, bundle, compiled: this.#compiled(app, bundle), terms }, before);
    });
  }

  async rollback({ app, to, ...terms }: RollbackRequest): Promise<Deployed> {
    checkTerms(terms);
    this.#parts.standing(app);
    return await this.#alone(app, async () => {
      const { store } = this.#parts;
      const before = await store.read(app);
      const release = targetOf(app, before?.record, to);
      const bundle = await store.bundle(app, release);
      const rollbackOf = release.number;
      return await this.#publish({ app, bundle, compiled: this.#compiled(app, bundle), terms, rollbackOf }, before);
    });
  }

  async releases(app: string): Promise<AppReleases> {
    const own = this.#parts.standing(app);
    const standing = await this.#parts.store.read(app);
    const nodes = await this.#everybody(app, "standing", own);
    return { app, releases: standing?.record.releases ?? [], nodes };
  }

  /** Two at once would read objects into the same files, and one of them come too late in any case. */
  async #alone<T>(app: string, deploying: () => Promise<T>): Promise<T> {
    if (this.#underWay.has(app)) {
      throw MoonportError.of("deploy_conflict", `this node is deploying ${app} already`, { hint: CONFLICT_HINT });
    }
    this.#underWay.add(app);
    try {
      return await deploying();
    } finally {
      this.#underWay.delete(app);
    }
  }

  #compiled(app: string, bundle: Bundle): CompiledApp {
    const compiled = this.#parts.compile(bundle, app);
    const [first] = compiled.faults;
    if (first === undefined) return compiled;
    const files = compiled.faults.map(({ file, error }) => ({ file, message: error.message }));
    throw MoonportError.of("class_invalid", files.map(({ message }) => message).join("\n"), { details: { files } });
  }

  async #publish(candidate: Candidate, before: StandingRecord | undefined): Promise<Deployed> {
    const { app, bundle, compiled, terms } = candidate;
    const current = before && currentOf(before.record);
    checkOver(terms, current);
    if (current !== undefined && isSame(current, bundle, terms)) {
      return { release: current, changed: false, nodes: await this.#switched(app) };
    }
    await this.#refuseMigrated(candidate, before?.record);
    if (terms.force !== true) await this.#refuseUnloadable(app, bundle);
    const { store, settings, world } = this.#parts;
    const next = nextRecord(before?.record, {
      app,
      release: releaseOf(candidate, world),
      declared: compiled.declared,
      keptMax: settings.RELEASES_KEPT,
    });
    if (!(await store.publish(before, next, bundle))) throw await this.#conflict(app);
    const release = currentOf(next);
    const nodes = await this.#switched(app);
    await store.collect(next).catch((error: unknown) => {
      world.log.warn({ app, error: asMoonportError(error).message }, "old releases stay until the next deployment");
    });
    return { release, changed: true, nodes };
  }

  async #conflict(app: string): Promise<MoonportError> {
    const now = await this.#parts.store.read(app).catch(() => undefined);
    const winner = now && currentOf(now.record);
    const who = winner === undefined ? "" : `: release ${winner.number}, by ${winner.by}`;
    return MoonportError.of("deploy_conflict", `another deployment of ${app} came first${who}`, {
      hint: CONFLICT_HINT,
      ...(winner && { details: { release: winner.number, by: winner.by, message: winner.message } }),
    });
  }

  /** @throws MoonportError `objects_migrated`, `objects_unread` */
  async #refuseMigrated({ app, compiled, terms }: Candidate, before: ReleaseRecord | undefined): Promise<void> {
    const limits = limitsOf(before, compiled.declared).filter(
      // What was changed nobody can accept: an object that applied the other text is refused wherever it is called.
      ({ isChanged }) => isChanged || terms.acceptMigrated !== true,
    );
    if (limits.length === 0) return;
    const found = new MigratedList();
    await this.#askOwners(app, limits, found);
    // Those that are in use are told at once: nobody waits for a walk that can change nothing any more.
    try {
      if (found.count === 0) await findMigrated(this.#parts, app, limits, found);
    } catch (error) {
      // One is enough to refuse it.
      if (found.count === 0) throw error;
    }
    if (found.count > 0) throw migratedError(app, found, limits);
  }

  async #askOwners(app: string, limits: readonly MigrationLimit[], found: MigratedList): Promise<void> {
    const peers = this.#parts.peers();
    found.addAll(this.#parts.migrated(app, limits));
    const asked = (peers?.others() ?? []).map(async ({ node }) => {
      try {
        return await peers?.ask(node, { kind: "migrated", app, limits });
      } catch (cause) {
        throw MoonportError.of("objects_unread", `${node} does not say how far its objects are`, {
          cause,
          hint: "try again when it answers",
        });
      }
    });
    for (const answer of await Promise.all(asked)) if (answer !== undefined) found.addAll(answer);
  }

  /** Every node that answers has compiled it by now. @throws MoonportError `release_unloadable` */
  async #refuseUnloadable(app: string, bundle: Bundle): Promise<void> {
    const peers = this.#parts.peers();
    if (peers === undefined) return;
    const question = { kind: "prepare", app, bundle: bundle.id, bytes: bundle.bytes } as const;
    const answers = peers.others().map(async ({ node }) => {
      // One that does not answer hears of the release when it can.
      const answer = await peers.ask(node, question).catch(() => undefined);
      return (answer?.faults ?? []).slice(0, 1).map(({ message }) => ({ node, message }));
    });
    const refusals = (await Promise.all(answers)).flat();
    if (refusals.length === 0) return;
    const listed = refusals.map(({ node, message }) => `${node}: ${message}`).join("\n");
    throw MoonportError.of("release_unloadable", `it does not load on every node\n${listed}`, {
      hint: "forced, it is deployed all the same, and those nodes keep what they serve",
      details: { nodes: refusals },
    });
  }

  /** Everybody looks for the current release, and says what it serves then. */
  async #switched(app: string): Promise<readonly NodeRelease[]> {
    await this.#parts.look(app).catch((error: unknown) => {
      this.#parts.world.log.warn({ app, error: asMoonportError(error).message }, "cannot look for the release");
    });
    return await this.#everybody(app, "look", this.#parts.standing(app));
  }

  async #everybody(app: string, kind: "look" | "standing", own: ServedApp): Promise<readonly NodeRelease[]> {
    const peers = this.#parts.peers();
    if (peers === undefined) return [nodeRelease(undefined, own)];
    const others = peers.others().map(async ({ node, releases }) => {
      try {
        return nodeRelease(node, await peers.ask(node, { kind, app }));
      } catch {
        const last = releases.find((one) => one.app === app) ?? { app, source: "none" as const };
        return { ...nodeRelease(node, last), unreachable: true as const };
      }
    });
    const all = [nodeRelease(peers.self, own), ...(await Promise.all(others))];
    return all.sort((left, right) => ((left.node ?? "") < (right.node ?? "") ? -1 : 1));
  }
}

const CONFLICT_HINT = "look at what it brought (`moonport releases`), then deploy again";

function isSame(current: Release, bundle: Bundle, { acceptMigrated = false }: DeployTerms): boolean {
  return current.bundle === bundle.id && (current.acceptsMigrated === true || !acceptMigrated);
}

function releaseOf({ bundle, terms, rollbackOf }: Candidate, world: World): Omit<Release, "number"> {
  const { by, message = "", acceptMigrated } = terms;
  return {
    id: uuidv7(world),
    bundle: bundle.id,
    files: bundle.files.length,
    bytes: bundle.textBytes,
    atMs: world.clock.wallMs(),
    by,
    message,
    ...(rollbackOf !== undefined && { rollbackOf }),
    ...(acceptMigrated === true && { acceptsMigrated: true as const }),
  };
}

function nodeRelease(node: string | undefined, { app: _, ...served }: ServedApp): NodeRelease {
  return { ...(node !== undefined && { node }), ...served };
}

/** @throws MoonportError `release_not_found` */
function targetOf(app: string, record: ReleaseRecord | undefined, to: number | undefined): Release {
  const releases = record?.releases ?? [];
  const current = releases.at(-1);
  const found =
    to === undefined
      ? releases.findLast(({ bundle }) => bundle !== current?.bundle)
      : releases.find(({ number }) => number === to);
  if (found !== undefined) return found;
  const what = to === undefined ? "no release to go back to" : `no release ${to}`;
  const [first, last] = [releases[0]?.number, current?.number];
  throw MoonportError.of("release_not_found", `${app} has ${what}`, {
    hint: first === undefined ? "nothing was deployed yet" : `kept are releases ${first} to ${last}`,
  });
}

/** @throws MoonportError `deploy_conflict` */
function checkOver({ over }: DeployTerms, current: Release | undefined): void {
  const number = current?.number ?? 0;
  if (over === undefined || over === number) return;
  const is = current === undefined ? "there is none yet" : `${number} is, by ${current.by}`;
  throw MoonportError.of("deploy_conflict", `release ${over} is not the current one: ${is}`, {
    hint: CONFLICT_HINT,
    details: { release: number },
  });
}

/** @throws MoonportError `bad_option`, `too_large` */
function checkTerms({ by, message = "", over }: DeployTerms): void {
  for (const [what, text, max] of [
    ["by", by, BY_MAX],
    ["message", message, MESSAGE_MAX],
  ] as const) {
    if (typeof text !== "string" || !text.isWellFormed()) throw MoonportError.of("bad_option", `${what} is a text`);
    if (text.length > max) throw MoonportError.of("too_large", `${what} may have ${max} characters`);
  }
  if (by === "") throw MoonportError.of("bad_option", "by says who deploys it");
  if (over !== undefined && !(Number.isSafeInteger(over) && over >= 0)) {
    throw MoonportError.of("bad_option", "over is the number of a release, or 0");
  }
}

function migratedError(app: string, found: MigratedList, limits: readonly MigrationLimit[]): MoonportError {
  const { objects, count } = found;
  const [first] = objects;
  const which = count === 1 ? `${first?.object} has` : `${count} objects have, the first of them ${first?.object},`;
  return MoonportError.of(
    "objects_migrated",
    `${which} applied migrations that the release of ${app} does not declare`,
    {
      hint: limits.some(({ isChanged }) => isChanged)
        ? "leave applied migrations as they are and add others"
        : "deploy a release that declares them too, or accept such objects as they are",
      details: { objects, count },
    },
  );
}
