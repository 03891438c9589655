/**
 * The watchdog of a real node: a thread of its own that ends the process when its main thread hangs.
 *
 * A statement inside SQLite cannot be interrupted, and while it runs the node answers nobody, renews nothing and serves no
 * other object. Once the main loop has been silent for NODE_STALL_MS the thread says where it hangs, writes that down for the
 * quarantine, and ends the process, so that everything else starts again without it.
 */
import inspector from "node:inspector";
import { Worker } from "node:worker_threads";
import { workerFile } from "../worker-file.js";
import type { Timer, Timers, World } from "../world.js";
import { RunningRecord } from "./running-record.js";
import { roundMsOf } from "./silence.js";
import { STALLS_FOLDER } from "./stall.js";
import { noWatchdog, type Watchdog } from "./watchdog.js";

export interface ThreadWatchdogOptions {
  /** NODE_STALL_MS; 0: nothing is watched. */
  readonly stallMs: number;
  /** Of the node: its folder keeps the stalls. */
  readonly world: Pick<World, "folder" | "log">;
  /** How the diagnosis is told on stderr: as the log is. */
  readonly format: "json" | "pretty";
  /** What is done about a stall outside class code. In somebody else's program that may be the program's own doing. */
  readonly outsideClassCode: "end" | "report";
}

/** What the thread is given. */
export interface WatchdogStart extends Pick<ThreadWatchdogOptions, "stallMs" | "format" | "outsideClassCode"> {
  readonly shared: SharedArrayBuffer;
  /** Absolute. */
  readonly folder: string;
  readonly roundMs: number;
}

/** The thread holds a few strings. */
const HEAP_MIB = 16;

export function threadWatchdog(options: ThreadWatchdogOptions): Watchdog {
  return options.stallMs === 0 ? noWatchdog : new ThreadWatchdog(options);
}

class ThreadWatchdog implements Watchdog {
  readonly running = new RunningRecord();
  readonly #options: ThreadWatchdogOptions;
  #watch: { readonly worker: Worker; readonly ended: Promise<void> } | undefined;
  #beat: Timer | undefined;

  constructor(options: ThreadWatchdogOptions) {
    this.#options = options;
  }

  start(timers: Timers): void {
    const { world, stallMs, format, outsideClassCode } = this.#options;
    const { folder, log } = world;
    const roundMs = roundMsOf(stallMs);
    const workerData: WatchdogStart = {
      shared: this.running.shared,
      stallMs,
      roundMs,
      folder: folder.absolute(STALLS_FOLDER),
      format,
      outsideClassCode,
    };
    this.#beats(timers, roundMs);
    const worker = new Worker(workerFile(import.meta.url, "./watchdog-thread.js"), {
      name: "moonport-watchdog",
      workerData,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB, maxYoungGenerationSizeMb: 1 },
    });
    worker.on("error", (error) => log.error({ error }, "the watchdog's thread failed; a stall will go unnoticed"));
    // Watching is no reason for a program to go on.
    worker.unref();
    this.#watch = { worker, ended: new Promise((resolve) => void worker.on("exit", () => resolve())) };
  }

  async stop(): Promise<void> {
    this.#beat?.cancel();
    this.running.stop();
    const watch = this.#watch;
    if (watch === undefined) return;
    watch.worker.ref();
    await watch.ended;
  }

  #beats(timers: Timers, everyMs: number): void {
    this.running.beat(inspector.url() !== undefined);
    this.#beat = timers.after(everyMs, () => this.#beats(timers, everyMs));
  }
}
