/**
 * Fairness: one object's writes and reads while another object's method runs for most of a second, beside the same while
 * nothing else runs. What the long method adds should be a few slices (METHOD_SLICE_MS), not its own length: compare the p99s.
 */
import { BenchNode, removeFolder, scratchFolder, workObject, writeAll } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { type Round, type RoundBounds, roundOfCalls } from "../support/measure.js";

/** About 900 ms of METHOD_BUDGET_MS on the machine this was made on; a faster one is busy for less. */
const STEPS = 5_000_000;
const CALLER = { kind: "client" } as const;

export class Slices implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #quick = workObject("quick");
  readonly #long = workObject("long");
  #folder = "";
  #bench: BenchNode | undefined;

  constructor(parent: string) {
    this.#parent = parent;
    const idle = { write: "write beside nothing", read: "read beside nothing" };
    const write = (index: number): Promise<unknown> => this.#node.write(this.#quick, index);
    const read = (): Promise<unknown> => this.#node.lookAnew(this.#quick);
    this.cases = [
      { name: idle.write, isFloor: true, round: (bounds) => roundOfCalls(bounds, 1, write) },
      { name: idle.read, isFloor: true, round: (bounds) => roundOfCalls(bounds, 1, read) },
      {
        name: "write beside a long method",
        against: [{ figure: "p50", floors: [idle.write] }],
        msMin: 1_500,
        round: (bounds) => this.#besideLongMethods(bounds, write),
      },
      {
        name: "read beside a long method",
        against: [{ figure: "p50", floors: [idle.read] }],
        msMin: 1_500,
        round: (bounds) => this.#besideLongMethods(bounds, read),
      },
    ];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    this.#bench = await BenchNode.open(this.#folder, { METHOD_BUDGET_MS: 60_000 });
    await writeAll(this.#bench, [this.#quick, this.#long]);
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    removeFolder(this.#folder);
  }

  async #besideLongMethods(bounds: RoundBounds, call: (index: number) => Promise<unknown>): Promise<Round> {
    let isOver = false;
    const spinning = (async () => {
      while (!isOver) {
        await this.#node.node.call({ object: this.#long, method: "spin", args: [STEPS], caller: CALLER });
      }
    })();
    const round = await roundOfCalls(bounds, 1, call);
    isOver = true;
    await spinning;
    return round;
  }

  get #node(): BenchNode {
    if (this.#bench === undefined) throw new Error("the node of this group is not open");
    return this.#bench;
  }
}
