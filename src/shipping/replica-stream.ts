/**
 * The way of one object's entries into one journal: each once and in order while all goes well, again from where the journal
 * stands when it has a gap or could not be reached (J3).
 *
 * An answer counts whichever attempt it belongs to, for it says what the journal holds. Only a gap of an attempt that was
 * given up is passed over: what it misses has been sent again since.
 */
import type { EntryRun } from "../cluster/entry-run.js";
import type { EntryAnswer, JournalEntry } from "../cluster/journal-rules.js";
import type { Member } from "../cluster/ownership.js";
import type { JournalPort, Payload } from "../journal/contract.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";
import type { Timer, World } from "../world/world.js";

/** What journals hold, or should, beyond the bucket. */
export type Backlog = EntryRun<JournalEntry<Payload>>;

export interface ReplicaStreamParts {
  readonly world: Pick<World, "timers" | "random">;
  readonly settings: Pick<Settings, "OBJECT_SHIP_BACKOFF_MS" | "OBJECT_SHIP_BACKOFF_MAX_MS">;
  readonly object: string;
  readonly epoch: number;
  readonly journal: JournalPort;
  readonly backlog: () => Backlog;
  /** Through which seq the owner's own writes, known to have won, cover the object. */
  readonly covered: () => number;
  readonly answered: (answer: EntryAnswer) => void;
}

type Flow =
  | { readonly kind: "flowing" }
  | { readonly kind: "pausing"; readonly timer: Timer }
  | { readonly kind: "ended" };

export class ReplicaStream {
  readonly member: Member;
  readonly #parts: ReplicaStreamParts;
  #flow: Flow = { kind: "flowing" };
  /** Everything through this seq was sent in the present attempt. */
  #sentThrough: number;
  /** Acknowledged through this seq. */
  #have = 0;
  #attempt = 0;
  /** In a row without an acknowledgement in between. */
  #setbacks = 0;

  constructor(member: Member, parts: ReplicaStreamParts) {
    this.member = member;
    this.#parts = parts;
    this.#sentThrough = parts.covered();
  }

  /** Sends what the backlog has beyond what was sent. */
  send(): void {
    if (this.#flow.kind !== "flowing") return;
    const backlog = this.#parts.backlog();
    let first = backlog.length;
    while (first > 0 && backlog.at(first - 1).toSeq > this.#sentThrough) first--;
    for (let index = first; index < backlog.length; index++) this.#post(backlog.at(index));
  }

  /** Tells how far the bucket covers, so that the journal lets go of that; nobody waits for it. */
  notice(): void {
    if (this.#flow.kind !== "flowing") return;
    const { journal, object, epoch } = this.#parts;
    // One that is lost leaves entries in a journal a while longer: the next entry, or the next notice, says it too.
    journal.notice(object, { epoch, covered: this.#parts.covered() }).catch(() => {});
  }

  /** What was stuck behind a gap may go on now. */
  coveredMore(): void {
    if (this.#flow.kind === "pausing") this.#resume(this.#flow.timer);
  }

  end(): void {
    if (this.#flow.kind === "pausing") this.#flow.timer.cancel();
    this.#flow = { kind: "ended" };
  }

  #post(entry: JournalEntry<Payload>): void {
    const { journal, object, epoch } = this.#parts;
    const attempt = this.#attempt;
    this.#sentThrough = entry.toSeq;
    const { afterSeq, toSeq, payload } = entry;
    journal.append(object, { epoch, covered: this.#parts.covered(), afterSeq, toSeq, payload }).then(
      (answer) => this.#heard(attempt, answer),
      () => this.#setBack(attempt, this.#have),
    );
  }

  #heard(attempt: number, answer: EntryAnswer): void {
    if (this.#flow.kind === "ended") return;
    if (answer.kind === "gap") return this.#setBack(attempt, answer.have);
    if (answer.kind !== "refused") {
      this.#setbacks = 0;
      this.#have = Math.max(this.#have, answer.have);
    }
    this.#parts.answered(answer);
  }

  /** What was sent beyond `have` goes out again: at once after the first setback, else after a pause. */
  #setBack(attempt: number, have: number): void {
    if (this.#flow.kind === "ended" || attempt !== this.#attempt) return;
    this.#attempt++;
    this.#sentThrough = have;
    if (this.#setbacks++ === 0) return this.send();
    const { world, settings } = this.#parts;
    const { OBJECT_SHIP_BACKOFF_MS: firstMs, OBJECT_SHIP_BACKOFF_MAX_MS: maxMs } = settings;
    const pauseMs = backoffMs(this.#setbacks, firstMs, maxMs, world.random.fraction());
    const timer = world.timers.after(pauseMs, () => this.#resume(timer));
    this.#flow = { kind: "pausing", timer };
  }

  #resume(timer: Timer): void {
    timer.cancel();
    this.#flow = { kind: "flowing" };
    this.send();
  }
}
