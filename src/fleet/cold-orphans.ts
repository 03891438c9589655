/**
 * Objects that a dead session has left and of which the bucket has everything. Where each claim costs requests that are paid for, none
 * of them is worth haste; with the embedded bucket a takeover claims at once all that it knows of, and this finds the rest. But the
 * record of one that nobody calls goes on naming the journals of before, and enough of those must answer whoever claims it at last:
 * with every node that goes for good there is one less. So they are claimed little by little.
 *
 * This node's journal knows those that it was told entries of. The node that the ring prefers for one begins; in the looks that follow
 * whoever knows it claims it, for its home may never have heard of it.
 */
import { answersNeeded } from "../cluster/quorum.js";
import { asMoonportError, isOwn } from "../errors.js";
import { objectOfId, partitionOf } from "../identity.js";
import { RecentMap } from "../recent-map.js";
import type { Settings } from "../settings/settings.js";
import type { Claims } from "../shipping/claims.js";
import { type Manifest, ownershipOf } from "../shipping/manifest.js";
import type { World } from "../world/world.js";

export interface ColdOrphansParts {
  readonly world: Pick<World, "log">;
  readonly settings: Pick<Settings, "JOURNAL_OBJECTS_MAX" | "TAKEOVER_CONCURRENCY">;
  readonly claims: Pick<Claims, "held" | "peek" | "claim">;
  /** Of the objects whose entries the bucket has. */
  readonly journal: { covered(): readonly string[] };
  /** Session that the journal last heard of as the object's; undefined where that was before this node began. */
  readonly sentBy: (object: string) => string | undefined;
  readonly isLive: (session: string) => boolean;
  /** Place of this node among the living in the order of the partition; 0 is its home. */
  readonly rankOf: (partition: number) => number;
}

/** Looks since the last death in which there is something to find: the homes', and everybody's. */
type Due = "homes" | "all" | "nothing";

/** What a look at an object's record came to. It holds until something else is heard of the object, and while that owner lives. */
interface Verdict {
  readonly sentBy: string | undefined;
  /** Undefined where there is nothing to claim, whoever lives. */
  readonly owner: string | undefined;
}

export class ColdOrphans {
  readonly #parts: ColdOrphansParts;
  readonly #seen: RecentMap<string, Verdict>;
  /** Those whose journals did not answer: with other members they may. */
  readonly #missed = new Set<string>();
  #due: Due = "homes";
  #isStopped = false;

  constructor(parts: ColdOrphansParts) {
    this.#parts = parts;
    this.#seen = new RecentMap(parts.settings.JOURNAL_OBJECTS_MAX);
  }

  /** Somebody's session ended, or other members are there: there may be more to find, or to claim. */
  membersChanged(): void {
    this.#due = "homes";
    for (const object of this.#missed) this.#seen.delete(object);
    this.#missed.clear();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** @param recordsMax so many are looked at, and claimed where they are orphans */
  async look(recordsMax: number): Promise<void> {
    const due = this.#due;
    if (due === "nothing") return;
    const objects = this.#candidates(due, recordsMax);
    if (objects.length < recordsMax) this.#due = due === "homes" ? "all" : "nothing";
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < objects.length && !this.#isStopped) await this.#claim(objects[next++] as string);
    };
    await Promise.all(Array.from({ length: this.#parts.settings.TAKEOVER_CONCURRENCY }, worker));
  }

  #candidates(due: Due, most: number): readonly string[] {
    const { journal, sentBy, isLive, claims, rankOf } = this.#parts;
    const found: string[] = [];
    for (const object of journal.covered()) {
      if (found.length >= most) break;
      const session = sentBy(object);
      if ((session !== undefined && isLive(session)) || this.#isJudged(object, session)) continue;
      if (due === "homes" && rankOf(partitionOf(object)) !== 0) continue;
      if (claims.held(objectOfId(object)) === undefined) found.push(object);
    }
    return found;
  }

  #isJudged(object: string, session: string | undefined): boolean {
    const verdict = this.#seen.peek(object);
    if (verdict === undefined || verdict.sentBy !== session) return false;
    return verdict.owner === undefined || this.#parts.isLive(verdict.owner);
  }

  async #claim(id: string): Promise<void> {
    const { claims, sentBy, world } = this.#parts;
    const object = objectOfId(id);
    const session = sentBy(id);
    const judge = (owner: string | undefined): void => this.#seen.set(id, { sentBy: session, owner });
    try {
      const manifest = await claims.peek(object);
      if (!needsAnswers(manifest)) judge(undefined);
      else if (this.#parts.isLive(manifest.owner)) judge(manifest.owner);
      else judge((await claims.claim(object, "takeover")).manifest.owner);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (isOwn(error, "moved")) {
        // Its owner lives, or another survivor was quicker: then its record names that one by the next look.
        const owner = error.details?.session;
        if (typeof owner === "string") judge(owner);
        else this.#due = "homes";
        return;
      }
      world.log.warn({ object: id, code: error.code }, `a cold object is not taken over for now: ${error.message}`);
      if (isOwn(error, "replicas_missing")) this.#missed.add(id);
      else if (error.retryable) this.#due = "homes";
      // Tried each time without a change it would raise its epoch each time.
      if (isOwn(error, "replicas_missing") || !error.retryable) judge(undefined);
    }
  }
}

/** Its next claimer will have to ask its journals, and nobody but an owner renews what they are. */
function needsAnswers(manifest: Manifest | undefined): manifest is Manifest {
  if (manifest === undefined || manifest.destroyed) return false;
  const { clean, quorum } = ownershipOf(manifest);
  return !clean && answersNeeded(quorum) > 0;
}
