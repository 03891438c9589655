/**
 * The node-wide pool of flight permits, with a lane reserved for flights that a caller waits on, so that background
 * shipping is the first to wait.
 */

import { deferred } from "../world/deferred.js";

export type Lane = "waited" | "background";

interface Request {
  lane: Lane;
  grant(): void;
}

/** A place in the queue, or a permit once granted. */
export interface Permit {
  /** Resolves when the flight may start. */
  readonly granted: Promise<void>;
  /** A caller has begun to wait: the request moves to the waited lane. */
  promote(): void;
  /** Gives the permit, or the place in the queue, back. Idempotent. */
  release(): void;
}

export class PermitPool {
  readonly #concurrency: number;
  readonly #reserved: number;
  #held = 0;
  readonly #queue: Request[] = [];

  constructor(concurrency: number, reserved: number) {
    this.#concurrency = concurrency;
    this.#reserved = reserved;
  }

  get held(): number {
    return this.#held;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  request(lane: Lane): Permit {
    let state: "queued" | "held" | "released" = "queued";
    const { promise, resolve } = deferred();
    const request: Request = {
      lane,
      grant: () => {
        state = "held";
        this.#held++;
        resolve();
      },
    };
    this.#queue.push(request);
    this.#grantWhatFits();
    return {
      granted: promise,
      promote: () => {
        request.lane = "waited";
        this.#grantWhatFits();
      },
      release: () => {
        if (state === "held") this.#held--;
        if (state === "queued") this.#queue.splice(this.#queue.indexOf(request), 1);
        if (state !== "released") {
          state = "released";
          this.#grantWhatFits();
        }
      },
    };
  }

  #grantWhatFits(): void {
    for (let next = this.#nextGrantable(); next !== undefined; next = this.#nextGrantable()) {
      this.#queue.splice(this.#queue.indexOf(next), 1);
      next.grant();
    }
  }

  /** Waited flights first, in order; background ones only outside the reserved lane. */
  #nextGrantable(): Request | undefined {
    if (this.#held >= this.#concurrency) return undefined;
    const waited = this.#queue.find((request) => request.lane === "waited");
    if (waited !== undefined) return waited;
    return this.#held < this.#concurrency - this.#reserved ? this.#queue[0] : undefined;
  }
}
