/** Reads that a copy or a memory answers, of what has not landed, of what is past, or of a line that is dead. */
import type { LuaClass } from "../../../src/lua/contract.js";
import type { HostFile } from "../../../src/object/call-host.js";
import type { AskedReading, CallText } from "../../../src/object/remembered-answers.js";
import type { Position } from "../../../src/object/replica-copy.js";
import type { PlainValue } from "../../../src/values.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/**
 * Many read, through whatever node; all three journals must have a write, and any one answers for it: what a slow one has not
 * acknowledged yet is lost when the next owner does not wait for the others. In a list that is seen for ever: what was read once
 * must stay, whatever is written after it.
 */
const READERS = {
  nodes: 3,
  workload: "list",
  objects: 1,
  clients: 8,
  stormMs: 8_000,
  readShare: 0.6,
  replicaShare: 1,
  strikeMs: 500,
  settings: { OBJECT_QUORUM: 3, FLIGHT_HEDGE_MS: 3_000, COVER_MS: 3_000 },
  ...only({ crash: 4, crash_between_steps: 3, slow_link: 5, cut_one_way: 3, partition: 3 }),
} as const;

export const COPIES: Record<string, Variant> = {
  "an answer is remembered beyond a write": {
    breaks: "What a reading method answered once is answered again, whatever was written since.",
    replaces: [
      replacing("object/remembered-answers", ({ ObjectAnswers }) => ({
        ObjectAnswers: class extends ObjectAnswers {
          #keptAt = -1;

          override find(asked: AskedReading, mark: number) {
            const kept = this.#keptAt < 0 ? undefined : super.find(asked, this.#keptAt);
            return kept ?? super.find(asked, mark);
          }

          override keep(call: CallText, lua: LuaClass, mark: number, value: PlainValue) {
            this.#keptAt = mark;
            return super.keep(call, lua, mark, value);
          }
        },
      })),
    ],
    plan: { nodes: 1, workload: "register", objects: 1, clients: 4, stormMs: 8_000, readShare: 0.7, ...only({}) },
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
  "a copy is read by whatever class its node has": {
    breaks: "An older class answers from what a newer one has written, which the owner serves already (R4).",
    replaces: [
      replacing("object/replica-copies", ({ ReplicaCopies }) => ({
        ReplicaCopies: class extends ReplicaCopies {
          override read(...[object, position, reading]: Parameters<InstanceType<typeof ReplicaCopies>["read"]>) {
            return super.read(object, { ...position, version: reading.lua.version }, reading);
          }
        },
      })),
      replacing("object/replica-copy", ({ ReplicaCopy }) => ({
        ReplicaCopy: class extends ReplicaCopy {
          override read<T>(position: Position, work: (file: HostFile) => T | Promise<T>) {
            return super.read(position, (file) => work(claimingToBe(position.version, file)));
          }
        },
      })),
    ],
    plan: { nodes: 3, workload: "counter", objects: 1, clients: 1, deployers: 3, stormMs: 8_000, ...only({}) },
    seed: 1,
    caughtBy: "release",
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
    seed: 10,
    caughtBy: "history",
  },
};

/** Its content is of that version of the class, as it says. */
function claimingToBe(version: string, file: HostFile): HostFile {
  const { meta } = file.tables;
  const get = (...[key]: Parameters<typeof meta.get>) => (key === "class_version" ? version : meta.get(key));
  return { ...file, tables: Object.create(file.tables, { meta: { value: { get } } }) };
}
