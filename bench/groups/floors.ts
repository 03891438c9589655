/** What the machine can do without us: bare SQLite, a bare fdatasync. Every other row is held against these. */
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import { BareSqlite } from "../support/bare-sqlite.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { type Round, roundOfActions } from "../support/measure.js";

const FILES = 1_000;
const BURST_CALLS = 64;
const SYNC_BYTES = 4_096;

export class Floors implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  #folder = "";
  readonly #open: { close(): void }[] = [];

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = [
      this.#hot("sqlite transaction", 1_024, (hot) => hot.transaction()),
      this.#hot("sqlite transaction 4K pages", 4_096, (hot) => hot.transaction()),
      this.#burst(),
      this.#many("sqlite transaction 1000 files", (file) => file.transaction()),
      this.#hot("sqlite read", 1_024, (hot) => hot.look()),
      this.#many("sqlite read 1000 files", (file) => file.look()),
      this.#sync(),
    ];
  }

  async open(selected: readonly Case[]): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    if (selected.some(({ name }) => name.includes("1000 files"))) this.#files();
  }

  async close(): Promise<void> {
    for (const open of this.#open) open.close();
    removeFolder(this.#folder);
  }

  /** A fresh file a round, as the rows of a hot object have a fresh object a round. */
  #hot(name: string, pageBytes: number, act: (file: BareSqlite) => void): Case {
    let round = 0;
    return {
      name,
      isFloor: true,
      round: async (bounds) => {
        const file = new BareSqlite(this.#folder, `${name.replaceAll(" ", "-")}-${round++}`, { pageBytes });
        const taken = await roundOfActions(bounds, () => act(file));
        file.close();
        return taken;
      },
    };
  }

  #burst(): Case {
    const bursts = this.#hot("sqlite burst of 64", 1_024, (file) => file.burst(BURST_CALLS));
    return { ...bursts, round: async (bounds) => perCall(await bursts.round(bounds), BURST_CALLS) };
  }

  #many(name: string, act: (file: BareSqlite) => void): Case {
    return {
      name,
      isFloor: true,
      round: (bounds) => {
        const files = this.#files();
        return roundOfActions(bounds, (index) => act(files[index % FILES] as BareSqlite));
      },
    };
  }

  #manyFiles: BareSqlite[] | undefined;

  #files(): readonly BareSqlite[] {
    if (this.#manyFiles === undefined) {
      this.#manyFiles = Array.from(
        { length: FILES },
        (_, index) => new BareSqlite(this.#folder, `many-${index}`, { pageBytes: 1_024 }),
      );
      this.#open.push(...this.#manyFiles);
    }
    return this.#manyFiles;
  }

  #sync(): Case {
    const bytes = new Uint8Array(SYNC_BYTES).fill(1);
    return {
      name: "fdatasync of a 4 KB append",
      isFloor: true,
      round: async (bounds) => {
        const file = openSync(path.join(this.#folder, "append"), "w");
        const taken = await roundOfActions(bounds, () => {
          writeSync(file, bytes);
          fdatasyncSync(file);
        });
        closeSync(file);
        return taken;
      },
    };
  }
}

/** A round of bursts as one of calls; the latencies stay those of a burst, since nobody in it is answered earlier. */
export function perCall(round: Round, calls: number): Round {
  return {
    ...round,
    calls: round.calls * calls,
    perSecond: round.perSecond * calls,
    mainCpuUs: round.mainCpuUs === undefined ? undefined : round.mainCpuUs / calls,
    allCpuUs: round.allCpuUs / calls,
  };
}
