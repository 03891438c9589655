/**
 * What this node has seen of the nodes' records, and what follows from it (M2). No I/O: readings are told to it.
 *
 * A session is over when its record says so, when another session stands in its record's place, when its record is gone, or
 * when a reading that began more than ttl + margin after the record was first seen as it is finds it still the same; or when
 * its process is known to have ended (M6). Time is this node's alone; while nothing can be read, nothing follows. What was over once stays over, whatever is seen later.
 */
import type { Version } from "../bucket/bucket.js";
import { RecentMap } from "../recent-map.js";
import type { NodeRecord, SessionStanding } from "./contract.js";
import type { StoredRecord } from "./node-record.js";
import type { Reading } from "./reading.js";

export interface Sighting {
  readonly key: string;
  readonly stored: StoredRecord;
  readonly version: Version;
  /** When the answer that first held this version had come; the version was there no later than that. */
  readonly firstSeenMs: number;
  readonly isOver: boolean;
}

/** Sessions remembered for having ended; of an older one the bucket is asked again. */
const ENDED_MAX = 1_024;

export class Sightings {
  readonly #marginMs: number;
  readonly #byKey = new Map<string, Sighting>();
  readonly #ended = new RecentMap<string, true>(ENDED_MAX);

  constructor(marginMs: number) {
    this.#marginMs = marginMs;
  }

  all(): Iterable<Sighting> {
    return this.#byKey.values();
  }

  /** Records of sessions that are not over. */
  living(): NodeRecord[] {
    return [...this.#byKey.values()].filter(({ isOver }) => !isOver).map(({ stored }) => stored.record);
  }

  known(session: string): SessionStanding | undefined {
    if (this.#ended.peek(session)) return "dead";
    for (const { stored, isOver } of this.#byKey.values()) {
      if (stored.record.session === session) return isOver ? "dead" : "live";
    }
    return undefined;
  }

  /** A session that is over by what is known elsewhere: of this node, or named by no record. */
  noteEnded(session: string): void {
    this.#ended.set(session, true);
  }

  /** @returns records of the sessions that were seen alive and are over */
  note(reading: Reading): readonly NodeRecord[] {
    const ended: NodeRecord[] = [];
    for (const [key, sighting] of [...this.#byKey]) {
      const next = isGone(key, reading) ? undefined : this.#next(sighting, reading);
      if (next !== sighting) this.#replace(sighting, next, ended);
    }
    for (const [key, { stored, version, seenMs }] of reading.found) {
      if (this.#byKey.has(key)) continue;
      this.#byKey.set(key, { key, stored, version, firstSeenMs: seenMs, isOver: this.#isOver(stored) });
    }
    return ended;
  }

  /** @returns as {@link note}, of those whose process has ended */
  noteEndedProcesses(hasEnded: (record: NodeRecord) => boolean): readonly NodeRecord[] {
    const ended: NodeRecord[] = [];
    for (const sighting of [...this.#byKey.values()]) {
      if (sighting.isOver || !hasEnded(sighting.stored.record)) continue;
      this.#replace(sighting, { ...sighting, isOver: true }, ended);
    }
    return ended;
  }

  /** When a reading may be begun that proves an unchanged record's session dead; the earliest such time of all. */
  provableFromMs(): number | undefined {
    let earliestMs: number | undefined;
    for (const sighting of this.#byKey.values()) {
      if (sighting.isOver) continue;
      earliestMs = Math.min(earliestMs ?? Number.POSITIVE_INFINITY, this.#lastsUntilMs(sighting));
    }
    return earliestMs;
  }

  #replace(sighting: Sighting, next: Sighting | undefined, ended: NodeRecord[]): void {
    if (next === undefined) this.#byKey.delete(sighting.key);
    else this.#byKey.set(sighting.key, next);
    const goesOn = next !== undefined && !next.isOver && sessionOf(next) === sessionOf(sighting);
    if (sighting.isOver || goesOn) return;
    ended.push(sighting.stored.record);
    this.noteEnded(sessionOf(sighting));
  }

  #next(sighting: Sighting, reading: Reading): Sighting {
    const found = reading.found.get(sighting.key);
    if (found === undefined) return sighting;
    const { stored, version, begunMs, seenMs } = found;
    if (version !== sighting.version) {
      const wasOver = sighting.isOver && stored.record.session === sessionOf(sighting);
      return { key: sighting.key, stored, version, firstSeenMs: seenMs, isOver: wasOver || this.#isOver(stored) };
    }
    if (sighting.isOver || begunMs <= this.#lastsUntilMs(sighting)) return sighting;
    return { ...sighting, isOver: true };
  }

  #lastsUntilMs({ stored, firstSeenMs }: Sighting): number {
    return firstSeenMs + stored.record.ttlMs + this.#marginMs;
  }

  /** A renewal that lands after the session's end, as one on the way might, revives nothing. */
  #isOver({ record, phase }: StoredRecord): boolean {
    return phase.kind === "ended" || phase.kind === "removed" || this.#ended.peek(record.session) === true;
  }
}

function sessionOf({ stored }: Sighting): string {
  return stored.record.session;
}

/** The listing did not name it, or it went between the listing and its turn. */
function isGone(key: string, { keys, absent }: Reading): boolean {
  return absent.has(key) || (keys !== undefined && !keys.has(key));
}
