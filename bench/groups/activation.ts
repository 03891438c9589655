/**
 * Activation: the first call of an object that is not resident. Cold, its file is restored from the bucket; after a restart
 * the local file is checked and the claim taken anew; warm, the claim is held and only the file is opened and checked.
 */
import path from "node:path";
import type { ObjectIdentity } from "../../src/identity.js";
import { BareSqlite } from "../support/bare-sqlite.js";
import { BenchNode, removeFolder, scratchFolder, workObjects, writeAll } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { type Round, type RoundBounds, roundOfActions, roundOfCalls } from "../support/measure.js";

const WRITES_BEFORE = 20;
const IDLE_MS = 1_000;
const LOOK_MS = 20;
/** Enough for every object of a round, and less than IDLE_MS: none may leave while others are woken. */
const ROUND_MS = 900;

export class Activations implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #objects: readonly ObjectIdentity[];
  #folder = "";
  #bench: BenchNode | undefined;

  /** @param objects how many a round wakes */
  constructor(parent: string, objects: number) {
    this.#parent = parent;
    this.#objects = workObjects("asleep", objects);
    const once = { callsMax: objects, msMin: ROUND_MS };
    this.cases = [
      { ...once, name: "sqlite open and read", isFloor: true, round: (bounds) => this.#bareOpens(bounds) },
      {
        ...once,
        name: "activation cold",
        against: [{ figure: "p50", floors: ["bucket put", "sqlite open and read"] }],
        round: (bounds) => this.#cold(bounds),
      },
      {
        ...once,
        name: "activation after restart",
        against: [{ figure: "p50", floors: ["bucket put", "sqlite open and read"] }],
        round: (bounds) => this.#afterRestart(bounds),
      },
      {
        ...once,
        name: "activation warm",
        against: [{ figure: "p50", floors: ["sqlite open and read"] }],
        round: (bounds) => this.#warm(bounds),
      },
    ];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    for (const index of this.#objects.keys())
      new BareSqlite(this.#folder, bareName(index), { pageBytes: 1_024 }).close();
    const bench = await this.#reopened();
    for (let write = 0; write < WRITES_BEFORE; write++) await writeAll(bench, this.#objects);
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    removeFolder(this.#folder);
  }

  async #cold(bounds: RoundBounds): Promise<Round> {
    return this.#firstCalls(await this.#reopened({ withoutFiles: true }), bounds);
  }

  async #afterRestart(bounds: RoundBounds): Promise<Round> {
    return this.#firstCalls(await this.#reopened(), bounds);
  }

  async #warm(bounds: RoundBounds): Promise<Round> {
    const bench = this.#bench ?? (await this.#reopened());
    while ((await bench.node.status()).residents > 0) await pause(LOOK_MS);
    return this.#firstCalls(bench, bounds);
  }

  /** One at a time: what a caller waits. Every object once, or it would not be the first call. */
  #firstCalls(bench: BenchNode, bounds: RoundBounds): Promise<Round> {
    return roundOfCalls(bounds, 1, (index) => bench.look(this.#objects[index] as ObjectIdentity));
  }

  async #reopened({ withoutFiles = false } = {}): Promise<BenchNode> {
    await this.#bench?.close();
    if (withoutFiles) removeFolder(path.join(this.#folder, "data", "objects"));
    this.#bench = await BenchNode.open(this.#folder, { OBJECT_IDLE_MS: IDLE_MS });
    return this.#bench;
  }

  async #bareOpens(bounds: RoundBounds): Promise<Round> {
    const opened: { close(): void }[] = [];
    const taken = await roundOfActions(bounds, (index) => {
      opened.push(BareSqlite.reopenAndLook(this.#folder, bareName(index)));
    });
    for (const database of opened) database.close();
    return taken;
  }
}

function bareName(index: number): string {
  return `bare-${index}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
