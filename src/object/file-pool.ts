/**
 * Which residents have their file open: at most OBJECT_FILES_OPEN_MAX, the longest unused gives way first.
 *
 * Residency and an open file are two things, so that memory and descriptors stay bounded however many objects are
 * resident. When every open file is in use, whoever needs one waits in order, for a bounded time.
 */
import { MoonportError } from "../errors.js";
import type { Timer, World } from "../world/world.js";

export interface FileHolder {
  /** Closes the file if nothing uses it and everything in it has landed; whether it did. */
  tryCloseFile(): boolean;
}

interface Waiter {
  readonly holder: FileHolder;
  readonly timer: Timer;
  grant(): void;
}

export class FilePool {
  readonly #world: Pick<World, "timers">;
  readonly #max: number;
  readonly #waitMs: number;
  /** In order of last use. */
  readonly #open = new Set<FileHolder>();
  #newest: FileHolder | undefined;
  readonly #waiters: Waiter[] = [];

  constructor(world: Pick<World, "timers">, max: number, waitMs: number) {
    this.#world = world;
    this.#max = max;
    this.#waitMs = waitMs;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Resolves when the holder may open its file. @throws MoonportError `node_full` when none came free in time */
  acquire(holder: FileHolder): Promise<void> | undefined {
    if (this.#waiters.length === 0 && (this.#open.size < this.#max || this.#makeRoom())) {
      this.#admit(holder);
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const timer = this.#world.timers.after(this.#waitMs, () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(allBusy(this.#max, this.#waitMs));
      });
      const waiter: Waiter = { holder, timer, grant: resolve };
      this.#waiters.push(waiter);
    });
  }

  touch(holder: FileHolder): void {
    if (holder === this.#newest || !this.#open.delete(holder)) return;
    this.#open.add(holder);
    this.#newest = holder;
  }

  /** The holder has closed its file. */
  release(holder: FileHolder): void {
    this.#open.delete(holder);
    if (holder === this.#newest) this.#newest = undefined;
    this.#grantNext();
  }

  /** The holder could close its file now; it does when somebody waits for it. */
  offer(holder: FileHolder): void {
    if (this.#waiters.length > 0 && this.#open.has(holder)) holder.tryCloseFile();
  }

  #admit(holder: FileHolder): void {
    this.#open.add(holder);
    this.#newest = holder;
  }

  #makeRoom(): boolean {
    for (const holder of this.#open) if (holder.tryCloseFile()) return true;
    return false;
  }

  #grantNext(): void {
    while (this.#open.size < this.#max) {
      const waiter = this.#waiters.shift();
      if (waiter === undefined) return;
      waiter.timer.cancel();
      this.#admit(waiter.holder);
      waiter.grant();
    }
  }
}

function allBusy(max: number, waitedMs: number): MoonportError {
  return MoonportError.of("node_full", `all ${max} open files stayed in use for ${waitedMs} ms`, {
    hint: "raise OBJECT_FILES_OPEN_MAX if the machine has memory and descriptors for it",
    retryAfterMs: 1_000,
  });
}
