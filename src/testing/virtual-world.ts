/**
 * A world for a node under test: virtual time, seeded randomness, a real folder that can be taken away.
 *
 * `crash()` is what the power cut is to a machine: from that moment the old world throws {@link WorldRevoked} at every
 * touch, its timers never fire, and the files go on in the next world exactly as they stood (copied before the databases
 * are closed, because closing one checkpoints it).
 */
import fs from "node:fs";
import path from "node:path";
import type { Database } from "better-sqlite3";
import type { FileHandle, FileStat, Folder, FolderLock } from "../world/folder.js";
import { type Logger, silentLogger } from "../world/logger.js";
import { RealFolder } from "../world/real-folder.js";
import type { Clock, Random, Timer, Timers, World } from "../world/world.js";
import { SeededRandom } from "./seeded-random.js";
import type { VirtualTime } from "./virtual-time.js";

/** What pending code of a crashed node runs into. */
export class WorldRevoked extends Error {
  override readonly name = "WorldRevoked";

  constructor() {
    super("the world of this node is gone");
  }
}

export interface VirtualWorldOptions {
  readonly time: VirtualTime;
  readonly root: string;
  readonly seed?: number;
  readonly log?: Logger;
  /** Wall clock at virtual time 0. */
  readonly epochWallMs?: number;
  /** How fast this world's monotonic clock runs, and its timers with it. Default 1. */
  readonly monotonicRate?: number;
}

const DEFAULT_WALL_MS = Date.UTC(2026, 0, 1);

export class VirtualWorld implements World {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  readonly folder: RevocableFolder;
  readonly log: Logger;
  /** Steps of the wall clock, milliseconds; a test may change it at any time. */
  wallOffsetMs = 0;
  /** Passes at each look at the monotonic clock, as if running code took time: long Lua calls then come in slices. */
  lookCostMs = 0;
  readonly #options: VirtualWorldOptions;
  #revoked = false;
  /** What waits for the process to go on, while it is stopped. */
  #stopped: { readonly timers: (() => void)[]; readonly answers: (() => void)[] } | undefined;

