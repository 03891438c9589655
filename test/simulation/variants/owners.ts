/** Owners that release what has not landed, or let go of what only journals hold. */
import type { ReleaseBook } from "../../../src/cluster/release-rule.js";
import type { RecordLoad } from "../../../src/shipping/object-load.js";
import * as broken from "../../model/broken-owners.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/** Sets change: nodes come and go for others while their journals go on answering. */
const CHANGES = only({
  bucket_gone: 3,
  bucket_lands_late: 3,
  bucket_loses_answers: 3,
  crash: 2,
  slow_link: 2,
  pause: 1,
});

export const OWNERS: Record<string, Variant> = {
  "W − 1 acknowledgements release": {
    breaks: "A write is released when one journal fewer than W has it (O2).",
    replaces: [replacing("cluster/release-rule", () => broken.releasingTooSoon)],
    seed: 1,
    caughtBy: "landed",
  },
  "what W journals hold counts as covered": {
    breaks: "Journals are told that the bucket covers what they hold, and drop it before a manifest does (O1, J4).",
    replaces: [
      replacing("cluster/release-rule", ({ noteAnswer }) => ({
        noteAnswer: (book, answer) => {
          const released = noteAnswer(book, answer);
          book.covered = Math.max(book.covered, released);
          return released;
        },
      })),
    ],
    seed: 1,
    caughtBy: "landed",
  },
  "the old set alone releases during a set change": {
    breaks: "While a set change is under way only the set before it is asked for acknowledgements (O3).",
    replaces: [replacing("cluster/release-rule", () => broken.releasingByOld)],
    plan: CHANGES,
    seed: 1,
    caughtBy: "landed",
  },
  "the new set alone releases from when its record is sent": {
    breaks: "A set change counts as landed when it leaves (O3).",
    replaces: [replacing("cluster/release-rule", () => broken.releasingByNew)],
    plan: CHANGES,
    seed: 1,
    caughtBy: "landed",
  },
  "a set change is taken for failed on an unchanged version": {
    breaks:
      "When the record stands as before, a set change whose answer was lost is forgotten, though it may land yet (O5).",
    replaces: [...givingUpEarly()],
    // One node is dead for the other, whose record is in doubt just then, and its journal answers all the same.
    plan: { nodes: 2, objects: 2, strikeMs: 300, ...only({ bucket_gone: 3, bucket_loses_answers: 6 }) },
    seed: 1,
    caughtBy: "landed",
  },
  "a set change leaves released writes uncovered": {
    breaks: "The record names another set at once, without what was committed and is not covered (O3).",
    replaces: [
      replacing("shipping/object-cargo", ({ ObjectCargo }) => ({
        ObjectCargo: class extends ObjectCargo {
          readonly #owed: () => boolean;
          readonly #committedSeq: () => number;

          constructor(parts: ConstructorParameters<typeof ObjectCargo>[0]) {
            super(parts);
            this.#owed = parts.recordOwed ?? (() => false);
            this.#committedSeq = parts.committedSeq;
          }

          override take(): ReturnType<InstanceType<typeof ObjectCargo>["take"]> {
            if (!this.#owed()) return super.take();
            const load: RecordLoad = { carried: "record", toSeq: this.#committedSeq(), bytes: 0, cutMs: 0 };
            return { kind: "load", load };
          }
        },
      })),
    ],
    plan: CHANGES,
    seed: 1,
    caughtBy: "landed",
  },
  "whoever answers counts for the member that was asked": {
    breaks: "The acknowledgement of a journal that no record names counts for the lost one of the same node (O2, J5).",
    replaces: [
      replacing("shipping/replica-stream", ({ ReplicaStream }) => ({
        ReplicaStream: class extends ReplicaStream {
          constructor(...[member, parts]: ConstructorParameters<typeof ReplicaStream>) {
            super(member, { ...parts, answered: (answer) => parts.answered({ ...answer, journal: member.journal }) });
          }
        },
      })),
    ],
    plan: { nodes: 2, ...only({ disk_lost: 4, bucket_gone: 1, bucket_lands_late: 2, slow_link: 1 }) },
    seed: 1,
    caughtBy: "landed",
  },
  "a gap is taken for an acknowledgement": {
    breaks: "Whatever a journal answers to an entry but a refusal, it counts as having it (J3, O2).",
    replaces: [
      replacing("shipping/replica-stream", ({ ReplicaStream }) => ({
        ReplicaStream: class extends ReplicaStream {
          constructor(...[member, parts]: ConstructorParameters<typeof ReplicaStream>) {
            const { journal } = parts;
            super(member, {
              ...parts,
              journal: {
                append: async (object, message) => {
                  const answer = await journal.append(object, message);
                  return answer.kind === "gap" ? { ...answer, kind: "ack", have: message.toSeq } : answer;
                },
                notice: (object, notice) => journal.notice(object, notice),
                promise: (object, request) => journal.promise(object, request),
                promiseMany: (asked) => journal.promiseMany(asked),
              },
            });
          }
        },
      })),
    ],
    plan: { nodes: 3, objects: 2, workload: "register", fillShare: 0.1, stormMs: 4_000 },
    seed: 1,
    caughtBy: "landed",
  },
  "a ticket is covered by the flight under way": {
    breaks: "A reply waits for the flight before the one that carries its write (G2).",
    replaces: [
      replacing("shipping/gate-queue", ({ GateQueue }) => ({
        GateQueue: class extends GateQueue {
          override wait(...[flight, waiter]: Parameters<InstanceType<typeof GateQueue>["wait"]>): void {
            super.wait(flight - 1, waiter);
          }
        },
      })),
    ],
    seed: 1,
    caughtBy: "history",
  },
  "a reply leaves at COMMIT": {
    breaks: "Nobody waits at the gate (G1).",
    replaces: [
      replacing("object/work", () => ({
        tellThroughGate: (_open, outcome) => {
          if (outcome.kind === "failed") return outcome.work.reject(outcome.error);
          const { value, seq } = outcome;
          outcome.work.resolve(seq === undefined ? { value } : { value, seq });
        },
      })),
    ],
    seed: 1,
    caughtBy: "history",
  },
  "what only the bucket's cargo took is not sent to journals": {
    breaks: "A segment that was taken from the file for the bucket is missing in the journals' line (seed 21's bug).",
    isVaried: false,
    replaces: [
      replacing("shipping/object-cargo", ({ ObjectCargo }) => ({
        ObjectCargo: class extends ObjectCargo {
          readonly #muted: { isMuted: boolean };

          constructor(parts: ConstructorParameters<typeof ObjectCargo>[0]) {
            const muted = { isMuted: false };
            const { segmentTaken } = parts;
            super({
              ...parts,
              ...(segmentTaken && { segmentTaken: (load) => (muted.isMuted ? undefined : segmentTaken(load)) }),
            });
            this.#muted = muted;
          }

          override take(): ReturnType<InstanceType<typeof ObjectCargo>["take"]> {
            this.#muted.isMuted = true;
            try {
              return super.take();
            } finally {
              this.#muted.isMuted = false;
            }
          }
        },
      })),
    ],
    seed: 1,
    caughtBy: "stuck",
  },
};

/** By the record's rid, which its bytes hold. */
function givingUpEarly(): Variant["replaces"] {
  const changes = new Map<string, ReleaseBook>();
  return [
    replacing("cluster/release-rule", ({ noteSetSent }) => ({
      noteSetSent: (book, record) => {
        noteSetSent(book, record);
        changes.set(record.rid, book);
      },
    })),
    replacing("bucket/ambiguous-write", ({ tryWrite }) => ({
      tryWrite: async (bucket, write, inDoubt) => {
        try {
          return await tryWrite(bucket, write, inDoubt);
        } catch (error) {
          const text = Buffer.from(write.bytes).toString("latin1");
          for (const [rid, book] of changes) if (text.includes(rid)) book.unresolved = undefined;
          throw error;
        }
      },
    })),
  ];
}
