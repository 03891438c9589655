/** Every step that can be taken from a state, whoever takes it. */

import { claimers } from "./claim-steps.js";
import { journals } from "./journal-steps.js";
import { owners } from "./owner-steps.js";
import type { Model } from "./rules.js";
import { begin, type Sink } from "./sink.js";
import { journalOf, type ModelState, nodeOf } from "./state.js";

export function steps(model: Model, state: ModelState, sink: Sink): void {
  claimers(model, state, sink);
  owners(model, state, sink);
  journals(model, state, sink);
}

export function firstState({ scope, rules }: Model): ModelState {
  const slots = Array.from({ length: scope.nodes }, (_, slot) => {
    const journal = journalOf(slot, 0);
    return {
      node: nodeOf(slot),
      journal,
      disk: 0,
      held: scope.forgetful ? undefined : rules.begun(0),
      reading: undefined,
    };
  });
  const set = slots.slice(0, scope.start.copies).map(({ node, journal }) => ({ node, journal }));
  const record = rules.firstRecord("s1", "r1", { set, quorum: scope.start });
  const owner = begin(rules, record, { version: 1, line: { startSeq: 0, parent: 0 }, asked: false });
  const spent = { writes: 0, setChanges: 0, disks: 0, releases: 0 };
  return { record, version: 1, log: [], claimants: [owner], slots, told: [], spent };
}
