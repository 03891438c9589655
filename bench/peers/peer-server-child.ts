/** Keeps another product's processes: they end when the benchmark does, whatever ends it. */
import { serve } from "../support/child.js";
import type { CpuTime } from "../support/measure.js";
import { type ForeignProcess, stopForeignProcesses } from "./foreign-process.js";
import { startRedis } from "./redis/redis-process.js";
import { startWorkerd } from "./workerd/workerd-process.js";

export interface Start {
  readonly product: "workerd" | "redis" | "redis wait";
  readonly binary: string;
  /** For whatever it keeps; removed by whoever asks. */
  readonly folder: string;
}

let measured: readonly ForeignProcess[] = [];

const commands = {
  /** @returns where it answers */
  start: async ({ product, binary, folder }: Start): Promise<string> => {
    if (product === "workerd") {
      const { process, url } = await startWorkerd(binary, folder);
      measured = [process];
      return url;
    }
    const { processes, url } = await startRedis(binary, folder, product === "redis wait");
    measured = processes;
    return url;
  },
  /** The main thread is that of the process which is called; all of it includes a replica. */
  cpu: async (_: null): Promise<CpuTime> => {
    const taken = measured.map((process) => process.cpu());
    return { mainUs: taken[0]?.mainUs, allUs: taken.reduce((sum, { allUs }) => sum + allUs, 0) };
  },
};

export type PeerServerCommands = typeof commands;

// A signal may go to all processes of a terminal at once. This one has to outlive its parent for as long as it takes to end its own.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

serve(commands, stopForeignProcesses);
