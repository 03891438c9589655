/**
 * The objects that a dead session leaves behind: whoever holds a tail of one claims it at once instead of waiting for a call,
 * so that its last writes reach the bucket and its callers find an owner. Where the bucket costs nothing, so does whoever knows
 * one of which the bucket has everything, behind those with tails, and the last heard of first.
 *
 * Of those that know an object the node that the ring prefers begins; the others look at the tails again a while later, in case
 * it could not. A tail that the bucket has got beyond, or that a later owner has made void, is dropped.
 *
 * Many claims are under way together, each with decisions of its own, so that what they ask goes together: in a transaction of
 * the embedded bucket, in a sync of each journal, in a message to each peer.
 */
import { asMoonportError } from "../errors.js";
import { type ObjectIdentity, objectOfId, partitionOf } from "../identity.js";
import type { HeldTail, JournalPort } from "../journal/contract.js";
import type { Settings } from "../settings/settings.js";
import type { Claims } from "../shipping/claims.js";
import { type Manifest, ownershipOf } from "../shipping/manifest.js";
import type { Timer, World } from "../world/world.js";

/** Objects woken at once: each opens its file, and callers want to open others meanwhile. */
const WAKES_MAX = 64;

export interface TakeoverParts {
  readonly world: World;
  readonly settings: Pick<Settings, "NODE_TTL_MS" | "TAKEOVER_CONCURRENCY" | "TAKEOVER_BATCH" | "TAKEOVER_AHEAD_MAX">;
  /** The bucket commits together what comes together, and no request costs money. */
  readonly isBucketEmbedded: boolean;
  readonly claims: Claims;
  readonly journal: JournalPort & { tails(): readonly HeldTail[]; covered(): readonly string[] };
  /** Session that sent the last entry; undefined where that was before this node began. */
  readonly sentBy: (object: string) => string | undefined;
  readonly isLive: (session: string) => boolean;
  /** Place of this node among the living in the order of the partition; 0 is its home. */
  readonly rankOf: (partition: number) => number;
  readonly isValid: () => boolean;
  /** Writes of it that only journals held are this node's now: it takes up what it owes. */
  readonly takenOver: (object: ObjectIdentity) => Promise<void>;
  /** Something that was claimed is to live elsewhere: the ring has changed since, or who is preferred for it did nothing. */
  readonly misplaced: () => void;
}

interface Orphan {
  readonly object: string;
  /** Undefined when the bucket has all that this journal was told. */
  readonly tail: HeldTail | undefined;
}

export class Takeover {
  readonly #parts: TakeoverParts;
  #running: Promise<void> | undefined;
  #again = false;
  #later: Timer | undefined;
  #isStopped = false;

  constructor(parts: TakeoverParts) {
    this.#parts = parts;
  }

  /** Somebody's session ended, or this node began. Idempotent while under way: it looks once more. */
  begin(): void {
    if (this.#isStopped) return;
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#later?.cancel();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#again && !this.#isStopped) {
      this.#again = false;
      const orphans = [...this.#tails(), ...this.#covered()];
      await this.#each(orphans.filter(({ object }) => this.#parts.rankOf(partitionOf(object)) === 0));
    }
    if (this.#tails().length > 0) this.#lookLater();
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
    this.#later = this.#parts.world.timers.after(this.#parts.settings.NODE_TTL_MS, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    if (this.#running !== undefined) return;
    this.#running = this.#each(this.#tails()).finally(() => {
      this.#running = undefined;
      if (this.#again) this.begin();
      else if (this.#tails().length > 0) this.#lookLater();
    });
    await this.#running;
  }

  /** All are claimed before any is woken, or callers would wait for owners behind files that nobody has asked for. */
  async #each(orphans: readonly Orphan[]): Promise<void> {
    const { settings, isBucketEmbedded } = this.#parts;
    const owing: ObjectIdentity[] = [];
    let next = 0;
    let waking = 0;
    const wakeOwing = async (): Promise<void> => {
      if (waking >= WAKES_MAX) return;
      waking++;
      for (let object = owing.shift(); object !== undefined && this.#goesOn; object = owing.shift()) {
        await this.#wake(object);
      }
      waking--;
    };
    const worker = async (): Promise<void> => {
      while (next < orphans.length && this.#goesOn) {
        const orphan = orphans[next++] as Orphan;
        const object = objectOfId(orphan.object);
        if (await this.#claim(object, orphan.tail)) owing.push(object);
      }
      await wakeOwing();
    };
    const atOnce = isBucketEmbedded ? settings.TAKEOVER_BATCH : settings.TAKEOVER_CONCURRENCY;
    await Promise.all(Array.from({ length: Math.min(atOnce, orphans.length) }, worker));
    if (this.#goesOn && orphans.some((orphan) => this.#isMisplaced(orphan))) this.#parts.misplaced();
  }

  #isMisplaced({ object }: Orphan): boolean {
    const { claims, rankOf } = this.#parts;
    return rankOf(partitionOf(object)) !== 0 && claims.held(objectOfId(object)) !== undefined;
  }

  get #goesOn(): boolean {
    return !this.#isStopped && this.#parts.isValid();
  }

  /** @returns whether it is this node's by that, and writes of it were in journals alone */
  async #claim(object: ObjectIdentity, tail: HeldTail | undefined): Promise<boolean> {
    const { claims } = this.#parts;
    try {
      if (claims.held(object) !== undefined) return false;
      const manifest = await claims.peek(object);
      const hasTail = tail !== undefined && !(await this.#isVoid(object, manifest, tail));
      if (!hasTail && !(this.#parts.isBucketEmbedded && this.#isLeft(manifest))) return false;
      await claims.claim(object);
      return hasTail;
    } catch (thrown) {
      this.#failed(object, thrown);
      return false;
    }
  }

  async #wake(object: ObjectIdentity): Promise<void> {
    try {
      await this.#parts.takenOver(object);
    } catch (thrown) {
      this.#failed(object, thrown);
    }
  }

  #failed(object: ObjectIdentity, thrown: unknown): void {
    const error = asMoonportError(thrown);
    // Its owner lives, or another survivor was quicker.
    if (error.code === "moved") return;
    this.#parts.world.log.warn({ object: object.id, code: error.code }, `not taken over for now: ${error.message}`);
  }

  /** It was not given up, and whoever has it is not there any more. */
  #isLeft(manifest: Manifest | undefined): boolean {
    return manifest !== undefined && !ownershipOf(manifest).clean && !this.#parts.isLive(manifest.owner);
  }

  /** The record says that nobody will ask for this tail again: the journal lets go of it. */
  async #isVoid(object: ObjectIdentity, manifest: Manifest | undefined, tail: HeldTail): Promise<boolean> {
    if (manifest === undefined) return false;
    const { tailEpoch, covered } = ownershipOf(manifest);
    const isVoid = tailEpoch > tail.tailEpoch || (tailEpoch === tail.tailEpoch && covered >= tail.have);
    if (isVoid) await this.#parts.journal.notice(object.id, { epoch: tailEpoch, covered });
    return isVoid;
  }
}
