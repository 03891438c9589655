/**
 * Marks of the processes that share one machine's bucket file: each holds a lock that the operating system takes back with the
 * process, however that ends. So the others know at once of an end that they could else only conclude from silence.
 *
 * A mark's file is an empty SQLite database beside the bucket's, and the lock is SQLite's: whoever shares the bucket trusts such
 * locks already. A process that is stopped, or hangs, has its lock.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { Folder, FolderLock } from "../world/folder.js";
import { uuidv7, type World } from "../world/world.js";
import type { ProcessMarks } from "./bucket.js";

/** What a dead process left is removed by whoever makes a mark so long after it. */
const STALE_MS = 3_600_000;
const MARK = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class LockedMarks implements ProcessMarks {
  readonly #world: Pick<World, "clock" | "log" | "random">;
  readonly #folder: Folder;
  #own: { readonly mark: string; readonly lock: FolderLock } | undefined;

  /** @param folder holds marks and nothing else; made when it is not there */
  constructor(world: Pick<World, "clock" | "log" | "random">, folder: Folder) {
    this.#world = world;
    this.#folder = folder;
  }

  hold(): string | undefined {
    if (this.#own !== undefined) return this.#own.mark;
    const mark = uuidv7(this.#world);
    try {
      this.#folder.ensureDirectory(".");
      this.#own = { mark, lock: this.#folder.lock(mark) };
      this.#removeStale();
    } catch (thrown) {
      const error = asMoonportError(thrown).message;
      this.#world.log.warn(
        { folder: this.#folder.absolute("."), error },
        "should this process die, others wait for it",
      );
    }
    return this.#own?.mark;
  }

  hasEnded(mark: string): boolean {
    if (mark === this.#own?.mark || !MARK.test(mark)) return false;
    try {
      return this.#folder.stat(mark) !== undefined && !this.#isLocked(mark);
    } catch (thrown) {
      this.#world.log.debug({ mark, error: asMoonportError(thrown).message }, "a mark cannot be read");
      return false;
    }
  }

  /** What this process began has ended, or never will. Idempotent. */
  release(): void {
    const own = this.#own;
    this.#own = undefined;
    if (own === undefined) return;
    own.lock.release();
    this.#remove(own.mark);
  }

  /** By a lock that others may have beside: who looks at the same time is not taken for the process itself. */
  #isLocked(mark: string): boolean {
    const database = this.#folder.openDatabase(mark, { readonly: true, mustExist: true });
    try {
      database.pragma("busy_timeout = 0");
      database.prepare("SELECT count(*) FROM sqlite_schema").get();
      return false;
    } catch (error) {
      if ((error as { code?: string }).code === "SQLITE_BUSY") return true;
      throw MoonportError.of("storage_failed", `${mark} is no mark`, { cause: error });
    } finally {
      database.close();
    }
  }

  #removeStale(): void {
    const beforeMs = this.#world.clock.wallMs() - STALE_MS;
    for (const name of this.#folder.list(".")) {
      const modifiedMs = MARK.test(name) ? this.#folder.stat(name)?.modifiedMs : undefined;
      if (modifiedMs !== undefined && modifiedMs < beforeMs && this.hasEnded(name)) this.#remove(name);
    }
  }

  #remove(mark: string): void {
    try {
      this.#folder.remove(mark);
    } catch (thrown) {
      this.#world.log.debug({ mark, error: asMoonportError(thrown).message }, "a mark that says nothing stays");
    }
  }
}
