/** What must hold in every state that can be reached. */
import type { EntryRun } from "../../src/cluster/entry-run.js";
import type { JournalEntry } from "../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../src/cluster/ownership.js";
import type { TailChoice } from "../../src/cluster/tail-choice.js";
import type { Model } from "./rules.js";
import {
  type Answer,
  type Claimant,
  committedSeq,
  epochOf,
  isOwner,
  type Line,
  type ModelState,
  type Payload,
  type Slot,
  seqOf,
  type Write,
  writeOf,
  writesText,
} from "./state.js";

export type ViolationKind =
  /** The bucket's content is not one line: a write stands on another than the one it was committed on. */
  | "two_lines"
  /** What a caller was told is done is missing in the bucket, in what an owner serves, or in what a takeover would find. */
  | "lost"
  /** Two different writes were told as done at one seq. */
  | "two_contents"
  /** A takeover refuses loudly: the chosen tail does not meet what the bucket covers. */
  | "gap"
  /** A live owner can not bring a journal of its set up to date, however often it sends. */
  | "stuck"
  /** A write that a later owner has served without comes back. */
  | "resurrected"
  /** A journal has promised an epoch that no record ever had. */
  | "promised_ahead"
  /** A function of src/cluster met what it takes for a programming mistake. */
  | "assertion";

export interface Violation {
  readonly kind: ViolationKind;
  readonly text: string;
}

/** @returns undefined when all holds. @param tally counts states in which too few recorded journals are left to take over */
export function check(model: Model, state: ModelState, tally: { unavailable: number }): Violation | undefined {
  return checkTold(state) ?? checkProgress(model, state) ?? checkTakeovers(model, state, tally);
}

export function hasServed(claimant: Claimant): boolean {
  if (isOwner(claimant)) return claimant.takeover === undefined;
  return claimant.kind === "past" && claimant.line !== undefined;
}

function checkTold({ log, claimants, told }: ModelState): Violation | undefined {
  if (!isOneLine(claimants, log)) return { kind: "two_lines", text: `the bucket holds ${writesText(log)}` };
  for (const write of told) {
    const seq = seqOf(write);
    if (seq <= log.length) {
      return {
        kind: "lost",
        text: `${writesText([write])} was told; there the bucket has ${writesText([log[seq - 1] ?? 0])}`,
      };
    }
    const twin = told.find((other) => other !== write && seqOf(other) === seq);
    if (twin !== undefined) return { kind: "two_contents", text: `told at one seq: ${writesText([twin, write])}` };
    const later = claimants.find((one) => one.epoch > epochOf(write) && hasServed(one));
    if (later) return { kind: "lost", text: `${writesText([write])} was told, and e${later.epoch} serves without it` };
  }
  return undefined;
}

function isOneLine(claimants: readonly Claimant[], log: readonly Write[]): boolean {
  let before: Write = 0;
  for (let index = 0; index < log.length; index++) {
    const write = log[index] as Write;
    if (seqOf(write) !== index + 1) return false;
    const line = lineOf(claimants[epochOf(write) - 1]);
    if (line.startSeq === index ? line.parent !== before : before !== write - 1) return false;
    before = write;
  }
  return true;
}

const NO_LINE: Line = { startSeq: 0, parent: 0 };

function lineOf(claimant: Claimant | undefined): Line {
  if (claimant === undefined || claimant.kind === "claiming") return NO_LINE;
  return claimant.line ?? NO_LINE;
}

/** A live owner's journals: could each be brought up to date now, by sending it all that the bucket does not cover? */
function checkProgress({ rules, habits }: Model, state: ModelState): Violation | undefined {
  if (habits.noProgress) return undefined;
  const { record, claimants, slots } = state;
  const ahead = slots.find(({ held }) => held !== undefined && held.promised > record.epoch);
  if (ahead) return { kind: "promised_ahead", text: `${ahead.journal} has promised e${ahead.held?.promised}` };
  const owner = claimants[record.epoch - 1];
  if (owner === undefined || owner.kind !== "serving" || owner.unlearned || owner.takeover) return undefined;
  const end = committedSeq(owner);
  const covered = Math.max(owner.book.covered, owner.line.startSeq);
  if (end <= covered) return undefined;
  for (const slot of slots) {
    if (!owner.book.voters.some((voter) => voter.journal === slot.journal && voter.votesNow)) continue;
    let held = slot.held ?? rules.begun(record.epoch);
    let have = 0;
    for (let seq = covered + 1; seq <= end; seq++) {
      const message = { epoch: owner.epoch, covered, afterSeq: seq - 1, toSeq: seq, payload: owner.epoch };
      const decided = rules.decideEntry(slot.journal, held, message);
      held = decided.held;
      const { answer } = decided;
      have = answer.kind === "ack" || answer.kind === "duplicate" ? answer.have : 0;
      if (have === 0) break;
    }
    if (have !== end) return { kind: "stuck", text: `e${owner.epoch} can not bring ${slot.journal} up to seq ${end}` };
  }
  return undefined;
}

