/**
 * A state as bytes, the same for all states that differ only in what can not matter:
 * - names: journals, nodes and random ids; slots are put in order of what they hold (symmetry);
 * - absolute version numbers: only whether an attempt can still land is told;
 * - acknowledgements of what the owner has released anyway.
 *
 * Whoever explores keeps 64 bits of hash per state instead of the state: at 10 million states the chance that any two
 * share one is about one in 370,000.
 */
import type { Attempt, Member } from "../../src/cluster/ownership.js";
import {
  type Answer,
  type Claimant,
  type Claiming,
  type Held,
  isOwner,
  type ModelState,
  type Owner,
  type Slot,
  type Underway,
  writeOf,
} from "./state.js";

const ABSENT = 255;

const KINDS = { claiming: 1, serving: 2, frozen: 3, ended: 4, past: 5 } as const;

export class Canonical {
  readonly #bytes = new Uint8Array(8192);
  readonly #scratch = new Uint8Array(8192);
  readonly #ends = new Int32Array(64);
  readonly #order = new Int32Array(64);
  /** Of the state at hand: through which seq each owner has released or covered; what is at or below counts for nothing. */
  readonly #settled = new Int32Array(64);
  #length = 0;
  hashLow = 0;
  hashHigh = 0;

  /** Sets the hash; valid until the next call. */
  hash(state: ModelState): void {
    this.#length = 0;
    const { claimants } = state;
    for (let index = 0; index < claimants.length; index++) {
      const claimant = claimants[index] as Claimant;
      this.#settled[index] = isOwner(claimant) ? settledSeq(state, claimant) : 0;
    }
    this.#bucket(state);
    for (let index = 0; index < claimants.length; index++) this.#claimant(state, claimants[index] as Claimant);
    this.#slots(state);
    this.#mix();
  }

  /** The bytes themselves, for tests of this file. */
  bytes(state: ModelState): Uint8Array {
    this.hash(state);
    return this.#bytes.slice(0, this.#length);
  }

