/** Units: writes on one object and on five, which are settled in one wait, beside the same write as a call of its own. */
import { BenchNode, removeFolder, scratchFolder, workObject, writeAll } from "../support/bench-node.js";
import { callIdSource } from "../support/call-ids.js";
import type { Case, Group } from "../support/case.js";
import { roundOfCalls } from "../support/measure.js";

const FIVE = 5;
const KEY = "unit";

export class Units implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #nextCallId = callIdSource();
  #folder = "";
  #bench: BenchNode | undefined;

  constructor(parent: string) {
    this.#parent = parent;
    const one = "unit one write";
    this.cases = [
      {
        name: one,
        against: [{ figure: "p50", floors: ["bucket put"] }],
        round: (bounds) => roundOfCalls(bounds, 1, () => this.#run(1)),
      },
      {
        name: "unit five writes",
        against: [
          { figure: "p50", floors: ["bucket put"] },
          { figure: "p50", floors: [one] },
        ],
        round: (bounds) => roundOfCalls(bounds, 1, () => this.#run(FIVE)),
      },
    ];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    this.#bench = await BenchNode.open(this.#folder);
    await writeAll(
      this.#bench,
      Array.from({ length: FIVE }, (_, index) => workObject(`${KEY}-${index + 1}`)),
    );
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    removeFolder(this.#folder);
  }

  #run(objects: number): Promise<unknown> {
    if (this.#bench === undefined) throw new Error("the node of this group is not open");
    return this.#bench.node.runUnit({
      app: "default",
      unit: "writes",
      method: "POST",
      path: "/",
      query: {},
      headers: {},
      body: { key: KEY, objects },
      caller: { kind: "client" },
      callId: this.#nextCallId(),
    });
  }
}
