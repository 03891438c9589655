/**
 * The objects that a dead session leaves behind: whoever holds a tail of one claims it at once instead of waiting for a call,
 * so that its last writes reach the bucket and its callers find an owner.
 *
 * Of those that hold a tail the node that the ring prefers begins; the others look again a while later, in case it could not.
 * A tail that the bucket has got beyond, or that a later owner has made void, is dropped.
 */
import { asMoonportError } from "../errors.js";
import { type ObjectIdentity, objectOfId, partitionOf } from "../identity.js";
import type { HeldTail, JournalPort } from "../journal/contract.js";
import type { Settings } from "../settings/settings.js";
import type { Claims } from "../shipping/claims.js";
import { ownershipOf } from "../shipping/manifest.js";
import type { Timer, World } from "../world/world.js";

export interface TakeoverParts {
  readonly world: World;
  readonly settings: Pick<Settings, "NODE_TTL_MS" | "TAKEOVER_CONCURRENCY">;
  readonly claims: Claims;
  readonly journal: JournalPort & { tails(): readonly HeldTail[] };
  /** Session that sent the last entry; undefined where that was before this node began. */
  readonly sentBy: (object: string) => string | undefined;
  readonly isLive: (session: string) => boolean;
  /** Place of this node among the living in the order of the partition; 0 is its home. */
  readonly rankOf: (partition: number) => number;
  readonly isValid: () => boolean;
  /** It is this node's now, and takes up what it owes. */
  readonly takenOver: (object: ObjectIdentity) => Promise<void>;
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
      await this.#each(this.#orphans().filter(({ object }) => this.#parts.rankOf(partitionOf(object)) === 0));
    }
    if (this.#orphans().length > 0) this.#lookLater();
  }

  /** Tails of which no living session is known to take care. */
  #orphans(): HeldTail[] {
    const { journal, sentBy, isLive } = this.#parts;
    return journal.tails().filter(({ object }) => {
      const session = sentBy(object);
      return session === undefined || !isLive(session);
    });
  }

  /** What nobody has taken by then, and what could not be taken now. */
  #lookLater(): void {
    this.#later?.cancel();
    if (this.#isStopped) return;
    this.#later = this.#parts.world.timers.after(this.#parts.settings.NODE_TTL_MS, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    if (this.#running !== undefined) return;
    this.#running = this.#each(this.#orphans()).finally(() => {
      this.#running = undefined;
      if (this.#again) this.begin();
      else if (this.#orphans().length > 0) this.#lookLater();
    });
    await this.#running;
  }

  async #each(tails: readonly HeldTail[]): Promise<void> {
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < tails.length && !this.#isStopped && this.#parts.isValid())
        await this.#look(tails[next++] as HeldTail);
    };
    await Promise.all(Array.from({ length: this.#parts.settings.TAKEOVER_CONCURRENCY }, worker));
  }

  async #look(tail: HeldTail): Promise<void> {
    const object = objectOfId(tail.object);
    const { claims, world } = this.#parts;
    try {
      if (claims.held(object) !== undefined) return;
      if (await this.#isVoid(object, tail)) return;
      await claims.claim(object);
      await this.#parts.takenOver(object);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      // Its owner lives, or another survivor was quicker.
      if (error.code === "moved") return;
      world.log.warn({ object: tail.object, code: error.code }, `not taken over for now: ${error.message}`);
    }
  }

  /** The record says that nobody will ask for this tail again: the journal lets go of it. */
  async #isVoid(object: ObjectIdentity, tail: HeldTail): Promise<boolean> {
    const manifest = await this.#parts.claims.peek(object);
    if (manifest === undefined) return false;
    const { tailEpoch, covered } = ownershipOf(manifest);
    const isVoid = tailEpoch > tail.tailEpoch || (tailEpoch === tail.tailEpoch && covered >= tail.have);
    if (isVoid) await this.#parts.journal.notice(object.id, { epoch: tailEpoch, covered });
    return isVoid;
  }
}
