/** A filtered and sorted page of a class's directory, of ten thousand objects and of a hundred thousand. No object is woken. */
import {
  type ApplyRequest,
  shardNumberOf,
  shardObject,
  type TravellingRow,
} from "../../src/directory/shard-contract.js";
import type { DirectoryQuery } from "../../src/lua/contract.js";
import type { PlainValue } from "../../src/values.js";
import { BenchNode, removeFolder, scratchFolder, workObjects } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { roundOfCalls } from "../support/measure.js";

const SIZES = [10_000, 100_000] as const;
const BATCH_ROWS = 1_000;
const PEOPLE = ["ada", "bob", "cyd", "dan"];

type Size = (typeof SIZES)[number];

export class Queries implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #nodes = new Map<Size, { readonly folder: string; readonly bench: BenchNode }>();

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = SIZES.flatMap((size) => [
      this.#case(`find page of ${size}`, size, (index) => ({
        where: "amount > ? and who = 'ada'",
        params: [index % 1_000],
        order: "-amount",
      })),
      this.#case(`find count of ${size}`, size, (index) => ({
        where: "amount > ? and who = 'ada'",
        params: [index % 1_000],
        limit: 1,
        count: true,
      })),
    ]);
  }

  async open(selected: readonly Case[]): Promise<void> {
    for (const size of SIZES) {
      if (!selected.some(({ name }) => name.endsWith(` ${size}`))) continue;
      const folder = scratchFolder(this.#parent);
      const bench = await BenchNode.open(folder);
      this.#nodes.set(size, { folder, bench });
      await fill(bench, size);
    }
  }

  async close(): Promise<void> {
    for (const { folder, bench } of this.#nodes.values()) {
      await bench.close();
      removeFolder(folder);
    }
    this.#nodes.clear();
  }

  #case(name: string, size: Size, queryAt: (index: number) => DirectoryQuery): Case {
    return {
      name,
      msMin: 1_000,
      round: async (bounds) => {
        const { bench } = this.#nodes.get(size) ?? {};
        if (bench === undefined) throw new Error("the group is not open");
        return roundOfCalls(bounds, 1, (index) =>
          bench.node.find({ app: "default", className: "Listed", query: queryAt(index) }),
        );
      },
    };
  }
}

/** The rows alone, as their objects would tell them: ten thousand objects are another row's business. */
async function fill({ node, settings }: BenchNode, size: Size): Promise<void> {
  const shards = settings.DIRECTORY_SHARDS;
  const batches = new Map<number, TravellingRow[]>();
  let told = 0;
  for (const object of workObjects("found", size)) {
    const number = shardNumberOf(object, shards);
    const batch = batches.get(number) ?? [];
    batches.set(number, batch);
    const row = { who: PEOPLE[told % PEOPLE.length] as string, amount: (told * 7_919) % size };
    batch.push([object.key, 1, 1, "bench", null, row]);
    told++;
    if (batch.length >= BATCH_ROWS) await apply(node, number, shards, batch.splice(0));
  }
  for (const [number, batch] of batches) await apply(node, number, shards, batch);
}

async function apply(node: BenchNode["node"], number: number, shards: number, rows: TravellingRow[]): Promise<void> {
  const shape: ApplyRequest["shape"] = ["bench", { who: "text", amount: "integer" }, ["amount"]];
  const request: ApplyRequest = { shape, isFresh: true, nowMs: 0, rows };
  await node.call({
    object: shardObject("default", "Listed", number, shards),
    method: "apply",
    args: [request as unknown as PlainValue],
    caller: { kind: "system" },
  });
}
