/** The kernel's own rates: a writing and a reading method, on one hot object and over a thousand, at 1 and 64 in flight. */
import type { ObjectIdentity } from "../../src/identity.js";
import {
  BenchNode,
  listedObject,
  removeFolder,
  scratchFolder,
  workObject,
  workObjects,
  writeAll,
} from "../support/bench-node.js";
import { callIdSource } from "../support/call-ids.js";
import type { Case, Comparison, Group } from "../support/case.js";
import { roundOfCalls } from "../support/measure.js";

const OBJECTS = 1_000;
/** All of the rows' objects have their files open: an LRU that thrashes is another row's business. */
const FILES_OPEN_MAX = 3_000;
/** Neighbours in the order of calls are not neighbours in the order of creation. */
const STRIDE = 617;
const WARM_UP_WRITES = 64;

type Spread = "hot" | "1000";
/** Bare; with call ids; of a class with a directory. */
type Kind = "plain" | "ids" | "listed";

export class Calls implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #nextCallId = callIdSource();
  readonly #many = {
    plain: workObjects("plain", OBJECTS),
    ids: workObjects("ids", OBJECTS),
    listed: Array.from({ length: OBJECTS }, (_, index) => listedObject(`listed-${index}`)),
  };
  #folder = "";
  #bench: BenchNode | undefined;
  #hotObjects = 0;

  constructor(parent: string) {
    this.#parent = parent;
    const writes = (["plain", "ids"] as const).flatMap((ids) => [
      this.#write("hot", 1, ids),
      this.#write("hot", 64, ids),
      this.#write("1000", 1, ids),
      this.#write("1000", 64, ids),
    ]);
    this.cases = [
      ...writes,
      this.#write("hot", 1, "listed"),
      this.#write("hot", 64, "listed"),
      this.#write("1000", 64, "listed"),
      ...(["look", "lookAnew"] as const).flatMap((how) => [
        this.#read("hot", 1, how),
        this.#read("hot", 64, how),
        this.#read("1000", 1, how),
        this.#read("1000", 64, how),
      ]),
    ];
  }

  async open(selected: readonly Case[]): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    this.#bench = await BenchNode.open(this.#folder, { OBJECT_FILES_OPEN_MAX: FILES_OPEN_MAX });
    const names = selected.map(({ name }) => name).filter((name) => name.includes("1000"));
    const kinds = new Set(names.map(kindIn));
    for (const kind of kinds) await writeAll(this.#bench, this.#many[kind]);
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    removeFolder(this.#folder);
  }

  #write(spread: Spread, inFlight: number, kind: Kind): Case {
    const objectAt = this.#objects(spread, kind);
    return {
      name: `write ${spread} ${inFlight} in flight${kind === "plain" ? "" : ` ${kind}`}`,
      against: kind === "listed" ? besideBare(spread, inFlight) : writeFloors(spread, inFlight),
      round: async (bounds) => {
        const bench = this.#running();
        const at = await objectAt(bench);
        const nextId = kind === "ids" ? this.#nextCallId : () => undefined;
        return roundOfCalls(bounds, inFlight, (index) => bench.write(at(index), index, nextId()));
      },
    };
  }

  #read(spread: Spread, inFlight: number, how: "look" | "lookAnew"): Case {
    const objectAt = this.#objects(spread, "plain");
    const file = spread === "hot" ? "sqlite read" : "sqlite read 1000 files";
    return {
      name: `read ${how === "look" ? "" : "anew "}${spread} ${inFlight} in flight`,
      against: [{ figure: inFlight === 1 ? "p50" : "rate", floors: [file, "engine call"] }],
      round: async (bounds) => {
        const bench = this.#running();
        const at = await objectAt(bench);
        return roundOfCalls(bounds, inFlight, (index) => bench[how](at(index)));
      },
    };
  }

  /** Which object the call of an index goes to. A hot object is a fresh one each round, so that rounds are alike. */
  #objects(spread: Spread, kind: Kind) {
    return async (bench: BenchNode): Promise<(index: number) => ObjectIdentity> => {
      if (spread === "1000") return (index) => this.#many[kind][(index * STRIDE) % OBJECTS] as ObjectIdentity;
      const key = `hot-${this.#hotObjects++}`;
      const hot = kind === "listed" ? listedObject(key) : workObject(key);
      await writeAll(bench, new Array<ObjectIdentity>(WARM_UP_WRITES).fill(hot));
      return () => hot;
    };
  }

  #running(): BenchNode {
    if (this.#bench === undefined) throw new Error("the node of this group is not open");
    return this.#bench;
  }
}

function kindIn(name: string): Kind {
  if (name.endsWith(" ids")) return "ids";
  return name.endsWith(" listed") ? "listed" : "plain";
}

/** What a directory adds shows against the same write without one. */
function besideBare(spread: Spread, inFlight: number): Comparison[] {
  return [{ figure: inFlight === 1 ? "p50" : "rate", floors: [`write ${spread} ${inFlight} in flight`] }];
}

function writeFloors(spread: Spread, inFlight: number): Comparison[] {
  const file = spread === "hot" ? "sqlite transaction" : "sqlite transaction 1000 files";
  if (inFlight === 1) return [{ figure: "p50", floors: ["bucket put"] }];
  const burst: Comparison[] = spread === "hot" ? [{ figure: "rate", floors: ["sqlite burst of 64"] }] : [];
  return [{ figure: "rate", floors: [file] }, ...burst, { figure: "rate", floors: ["bucket put 64 in flight"] }];
}
