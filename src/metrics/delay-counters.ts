/** What a node counts of delayed work. */
import { WaitHistogram } from "./histogram.js";

export class DelayCounters {
  /** From due time to being taken up. */
  readonly lateMs = new WaitHistogram();
  delivered = 0;
  failed = 0;
  dead = 0;
  timersRun = 0;
  timersFailed = 0;
  timersDead = 0;
  messagesSent = 0;

  late(ms: number): void {
    this.lateMs.record(Math.max(0, ms));
  }
}