  #bucket({ record, log, told, spent }: ModelState): void {
    const { epoch, tailEpoch, clean, quorum } = record;
    this.#put(epoch, tailEpoch, clean ? 1 : 0, quorum.copies);
    this.#put(quorum.acksToLand, spent.writes, spent.setChanges, spent.disks);
    this.#put(spent.releases, log.length, told.length, 0);
    this.#writes(log);
    this.#writes(told);
  }

  #claimant(state: ModelState, claimant: Claimant): void {
    this.#byte(KINDS[claimant.kind]);
    if (isOwner(claimant)) {
      this.#owner(state, claimant);
    } else if (claimant.kind === "claiming") {
      const { record, ownFile } = claimant;
      this.#put(record.quorum.copies, record.quorum.acksToLand, ownFile?.epoch ?? 0, ownFile?.seq ?? 0);
      this.#lostAnswers(state, claimant);
    } else {
      const { asked, line, committed } = claimant;
      this.#put(asked ? 1 : 0, line?.startSeq ?? ABSENT, line?.parent ?? 0, committed);
    }
  }

  #owner(state: ModelState, owner: Owner): void {
    const { line, committed, book, known, unlearned, setChange, release, takeover } = owner;
    this.#put(line.startSeq, line.parent, committed, book.covered);
    this.#put(known.record.quorum.copies, book.acksToLand, takeover === undefined ? 0 : 1, landing(state, release));
    this.#put(known.version === state.version ? 1 : 0, owner.asked ? 1 : 0, takeover?.log.length ?? 0, 0);
    if (takeover) this.#writes(takeover.log);
    const attempted = unlearned === undefined ? 0 : unlearned.record.covered + 1;
    const isSet = unlearned !== undefined && unlearned === setChange;
    this.#put(attempted, isSet ? 1 : 0, landing(state, setChange), book.unresolved === undefined ? 0 : 1);
    if (setChange) {
      const { quorum, covered } = setChange.record;
      this.#put(quorum.copies, quorum.acksToLand, covered, 0);
    }
    this.#lostVotes(state, owner);
  }

  /** Journals that are gone say nothing any more, but what they said counts. */
  #lostAnswers({ slots }: ModelState, { answers }: Claiming): void {
    let count = 0;
    const start = this.#length;
    for (let index = 0; index < answers.length; index++) {
      const answer = answers[index] as Answer;
      if (isThere(slots, answer.journal)) continue;
      this.#answer(answer);
      this.#ends[count++] = this.#length;
    }
    this.#sort(start, count);
    this.#byte(count);
  }

  #lostVotes({ slots }: ModelState, { book, epoch, underway }: Owner): void {
    const settled = this.#settled[epoch - 1] as number;
    let count = 0;
    const start = this.#length;
    for (let index = 0; index < book.voters.length; index++) {
      const { journal, have, votesNow, votesNext } = book.voters[index] as (typeof book.voters)[number];
      const coming = beyond(settled, comingFrom(underway, journal));
      if (isThere(slots, journal) || (have <= settled && coming === 0)) continue;
      this.#put(votesNow ? 1 : 0, votesNext ? 1 : 0, beyond(settled, have), coming);
      this.#ends[count++] = this.#length;
    }
    this.#sort(start, count);
    this.#byte(count);
  }

  #slots(state: ModelState): void {
    const start = this.#length;
    const { slots } = state;
    for (let index = 0; index < slots.length; index++) {
      this.#slot(state, slots[index] as Slot);
      this.#ends[index] = this.#length;
    }
    this.#sort(start, slots.length);
  }

  #slot({ record, claimants }: ModelState, { journal, held, reading }: Slot): void {
    if (held === undefined) this.#byte(ABSENT);
    else this.#held(held, held.promised);
    this.#byte(reading ?? ABSENT);
    this.#byte(isNamed(record.set, journal));
    for (let index = 0; index < claimants.length; index++) {
      const claimant = claimants[index] as Claimant;
      if (isOwner(claimant)) {
        this.#vote(claimant, journal);
      } else if (claimant.kind === "claiming") {
        this.#byte(isNamed(claimant.record.set, journal));
        this.#answer(answerOf(claimant.answers, journal));
      }
    }
  }

  #vote({ book, epoch, underway, setChange }: Owner, journal: string): void {
    const settled = this.#settled[epoch - 1] as number;
    const named = setChange === undefined ? 0 : isNamed(setChange.record.set, journal);
    const { voters } = book;
    for (let index = 0; index < voters.length; index++) {
      const voter = voters[index] as (typeof voters)[number];
      if (voter.journal !== journal) continue;
      const votes = (voter.votesNow ? 1 : 0) + (voter.votesNext ? 2 : 0) + 4;
      this.#put(votes, beyond(settled, voter.have), beyond(settled, comingFrom(underway, journal)), named);
      return;
    }
    this.#put(0, 0, 0, named);
  }

  #held({ tailEpoch, base, entries }: Pick<Held, "tailEpoch" | "base" | "entries">, promised: number): void {
    this.#put(promised, tailEpoch, base, entries.length);
    for (let index = 0; index < entries.length; index++) {
      const { afterSeq, toSeq, payload } = entries.at(index);
      this.#byte(writeOf(payload, afterSeq));
      this.#byte(toSeq);
    }
  }

  #answer(answer: Answer | undefined): void {
    if (answer?.kind !== "promised") this.#byte(ABSENT);
    // Only a broken variant tells, and looks at, what had been promised before.
    else this.#held(answer.tail, (answer.tail as { promisedBefore?: number }).promisedBefore ?? 0);
  }

  #writes(list: readonly number[]): void {
    for (let index = 0; index < list.length; index++) this.#byte(list[index] as number);
  }

  /** Puts the parts between `start` and each of the ends in the order of their bytes. */
  #sort(start: number, count: number): void {
    if (count < 2) return;
    const order = this.#order;
    for (let index = 0; index < count; index++) {
      let at = index;
      while (at > 0 && this.#compare(start, order[at - 1] as number, index) > 0) {
        order[at] = order[at - 1] as number;
        at--;
      }
      order[at] = index;
    }
    let to = 0;
    for (let index = 0; index < count; index++) {
      const part = order[index] as number;
      const end = this.#ends[part] as number;
      for (let from = this.#startOf(start, part); from < end; from++) this.#scratch[to++] = this.#bytes[from] as number;
    }
    for (let index = 0; index < to; index++) this.#bytes[start + index] = this.#scratch[index] as number;
  }

  #startOf(start: number, part: number): number {
    return part === 0 ? start : (this.#ends[part - 1] as number);
  }

  #compare(start: number, part: number, other: number): number {
    const [from, otherFrom] = [this.#startOf(start, part), this.#startOf(start, other)];
    const lengths = (this.#ends[part] as number) - from - ((this.#ends[other] as number) - otherFrom);
    const length = (this.#ends[part] as number) - from - Math.max(0, lengths);
    for (let index = 0; index < length; index++) {
      const difference = (this.#bytes[from + index] as number) - (this.#bytes[otherFrom + index] as number);
      if (difference !== 0) return difference;
    }
    return lengths;
  }

  #byte(value: number): void {
    this.#bytes[this.#length++] = value;
  }

  #put(first: number, second: number, third: number, fourth: number): void {
    const bytes = this.#bytes;
    const at = this.#length;
    bytes[at] = first;
    bytes[at + 1] = second;
    bytes[at + 2] = third;
    bytes[at + 3] = fourth;
    this.#length = at + 4;
  }

  /** Two lanes of multiply and shift with different constants, over four bytes at a time. */
  #mix(): void {
    const bytes = this.#bytes;
    let low = 0x9e3779b9 ^ this.#length;
    let high = 0x85ebca6b ^ this.#length;
    while (this.#length % 4 !== 0) bytes[this.#length++] = 0;
    for (let at = 0; at < this.#length; at += 4) {
      const word =
        (bytes[at] as number) |
        ((bytes[at + 1] as number) << 8) |
        ((bytes[at + 2] as number) << 16) |
        ((bytes[at + 3] as number) << 24);
      low = Math.imul(low ^ word, 0xcc9e2d51);
      low = (low << 15) | (low >>> 17);
      high = Math.imul(high ^ word, 0x1b873593) + low;
      high = (high << 13) | (high >>> 19);
    }
    this.hashLow = finish(low ^ high) >>> 0;
    this.hashHigh = finish(high) >>> 0;
  }
}

