/**
 * Takes records out of the bucket whose sessions ended long ago, so that nodes that never come back do not pile up. Nothing
 * relies on it: a record that stays is read in vain, no more.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import type { Logger } from "../world/logger.js";
import { changePhase, type Place } from "./enrolment.js";
import type { Reading } from "./reading.js";
import type { Sighting } from "./sightings.js";

/** So many ttl after a session's end was seen its record goes. */
const KEPT_TTLS = 10;

export class OldRecords {
  readonly #place: Place;
  readonly #bucket: Bucket;
  readonly #log: Logger;
  readonly #keptMs: number;
  #isAtWork = false;

  constructor(options: Pick<Place, "world" | "bucket"> & { readonly log: Logger; readonly ttlMs: number }) {
    const { world, bucket, log, ttlMs } = options;
    this.#place = { world, bucket, self: { ttlMs } };
    this.#bucket = bucket;
    this.#log = log;
    this.#keptMs = KEPT_TTLS * ttlMs;
  }

  /** One at a time; the next reading brings the next. */
  async tidy(sightings: Iterable<Sighting>, ownKey: string, reading: Reading): Promise<void> {
    if (this.#isAtWork) return;
    for (const sighting of sightings) {
      if (sighting.key === ownKey || !this.#isDue(sighting, reading)) continue;
      this.#isAtWork = true;
      try {
        await this.#remove(sighting);
      } catch (error) {
        this.#log.debug({ key: sighting.key, error: asMoonportError(error).message }, "an old record stays for now");
      }
      this.#isAtWork = false;
      return;
    }
  }

  #isDue({ key, stored, firstSeenMs, isOver }: Sighting, { found }: Reading): boolean {
    if (stored.phase.kind === "removed") return true;
    const begunMs = found.get(key)?.begunMs;
    return isOver && begunMs !== undefined && begunMs - firstSeenMs > this.#keptMs;
  }

  /** First the word that nobody may stand here any more, then the delete, which takes whatever stands there (M5). */
  async #remove({ key, stored, version }: Sighting): Promise<void> {
    const isSeenOne = (_: unknown, standing: string): boolean => standing === version;
    const mayGo =
      stored.phase.kind === "removed" || (await changePhase(this.#place, key, { kind: "removed" }, isSeenOne));
    if (mayGo) await this.#bucket.delete([key]);
  }
}
