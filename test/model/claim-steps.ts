/** Claims: CAS1 or the one CAS of a clean record, promises, CAS2; requests for promises that come late. */
import type { OwnershipRecord, ReplicaSet } from "../../src/cluster/ownership.js";
import type { OwnFile } from "../../src/cluster/tail-choice.js";
import { gap, logAfter, resurrection } from "./checks.js";
import type { Model } from "./rules.js";
import { begin, knowing, replicaSets, type Sink, settled, withSlot } from "./sink.js";
import {
  type Claimant,
  type Claiming,
  committedSeq,
  type Held,
  isOwner,
  type ModelState,
  type Owner,
  replaced,
  type Slot,
  sessionOf,
} from "./state.js";

export function claimers(model: Model, state: ModelState, sink: Sink): void {
  if (state.record.epoch < model.scope.epochs) claims(model, state, sink);
  for (const claimant of state.claimants) {
    if (claimant.kind === "claiming" && claimant.epoch === state.record.epoch) {
      promises(model, state, claimant, sink);
      takeOvers(model, state, claimant, sink);
    }
    if (model.scope.latePromises && (claimant.kind === "claiming" || claimant.asked)) {
      latePromises(model, state, claimant, sink);
    }
  }
}

function claims(model: Model, state: ModelState, sink: Sink): void {
  for (const replicas of replicaSets(model, state)) claimOnce(model, state, replicas, undefined, sink);
  if (model.scope.ownFiles && !state.record.clean) ownFileClaims(model, state, sink);
}

/** Whoever ran an epoch comes back with its file, whether that is worth anything or not. It takes no more writes then. */
function ownFileClaims(model: Model, state: ModelState, sink: Sink): void {
  const { set, quorum } = state.record;
  for (const owner of state.claimants) {
    if (!isOwner(owner) || owner.committed === 0) continue;
    const ended: Owner = { ...owner, kind: "ended" };
    const claimants = replaced(state.claimants, owner.epoch - 1, ended);
    const file = { epoch: owner.epoch, seq: committedSeq(owner) };
    claimOnce(model, { ...state, claimants }, { set, quorum }, file, sink);
  }
}

function claimOnce(
  model: Model,
  state: ModelState,
  replicas: ReplicaSet,
  ownFile: OwnFile | undefined,
  sink: Sink,
): void {
  const { rules } = model;
  const { record, log } = state;
  const epoch = record.epoch + 1;
  const rid = `claim of version ${state.version}`;
  const claimed = rules.claim(record, sessionOf(epoch), rid, replicas, { ownerLives: false, holds: false });
  if (claimed.kind === "refused") return;
  const version = state.version + 1;
  const claimant: Claimant =
    claimed.afterwards === "serve"
      ? begin(rules, claimed.record, { version, line: { startSeq: log.length, parent: log.at(-1) ?? 0 }, asked: false })
      : { kind: "claiming", epoch, record: claimed.record, answers: [], ownFile };
  const next = { ...state, record: claimed.record, version, claimants: [...state.claimants, claimant] };
  const what = ownFile === undefined ? "CAS1 of e$1" : "CAS1 of e$1, with the file of e$2 through seq $3";
  sink.step(settled(model, next), what, epoch, ownFile?.epoch, ownFile?.seq);
}

function promises(model: Model, state: ModelState, claimer: Claiming, sink: Sink): void {
  const { epoch, record, answers } = claimer;
  for (let index = 0; index < state.slots.length; index++) {
    const slot = state.slots[index] as Slot;
    const asked = record.set.find(({ node }) => node === slot.node);
    const known = slot.held ?? unread(model);
    if (asked === undefined || known === undefined) continue;
    if (answers.some(({ journal }) => journal === asked.journal)) continue;
    const { held, answer } = model.rules.decidePromise(slot.journal, known, { epoch, journal: asked.journal });
    if (answer.kind !== "promised") continue;
    const answered: Claiming = { ...claimer, answers: [...answers, answer] };
    const next = { ...state, claimants: replaced(state.claimants, epoch - 1, answered) };
    sink.step(settled(model, withSlot(next, index, knowing(slot, held))), "journal $2 promises e$1", epoch, index);
  }
}

/** A journal that does not know the object reads the record first (J6). */
function unread({ habits, rules }: Model): Held | undefined {
  return habits.promisesUnread ? rules.begun(0) : undefined;
}

/** The request arrives somewhere; its answer is lost, or reaches nobody that it could help. */
function latePromises(model: Model, state: ModelState, { epoch }: Claimant, sink: Sink): void {
  for (let index = 0; index < state.slots.length; index++) {
    const slot = state.slots[index] as Slot;
    const { journal } = slot;
    const held = slot.held ?? unread(model);
    if (held === undefined) continue;
    const decided = model.rules.decidePromise(journal, held, { epoch, journal });
    if (decided.answer.kind !== "promised" || decided.held.promised === held.promised) continue;
    const next = withSlot(state, index, knowing(slot, decided.held));
    sink.step(settled(model, next), "journal $2 promises e$1, unheard", epoch, index);
  }
}

function takeOvers(model: Model, state: ModelState, claimer: Claiming, sink: Sink): void {
  const { epoch, record, answers, ownFile } = claimer;
  const what = "CAS2 of e$1, covering $2, set of $3";
  const choice = model.rules.chooseTail(record, answers, ownFile);
  if (choice.kind === "waiting") return;
  if (choice.kind === "broken") {
    sink.violation(gap(choice), what, epoch);
    return;
  }
  const log = logAfter(state, choice, ownFile?.epoch ?? 0);
  const returned = resurrection(model, state, log);
  if (returned) sink.violation(returned, what, epoch);
  const me = { session: sessionOf(epoch), epoch };
  for (const replicas of replicaSets(model, state)) {
    const rid = `takeover of version ${state.version}`;
    const taken = model.rules.takeOver(state.record, me, rid, replicas, choice.throughSeq);
    if (taken.kind === "refused") continue;
    const next = takenOver(model, state, taken.record, log);
    sink.step(settled(model, next), what, epoch, choice.throughSeq, replicas.quorum.copies);
  }
}

function takenOver(
  { rules, scope, habits }: Model,
  state: ModelState,
  record: OwnershipRecord,
  chosen: ModelState["log"],
): ModelState {
  const version = state.version + 1;
  const log = chosen.slice(0, record.covered);
  const line = { startSeq: log.length, parent: log.at(-1) ?? 0 };
  const owner = begin(rules, record, { version, line, asked: scope.latePromises === true });
  if (!habits.servesEarly) {
    return { ...state, record, version, log, claimants: replaced(state.claimants, record.epoch - 1, owner) };
  }
  const takeover = { attempt: { on: state.version, record }, log };
  return { ...state, claimants: replaced(state.claimants, record.epoch - 1, { ...owner, takeover }) };
}
