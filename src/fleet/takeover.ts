/**
 * The objects that a dead session leaves behind: whoever holds a tail of one claims it at once instead of waiting for a call,
 * so that its last writes reach the bucket and its callers find an owner. Where the bucket costs nothing, so does whoever knows
 * one of which the bucket has everything, behind those with tails.
 *
 * Of those that know an object the node that the ring prefers begins; the others look at the tails again a while later, in case
 * it could not. A tail that the bucket has got beyond, or that a later owner has made void, this one too, is dropped.
 *
 * Many claims are under way together, each with decisions of its own, so that what they ask goes together: in a transaction of
 * the embedded bucket, in a sync of each journal, in a message to each peer.
 */
import { asMoonportError, isOwn } from "../errors.js";
import { type ObjectIdentity, objectOfId, partitionOf } from "../identity.js";
import type { HeldTail, JournalPort } from "../journal/contract.js";
import type { FleetCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import type { Claims } from "../shipping/claims.js";
import { type Manifest, ownershipOf } from "../shipping/manifest.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import { sleep, type Timer, type World } from "../world/world.js";

const BATCHES_AT_ONCE = 2;
/** How long a batch lets calls go first. */
const CALLS_FIRST_MS = 100;
/** Of a claim that nothing would come back to; then it waits for a call. */
const TRIES_MAX = 3;

export interface TakeoverParts {
  readonly world: World;
  readonly settings: Pick<Settings, "NODE_TTL_MS" | "TAKEOVER_CONCURRENCY" | "TAKEOVER_BATCH" | "TAKEOVER_AHEAD_MAX">;
  /** The bucket commits together what comes together, and no request costs money. */
  readonly isBucketEmbedded: boolean;
  readonly claims: Claims;
  readonly journal: JournalPort & { tails(): readonly HeldTail[]; covered(): readonly string[] };
  /** Session that the journal last heard of as the object's; undefined where that was before this node began. */
  readonly sentBy: (object: string) => string | undefined;
  readonly isLive: (session: string) => boolean;
  /** Place of this node among the living in the order of the partition; 0 is its home. */
  readonly rankOf: (partition: number) => number;
  readonly isValid: () => boolean;
  readonly counters: FleetCounters;
  /** All are claimed before any takes up what it owes, or callers would wait for owners behind files that nobody has asked for. */
  readonly claimsFirst: (claims: () => Promise<void>) => Promise<void>;
  /** Something that was claimed is to live elsewhere: the ring has changed since, or who is preferred for it did nothing. */
  readonly misplaced: () => void;
}

interface Orphan {
  readonly object: string;
  /** Undefined when the bucket has all that this journal was told. */
  readonly tail: HeldTail | undefined;
  /** That failed before. */
  readonly tries?: number;
}

export class Takeover {
  readonly #parts: TakeoverParts;
  readonly #looking = new OneAtATime(() => this.#look());
  /** Whether the next look is for what this node comes first for; else it takes whatever is left. */
  #isBegun = false;
  #later: Timer | undefined;
  #isStopped = false;
  /** How often those were tried that were not claimed for a reason that may pass: of one without a tail nobody is reminded. */
  readonly #missed = new Map<string, number>();

  constructor(parts: TakeoverParts) {
    this.#parts = parts;
  }

  /** Somebody's session ended, or this node began. Idempotent while under way: it looks once more. */
  begin(): void {
    if (this.#isStopped) return;
    this.#isBegun = true;
    this.#looking.begin();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#later?.cancel();
    await this.#looking.ended();
  }

  async #look(): Promise<void> {
    if (this.#isStopped) return;
    try {
      await this.#takeOver();
    } catch (thrown) {
      // A fault of one look; what it has not come to is still there to be found by the next.
      this.#parts.world.log.error({ error: asMoonportError(thrown) }, "a takeover has failed");
      return this.#lookLater();
    }
    if (this.#hasMore) this.#lookLater();
  }

  async #takeOver(): Promise<void> {
    if (this.#isBegun) {
      this.#isBegun = false;
      this.#missed.clear();
      const isHome = ({ object }: Orphan): boolean => this.#parts.rankOf(partitionOf(object)) === 0;
      await this.#each([...this.#tails().filter(isHome), ...this.#covered().filter(isHome).sort(byPartition)]);
    } else {
      const missed = Array.from(this.#missed, ([object, tries]) => ({ object, tail: undefined, tries }));
      this.#missed.clear();
      await this.#each([...this.#tails(), ...missed]);
    }
  }

  get #hasMore(): boolean {
    return this.#missed.size > 0 || this.#tails().length > 0;
  }

  /** Those of which no living session is known to take care. */
  #tails(): Orphan[] {
    const { journal, sentBy, isLive } = this.#parts;
    const orphans = journal.tails().filter(({ object }) => {
      const session = sentBy(object);
      return session === undefined || !isLive(session);
    });
    return orphans.map((tail) => ({ object: tail.object, tail }));
  }

  /** Those that a session which has died was the last to write. */
  #covered(): Orphan[] {
    const { journal, sentBy, isLive, settings, isBucketEmbedded } = this.#parts;
    if (!isBucketEmbedded) return [];
    const orphans = journal.covered().filter((object) => {
      const session = sentBy(object);
      return session !== undefined && !isLive(session);
    });
    return orphans.slice(0, settings.TAKEOVER_AHEAD_MAX).map((object) => ({ object, tail: undefined }));
  }

  /** What nobody has taken by then, and what could not be taken now. */
  #lookLater(): void {
    this.#later?.cancel();
    if (this.#isStopped) return;
    this.#later = this.#parts.world.timers.after(this.#parts.settings.NODE_TTL_MS, () => {
      if (!this.#looking.isRunning) this.#looking.begin();
    });
  }

  async #each(orphans: readonly Orphan[]): Promise<void> {
    if (orphans.length === 0) return;
    const { counters, world, claimsFirst } = this.#parts;
    const begunMs = world.clock.monotonicMs();
    counters.takeovers.begun++;
    const { atOnce, batch } = this.#pace();
    await claimsFirst(() =>
      inParallel(Math.ceil(orphans.length / batch), atOnce, async (index) => {
        await this.#callsFirst();
        if (this.#goesOn) await this.#claim(orphans.slice(index * batch, (index + 1) * batch));
      }),
    );
    counters.takeoverEnded(world.clock.monotonicMs() - begunMs);
    if (this.#goesOn && orphans.some((orphan) => this.#isMisplaced(orphan))) this.#parts.misplaced();
  }

  /** Two batches: while the bucket and the journals are at one, the next is made ready. */
  #pace(): { readonly atOnce: number; readonly batch: number } {
    const { settings, claims } = this.#parts;
    if (!claims.isBulk) return { atOnce: settings.TAKEOVER_CONCURRENCY, batch: 1 };
    return { atOnce: BATCHES_AT_ONCE, batch: Math.ceil(settings.TAKEOVER_BATCH / BATCHES_AT_ONCE) };
  }

  /** What is called now is claimed by itself, and not behind one batch after the other. */
  async #callsFirst(): Promise<void> {
    const { claims, world } = this.#parts;
    const { underWay } = claims;
    if (!claims.isBulk || underWay.length === 0) return;
    const over = new AbortController();
    // One may wait long for journals that do not answer: that holds up nobody else.
    await Promise.race([Promise.allSettled(underWay), sleep(world, CALLS_FIRST_MS, over.signal)]);
    over.abort();
  }

  #isMisplaced({ object }: Orphan): boolean {
    const { claims, rankOf } = this.#parts;
    return rankOf(partitionOf(object)) !== 0 && claims.held(objectOfId(object)) !== undefined;
  }

  get #goesOn(): boolean {
    return !this.#isStopped && this.#parts.isValid();
  }

  async #claim(orphans: readonly Orphan[]): Promise<void> {
    const { claims } = this.#parts;
    const tails = new Map<string, HeldTail>();
    const objects = orphans.map(({ object, tail }) => {
      if (tail !== undefined) tails.set(object, tail);
      return objectOfId(object);
    });
    const free = objects.filter((object) => claims.held(object) === undefined);
    const voids: Promise<unknown>[] = [];
    const isWanted = (object: ObjectIdentity, manifest: Manifest | undefined): boolean => {
      const tail = tails.get(object.id);
      if (tail !== undefined && !isVoid(manifest, tail)) return true;
      tails.delete(object.id);
      if (tail !== undefined && manifest !== undefined) voids.push(this.#letGo(object, manifest));
      return this.#parts.isBucketEmbedded && this.#isLeft(manifest);
    };
    await claims.claimMany(free, isWanted, (object, thrown) => {
      const tries = 1 + (orphans.find((orphan) => orphan.object === object.id)?.tries ?? 0);
      if (this.#failed(object, thrown) && !tails.has(object.id) && tries < TRIES_MAX)
        this.#missed.set(object.id, tries);
    });
    await Promise.all([...voids, ...orphans.map((orphan) => this.#letGoOfOwn(orphan))]);
  }

  /** @returns whether it may do another time */
  #failed(object: ObjectIdentity, thrown: unknown): boolean {
    const error = asMoonportError(thrown);
    // Its owner lives, or another survivor was quicker.
    if (isOwn(error, "moved")) return false;
    this.#parts.world.log.warn({ object: object.id, code: error.code }, `not taken over for now: ${error.message}`);
    return error.retryable;
  }

  /** It was not given up, and whoever has it is not there any more. */
  #isLeft(manifest: Manifest | undefined): boolean {
    return manifest !== undefined && !ownershipOf(manifest).clean && !this.#parts.isLive(manifest.owner);
  }

  /** Of what this node took over and has not written since, its journal has heard nothing that ends the tail. */
  async #letGoOfOwn({ object: id, tail }: Orphan): Promise<void> {
    const object = objectOfId(id);
    const held = this.#parts.claims.held(object);
    if (tail !== undefined && held !== undefined && isVoid(held.manifest, tail))
      await this.#letGo(object, held.manifest);
  }

  /** Nobody will ask for this tail again: the journal lets go of it. */
  async #letGo(object: ObjectIdentity, manifest: Manifest): Promise<void> {
    const { tailEpoch, covered } = ownershipOf(manifest);
    try {
      await this.#parts.journal.notice(object.id, { epoch: tailEpoch, covered });
    } catch (thrown) {
      this.#failed(object, thrown);
    }
  }
}

/** As their records stand in the bucket: neighbours share what is read and written of its file. */
function byPartition(one: Orphan, other: Orphan): number {
  return partitionOf(one.object) - partitionOf(other.object) || (one.object < other.object ? -1 : 1);
}

/** A later owner has made it void, or the bucket has got beyond it. */
function isVoid(manifest: Manifest | undefined, tail: HeldTail): boolean {
  if (manifest === undefined) return false;
  const { tailEpoch, covered } = ownershipOf(manifest);
  return tailEpoch > tail.tailEpoch || (tailEpoch === tail.tailEpoch && covered >= tail.have);
}

async function inParallel(count: number, atOnce: number, act: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker));
}
