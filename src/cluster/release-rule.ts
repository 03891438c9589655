/**
 * How far an owner may release (O2, O3): what its own CASes, known to have won, cover, or what W journals of the recorded
 * set have acknowledged to its epoch; while a set change is unresolved, only what satisfies both records.
 *
 * The book is kept in place, one per owned object, from CAS2 on: a hot object lands 20,000 flights a second with three
 * acknowledgements each, so noting one allocates nothing. Its fields are changed by the functions below and by nothing else.
 */
import { assert } from "../errors.js";
import type { EntryAnswer } from "./journal-rules.js";
import type { OwnershipRecord } from "./ownership.js";

interface Voter {
  readonly journal: string;
  /** Acknowledged to this epoch, through this seq. */
  have: number;
  /** In the set of the record that is known to stand. */
  votesNow: boolean;
  /** In the set of the change that may have landed. */
  votesNext: boolean;
}

export interface ReleaseBook {
  readonly epoch: number;
  voters: Voter[];
  acksToLand: number;
  covered: number;
  /** Sent, and not known to have won or lost (O3). */
  unresolved: { readonly acksToLand: number; readonly covers: number } | undefined;
  /** Never falls: what was released was told to callers. */
  released: number;
}

/** @param record as the CAS wrote it that made its owner serve (O1) */
export function openBook(record: OwnershipRecord): ReleaseBook {
  const { epoch, covered } = record;
  assert(record.tailEpoch === epoch && !record.clean, "only a completed claim releases");
  const book: ReleaseBook = { epoch, voters: [], acksToLand: 0, covered, unresolved: undefined, released: covered };
  noteWon(book, record);
  return book;
}

/** An answer of a journal. @returns the last seq that may be released */
export function noteAnswer(book: ReleaseBook, answer: EntryAnswer): number {
  if (answer.epoch !== book.epoch) return book.released;
  if (answer.kind !== "ack" && answer.kind !== "duplicate") return book.released;
  const { voters } = book;
  for (let index = 0; index < voters.length; index++) {
    const voter = voters[index] as Voter;
    if (voter.journal !== answer.journal) continue;
    if (answer.have <= voter.have) return book.released;
    voter.have = answer.have;
    return answer.have <= book.released ? book.released : releaseMore(book);
  }
  return book.released;
}

/**
 * A CAS of the owner's own is known to have won, and this is its record. Every earlier attempt is resolved with that: a
 * CAS wins only on the version that the one before it left. @returns the last seq that may be released
 */
export function noteWon(book: ReleaseBook, record: OwnershipRecord): number {
  assert(record.epoch === book.epoch, "a book is of one epoch");
  const { voters } = book;
  book.voters = record.set.map(({ journal }) => ({
    journal,
    have: voters.find((voter) => voter.journal === journal)?.have ?? 0,
    votesNow: true,
    votesNext: false,
  }));
  book.acksToLand = record.quorum.acksToLand;
  book.covered = Math.max(book.covered, record.covered);
  book.unresolved = undefined;
  return releaseMore(book);
}

/** A set change is about to be sent. From here to {@link noteWon} both sets must agree (O3). */
export function noteSetSent(book: ReleaseBook, record: OwnershipRecord): void {
  assert(book.unresolved === undefined, "one set change at a time");
  const next = new Set(record.set.map(({ journal }) => journal));
  for (const voter of book.voters) voter.votesNext = next.delete(voter.journal);
  for (const journal of next) book.voters.push({ journal, have: 0, votesNow: false, votesNext: true });
  book.unresolved = { acksToLand: record.quorum.acksToLand, covers: record.covered };
}

function releaseMore(book: ReleaseBook): number {
  const { acksToLand, covered, unresolved } = book;
  let landed = landedIn(book, acksToLand, false);
  if (unresolved !== undefined) {
    // If the change has landed, its record covers through `covers`; beyond, its own journals must hold the write.
    const next = Math.max(unresolved.covers, landedIn(book, unresolved.acksToLand, true));
    landed = Math.min(landed, next);
  }
  book.released = Math.max(book.released, covered, landed);
  return book.released;
}

/** The highest seq that `acksToLand` voters of the set have acknowledged; 0 without so many, or where none can land. */
function landedIn({ voters }: ReleaseBook, acksToLand: number, inNext: boolean): number {
  if (acksToLand === 0) return 0;
  let landed = 0;
  for (let index = 0; index < voters.length; index++) {
    const { have } = voters[index] as Voter;
    if (have > landed && countHaving(voters, have, inNext) >= acksToLand) landed = have;
  }
  return landed;
}

function countHaving(voters: readonly Voter[], seq: number, inNext: boolean): number {
  let count = 0;
  for (let index = 0; index < voters.length; index++) {
    const voter = voters[index] as Voter;
    if (voter.have >= seq && (inNext ? voter.votesNext : voter.votesNow)) count++;
  }
  return count;
}
