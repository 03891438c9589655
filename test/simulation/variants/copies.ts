/** Reads that a copy answers, of what has not landed, of what is past, or of a line that is dead. */
import type { HeldEntries } from "../../../src/journal/contract.js";
import type { HostFile } from "../../../src/object/call-host.js";
import type { Position, ReplicaCopyParts } from "../../../src/object/replica-copy.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/**
 * Many read, through whatever node; all three journals must have a write, and any one answers for it: what a slow one has not
 * acknowledged yet is lost when the next owner does not wait for the others.
 */
const READERS = {
  nodes: 3,
  workload: "register",
  objects: 1,
  clients: 8,
  stormMs: 8_000,
  readShare: 0.6,
  replicaShare: 1,
  strikeMs: 500,
  settings: { OBJECT_QUORUM: 3, FLIGHT_HEDGE_MS: 3_000, COVER_MS: 3_000 },
  ...only({ crash: 4, crash_between_steps: 3, slow_link: 5, cut_one_way: 3, partition: 3 }),
} as const;

type Entries = ReplicaCopyParts["entries"];

export const COPIES: Record<string, Variant> = {
  "a copy takes all that its journal holds": {
    breaks: "A copy goes beyond what its owner has said is released.",
    replaces: [
      takingFrom((entries) => (object, range) => entries(object, { ...range, throughSeq: Number.MAX_SAFE_INTEGER })),
    ],
    plan: READERS,
    seed: 1,
    caughtBy: "history",
  },
  "a copy that is there is good enough": {
    breaks: "A copy answers as it stands, however far its owner has got.",
    replaces: [
      replacing("object/replica-copy", ({ ReplicaCopy }) => ({
        ReplicaCopy: class extends ReplicaCopy {
          override read<T>(position: Position, work: (file: HostFile) => T | Promise<T>) {
            return super.read(this.bytes > 0 ? { ...position, seq: 0 } : position, work);
          }
        },
      })),
    ],
    plan: READERS,
    seed: 1,
    caughtBy: "history",
  },
  "a copy takes the tail of whatever line": {
    breaks: "Entries of an epoch that is over count where its journal has none of the epoch that was asked for.",
    replaces: [
      takingFrom((entries) => async (object, range) => {
        let held: HeldEntries | undefined;
        for (let epoch = range.epoch; epoch > 0 && held === undefined; epoch--) {
          held = await entries(object, { ...range, epoch });
        }
        return held;
      }),
    ],
    plan: READERS,
    seed: 1,
    caughtBy: "history",
  },
  "an owner says how far it is before that has landed": {
    breaks: "What is committed and not released counts as a position for copies (G1).",
    replaces: [
      replacing("object/resident-object", ({ ResidentObject }) => ({
        ResidentObject: class extends ResidentObject {
          override landed(): undefined {}
        },
      })),
    ],
    plan: READERS,
    seed: 1,
    caughtBy: "history",
  },
};

function takingFrom(broken: (entries: Entries) => Entries) {
  return replacing("object/replica-copy", ({ ReplicaCopy }) => ({
    ReplicaCopy: class extends ReplicaCopy {
      constructor(...[parts, object, path]: ConstructorParameters<typeof ReplicaCopy>) {
        const { entries } = parts;
        super({ ...parts, entries: broken((...asked) => entries(...asked)) }, object, path);
      }
    },
  }));
}