  constructor(options: VirtualWorldOptions) {
    this.#options = options;
    const { time } = options;
    const live = (): void => this.#assertLive();
    const { monotonicRate = 1 } = options;
    const guarded = (run: () => void): (() => void) => {
      const whenRunning = (): void => {
        if (this.#revoked) return;
        if (this.#stopped === undefined) run();
        else this.#stopped.timers.push(whenRunning);
      };
      return whenRunning;
    };
    this.clock = {
      wallMs: () => {
        live();
        return (options.epochWallMs ?? DEFAULT_WALL_MS) + time.nowMs + this.wallOffsetMs;
      },
      monotonicMs: () => {
        live();
        if (this.lookCostMs > 0) time.pass(this.lookCostMs);
        return time.nowMs * monotonicRate;
      },
    };
    this.timers = {
      after: (delayMs, run) => {
        live();
        return this.#cancellable((callback) => time.after(delayMs / monotonicRate, guarded(callback)), run);
      },
      soon: (run) => {
        live();
        return this.#cancellable((callback) => time.soon(guarded(callback)), run);
      },
    };
    const random = new SeededRandom(options.seed ?? 1);
    this.random = {
      fraction: () => {
        live();
        return random.fraction();
      },
      bytes: (count) => {
        live();
        return random.bytes(count);
      },
    };
    this.folder = new RevocableFolder(new RealFolder(options.root), live);
    this.log = options.log ?? silentLogger;
  }

  /** Stops the process, as SIGSTOP does: clocks go on, what falls due waits. Idempotent. */
  stopProcess(): void {
    this.#stopped ??= { timers: [], answers: [] };
  }

  /**
   * It goes on, and runs what has waited.
   * @param first a process that was stopped while it waited for answers takes those before it looks at its timers
   */
  continueProcess(first: "timers" | "answers" = "timers"): void {
    const { timers, answers } = this.#stopped ?? { timers: [], answers: [] };
    this.#stopped = undefined;
    const waiting = first === "timers" ? [...timers, ...answers] : [...answers, ...timers];
    for (const run of waiting) this.#options.time.soon(run);
  }

  /** Resolves when the process runs: for answers that come to it from outside. */
  async running(): Promise<void> {
    for (let stopped = this.#stopped; stopped !== undefined; stopped = this.#stopped) {
      await new Promise<void>((resolve) => void stopped?.answers.push(resolve));
    }
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  get revoked(): boolean {
    return this.#revoked;
  }

  /** Ends this world and returns the next one, over the files as they stood. The old folder is removed. */
  crash(seed = (this.#options.seed ?? 1) + 1): VirtualWorld {
    const { root } = this.#options;
    const next = fs.mkdtempSync(path.join(path.dirname(root), "after-crash-"));
    if (fs.existsSync(root)) fs.cpSync(root, next, { recursive: true });
    this.#revoked = true;
    this.folder.closeDatabases();
    fs.rmSync(root, { recursive: true, force: true });
    return new VirtualWorld({ ...this.#options, root: next, seed });
  }

  /** Ends this world for good: as {@link crash}, with nothing after it. The folder is removed. */
  revoke(): void {
    this.#revoked = true;
    this.folder.closeDatabases();
    fs.rmSync(this.#options.root, { recursive: true, force: true });
  }

  /** Also when it has fallen due and waits for the process to go on. */
  #cancellable(plan: (callback: () => void) => Timer, run: () => void): Timer {
    let isCancelled = false;
    const timer = plan(() => {
      if (!isCancelled) run();
    });
    return {
      cancel: () => {
        isCancelled = true;
        timer.cancel();
      },
    };
  }

  #assertLive(): void {
    if (this.#revoked) throw new WorldRevoked();
  }
}

/** A folder whose every operation first asks whether its world still stands; it can also fail chosen operations. */
export class RevocableFolder implements Folder {
  readonly #inner: Folder;
  readonly #assertLive: () => void;
  readonly #databases = new Set<Database>();
  /** Held here, so that no lock is let go by the garbage collector in the middle of a copy. */
  readonly #locks = new Set<FolderLock>();
  /** Called before each operation with its name and path; a throw is that operation's failure. */
  intercept: ((operation: string, path: string) => void) | undefined;

  constructor(inner: Folder, assertLive: () => void) {
    this.#inner = inner;
    this.#assertLive = assertLive;
  }

  closeDatabases(): void {
    for (const database of this.#databases) database.close();
    this.#databases.clear();
    for (const lock of this.#locks) lock.release();
    this.#locks.clear();
  }

  absolute(file: string): string {
    return this.#inner.absolute(file);
  }

  ensureDirectory(file: string): void {
    this.#before("ensureDirectory", file);
    this.#inner.ensureDirectory(file);
  }

  readFile(file: string): Uint8Array | undefined {
    this.#before("readFile", file);
    return this.#inner.readFile(file);
  }

  replaceFile(file: string, bytes: Uint8Array): void {
    this.#before("replaceFile", file);
    this.#inner.replaceFile(file, bytes);
  }

  remove(file: string): void {
    this.#before("remove", file);
    this.#inner.remove(file);
  }

  removeTree(file: string): void {
    this.#before("removeTree", file);
    this.#inner.removeTree(file);
  }

  rename(from: string, to: string): void {
    this.#before("rename", from);
    this.#inner.rename(from, to);
  }

  list(file: string): string[] {
    this.#before("list", file);
    return this.#inner.list(file);
  }

  stat(file: string): FileStat | undefined {
    this.#before("stat", file);
    return this.#inner.stat(file);
  }

  open(file: string, mode: "read" | "write"): FileHandle {
    this.#before("open", file);
    const handle = this.#inner.open(file, mode);
    const before = (operation: string): void => this.#before(operation, file);
    return {
      read(target, offset, length, position) {
        before("read");
        return handle.read(target, offset, length, position);
      },
      write(source, position) {
        before("write");
        handle.write(source, position);
      },
      truncate(sizeBytes) {
        before("truncate");
        handle.truncate(sizeBytes);
      },
      sizeBytes() {
        before("size");
        return handle.sizeBytes();
      },
      sync() {
        before("sync");
        handle.sync();
      },
      close: () => handle.close(),
    };
  }

  openDatabase(file: string, options?: { readonly readonly?: boolean; readonly mustExist?: boolean }): Database {
    this.#before("openDatabase", file);
    const database = this.#inner.openDatabase(file, options);
    this.#databases.add(database);
    return database;
  }

  lock(file: string): FolderLock {
    this.#before("lock", file);
    const lock = this.#inner.lock(file);
    this.#locks.add(lock);
    return lock;
  }

  #before(operation: string, file: string): void {
    this.#assertLive();
    this.intercept?.(operation, file);
  }
}
