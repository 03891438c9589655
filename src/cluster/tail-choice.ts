/**
 * What a claimer goes on from (C2, C3): the tail that the journals of the record hand over, the bucket alone, or nothing
 * yet. It promises that no released write is missing in what it chooses, and that two lines are never made into one.
 */
import type { EntryRun } from "./entry-run.js";
import type { JournalEntry, PromiseAnswer } from "./journal-rules.js";
import type { Member, OwnershipRecord } from "./ownership.js";
import { answersNeeded } from "./quorum.js";

/** A returning node's own copy of the object, complete through `seq`, as the owner of `epoch` left it. */
export interface OwnFile {
  readonly epoch: number;
  readonly seq: number;
}

export type TailChoice<P> =
  /** Too few of the recorded journals have answered. `missing` names those that have not. */
  | {
      readonly kind: "waiting";
      readonly needed: number;
      readonly answered: number;
      readonly missing: readonly Member[];
    }
  /** The bucket is all there is: no tail goes beyond what it covers. */
  | { readonly kind: "bucket"; readonly throughSeq: number }
  /** `entries` continue what the bucket covers, through `throughSeq`. */
  | {
      readonly kind: "tail";
      readonly journal: string;
      readonly throughSeq: number;
      readonly entries: EntryRun<JournalEntry<P>>;
    }
  | { readonly kind: "own_file"; readonly throughSeq: number }
  /** A tail starts beyond what the bucket covers: writes are missing that the rules put there. Never served. */
  | { readonly kind: "broken"; readonly journal: string; readonly base: number; readonly covered: number };

type Promised<P> = Extract<PromiseAnswer<P>, { kind: "promised" }>;

/**
 * @param record as the claimer's CAS1, known to have won, wrote it
 * @param answers those to that claim; others, and what journals say that the record does not name, count for nothing
 * @param needed fewer only where an operator has accepted that released writes may be lost
 */
export function chooseTail<P>(
  record: OwnershipRecord,
  answers: readonly PromiseAnswer<P>[],
  ownFile?: OwnFile,
  needed = answersNeeded(record.quorum),
): TailChoice<P> {
  const promised = countedAnswers(record, answers);
  if (promised.size < needed) {
    const missing = record.set.filter(({ journal }) => !promised.has(journal));
    return { kind: "waiting", needed, answered: promised.size, missing };
  }
  const longest = longestTail(record, promised);
  const throughSeq = longest?.tail.have ?? record.covered;
  if (ownFile !== undefined && ownFile.epoch === record.tailEpoch && ownFile.seq > throughSeq) {
    return { kind: "own_file", throughSeq: ownFile.seq };
  }
  if (longest === undefined) return { kind: "bucket", throughSeq };
  const { journal, tail } = longest;
  if (tail.base > record.covered) return { kind: "broken", journal, base: tail.base, covered: record.covered };
  return { kind: "tail", journal, throughSeq, entries: tail.entries.droppedThrough(record.covered) };
}

function countedAnswers<P>(
  record: OwnershipRecord,
  answers: readonly PromiseAnswer<P>[],
): ReadonlyMap<string, Promised<P>> {
  const named = new Set(record.set.map(({ journal }) => journal));
  const counted = new Map<string, Promised<P>>();
  for (const answer of answers) {
    if (answer.kind === "promised" && answer.epoch === record.epoch && named.has(answer.journal)) {
      counted.set(answer.journal, answer);
    }
  }
  return counted;
}

/**
 * Of the tails of the last completed claim, the longest that goes beyond the bucket. Another epoch's tail is dead, however
 * long it is and whatever its journal has promised: its owner never served, or what it released is in the bucket (C3).
 */
function longestTail<P>(record: OwnershipRecord, promised: ReadonlyMap<string, Promised<P>>): Promised<P> | undefined {
  let longest: Promised<P> | undefined;
  for (const answer of promised.values()) {
    const { tail } = answer;
    if (tail.tailEpoch !== record.tailEpoch) continue;
    if (tail.have > (longest?.tail.have ?? record.covered)) longest = answer;
  }
  return longest;
}