/** 0: there is no attempt. 1: it can not land any more, or has. 2: it may land. */
function landing({ version }: ModelState, attempt: Attempt<number> | undefined): number {
  if (attempt === undefined) return 0;
  return attempt.on === version ? 2 : 1;
}

function isThere(slots: readonly Slot[], journal: string): boolean {
  for (let index = 0; index < slots.length; index++) if (slots[index]?.journal === journal) return true;
  return false;
}

function isNamed(set: readonly Member[], journal: string): number {
  for (let index = 0; index < set.length; index++) if (set[index]?.journal === journal) return 1;
  return 0;
}

function answerOf(answers: readonly Answer[], journal: string): Answer | undefined {
  for (let index = 0; index < answers.length; index++) if (answers[index]?.journal === journal) return answers[index];
  return undefined;
}

function comingFrom(underway: readonly Underway[], journal: string): number {
  for (let index = 0; index < underway.length; index++) {
    const one = underway[index] as Underway;
    if (one.journal === journal) return one.have;
  }
  return 0;
}

function finish(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

/** Through which seq nothing more can be released: covered by what it knows, or told already. */
function settledSeq({ told, log }: ModelState, { book, epoch }: Owner): number {
  let seq = book.covered;
  while (log[seq] === writeOf(epoch, seq + 1) || told.includes(writeOf(epoch, seq + 1))) seq++;
  return seq;
}

function beyond(settledSeq: number, seq: number): number {
  return seq > settledSeq ? seq : 0;
}
