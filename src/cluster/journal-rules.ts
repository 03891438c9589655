/**
 * What a journal does with an entry, with word of the bucket's coverage, and with a claimer's request for a promise.
 *
 * One `HeldObject` is all that a journal knows of one object; the functions return the next one and the answer to send.
 * They promise rules J1 to J6 of docs/cluster.md, under two conditions that their caller keeps:
 * - An answer leaves only when the state that came with it is durable, also when that state is the old one: what it
 *   rests on may still be waiting for its fsync.
 * - A state is used once: entries, notices and promises of one object are decided one after another.
 */
import { assert } from "../errors.js";
import { EntryRun, type SeqRange } from "./entry-run.js";

export interface JournalEntry<P> extends SeqRange {
  readonly payload: P;
}

export interface HeldObject<P> {
  /** No owner or claimer of a lower epoch is listened to any more. Never below `tailEpoch`. */
  readonly promised: number;
  /** Whose entries these are, all of them; 0 before the first. */
  readonly tailEpoch: number;
  /** The bucket covers this seq, as the owner of `tailEpoch` said; the entries go on from here. */
  readonly base: number;
  readonly entries: EntryRun<JournalEntry<P>>;
}

/** From an owner: one flight, and how far its own CASes, known to have won, cover the object. */
export interface EntryMessage<P> extends JournalEntry<P> {
  readonly epoch: number;
  readonly covered: number;
}

export interface CoverageNotice {
  readonly epoch: number;
  readonly covered: number;
}

/** From a claimer, to the journal that the record names. */
export interface PromiseRequest {
  readonly epoch: number;
  readonly journal: string;
}

/** Every answer says which journal speaks, and to which epoch: one without them would count for an owner it was not for. */
interface Spoken {
  readonly journal: string;
  readonly epoch: number;
}

/** The sender's epoch is over: the journal has promised a later one. */
export interface OutdatedAnswer extends Spoken {
  readonly kind: "refused";
  readonly promised: number;
}

export type EntryAnswer =
  /** `ack`: appended. `duplicate`: it was here before. Either way all of this epoch through `have` is held. */
  | (Spoken & { readonly kind: "ack" | "duplicate"; readonly have: number })
  /** Not taken: what follows `have` must come first. Says nothing about what is held. */
  | (Spoken & { readonly kind: "gap"; readonly have: number })
  | OutdatedAnswer;

export type NoticeAnswer = (Spoken & { readonly kind: "noted"; readonly base: number }) | OutdatedAnswer;

/** What a claimer is handed: the journal's tail as it stands, whosever it is. */
export interface Tail<P> extends Omit<HeldObject<P>, "promised"> {
  readonly have: number;
}

export type PromiseAnswer<P> =
  | (Spoken & { readonly kind: "promised"; readonly tail: Tail<P> })
  /** The record names another journal: this node's disk was replaced since. */
  | (Spoken & { readonly kind: "other_journal" })
  | OutdatedAnswer;

export interface Decided<P, A> {
  readonly held: HeldObject<P>;
  readonly answer: A;
}

/**
 * J6: the only way to a journal's first state of an object, and again after it forgot one: the epoch that the object's
 * record names by now, read from the bucket, counts as promised. So a promise is in force even where it was forgotten.
 * There is at most one reading under way per object, and what it brings is used once.
 */
export function begun<P>(recordEpoch: number): HeldObject<P> {
  return { promised: recordEpoch, tailEpoch: 0, base: 0, entries: EntryRun.of() };
}

/** J6: entries are never forgotten, only dropped when covered; what is left then can be had again by {@link begun}. */
export function mayForget(held: HeldObject<unknown>): boolean {
  return held.entries.length === 0;
}

/** Where what the journal holds, or needs not hold, ends. */
export function haveSeq(held: Pick<HeldObject<unknown>, "base" | "entries">): number {
  return Math.max(held.base, held.entries.lastSeq ?? 0);
}

export function decideEntry<P>(
  journal: string,
  held: HeldObject<P>,
  message: EntryMessage<P>,
): Decided<P, EntryAnswer> {
  const { epoch, covered, afterSeq, toSeq, payload } = message;
  assert(afterSeq < toSeq, "an entry holds at least one seq");
  if (epoch < held.promised) return { held, answer: outdated(journal, epoch, held) };
  // J2: what another epoch left is gone with this, so that an entry never continues it: two lines would look like one.
  const next = coveredBy(held, epoch, covered);
  const have = haveSeq(next);
  if (toSeq <= have) return { held: next, answer: { kind: "duplicate", journal, epoch, have } };
  if (afterSeq > have) return { held: next, answer: { kind: "gap", journal, epoch, have } };
  const entries = next.entries.appended({ afterSeq, toSeq, payload });
  return { held: { ...next, entries }, answer: { kind: "ack", journal, epoch, have: toSeq } };
}

/** J4. */
export function decideNotice<P>(
  journal: string,
  held: HeldObject<P>,
  { epoch, covered }: CoverageNotice,
): Decided<P, NoticeAnswer> {
  if (epoch < held.promised) return { held, answer: outdated(journal, epoch, held) };
  const next = coveredBy(held, epoch, covered);
  return { held: next, answer: { kind: "noted", journal, epoch, base: next.base } };
}

/** J5. Asked again by the same claimer, it answers again; nobody else has the same epoch. */
export function decidePromise<P>(
  journal: string,
  held: HeldObject<P>,
  request: PromiseRequest,
): Decided<P, PromiseAnswer<P>> {
  const { epoch } = request;
  if (request.journal !== journal) return { held, answer: { kind: "other_journal", journal, epoch } };
  if (epoch < held.promised) return { held, answer: outdated(journal, epoch, held) };
  const { tailEpoch, base, entries } = held;
  const tail = { tailEpoch, base, entries, have: haveSeq(held) };
  return { held: { ...held, promised: epoch }, answer: { kind: "promised", journal, epoch, tail } };
}

/**
 * The state once the owner of `epoch` has said that the bucket covers `covered`. A newer epoch starts from there, nothing
 * of the old tail is kept (J2), and it is promised with that (J1). Within an epoch the base only rises: word that comes late would else bring back
 * a start that the tail has long left behind, and erase the tail (J3).
 */
function coveredBy<P>(held: HeldObject<P>, epoch: number, covered: number): HeldObject<P> {
  if (epoch > held.tailEpoch) return { promised: epoch, tailEpoch: epoch, base: covered, entries: EntryRun.of() };
  if (covered <= held.base) return held;
  return { ...held, base: covered, entries: held.entries.droppedThrough(covered) };
}

function outdated(journal: string, epoch: number, { promised }: HeldObject<unknown>): OutdatedAnswer {
  return { kind: "refused", journal, epoch, promised };
}