/** Whoever takes over from here, hearing just enough journals, whichever they are: finds it all that was told? */
function checkTakeovers(model: Model, state: ModelState, tally: { unavailable: number }): Violation | undefined {
  const { rules } = model;
  const { record, told } = state;
  const first = told[0];
  const claimed = { ...record, epoch: record.epoch + 1 };
  const nobody = record.clean ? undefined : rules.chooseTail(claimed, []);
  if (nobody?.kind !== "waiting") {
    if (first === undefined) return undefined;
    return { kind: "lost", text: `a takeover that asks no journal misses ${writesText(told)}` };
  }
  const answers = state.slots.filter((slot) => isIn(record, slot)).map((slot) => promiseOf(model, slot, claimed.epoch));
  if (answers.length < nobody.needed) tally.unavailable++;
  for (const some of combinations(answers, nobody.needed)) {
    const violation = checkTakeover(model, state, rules.chooseTail(claimed, some));
    if (violation) return violation;
  }
  return undefined;
}

function checkTakeover(model: Model, state: ModelState, choice: TailChoice<Payload>): Violation | undefined {
  if (choice.kind === "broken") return gap(choice);
  const found = logAfter(state, choice, state.record.tailEpoch);
  if (found === state.log && state.told.length === 0) return undefined;
  if (!isOneLine(state.claimants, found)) return { kind: "two_lines", text: `a takeover makes ${writesText(found)}` };
  const missing = state.told.filter((write) => found[seqOf(write) - 1] !== write);
  if (missing.length > 0)
    return { kind: "lost", text: `${writesText(missing)} missing in a takeover: ${writesText(found)}` };
  return resurrection(model, state, found);
}

function promiseOf({ rules }: Model, slot: Slot, epoch: number): Answer {
  const { journal } = slot;
  return rules.decidePromise(journal, slot.held ?? rules.begun(epoch), { epoch, journal }).answer;
}

export function gap({ journal, base, covered }: Extract<TailChoice<Payload>, { kind: "broken" }>): Violation {
  return { kind: "gap", text: `the tail of ${journal} starts at ${base}, the bucket covers ${covered}` };
}

/** What the bucket holds once a claimer has gone on from its choice. @param fileEpoch of the own file, where that was chosen */
export function logAfter({ log }: ModelState, choice: TailChoice<Payload>, fileEpoch: number): readonly Write[] {
  if (choice.kind === "tail") return [...log, ...writesOf(choice.entries, log.length)];
  if (choice.kind !== "own_file") return log;
  return [...log, ...range(log.length, choice.throughSeq).map((seq) => writeOf(fileEpoch, seq))];
}

export function resurrection(
  { habits }: Model,
  { log, claimants }: ModelState,
  next: readonly Write[],
): Violation | undefined {
  if (next.length === log.length || habits.mayReturn) return undefined;
  const served = claimants.reduce((last, one) => (hasServed(one) ? one.epoch : last), 0);
  const returned = next.slice(log.length).filter((write) => epochOf(write) < served);
  if (returned.length === 0) return undefined;
  return { kind: "resurrected", text: `${writesText(returned)} though e${served} has served without` };
}

export function writesOf(entries: EntryRun<JournalEntry<Payload>>, afterSeq: number): Write[] {
  const found: Write[] = [];
  let end = afterSeq;
  for (const entry of entries) {
    for (let seq = Math.max(end, entry.afterSeq) + 1; seq <= entry.toSeq; seq++)
      found.push(writeOf(entry.payload, seq));
    end = Math.max(end, entry.toSeq);
  }
  return found;
}

function range(afterSeq: number, toSeq: number): number[] {
  return Array.from({ length: Math.max(0, toSeq - afterSeq) }, (_, index) => afterSeq + 1 + index);
}

function isIn({ set }: OwnershipRecord, slot: Slot): boolean {
  return set.some(({ journal }) => journal === slot.journal);
}

function combinations<T>(list: readonly T[], size: number): T[][] {
  if (size === 0) return [[]];
  return list.flatMap((one, index) => combinations(list.slice(index + 1), size - 1).map((rest) => [one, ...rest]));
}
