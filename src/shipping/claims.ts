/**
 * The objects that this session owns, and where each stands in the bucket.
 *
 * A claim is taken by compare-and-swap under a higher epoch (E1) and stays with the session after the object left memory,
 * so that waking it again costs no bucket request. Manifests kept for objects that are not resident are bounded: beyond that
 * the session gives up those that others would need its journals for, and recognises the rest when it reads them again.
 */
import { type ResolvableWrite, type ResolvedWrite, writeResolved } from "../bucket/ambiguous-write.js";
import type { Bucket, BucketBulk, Version } from "../bucket/bucket.js";
import { changeSet, claim, releaseClean, standing, takeOver } from "../cluster/ownership.js";
import { answersNeeded } from "../cluster/quorum.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { ClaimReason } from "../metrics/fleet-counters.js";
import { RecentMap } from "../recent-map.js";
import type { Settings } from "../settings/settings.js";
import { deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { uuidv7, type World } from "../world/world.js";
import { type BulkClaimsParts, type BulkOutcome, claimInBulk, type StandingRecord } from "./bulk-claims.js";
import { Claim } from "./claim.js";
import type { FleetView } from "./fleet-view.js";
import { ObjectKeys } from "./layout.js";
import {
  claimed,
  decodeManifest,
  encodeManifest,
  firstManifest,
  type Manifest,
  ownershipOf,
  withEventsLost,
  withOwnership,
} from "./manifest.js";
import { gatherPromises } from "./promises.js";
import { tailOf, withTail } from "./tail.js";

type ClaimSettings = Pick<
  Settings,
  | "OBJECT_SHIP_BACKOFF_MS"
  | "OBJECT_SHIP_BACKOFF_MAX_MS"
  | "OBJECT_ACK_GATE_MS"
  | "NODE_CLAIMS_MAX"
  | "NODE_CLAIMS_BYTES_MAX"
  | "CLAIM_MS"
  | "TAKEOVER_CONCURRENCY"
  | "TAKEOVER_BATCH"
>;

/** Races lost in a row after which a claim gives up: another owner is alive and keeps writing. */
const RACES_MAX = 3;
/** Of one record in one go: members that come and go faster are seen by the next look. */
const RENEWALS_MAX = 3;
/** Beyond so many times their bounds claims are forgotten though they could not be released. */
const UNRELEASED_FACTOR = 2;
/** Peeks remembered for the claim that follows, beside those of a takeover. */
const PEEKED_MAX = 256;

/** Told the record as it stands, undefined where there is none: whether to claim the object. */
export type IsWanted = (object: ObjectIdentity, manifest: Manifest | undefined) => boolean;

export interface ClaimHooks {
  /** Told of each object that is forgotten: it is not served as before. */
  readonly lost?: (object: ObjectIdentity) => void;
  /** Told of each object that has become this session's; without a reason it was before, and had been forgotten. */
  readonly claimed?: (object: ObjectIdentity, reason: ClaimReason | undefined) => void;
  /** Resolves when writes that only journals held may be named by the object's record (W1). */
  readonly beforeTail?: (object: ObjectIdentity) => Promise<void> | undefined;
  /** Told once of each object that `beforeTail` was asked about, when the claim has ended: won, lost, or in doubt. */
  readonly tailEnded?: (object: ObjectIdentity) => void;
}

interface HowClaimed {
  readonly acceptLoss?: boolean;
  /** Its CAS1 has landed, and this is the record by it. */
  readonly raised?: StandingRecord | undefined;
}

export class Claims {
  readonly #world: World;
  readonly #bucket: Bucket;
  readonly #fleet: FleetView;
  readonly #settings: ClaimSettings;
  readonly #beforeTail: (object: ObjectIdentity) => Promise<void> | undefined;
  readonly #tailEnded: (object: ObjectIdentity) => void;
  /** Objects that `beforeTail` was asked about by claims that have not ended. */
  readonly #withTail = new Set<string>();
  readonly #lost: (object: ObjectIdentity) => void;
  readonly #claimed: (object: ObjectIdentity, reason: ClaimReason | undefined) => void;
  /** What a claim turned out to be, whatever it was made for. */
  readonly #turnedOut = new WeakMap<Claim, "handover" | "own">();
  /** In order of last use, for forgetting. */
  readonly #held = new Map<string, Claim>();
  /** Records that are changed while nobody uses the object: another set of journals, a release. */
  readonly #changing = new Map<string, Promise<void>>();
  readonly #claiming = new Map<string, Promise<Claim>>();
  /** Objects that are claimed together, each with the end of that. */
  readonly #inBulk = new Map<string, Promise<void>>();
  readonly #peeked: RecentMap<string, StandingRecord>;
  /** Objects that may not be gone on with under the epoch they have. */
  readonly #mustRaise = new Set<string>();
  #isTrimming = false;

  constructor(
    world: World,
    bucket: Bucket,
    fleet: FleetView,
    settings: ClaimSettings,
    { lost = () => {}, claimed = () => {}, beforeTail = () => undefined, tailEnded = () => {} }: ClaimHooks = {},
  ) {
    this.#beforeTail = (object) => {
      this.#withTail.add(object.id);
      return beforeTail(object);
    };
    this.#tailEnded = tailEnded;
    this.#world = world;
    this.#bucket = bucket;
    this.#fleet = fleet;
    this.#settings = settings;
    this.#peeked = new RecentMap(PEEKED_MAX + settings.TAKEOVER_BATCH);
    this.#lost = lost;
    this.#claimed = claimed;
  }

  /** The claim if this session holds it in memory; no request. */
  held(object: ObjectIdentity): Claim | undefined {
    return this.#held.get(object.id);
  }

  /**
   * Makes the object this session's.
   * @throws MoonportError `moved` when another owner lives (its details name node and session) or keeps winning,
   * `replicas_missing`, `bucket_failed` when the bucket keeps failing (nothing is known then; trying again is safe),
   * `object_corrupt`
   */
  async claim(object: ObjectIdentity, reason: ClaimReason = "call"): Promise<Claim> {
    for (let other = this.#otherOf(object.id); other !== undefined; other = this.#otherOf(object.id)) await other;
    const known = this.#held.get(object.id);
    if (known !== undefined && !known.manifest.destroyed) return this.#remember(known);
    return this.#claimAlone(object, reason);
  }

  /** What is under way with the object's record and decides whether it is held: a claim waits for that. */
  #otherOf(id: string): Promise<void> | undefined {
    return this.#changing.get(id) ?? this.#inBulk.get(id);
  }

  #claimAlone(object: ObjectIdentity, reason: ClaimReason, how: HowClaimed = {}): Promise<Claim> {
    // Two claims of one session would take the object from each other.
    let claiming = this.#claiming.get(object.id);
    if (claiming === undefined) {
      claiming = this.#claim(object, reason, how).finally(() => this.#claiming.delete(object.id));
      this.#claiming.set(object.id, claiming);
    }
    return claiming;
  }

  /** Whether {@link claimMany} costs little more than one claim. */
  get isBulk(): boolean {
    return this.#bucket.bulk !== undefined;
  }

  /** The ends of the claims that are made one by one now: mostly somebody waits for each. */
  get underWay(): readonly Promise<unknown>[] {
    return [...this.#claiming.values()];
  }

  /**
   * Takes over of those objects that are not held all that `isWanted`: where the bucket can, together. Who asks for one of them
   * alone meanwhile waits for that.
   * @param failed told of each that could not be claimed, as {@link claim} says
   */
  async claimMany(
    objects: readonly ObjectIdentity[],
    isWanted: IsWanted,
    failed: (object: ObjectIdentity, thrown: unknown) => void,
  ): Promise<void> {
    const free = objects.filter(({ id }) => {
      return !this.#held.has(id) && !this.#claiming.has(id) && this.#otherOf(id) === undefined;
    });
    const { bulk } = this.#bucket;
    if (bulk !== undefined) return this.#claimTogether(bulk, free, isWanted, failed);
    const one = async (object: ObjectIdentity): Promise<void> => {
      try {
        if (isWanted(object, await this.peek(object))) await this.claim(object, "takeover");
      } catch (thrown) {
        failed(object, thrown);
      }
    };
    await Promise.all(free.map(one));
  }

  async #claimTogether(
    bulk: BucketBulk,
    objects: readonly ObjectIdentity[],
    isWanted: IsWanted,
    failed: (object: ObjectIdentity, thrown: unknown) => void,
  ): Promise<void> {
    const { session } = this.#fleet;
    const parts: BulkClaimsParts = {
      world: this.#world,
      bulk,
      fleet: this.#fleet,
      isWanted,
      beforeTail: this.#beforeTail,
      raised: ({ id }) => void this.#mustRaise.delete(id),
    };
    const ended = deferred<void>();
    for (const { id } of objects) this.#inBulk.set(id, ended.promise);
    let outcomes: readonly BulkOutcome[];
    try {
      outcomes = await claimInBulk(parts, objects);
    } finally {
      // Whatever came of it: who waits for one of them would wait for ever.
      for (const { id } of objects) this.#inBulk.delete(id);
      ended.resolve();
    }
    const alone: Promise<unknown>[] = [];
    for (const [index, object] of objects.entries()) {
      const outcome = outcomes[index] as BulkOutcome;
      switch (outcome.kind) {
        case "claimed":
          if (!this.#isStill(session)) failed(object, lapsed());
          else this.#remember(new Claim(object, outcome.record.manifest, outcome.record.version), "takeover");
          break;
        case "alone":
        case "raised": {
          const raised = outcome.kind === "raised" ? outcome.record : undefined;
          const claiming = this.#claimAlone(object, "takeover", { raised });
          alone.push(claiming.catch((thrown: unknown) => failed(object, thrown)));
          break;
        }
        case "failed":
          failed(object, outcome.error);
          break;
        case "left":
          break;
      }
      // One that goes on by itself has not ended.
      if (outcome.kind !== "alone" && outcome.kind !== "raised") this.#ended(object);
    }
    await Promise.all(alone);
  }

  /**
   * Claims an object whose last writes may be lost, because too few of the journals that hold them are left. For operators.
   * @returns the seq that it goes on from. @throws MoonportError as {@link claim}
   */
  async recover(object: ObjectIdentity): Promise<number> {
    const { id } = object;
    // One that is under way waits for the very journals that are lost, and is joined by nobody who accepts that.
    const others = (): Promise<unknown> | undefined => this.#otherOf(id) ?? this.#claiming.get(id)?.catch(() => {});
    for (let other = others(); other !== undefined; other = others()) await other;
    const held = this.#held.get(id);
    if (held !== undefined) return held.manifest.seq;
    const claim = await this.#claimAlone(object, "call", { acceptLoss: true });
    const { epoch, seq } = claim.manifest;
    this.#world.log.warn({ object: object.id, epoch, seq }, "recovered: released writes after this seq may be lost");
    return seq;
  }

  async #claim(object: ObjectIdentity, reason: ClaimReason, how: HowClaimed): Promise<Claim> {
    try {
      return await this.#claimInRaces(object, reason, how);
    } finally {
      this.#ended(object);
    }
  }

  /**
   * In one step with its being held: nobody has opened it yet. One that has failed may land all the same, or have landed: what its
   * record names by then obliges as well.
   */
  #ended(object: ObjectIdentity): void {
    if (this.#withTail.delete(object.id)) this.#tailEnded(object);
  }

  async #claimInRaces(object: ObjectIdentity, reason: ClaimReason, how: HowClaimed): Promise<Claim> {
    const { session } = this.#fleet;
    const { acceptLoss = false, raised } = how;
    for (let race = 0; race < RACES_MAX; race++) {
      if (!this.#fleet.isValid()) break;
      const isRaised = raised !== undefined && race === 0;
      const won = await (isRaised ? this.#complete(object, raised, acceptLoss) : this.#tryClaim(object, acceptLoss));
      if (!this.#isStill(session)) break;
      if (won !== undefined) return this.#remember(won, reason);
    }
    if (!this.#isStill(session)) throw lapsed();
    throw MoonportError.of("moved", `another node keeps claiming ${object.id}`, { object: object.id });
  }

  /** One that has lapsed keeps its name until there is another: what it won is remembered under neither. */
  #isStill(session: string): boolean {
    return session === this.#fleet.session && this.#fleet.isValid();
  }

  /** The record as it stands, without claiming; undefined when the key was never written. */
  async peek(object: ObjectIdentity): Promise<Manifest | undefined> {
    const known = this.#held.get(object.id);
    if (known !== undefined) return known.manifest;
    const found = await this.#read(object);
    if (found === undefined) return undefined;
    this.#peeked.set(object.id, found);
    return found.manifest;
  }

  /**
   * Ownership was lost, or a flight was given up in doubt: the next claim reads the bucket and raises the epoch, even if this
   * session still owns the object. What was given up may land yet; under the old epoch it then meets nothing that counts.
   */
  forget(object: ObjectIdentity): void {
    this.#held.delete(object.id);
    this.#mustRaise.add(object.id);
    this.#lost(object);
  }

  /**
   * Its tombstone has landed. With others about, that is a clean release: any of them may claim it from now on, and what this
   * session knows of its record is worth nothing.
   */
  ended(object: ObjectIdentity): void {
    if (this.#held.get(object.id)?.manifest.replicas === undefined) return;
    this.#held.delete(object.id);
    this.#lost(object);
  }

  /** Everything that this session holds, the longest unused first. */
  get all(): readonly ObjectIdentity[] {
    return [...this.#held.values()].map(({ object }) => object);
  }

  /**
   * Gives the object up so that whoever claims it next needs no journal for it (O4). Its file is closed, and all of it is in
   * the bucket. Never rejects: what is in doubt is claimed anew at its next use. Who watches it hears of it last: a claim that
   * comes before the release finds an owner that lives.
   */
  async release(object: ObjectIdentity): Promise<void> {
    if (this.#held.has(object.id)) await this.#change(object.id, () => this.#release(object));
  }

  async #release(object: ObjectIdentity): Promise<void> {
    const held = this.#held.get(object.id);
    if (held === undefined) return;
    this.#held.delete(object.id);
    const { manifest, version } = held;
    // Of a node that is alone the record needs no word: whoever comes next asks no journal anyway.
    if (manifest.replicas === undefined || manifest.destroyed) return this.#lost(object);
    const me = { session: this.#fleet.session, epoch: manifest.epoch };
    const progress = { covered: manifest.seq, committed: manifest.seq };
    const next = releaseClean(ownershipOf(manifest), me, uuidv7(this.#world), progress);
    this.#mustRaise.add(object.id);
    if (next.kind === "refused") return this.#lost(object);
    try {
      const released = await this.#write(object, withOwnership(manifest, next.record), version);
      // Nothing that is read from now on says that this session serves it; a claim under way may have read before.
      if (released !== undefined && !this.#claiming.has(object.id)) this.#mustRaise.delete(object.id);
    } catch (thrown) {
      const { message } = asMoonportError(thrown);
      this.#world.log.debug({ object: object.id, error: message }, "a release is in doubt");
    }
    this.#lost(object);
  }

  /** One change of a record by its owner at a time, in the order in which they are asked for: whoever claims it waits for all. */
  #change(id: string, change: () => Promise<void>): Promise<void> {
    const before = this.#changing.get(id);
    const changing = (before === undefined ? change() : before.then(change)).finally(() => {
      if (this.#changing.get(id) === changing) this.#changing.delete(id);
    });
    this.#changing.set(id, changing);
    return changing;
  }

  /** The session is over: under the next one everything is claimed anew. */
  sessionEnded(): void {
    this.#held.clear();
    this.#peeked.clear();
    this.#mustRaise.clear();
  }

  /**
   * Other nodes are there than before: of each object whose file is closed, the record names the journals that count from now
   * on. All of it is covered, so that is one write (O3). Never rejects: what fails is claimed anew at its next use.
   * @param inUse whose sets are changed with their next flight
   * @param recordsMax so many at most @returns how many were written, or tried
   */
  async renewSets(inUse: (id: string) => boolean, recordsMax = Number.POSITIVE_INFINITY): Promise<number> {
    const due: Claim[] = [];
    for (const claim of this.#held.values()) {
      if (due.length >= recordsMax) break;
      if (this.#mayRenew(claim, inUse)) due.push(claim);
    }
    await this.#eachOf(due, async (claim) => {
      // It may have been opened while others were renewed; and other nodes may be there again than when its record left.
      for (let times = 0; times < RENEWALS_MAX && this.#mayRenew(claim, inUse); times++) {
        await this.#change(claim.object.id, () => this.#renewSet(claim));
      }
    });
    return due.length;
  }

  #mayRenew(claim: Claim, inUse: (id: string) => boolean): boolean {
    const { id } = claim.object;
    if (inUse(id) || this.#changing.has(id) || this.#held.get(id) !== claim) return false;
    return !claim.manifest.destroyed && this.#fleet.mustRenew(ownershipOf(claim.manifest));
  }

  async #eachOf(claims: readonly Claim[], act: (claim: Claim) => Promise<void>): Promise<void> {
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < claims.length) await act(claims[next++] as Claim);
    };
    await Promise.all(Array.from({ length: Math.min(this.#settings.TAKEOVER_CONCURRENCY, claims.length) }, worker));
  }

  async #renewSet(claim: Claim): Promise<void> {
    const { object, manifest } = claim;
    const { session } = this.#fleet;
    try {
      const replicas = this.#fleet.replicasFor(object);
      if (replicas === undefined || manifest.destroyed) return;
      const progress = { covered: manifest.seq, committed: manifest.seq };
      const me = { session, epoch: manifest.epoch };
      const next = changeSet(ownershipOf(manifest), me, uuidv7(this.#world), replicas, progress);
      if (next.kind === "refused") return this.forget(object);
      const renewed = await this.#write(object, withOwnership(manifest, next.record), claim.version);
      if (renewed === undefined) this.forget(object);
      else claim.advance(renewed.manifest, renewed.version);
    } catch (thrown) {
      const { message } = asMoonportError(thrown);
      this.#world.log.warn(
        { object: object.id, error: message },
        "whether its set of journals was renewed is in doubt",
      );
      // It may land yet: under a higher epoch it meets nothing that counts.
      this.forget(object);
    }
  }

  async #tryClaim(object: ObjectIdentity, acceptLoss: boolean): Promise<Claim | undefined> {
    const { session } = this.#fleet;
    const found = this.#takePeeked(object) ?? (await this.#read(object));
    if (found === undefined) {
      this.#refuseWhileLeaving(object, undefined);
      const first = firstManifest(object.id, session, uuidv7(this.#world), this.#fleet.replicasFor(object));
      const claimed = this.#raised(await this.#write(object, first, undefined));
      // Nobody can have left anything under a key that was never written.
      if (claimed !== undefined) {
        claimed.nextSweep = { kind: "rests", sinceMs: this.#world.clock.monotonicMs(), compactions: 0 };
      }
      return claimed;
    }
    const before = found.manifest;
    if (this.#isServedHere(object, before)) {
      const own = new Claim(object, before, found.version);
      this.#turnedOut.set(own, "own");
      return own;
    }
    await this.#refuseLiveOwner(object, before);
    this.#refuseWhileLeaving(object, before);
    const needed = answersNeeded(ownershipOf(before).quorum);
    // No journal was told of anything that the bucket does not have: one write is the whole claim.
    if (needed === 0 || before.replicas?.clean === true) {
      const next = claimed(before, session, uuidv7(this.#world), this.#fleet.replicasFor(object));
      const won = this.#raised(await this.#write(object, next, found.version));
      if (won !== undefined && before.replicas?.clean === true) this.#turnedOut.set(won, "handover");
      return won;
    }
    return this.#claimWithTail(object, before, found.version, acceptLoss);
  }

  /** C1 to C4, for a record whose journals may hold released writes that the bucket does not have. */
  async #claimWithTail(
    object: ObjectIdentity,
    before: Manifest,
    version: Version,
    acceptLoss: boolean,
  ): Promise<Claim | undefined> {
    const replicas = this.#fleet.replicasFor(object);
    const { session } = this.#fleet;
    if (replicas === undefined) throw needsFleet(object, before);
    const view = { ownerLives: false, holds: false };
    const first = claim(ownershipOf(before), session, uuidv7(this.#world), replicas, view);
    assert(first.kind === "next", "a claim of what nobody holds");
    const raised = this.#raised(await this.#write(object, withOwnership(before, first.record), version));
    if (raised === undefined) return undefined;
    faultPoint("claim.raised", object.id);
    return this.#complete(object, raised, acceptLoss);
  }

  /** C2 to C4, of a record that this session's CAS1 has made. */
  async #complete(object: ObjectIdentity, raised: StandingRecord, acceptLoss: boolean): Promise<Claim | undefined> {
    const keys = new ObjectKeys(object);
    const choice = await gatherPromises(this.#promiseParts(acceptLoss), object.id, ownershipOf(raised.manifest));
    if (choice === undefined) return undefined;
    faultPoint("claim.promised", object.id);
    const tail = tailOf(object, choice);
    if (tail.length > 0) await this.#beforeTail(object);
    const content = withTail(choice.hasLoss ? withEventsLost(raised.manifest) : raised.manifest, tail);
    // As late as can be: it may name no node that has died while journals were asked.
    const replicas = this.#fleet.replicasFor(object);
    if (replicas === undefined) throw needsFleet(object, raised.manifest);
    const me = { session: raised.manifest.owner, epoch: raised.manifest.epoch };
    const second = takeOver(ownershipOf(raised.manifest), me, uuidv7(this.#world), replicas, content.manifest.seq);
    assert(second.kind === "next", "CAS2 follows its own CAS1");
    const next = withOwnership(content.manifest, second.record);
    const beside = content.beside.map(({ entry, bytes }) => ({ key: keys.segment(entry), bytes }));
    return this.#write(object, next, raised.version, beside);
  }

  #promiseParts(acceptLoss: boolean): Parameters<typeof gatherPromises>[0] {
    return { world: this.#world, settings: this.#settings, fleet: this.#fleet, acceptLoss };
  }

  /** Whether a record says that it is this session's, or is to be. */
  isOwn(record: Manifest | undefined): boolean {
    return record?.owner === this.#fleet.session && record.replicas?.clean !== true;
  }

  /** The record names this session, which has completed that claim: forgotten meanwhile, it is taken up again. */
  #isServedHere(object: ObjectIdentity, manifest: Manifest): boolean {
    if (manifest.destroyed || this.#mustRaise.has(object.id)) return false;
    return standing(ownershipOf(manifest), { session: this.#fleet.session, epoch: manifest.epoch }) === "serving";
  }

  /** What may not be gone on with is behind it: it has an epoch of its own. No other write of this session says so. */
  #raised(claim: Claim | undefined): Claim | undefined {
    if (claim !== undefined) this.#mustRaise.delete(claim.object.id);
    return claim;
  }

  /** @throws MoonportError `moved` */
  async #refuseLiveOwner(object: ObjectIdentity, { owner, replicas }: Manifest): Promise<void> {
    if (owner === this.#fleet.session || replicas?.clean === true) return;
    if ((await this.#fleet.standing(owner)) === "dead") return;
    const node = this.#fleet.nodeOf(owner);
    throw MoonportError.of("moved", `${object.id} is owned by ${node ?? "another node"}`, {
      object: object.id,
      details: { session: owner, ...(node !== undefined && { node }) },
    });
  }

  /** A node that gives away what it has takes nothing new while others are there; what its record says is its own, it gives away too. */
  #refuseWhileLeaving(object: ObjectIdentity, before: Manifest | undefined): void {
    if (this.isOwn(before) || !this.#fleet.isLeavingToOthers) return;
    throw MoonportError.of("node_stopping", `this node is giving its objects away: it does not take ${object.id}`, {
      object: object.id,
      retryAfterMs: 1_000,
    });
  }

  /** @returns undefined when another write came first */
  async #write(
    object: ObjectIdentity,
    next: Manifest,
    version: Version | undefined,
    beside: NonNullable<ResolvableWrite["beside"]> = [],
  ): Promise<Claim | undefined> {
    const write: ResolvableWrite = {
      key: new ObjectKeys(object).manifest,
      bytes: encodeManifest(next),
      condition: version === undefined ? { absent: true } : { version },
      recognise: (bytes) => decodeManifest(object.id, bytes).rid === next.rid,
      beside,
    };
    const result = await this.#untilResolved(write);
    if (result.kind !== "landed") return undefined;
    return new Claim(object, next, result.version);
  }

  /**
   * A claim mostly follows a peek. One that is out of date loses its compare-and-swap and reads again; but one that names
   * this session would be adopted without any, so only a fresh reading may.
   */
  #takePeeked(object: ObjectIdentity): StandingRecord | undefined {
    const peeked = this.#peeked.peek(object.id);
    this.#peeked.delete(object.id);
    return peeked?.manifest.owner === this.#fleet.session ? undefined : peeked;
  }

  async #read(object: ObjectIdentity): Promise<StandingRecord | undefined> {
    const found = await this.#bucket.get(new ObjectKeys(object).manifest);
    return found && { manifest: decodeManifest(object.id, found.bytes), version: found.version };
  }

  #untilResolved(write: ResolvableWrite): Promise<ResolvedWrite> {
    const { OBJECT_SHIP_BACKOFF_MS, OBJECT_SHIP_BACKOFF_MAX_MS, OBJECT_ACK_GATE_MS } = this.#settings;
    return writeResolved(this.#bucket, this.#world, write, {
      untilMs: this.#world.clock.monotonicMs() + OBJECT_ACK_GATE_MS,
      firstPauseMs: OBJECT_SHIP_BACKOFF_MS,
      pauseMaxMs: OBJECT_SHIP_BACKOFF_MAX_MS,
    });
  }

  #remember(claim: Claim, reason: ClaimReason = "call"): Claim {
    const isNew = !this.#held.delete(claim.object.id);
    this.#held.set(claim.object.id, claim);
    if (!isNew) return claim;
    const turnedOut = this.#turnedOut.get(claim);
    this.#claimed(claim.object, turnedOut === "own" ? undefined : (turnedOut ?? reason));
    return claim;
  }

  /**
   * Drops the claims longest unused beyond NODE_CLAIMS_MAX and NODE_CLAIMS_BYTES_MAX, sparing those that `inUse` names. One whose
   * journals the next claimer would have to ask is released first: of what it has forgotten a node renews no set, and gives nothing
   * away when it leaves, so that its last journals would go one by one.
   */
  trim(inUse: (id: string) => boolean): void {
    const needsRelease = ({ manifest }: Claim): boolean => answersNeeded(ownershipOf(manifest).quorum) > 0;
    const surplus = this.#surplus(1, inUse);
    for (const { object } of surplus.filter((claim) => !needsRelease(claim))) this.#held.delete(object.id);
    if (this.#isTrimming) {
      // The bucket takes no word, or not so fast: they wait as far as there is room.
      for (const { object } of this.#surplus(UNRELEASED_FACTOR, inUse)) this.#held.delete(object.id);
      return;
    }
    this.#isTrimming = true;
    const released = this.#eachOf(surplus.filter(needsRelease), async (claim) => {
      if (!inUse(claim.object.id) && this.#held.get(claim.object.id) === claim) await this.release(claim.object);
    });
    void released.finally(() => {
      this.#isTrimming = false;
    });
  }

  /** The longest unused beyond so many times the bounds. */
  #surplus(factor: number, inUse: (id: string) => boolean): readonly Claim[] {
    let surplus = this.#held.size - factor * this.#settings.NODE_CLAIMS_MAX;
    let surplusBytes = -factor * this.#settings.NODE_CLAIMS_BYTES_MAX;
    for (const claim of this.#held.values()) surplusBytes += claim.inlineBytes;
    const found: Claim[] = [];
    for (const [id, claim] of this.#held) {
      if (surplus <= 0 && surplusBytes <= 0) break;
      if (inUse(id) || (surplus <= 0 && claim.inlineBytes === 0)) continue;
      found.push(claim);
      surplus--;
      surplusBytes -= claim.inlineBytes;
    }
    return found;
  }
}

function lapsed(): MoonportError {
  return MoonportError.of("node_fenced", "the session of this node has lapsed", { retryAfterMs: 1_000 });
}

function needsFleet(object: ObjectIdentity, { replicas }: Manifest): MoonportError {
  const nodes = replicas?.set.map(({ node }) => node).join(", ");
  return MoonportError.of("replicas_missing", `the last writes of ${object.id} may be in the journals of ${nodes}`, {
    object: object.id,
    hint: "this node runs alone: start it as a member of that fleet",
  });
}
