/** What a node counts as one of a fleet. */
import { WaitHistogram } from "./histogram.js";
import { Outcomes } from "./outcomes.js";

/** Why an object became a node's: somebody asked for it, its owner died, its owner gave it up in good order. */
export type ClaimReason = "call" | "takeover" | "handover";

export class JournalCounters {
  /** What shared a sync of the disk. */
  batches = 0;
  readonly syncMs = new WaitHistogram();
}

export class LinkCounters {
  sentBytes = 0;
  receivedBytes = 0;
}

export class FleetCounters {
  /** Tries of calls that another node was asked for. */
  readonly forwardedCalls = new Outcomes();
  readonly claimed: Record<ClaimReason, number> = { call: 0, takeover: 0, handover: 0 };
  readonly takeovers = { begun: 0, ended: 0 };
  readonly takeoverMs = new WaitHistogram();
  readonly handovers = { gone: 0, stayed: 0 };
  /** Of those that went. */
  readonly handoverMs = new WaitHistogram();
  readonly journal = new JournalCounters();
  readonly links = new LinkCounters();

  handedOver(hasGone: boolean, tookMs: number): void {
    if (!hasGone) {
      this.handovers.stayed++;
      return;
    }
    this.handovers.gone++;
    this.handoverMs.record(tookMs);
  }

  takeoverEnded(tookMs: number): void {
    this.takeovers.ended++;
    this.takeoverMs.record(tookMs);
  }
}
