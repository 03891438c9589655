/**
 * What happens later: timers that fall due, commands from outside, messages between objects. A call is one of them, and its time is
 * how late what it did was durable.
 */
import { setTimeout as pause } from "node:timers/promises";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { BenchNode, removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { timed } from "../support/measure.js";
import { Rings } from "../support/rings.js";

const OBJECTS = 1_000;
/** All of the rows' objects have their files open: an LRU that thrashes is another row's business. */
const FILES_OPEN_MAX = 3_000;
const IN_FLIGHT = 64;
/** So long before the first falls due a thousand begin to be set. */
const LEAD_MS = 2_500;
const TIMERS_EACH = 5;
const STEADY_PER_SECOND = 2_000;
/** Of a steady load, before it counts: a core that has slept since they were set takes some 50 ms to come to speed. */
const WARM_UP_MS = 500;
const CALLER = { kind: "client" } as const;

type Setting = (bench: BenchNode, object: ObjectIdentity, dueMs: number) => Promise<unknown>;

const setTimer: Setting = ({ node }, object, dueMs) =>
  node.call({ object, method: "set", args: [dueMs / 1_000], caller: CALLER });

const sendCommand: Setting = ({ node }, { app, className, key }, dueMs) =>
  node.delay.send({ app, className, key, method: "ring", args: [dueMs / 1_000], atMs: dueMs });

/** A message without a delay: due when its sender's write began. */
const postMessage: Setting = ({ node }, object) =>
  node.call({ object, method: "post", args: [`to-${object.key}`], caller: CALLER });

export class TimerRows implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #rings = new Rings();
  readonly #objects = Array.from({ length: OBJECTS }, (_, index) => identityOf("default", "Timed", `t${index}`));
  #folder = "";
  #bench: BenchNode | undefined;

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = [
      this.#later("timers 1000 at once", OBJECTS, 0, setTimer),
      this.#later(
        `timers ${TIMERS_EACH * OBJECTS} at once, ${TIMERS_EACH} an object`,
        TIMERS_EACH * OBJECTS,
        0,
        setTimer,
      ),
      this.#later(`timers ${STEADY_PER_SECOND} in a second`, STEADY_PER_SECOND, 1_000, setTimer),
      this.#later(
        `timers ${TIMERS_EACH * OBJECTS} in a second, ${TIMERS_EACH} an object together`,
        TIMERS_EACH * OBJECTS,
        1_000,
        setTimer,
        OBJECTS,
      ),
      this.#later("commands 1000 at once", OBJECTS, 0, sendCommand),
      {
        name: "messages 64 in flight",
        callsMax: OBJECTS,
        round: (bounds) =>
          timed(bounds, async (taking) => {
            const heard = this.#rings.heard(OBJECTS);
            await this.#setAll(OBJECTS, postMessage, () => 0);
            for (const lateMs of await heard) taking.took(lateMs);
          }),
      },
    ];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    const settings = { OBJECT_FILES_OPEN_MAX: FILES_OPEN_MAX };
    this.#bench = await BenchNode.open(this.#folder, settings, undefined, this.#rings.observer);
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    removeFolder(this.#folder);
  }

  /**
   * @param spreadMs over which they fall due; 0: all at one time
   * @param times at which they do, those of one object at the same
   */
  #later(name: string, count: number, spreadMs: number, set: Setting, times = count): Case {
    const warmUpShare = spreadMs === 0 ? 0 : WARM_UP_MS / spreadMs;
    const spread = (index: number, ofTimes: number): number => ((index % ofTimes) * spreadMs) / times;
    return {
      name,
      callsMax: count,
      round: async (bounds) => {
        const firstMs = Date.now() + Math.max(LEAD_MS, (LEAD_MS * count) / OBJECTS);
        // Before they are set: on a machine that is busy some ring before all are.
        const heard = this.#rings.heard(count, firstMs);
        const warmUp = (index: number): number => firstMs - WARM_UP_MS + spread(index, times * warmUpShare);
        await this.#setAll(count * warmUpShare, set, warmUp);
        await this.#setAll(count, set, (index) => firstMs + spread(index, times));
        await pause(Math.max(0, firstMs - Date.now() - 1));
        return timed(bounds, async (taking) => {
          for (const lateMs of await heard) taking.took(lateMs);
        });
      },
    };
  }

  async #setAll(count: number, set: Setting, dueMs: (index: number) => number): Promise<void> {
    const bench = this.#bench;
    if (bench === undefined) throw new Error("the group is not open");
    let next = 0;
    const loop = async (): Promise<void> => {
      for (let index = next++; index < count; index = next++) {
        await set(bench, this.#objects[index % OBJECTS] as ObjectIdentity, dueMs(index));
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, loop));
  }
}
