/** The process behind a memory row: arguments are a folder for scratch, how many residents, and how many files may be open. */
import { setTimeout as pause } from "node:timers/promises";
import { BenchNode, removeFolder, scratchFolder, workObjects, writeAll } from "../support/bench-node.js";

export interface ResidentMemory {
  readonly residents: number;
  readonly openFiles: number;
  /** By which the process grew. */
  readonly rssBytes: number;
  readonly heapBytes: number;
}

/** So many objects come first, so that code and buffers that a node makes once are not counted. */
const WARM_UP_OBJECTS = 300;
const WARM_UP_WRITES = 8;
const SETTLE_MS = 300;

async function measure(parent: string, residents: number, filesOpenMax: number | undefined): Promise<ResidentMemory> {
  const folder = scratchFolder(parent);
  const bench = await BenchNode.open(folder, filesOpenMax === undefined ? {} : { OBJECT_FILES_OPEN_MAX: filesOpenMax });
  try {
    const first = workObjects("first", WARM_UP_OBJECTS);
    for (let write = 0; write < WARM_UP_WRITES; write++) await writeAll(bench, first);
    const before = await settled();
    const statusBefore = await bench.node.status();
    await writeAll(bench, workObjects("resident", residents));
    const after = await settled();
    const status = await bench.node.status();
    return {
      residents: status.residents - statusBefore.residents,
      openFiles: status.openFiles,
      rssBytes: after.rss - before.rss,
      heapBytes: after.heapUsed - before.heapUsed,
    };
  } finally {
    await bench.close();
    removeFolder(folder);
  }
}

async function settled(): Promise<NodeJS.MemoryUsage> {
  await pause(SETTLE_MS);
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage();
}

const [parent = ".", residents = "", filesOpenMax = ""] = process.argv.slice(2);
const told = await measure(parent, Number(residents), filesOpenMax === "" ? undefined : Number(filesOpenMax));
process.stdout.write(JSON.stringify(told));
