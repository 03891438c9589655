/** What an open object needs of the way its writes take: over the bucket alone, or over journals and bucket. */
import type { GateWaiter } from "./gate-queue.js";

export type ShippingState = "idle" | "flying" | "backing_off" | "stopped";

export interface Shipping {
  /** Whether what a reader sees now is durable. */
  readonly durable: boolean;
  /** Whether the bucket holds everything, with nothing on its way. */
  readonly clean: boolean;
  /** Finished replies at the gate. */
  readonly waiting: number;
  readonly state: ShippingState;
  /** Bytes taken from the file that the bucket does not have yet. */
  readonly bytesUnderWay: number;
  /** The task committed a write. */
  committed(): void;
  /** The write gate: `waiter` is released when everything committed so far is durable (G2). */
  ticket(waiter: GateWaiter): void;
  /** The read gate: at once when durable, else as a ticket. Re-arms what had stopped. */
  readGate(waiter: GateWaiter): void;
  /** One more try of what was given up for now, by itself: nobody need come for it. */
  tryAgain(): void;
  /** The object's transaction is over; a cut that waited for it can be made. */
  transactionEnded(): void;
  /** Resolves when clean; rejects when shipping stopped or broke before that. Re-arms what had stopped. */
  drain(): Promise<void>;
  /** Ends it: no further try, every waiter fails with `cause`. Idempotent. */
  end(cause: Error): void;
}
