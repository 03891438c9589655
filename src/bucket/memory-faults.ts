/**
 * How a memory bucket misbehaves on request: failures for the next requests, a throttle, and holds that keep requests
 * waiting until a test lets them go. It decides only; the bucket carries it out.
 */

export type BucketOperation = "get" | "write" | "write_stream" | "read_stream" | "list" | "delete";

export const BUCKET_OPERATIONS: readonly BucketOperation[] = [
  "get",
  "write",
  "write_stream",
  "read_stream",
  "list",
  "delete",
];

/** The operations that change something. */
export const CHANGING_OPERATIONS: readonly BucketOperation[] = ["write", "write_stream", "delete"];

export type Fault =
  /** A clean refusal: nothing happened. */
  | { readonly kind: "refused" }
  /** The request never arrived; the caller only knows that there was no answer. */
  | { readonly kind: "lost_request" }
  /** It took effect; its answer was lost. */
  | { readonly kind: "lost_answer" }
  /** The caller is told at once that nobody knows; it takes effect, under its condition, this much later. */
  | { readonly kind: "late"; readonly landsAfterMs: number };

export interface Throttle {
  /** Requests let through in each window; the others are refused with a time to come back. */
  readonly requestsMax: number;
  readonly windowMs: number;
}

/** Requests that wait: before they take effect, or after it and before their answer. */
export interface Hold {
  /** Requests that are waiting now. */
  readonly waiting: number;
  /** Lets everything go, in order of arrival, and holds nothing more. */
  release(): void;
}

export type HoldPoint = "before" | "after";

interface PlannedFault {
  remaining: number;
  readonly fault: Fault;
  readonly operations: readonly BucketOperation[];
}

class OpenHold implements Hold {
  readonly #waiters: (() => void)[] = [];
  readonly #closed: () => void;
  readonly operations: readonly BucketOperation[];
  readonly point: HoldPoint;

  constructor(operations: readonly BucketOperation[], point: HoldPoint, closed: () => void) {
    this.operations = operations;
    this.point = point;
    this.#closed = closed;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  enter(): Promise<void> {
    return new Promise((resolve) => void this.#waiters.push(resolve));
  }

  release(): void {
    this.#closed();
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

export class MemoryFaults {
  readonly #planned: PlannedFault[] = [];
  readonly #holds = new Set<OpenHold>();
  #throttle: Throttle | undefined;
  #windowEndsMs = 0;
  #windowRequests = 0;

  /** The next `count` requests of these kinds meet this fault. Plans are used up in the order in which they were made. */
  failNext(count: number, fault: Fault, operations: readonly BucketOperation[] = BUCKET_OPERATIONS): void {
    this.#planned.push({ remaining: count, fault, operations });
  }

  /** `undefined` ends it. */
  throttle(throttle: Throttle | undefined): void {
    this.#throttle = throttle;
    this.#windowEndsMs = 0;
  }

  hold(operations: readonly BucketOperation[] = BUCKET_OPERATIONS, point: HoldPoint = "before"): Hold {
    const hold = new OpenHold(operations, point, () => this.#holds.delete(hold));
    this.#holds.add(hold);
    return hold;
  }

  /** Forgets every plan and lets every held request go. */
  clear(): void {
    this.#planned.length = 0;
    this.#throttle = undefined;
    for (const hold of this.#holds) hold.release();
  }

  take(operation: BucketOperation): Fault | undefined {
    const index = this.#planned.findIndex((planned) => planned.operations.includes(operation));
    const planned = this.#planned[index];
    if (!planned) return undefined;
    planned.remaining -= 1;
    if (planned.remaining <= 0) this.#planned.splice(index, 1);
    return planned.fault;
  }

  /** Milliseconds until the throttle lets requests through again, when it refuses this one. */
  throttledForMs(nowMs: number): number | undefined {
    if (!this.#throttle) return undefined;
    if (nowMs >= this.#windowEndsMs) {
      this.#windowEndsMs = nowMs + this.#throttle.windowMs;
      this.#windowRequests = 0;
    }
    this.#windowRequests += 1;
    return this.#windowRequests > this.#throttle.requestsMax ? this.#windowEndsMs - nowMs : undefined;
  }

  /** Resolves when no hold stands in the way. */
  async pass(operation: BucketOperation, point: HoldPoint): Promise<void> {
    for (const hold of this.#holds) {
      if (hold.point === point && hold.operations.includes(operation)) await hold.enter();
    }
  }
}
