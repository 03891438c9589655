/** The rows of one other product: its processes, a load, and what its rows say about ours. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Case, Group } from "../support/case.js";
import { Child } from "../support/child.js";
import { cpuPerCall, type Round, type RoundBounds } from "../support/measure.js";
import type { PeerLoadSpec, Way } from "./peer-load.js";
import type { PeerLoadCommands } from "./peer-load-child.js";
import type { PeerServerCommands, Start } from "./peer-server-child.js";

const OBJECTS = 1_000;
const WARM_UP_WRITES = 64;
const WARM_UP_IN_FLIGHT = 16;
const WARM_UP_MS = 60_000;

export interface PeerRow {
  readonly name: string;
  readonly way: Way;
  readonly method: "write" | "look";
  readonly spread: "hot" | "1000";
  readonly inFlight: number;
  /** Our rows that do the same work. */
  readonly ours: readonly string[];
}

export class PeerGroup implements Group {
  readonly cases: readonly Case[];
  readonly #start: Omit<Start, "folder">;
  readonly #writeWay: Way;
  readonly #parent: string;
  readonly #manyKeys = Array.from({ length: OBJECTS }, (_, index) => `many-${index}`);
  #folder = "";
  #server: Child<PeerServerCommands> | undefined;
  #load: Child<PeerLoadCommands> | undefined;
  #url = "";
  #hotObjects = 0;

  /** @param writeWay how objects are warmed up */
  constructor(parent: string, start: Omit<Start, "folder">, writeWay: Way, rows: readonly PeerRow[]) {
    this.#parent = parent;
    this.#start = start;
    this.#writeWay = writeWay;
    this.cases = rows.map((row) => ({
      name: row.name,
      peerOf: row.ours,
      round: async (bounds) => this.#round(row, await this.#keysFor(row), bounds),
    }));
  }

  async open(selected: readonly Case[]): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    const folder = path.join(this.#folder, "peer");
    mkdirSync(folder);
    this.#load = new Child<PeerLoadCommands>("peers/peer-load-child.js");
    this.#server = new Child<PeerServerCommands>("peers/peer-server-child.js");
    this.#url = await this.#server.ask("start", { ...this.#start, folder });
    if (selected.some(({ name }) => name.includes("1000"))) await this.#writeOnce(this.#manyKeys, OBJECTS);
  }

  async close(): Promise<void> {
    await this.#load?.close();
    await this.#server?.close();
    removeFolder(this.#folder);
  }

  /** As for our rows a hot object is a fresh one each round. */
  async #keysFor({ spread }: PeerRow): Promise<readonly string[]> {
    if (spread === "1000") return this.#manyKeys;
    const keys = [`hot-${this.#hotObjects++}`];
    await this.#writeOnce(keys, WARM_UP_WRITES);
    return keys;
  }

  async #writeOnce(keys: readonly string[], calls: number): Promise<void> {
    const { load } = this.#running();
    await load.ask("open", this.#spec({ way: this.#writeWay, method: "write", inFlight: WARM_UP_IN_FLIGHT }, keys));
    await load.ask("round", { ms: WARM_UP_MS, calls });
  }

  async #round(row: PeerRow, keys: readonly string[], bounds: RoundBounds): Promise<Round> {
    const { load, server } = this.#running();
    await load.ask("open", this.#spec(row, keys));
    const before = await server.ask("cpu", null);
    const { mainCpuUs: loadCpuUs, ...round } = await load.ask("round", bounds);
    const after = await server.ask("cpu", null);
    await load.ask("close", null);
    return {
      ...round,
      ...cpuPerCall(before, after, round.calls),
      ...(loadCpuUs !== undefined && { loadCpuUs }),
    };
  }

  #spec(
    { way, method, inFlight }: Pick<PeerRow, "way" | "method" | "inFlight">,
    keys: readonly string[],
  ): PeerLoadSpec {
    return { way, method, inFlight, keys, url: this.#url };
  }

  #running(): { readonly load: Child<PeerLoadCommands>; readonly server: Child<PeerServerCommands> } {
    if (this.#load === undefined || this.#server === undefined)
      throw new Error("the processes of this group are not there");
    return { load: this.#load, server: this.#server };
  }
}
