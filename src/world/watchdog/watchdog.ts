/** What a node knows of its watchdog: where to say what it is doing, and how to be watched. */
import type { Timers } from "../world.js";
import { type RunningRecord, unwatched } from "./running-record.js";

export interface Watchdog {
  readonly running: RunningRecord;
  /** From here on the main loop beats, and is missed when it does not. @param timers of the loop that is watched */
  start(timers: Timers): void;
  /** Idempotent. */
  stop(): Promise<void>;
}

/** Watches nothing: where time is virtual it stands still anyway. */
export const noWatchdog: Watchdog = {
  running: unwatched,
  start() {},
  stop: async () => {},
};
