/**
 * Objects whose row found no room among those that wait to be told. Only their names are kept: each is asked for its row again,
 * one after the other, when there is room.
 */
import type { ObjectIdentity } from "../identity.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";

export interface DroppedRowsParts {
  readonly world: World;
  readonly hasRoom: () => boolean;
  /** @throws MoonportError */
  readonly tellRow: (object: ObjectIdentity) => Promise<void>;
}

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

export class DroppedRows {
  readonly #parts: DroppedRowsParts;
  /** By id, the longest waiting first. */
  readonly #objects = new Map<string, ObjectIdentity>();
  readonly #stopped = new AbortController();
  #isAsking = false;

  constructor(parts: DroppedRowsParts) {
    this.#parts = parts;
  }

  add(object: ObjectIdentity): void {
    this.#objects.set(object.id, object);
    if (!this.#isAsking) void this.#ask();
  }

  has({ id }: ObjectIdentity): boolean {
    return this.#objects.has(id);
  }

  /** It is among those that wait after all. */
  delete({ id }: ObjectIdentity): void {
    this.#objects.delete(id);
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #ask(): Promise<void> {
    const { signal } = this.#stopped;
    this.#isAsking = true;
    for (let failures = 1; this.#objects.size > 0; ) {
      await sleep(this.#parts.world, this.#pauseMs(failures), signal);
      if (signal.aborted) break;
      failures = (await this.#askWhileRoom()) ? 1 : failures + 1;
    }
    this.#isAsking = false;
  }

  /** @returns false when one could not be asked, or there is no room */
  async #askWhileRoom(): Promise<boolean> {
    const { hasRoom, tellRow } = this.#parts;
    for (const [id, object] of this.#objects) {
      if (this.#stopped.signal.aborted || !hasRoom()) return false;
      this.#objects.delete(id);
      try {
        await tellRow(object);
      } catch {
        this.#objects.set(id, object);
        return false;
      }
    }
    return true;
  }

  #pauseMs(failures: number): number {
    return backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#parts.world.random.fraction());
  }
}
