/**
 * What a node counts while it works: plain numbers that nobody reads until they are asked for. Those who count know nothing of
 * how it is shown.
 */
import { DelayCounters } from "./delay-counters.js";
import { WaitHistogram } from "./histogram.js";
import { CallOutcomes, RequestOutcomes } from "./outcomes.js";

interface Flights {
  landed: number;
  bytes: number;
}

export class NodeCounters {
  readonly calls = new CallOutcomes();
  readonly units = new RequestOutcomes();
  readonly flights: Readonly<Record<"segment" | "snapshot" | "tombstone", Flights>> = {
    segment: { landed: 0, bytes: 0 },
    snapshot: { landed: 0, bytes: 0 },
    tombstone: { landed: 0, bytes: 0 },
  };
  /** From the oldest commit that a flight carried to its landing. */
  readonly landedMs = new WaitHistogram();
  /** Tries of flights; each is tried again. */
  flightsFailed = 0;
  /** How long calls waited for their turn. */
  readonly mailboxMs = new WaitHistogram();
  /** Runs of Lua code that were ended for what they used. */
  readonly budgetsExceeded = { time: 0, instructions: 0, memory: 0, depth: 0 };
  /** How long finished replies waited at their gates. */
  readonly gateMs = new WaitHistogram();
  residenciesBroken = 0;
  /** Rows told to directories and dropped, batches that failed, rows that could not be derived. */
  readonly directory = { told: 0, dropped: 0, failures: 0, derivationsFailed: 0 };
  /** Calls that a copy might have answered, by who did. */
  readonly replicaReads = { copy: 0, owner: 0 };
  /** Reading calls for which no method ran. */
  rememberedReads = 0;
  readonly delay = new DelayCounters();

  landed(carried: keyof NodeCounters["flights"], bytes: number, sinceCommitMs: number): void {
    const flights = this.flights[carried];
    flights.landed++;
    flights.bytes += bytes;
    this.landedMs.record(sinceCommitMs);
  }
}
