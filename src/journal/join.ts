/**
 * What records say of one object, whichever of them are there and in whatever order they are read, is what the journal held
 * when the last of them was written: the decisions of journal-rules, read back from what they left.
 *
 * Each record says one thing that was true, and nothing that a later one takes back: promises and tail epochs only rise, a
 * base only rises within its epoch, an entry goes only when a newer epoch or the base has passed it. So the most of each is
 * the state, files may be read from either end, and a record that stands twice, because it was copied out of a file about to
 * be deleted, counts once. Word of coverage that was never recorded leaves a lower base, and entries that the bucket has too.
 */
import { EntryRun } from "../cluster/entry-run.js";
import type { HeldObject, JournalEntry } from "../cluster/journal-rules.js";
import type { Head } from "./records.js";

export class JoinedObject<P> {
  #promised = 0;
  #tailEpoch = 0;
  #base = 0;
  #entries: JournalEntry<P>[] = [];

  get head(): Head {
    return { promised: this.#promised, tailEpoch: this.#tailEpoch, base: this.#base };
  }

  addHead({ promised, tailEpoch, base }: Head): void {
    this.#promised = Math.max(this.#promised, promised);
    if (tailEpoch > this.#tailEpoch) {
      this.#tailEpoch = tailEpoch;
      this.#base = base;
      this.#entries = [];
    } else if (tailEpoch === this.#tailEpoch) {
      this.#base = Math.max(this.#base, base);
    }
  }

  addEntry(epoch: number, base: number, entry: JournalEntry<P>): void {
    this.addHead({ promised: epoch, tailEpoch: epoch, base });
    if (epoch === this.#tailEpoch && entry.toSeq > this.#base) this.#entries.push(entry);
  }

  /** Undefined when the entries have a hole, which no order of events leaves. */
  held(): HeldObject<P> | undefined {
    let entries = EntryRun.of<JournalEntry<P>>();
    // Within an epoch ends rise from entry to entry, so they are their order.
    const inOrder = this.#entries.sort((one, other) => one.toSeq - other.toSeq || one.afterSeq - other.afterSeq);
    for (const entry of inOrder) {
      const have = Math.max(this.#base, entries.lastSeq ?? 0);
      if (entry.toSeq <= have) continue;
      if (entry.afterSeq > have) return undefined;
      entries = entries.appended(entry);
    }
    return { ...this.head, entries };
  }
}
