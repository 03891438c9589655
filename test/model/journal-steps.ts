/** What journals do by themselves: read the record of an object that they do not know, forget it, lose their disk. */
import type { Model } from "./rules.js";
import { type Sink, settled, withSlot } from "./sink.js";
import { journalOf, type ModelState, type Slot } from "./state.js";

export function journals(model: Model, state: ModelState, sink: Sink): void {
  for (let index = 0; index < state.slots.length; index++) {
    const slot = state.slots[index] as Slot;
    if (model.scope.forgetful) knowledge(model, state, slot, index, sink);
    if (state.spent.disks < (model.scope.disks ?? 0)) loseDisk(model, state, slot, index, sink);
  }
}

function knowledge(model: Model, state: ModelState, slot: Slot, index: number, sink: Sink): void {
  const { held, reading } = slot;
  const { epoch } = state.record;
  const become = (next: Slot, what: string): void =>
    sink.step(settled(model, withSlot(state, index, next)), what, index, reading ?? epoch);
  if (held !== undefined) {
    if (model.rules.mayForget(held)) become({ ...slot, held: undefined }, "journal $1 forgets the object");
  } else if (reading === undefined) {
    become({ ...slot, reading: epoch }, "journal $1 reads the record: e$2");
  } else {
    const kept = model.habits.keepsReadings ? reading : undefined;
    become({ ...slot, held: model.rules.begun(reading), reading: kept }, "journal $1 begins with e$2");
  }
}

function loseDisk(model: Model, state: ModelState, slot: Slot, index: number, sink: Sink): void {
  const { scope, rules, habits } = model;
  const disk = slot.disk + 1;
  const journal = habits.keepsIdentity ? slot.journal : journalOf(index, disk);
  const next = withSlot(state, index, {
    node: slot.node,
    journal,
    disk,
    held: scope.forgetful ? undefined : rules.begun(0),
    reading: undefined,
  });
  const spent = { ...state.spent, disks: state.spent.disks + 1 };
  sink.step(settled(model, { ...next, spent }), "journal $1 loses its disk", index);
}
