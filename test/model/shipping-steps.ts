/** Between owners and journals: flights, word of the coverage, and what journals answer. */
import type { EntryAnswer, EntryMessage } from "../../src/cluster/journal-rules.js";
import type { ReleaseBook } from "../../src/cluster/release-rule.js";
import type { Model } from "./rules.js";
import { knowing, noted, type Sink, settled, withBoth, withOwner, withSlot } from "./sink.js";
import { committedSeq, isOwner, type ModelState, type Owner, type Payload, type Slot, type Underway } from "./state.js";

export function shipping(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const told = coverages(model, owner);
  for (let index = 0; index < state.slots.length; index++) {
    const slot = state.slots[index] as Slot;
    if (slot.held === undefined && !model.habits.noticesUnread) continue;
    const isVoter = owner.book.voters.some(({ journal }) => journal === slot.journal);
    if (!isVoter && !model.habits.shipsToAll) continue;
    for (const covered of told) {
      flights(model, state, owner, index, covered, sink);
      notice(model, state, owner, index, covered, sink);
    }
  }
  for (const answer of owner.underway) hear(model, state, owner, answer, sink);
  if (model.scope.strayAnswers) strays(model, state, owner, sink);
}

/** What a message may say of the coverage: what the owner knows, or knew when it sent a message that comes late. */
function coverages({ scope, habits }: Model, { line, book, kind, committed }: Owner): number[] {
  const from = scope.oldCoverage ? line.startSeq : book.covered;
  const to = habits.tellsEarly && kind === "serving" ? line.startSeq + committed : book.covered;
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

function flights(model: Model, state: ModelState, owner: Owner, index: number, covered: number, sink: Sink): void {
  const { epoch, line } = owner;
  const end = committedSeq(owner);
  for (let toSeq = line.startSeq + 1; toSeq <= end; toSeq++) {
    const lowest = model.scope.longFlights ? line.startSeq : toSeq - 1;
    for (let afterSeq = toSeq - 1; afterSeq >= lowest; afterSeq--) {
      ship(model, state, owner, index, { epoch, covered, afterSeq, toSeq, payload: epoch }, sink);
    }
  }
}

function ship(
  model: Model,
  state: ModelState,
  owner: Owner,
  index: number,
  message: EntryMessage<Payload>,
  sink: Sink,
): void {
  const slot = state.slots[index] as Slot;
  if (slot.held === undefined) return;
  const { held, answer } = model.rules.decideEntry(slot.journal, slot.held, message);
  const heard = model.scope.lateAnswers ? sent(owner, answer) : hearing(model, owner, answer);
  if (held === slot.held && heard === owner) return;
  const next = withBoth(state, index, held === slot.held ? slot : { ...slot, held }, heard);
  sink.step(settled(model, next), "e$1 ships through seq $2 to journal $3", owner.epoch, message.toSeq, index);
}

function notice(model: Model, state: ModelState, owner: Owner, index: number, covered: number, sink: Sink): void {
  const { epoch } = owner;
  const slot = state.slots[index] as Slot;
  const before = slot.held ?? (model.habits.noticesUnread ? model.rules.begun(0) : undefined);
  if (before === undefined) return;
  const { held } = model.rules.decideNotice(slot.journal, before, { epoch, covered });
  if (held === slot.held) return;
  const what = "e$1 tells journal $3 that the bucket covers $2";
  sink.step(settled(model, withSlot(state, index, knowing(slot, held))), what, epoch, covered, index);
}

/** The owner once it has heard the answer; the same one when that changes nothing. */
function hearing({ rules }: Model, owner: Owner, answer: EntryAnswer): Owner {
  const tried = tryOut(owner.book);
  rules.noteAnswer(tried, answer);
  if (isSame(tried, owner.book)) return owner;
  return { ...owner, book: noted(tried, () => undefined) };
}

/** A copy that lasts until the next: most answers say nothing new. */
function tryOut(book: ReleaseBook): ReleaseBook {
  const { voters } = trial;
  voters.length = 0;
  for (let index = 0; index < book.voters.length; index++) {
    voters.push(Object.assign(trialVoters[index] as Voter, book.voters[index]));
  }
  return Object.assign(trial, book, { voters });
}

type Voter = ReleaseBook["voters"][number];
const trialVoters: Voter[] = Array.from({ length: 16 }, () => ({
  journal: "",
  have: 0,
  votesNow: false,
  votesNext: false,
}));
const trial: ReleaseBook = { epoch: 0, voters: [], acksToLand: 0, covered: 0, unresolved: undefined, released: 0 };

function isSame(one: ReleaseBook, other: ReleaseBook): boolean {
  if (one.released !== other.released || one.voters.length !== other.voters.length) return false;
  for (let index = 0; index < one.voters.length; index++) {
    if (one.voters[index]?.have !== other.voters[index]?.have) return false;
  }
  return true;
}

/** The answer is under way; of two from one journal the later says more. */
function sent(owner: Owner, answer: EntryAnswer): Owner {
  if (answer.kind !== "ack" && answer.kind !== "duplicate") return owner;
  const { journal, have } = answer;
  const before = owner.underway.find((one) => one.journal === journal)?.have ?? 0;
  const heard = owner.book.voters.find((one) => one.journal === journal)?.have ?? 0;
  if (have <= Math.max(before, heard)) return owner;
  return { ...owner, underway: [...owner.underway.filter((one) => one.journal !== journal), { journal, have }] };
}

function hear(model: Model, state: ModelState, owner: Owner, answer: Underway, sink: Sink): void {
  const underway = owner.underway.filter((one) => one !== answer);
  const heard = hearing(model, owner, { kind: "ack", epoch: owner.epoch, ...answer });
  const next = withOwner(state, { ...heard, underway });
  sink.step(settled(model, next), "e$1 hears an answer through seq $2", owner.epoch, answer.have);
}

/** What a journal answered to an earlier owner reaches this one. */
function strays(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  for (const earlier of state.claimants) {
    if (!isOwner(earlier) || earlier.epoch >= owner.epoch) continue;
    for (const { journal, have } of earlier.book.voters) {
      const heard = hearing(model, owner, { kind: "ack", epoch: earlier.epoch, journal, have });
      if (heard === owner || have === 0) continue;
      const next = withOwner(state, heard);
      sink.step(settled(model, next), "e$1 hears an answer to e$2 through seq $3", owner.epoch, earlier.epoch, have);
    }
  }
}
