/** Where steps go, and what steps of all kinds share. */
import type { OwnershipRecord, ReplicaSet } from "../../src/cluster/ownership.js";
import type { ReleaseBook } from "../../src/cluster/release-rule.js";
import type { Violation } from "./checks.js";
import type { Model, Rules } from "./rules.js";
import {
  type Claimant,
  type Held,
  isOwner,
  type Line,
  type ModelState,
  type Owner,
  replaced,
  type Slot,
  seqOf,
  type Write,
  writeOf,
} from "./state.js";

/** A step is told with what was done, a text with places for numbers: `e$1 commits seq $2`. The text alone names the kind. */
export interface Sink {
  step(next: ModelState, what: string, first?: number, second?: number, third?: number): void;
  violation(violation: Violation, what: string, first?: number, second?: number, third?: number): void;
}

export function stepText(what: string, ...numbers: readonly (number | undefined)[]): string {
  return what.replace(/\$(\d)/g, (_, place: string) => String(numbers[Number(place) - 1] ?? "?"));
}

/** Who serves under a record that it knows to stand. */
export function begin(
  rules: Rules,
  record: OwnershipRecord,
  of: { readonly version: number; readonly line: Line; readonly asked: boolean },
): Owner {
  const { version, line, asked } = of;
  return {
    kind: "serving",
    epoch: record.epoch,
    line,
    committed: 0,
    book: rules.openBook(record),
    known: { version, record },
    unlearned: undefined,
    setChange: undefined,
    release: undefined,
    takeover: undefined,
    underway: [],
    asked,
  };
}

/** Books are kept in place, states are not: each step notes in a copy. */
export function noted(book: ReleaseBook, note: (copy: ReleaseBook) => void): ReleaseBook {
  const copy = { ...book, voters: book.voters.map((voter) => ({ ...voter })) };
  note(copy);
  return copy;
}

export function withOwner(state: ModelState, owner: Owner): ModelState {
  const told = toldBy(owner, state.told, state.log);
  return { ...state, claimants: replaced(state.claimants, owner.epoch - 1, owner), told };
}

/** Of one flight: what the journal holds, and what the owner heard of it. */
export function withBoth(state: ModelState, index: number, slot: Slot, owner: Owner): ModelState {
  return {
    ...state,
    slots: replaced(state.slots, index, slot),
    claimants: replaced(state.claimants, owner.epoch - 1, owner),
    told: toldBy(owner, state.told, state.log),
  };
}

export function withSlot(state: ModelState, index: number, slot: Slot): ModelState {
  return { ...state, slots: replaced(state.slots, index, slot) };
}

/** What was told, with all that the owner may release by now. What the log holds needs no watching any more. */
function toldBy(owner: Owner, told: readonly Write[], log: readonly Write[]): readonly Write[] {
  const { epoch, line, committed, book } = owner;
  let all = told;
  const end = Math.min(book.released, line.startSeq + committed);
  for (let seq = line.startSeq + 1; seq <= end; seq++) {
    const write = writeOf(epoch, seq);
    if (log[seq - 1] !== write && !all.includes(write)) all = [...all, write].sort((one, other) => one - other);
  }
  return all;
}

/** The journal's state after a message. A reading that was under way for an unknown object is void once it is known. */
export function knowing(slot: Slot, held: Held): Slot {
  return { ...slot, held, reading: slot.held === undefined ? undefined : slot.reading };
}

export function replicaSets({ scope }: Model, { slots }: ModelState): ReplicaSet[] {
  return scope.quorums.flatMap((quorum) =>
    choices(slots, quorum.copies).map((some) => ({
      quorum,
      set: some.map(({ node, journal }) => ({ node, journal })),
    })),
  );
}

function choices<T>(list: readonly T[], size: number): T[][] {
  if (size === 0) return [[]];
  return list.flatMap((one, index) => choices(list.slice(index + 1), size - 1).map((rest) => [one, ...rest]));
}

/** Without what can not matter any more: this keeps worlds small, and exact. */
export function settled(model: Model, state: ModelState): ModelState {
  const { record, log, told } = state;
  let { claimants } = state;
  for (let index = 0; index < claimants.length; index++) {
    const claimant = claimants[index] as Claimant;
    if (claimant.epoch >= record.epoch || claimant.kind === "past") continue;
    const past = pastOf(model, state, claimant);
    if (past !== undefined) claimants = replaced(claimants, index, past);
  }
  const missing = told.some((write) => log[seqOf(write) - 1] === write)
    ? told.filter((write) => log[seqOf(write) - 1] !== write)
    : told;
  return claimants === state.claimants && missing === told ? state : { ...state, claimants, told: missing };
}

/** A claimer that was overtaken, and an owner that no journal listens to any more and that hears nothing new. */
function pastOf({ scope, habits }: Model, { slots }: ModelState, claimant: Claimant): Claimant | undefined {
  const { epoch } = claimant;
  if (!isOwner(claimant)) {
    if (habits.servesEarly) return undefined;
    return { kind: "past", epoch, line: undefined, committed: 0, asked: scope.latePromises === true };
  }
  const { unlearned, takeover, underway, line, committed, asked } = claimant;
  if (habits.unfenced || unlearned || takeover || underway.length > 0) return undefined;
  if (!slots.every((slot) => isFenced(slot, epoch))) return undefined;
  return { kind: "past", epoch, line, committed, asked };
}

/** What a journal has not read yet it will read as the record then is, of a later epoch than this one. */
function isFenced({ held, reading }: Slot, epoch: number): boolean {
  return (held === undefined ? (reading ?? Number.POSITIVE_INFINITY) : held.promised) > epoch;
}
