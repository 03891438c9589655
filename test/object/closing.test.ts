/** The files of an object are given up once, whatever comes together at the end of its residency. */
import { expect, it } from "vitest";
import type { FileHandle } from "../../src/world/folder.js";
import type { Logger } from "../../src/world/logger.js";
import { silentLogger } from "../../src/world/logger.js";
import { VirtualNode } from "../support/virtual-node.js";

const Shelf = `
local Shelf = class "Shelf"
Shelf.migrations = { "CREATE TABLE t (id INTEGER PRIMARY KEY, a)" }
local function spin(rounds) local n = 0 for i = 1, rounds do n = n + i end return n end
function Shelf:put(bytes) state.sql.exec("INSERT INTO t (a) VALUES (zeroblob(?))", bytes) return bytes end
function Shelf:spin_and_put(rounds, bytes)
  state.store.set("spins", true)
  spin(rounds)
  state.sql.exec("INSERT INTO t (a) VALUES (zeroblob(?))", bytes)
end
function Shelf.read:count() return state.sql.one("SELECT count(*) AS n FROM t").n end
return Shelf`;

const INLINE_BYTES_MAX = 65_536;
const FLIGHT_BYTES_MAX = 1_048_576;

/** Of an object whose file was read for a snapshot: it has a descriptor beside SQLite's. */
class Shelved {
  readonly errors: string[] = [];
  /** How often each handle was closed, in the order of their opening. */
  readonly closed: number[] = [];
  node!: VirtualNode;

  static async start(): Promise<Shelved> {
    const shelved = new Shelved();
    const log: Logger = { ...silentLogger, error: (_, message) => void shelved.errors.push(message) };
    const node = await VirtualNode.start({
      classes: { Shelf },
      log,
      settings: {
        SNAPSHOT_INLINE_BYTES_MAX: INLINE_BYTES_MAX,
        OBJECT_FLIGHT_BYTES_MAX: FLIGHT_BYTES_MAX,
        OBJECT_BYTES_MAX: 4 * FLIGHT_BYTES_MAX,
        OBJECT_COMPANY_MS: 0,
        METHOD_SLICE_MS: 1,
        METHOD_BUDGET_MS: 60_000,
        DRAIN_MS: 100,
      },
    });
    shelved.node = node;
    const { folder } = node.world;
    const open = folder.open.bind(folder);
    folder.open = (path, mode) => shelved.#counted(open(path, mode));
    await node.call("Shelf/a", "put", 2 * INLINE_BYTES_MAX);
    await node.call("Shelf/a", "put", FLIGHT_BYTES_MAX);
    expect(node.flights("Shelf/a").at(-1)?.carried).toBe("snapshot");
    return shelved;
  }

  #counted(file: FileHandle): FileHandle {
    const index = this.closed.push(0) - 1;
    return {
      read: (...args) => file.read(...args),
      write: (...args) => file.write(...args),
      sizeBytes: () => file.sizeBytes(),
      truncate: (sizeBytes) => file.truncate(sizeBytes),
      sync: () => file.sync(),
      flush: () => file.flush(),
      close: () => {
        this.closed[index] = (this.closed[index] ?? 0) + 1;
        file.close();
      },
    };
  }
}

it("when a call dies of its transaction while a snapshot waits for that, and what only it could carry is told as lost", async () => {
  const shelved = await Shelved.start();
  const { node } = shelved;
  const gate = node.bucket.gate();
  const before = node.start("Shelf/a", "put", [1]);
  await node.time.settle();
  const carriedBySnapshot = node.start("Shelf/a", "put", [FLIGHT_BYTES_MAX + 1]);
  await node.time.settle();
  node.world.lookCostMs = 0.5;
  const culprit = node.start("Shelf/a", "spin_and_put", [5_000, 4 * FLIGHT_BYTES_MAX]);
  gate.release();
  const settled = await node.time.until(Promise.allSettled([before, carriedBySnapshot, culprit]));
  expect(settled.map((one) => (one.status === "fulfilled" ? one.value.value : one.reason.code))).toEqual([
    1,
    "outcome_unknown",
    "object_full",
  ]);
  await node.time.settle();
  expect(shelved.errors).toEqual(["committed writes could not be shipped before the file was given up"]);
  expect(node.node.counters.residenciesBroken).toBe(1);
  expect(Math.max(...shelved.closed)).toBe(1);
  expect(await node.call("Shelf/a", "count")).toBe(3);
  await node.stop();
});

it("when the node goes away while a call is between two slices", async () => {
  const shelved = await Shelved.start();
  const { node } = shelved;
  node.world.lookCostMs = 0.5;
  const goOn = holdTurn(node, 1);
  const call = node.start("Shelf/a", "spin_and_put", [5_000, 1]);
  await node.time.settle();
  expect(node.node.counters.residenciesBroken).toBe(0);
  await node.stop();
  goOn();
  await node.time.settle();
  await expect(call).rejects.toMatchObject({ code: "node_stopping" });
  expect(node.node.counters.residenciesBroken).toBe(0);
  expect(shelved.closed.every((times) => times === 1)).toBe(true);
});

/** The turn that is the `turn`-th to be asked for from now on comes when it is told to. */
function holdTurn({ time }: VirtualNode, turn: number): () => void {
  const soon = time.soon.bind(time);
  let left = turn;
  let goOn: (() => void) | undefined;
  time.soon = (run) => {
    if (left-- !== 0) return soon(run);
    goOn = run;
    return { cancel() {} };
  };
  return () => {
    time.soon = soon;
    expect(goOn).toBeDefined();
    goOn?.();
  };
}
