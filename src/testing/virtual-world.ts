/**
 * A world for a node under test: virtual time, seeded randomness, a real folder that can be taken away.
 *
 * `crash()` is the end of a process: from that moment the old world throws {@link WorldRevoked} at every touch, its timers
 * never fire, and the files go on in the next world exactly as they stood (copied before the databases are closed, because
 * closing one checkpoints it). `powerCut()` is the end of a machine: files lose of what was not synced whatever a disk may
 * lose (unsynced-writes).
 */
import fs from "node:fs";
import path from "node:path";
import type { Database } from "better-sqlite3";
import type { FileHandle, FileStat, Folder, FolderLock, OpenMode } from "../world/folder.js";
import { type Logger, silentLogger } from "../world/logger.js";
import { RealFolder } from "../world/real-folder.js";
import { type Clock, type Random, sleep, type Timer, type Timers, type World, yieldTurn } from "../world/world.js";
import { SeededRandom } from "./seeded-random.js";
import { UnsyncedWrites } from "./unsynced-writes.js";
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
  /** How long a flush of a file or of a directory takes; default 0, the next turn. */
  readonly diskSyncMs?: number;
}

interface Waiting {
  readonly run: () => void;
  readonly isTimer: boolean;
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
  /** How far the monotonic clock has leapt ahead, milliseconds; it never goes back. Timers that are set fall due as they would. */
  leapMs = 0;
  /** Passes at each look at the monotonic clock, as if running code took time: long Lua calls then come in slices. */
  lookCostMs = 0;
  readonly #options: VirtualWorldOptions;
  readonly #unsynced: UnsyncedWrites;
  #revoked = false;
  #timersLeft = 0;
  /** What waits for the process to go on, while it is stopped, in the order in which it fell due or came. */
  #stopped: Waiting[] | undefined;

  constructor(options: VirtualWorldOptions, unsynced = new UnsyncedWrites()) {
    this.#options = options;
    this.#unsynced = unsynced;
    const { time } = options;
    const live = (): void => this.#assertLive();
    const { monotonicRate = 1 } = options;
    const guarded = (run: () => void, isTimer: boolean): (() => void) => {
      const whenRunning = (): void => {
        if (this.#revoked) return;
        if (this.#stopped === undefined) run();
        else this.#stopped.push({ run: whenRunning, isTimer });
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
        return time.nowMs * monotonicRate + this.leapMs;
      },
    };
    this.timers = {
      after: (delayMs, run) => {
        live();
        return this.#cancellable((callback) => time.after(delayMs / monotonicRate, guarded(callback, true)), run);
      },
      soon: (run) => {
        live();
        return this.#cancellable((callback) => time.soon(guarded(callback, false)), run);
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
    const diskSync = (): Promise<void> =>
      options.diskSyncMs === undefined ? yieldTurn(this) : sleep(this, options.diskSyncMs);
    this.folder = new RevocableFolder(new RealFolder(options.root), { assertLive: live, diskSync, unsynced });
    this.log = options.log ?? silentLogger;
  }

  /** Stops the process, as SIGSTOP does: clocks go on, what falls due waits. Idempotent. */
  stopProcess(): void {
    this.#stopped ??= [];
  }

  /** It goes on, and runs what has fallen due. @param first what came from outside may be seen before the timers are */
  continueProcess(first: "in_order" | "arrivals" = "in_order"): void {
    const waiting = this.#stopped ?? [];
    this.#stopped = undefined;
    if (first === "arrivals") waiting.sort((one, other) => Number(one.isTimer) - Number(other.isTimer));
    for (const { run } of waiting) this.#options.time.soon(run);
  }

  /** Resolves when the process runs: for answers that come to it from outside. */
  async running(): Promise<void> {
    for (let stopped = this.#stopped; stopped !== undefined; stopped = this.#stopped) {
      await new Promise<void>((resolve) => void stopped?.push({ run: resolve, isTimer: false }));
    }
  }

  /** Set, and neither cancelled nor run: none when a process has stopped in order. */
  get timersLeft(): number {
    return this.#timersLeft;
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  get revoked(): boolean {
    return this.#revoked;
  }

  /** Ends this world and returns the next one, over the files as they stood. The old folder is removed. */
  crash(seed = (this.#options.seed ?? 1) + 1): VirtualWorld {
    const root = this.#handOver();
    this.#unsynced.processEnded();
    return new VirtualWorld({ ...this.#options, root, seed }, this.#unsynced);
  }

  /** As {@link crash}, and the disk loses a part, by `seed`, of what was not synced. */
  powerCut(seed = (this.#options.seed ?? 1) + 1): VirtualWorld {
    const root = this.#handOver();
    this.#unsynced.cut(root, new SeededRandom(seed));
    return new VirtualWorld({ ...this.#options, root, seed });
  }

  /** As {@link crash}, and the disk is lost with all that was on it. */
  loseDisk(seed = (this.#options.seed ?? 1) + 1): VirtualWorld {
    const root = this.#handOver();
    fs.rmSync(root, { recursive: true, force: true });
    fs.mkdirSync(root);
    return new VirtualWorld({ ...this.#options, root, seed });
  }

  /** What a power cut at this moment leaves of a file at the worst; undefined where it does not stand. Also of a world that is gone. */
  atWorst(file: string): Uint8Array | undefined {
    const absolute = path.join(this.#options.root, file);
    return fs.existsSync(absolute) ? this.#unsynced.atWorst(file, fs.readFileSync(absolute)) : undefined;
  }

  /** Ends this world for good: as {@link crash}, with nothing after it. The folder is removed. */
  revoke(): void {
    this.#revoked = true;
    this.folder.closeAll();
    fs.rmSync(this.#options.root, { recursive: true, force: true });
  }

  /** Also when it has fallen due and waits for the process to go on. */
  #cancellable(plan: (callback: () => void) => Timer, run: () => void): Timer {
    let isOver = false;
    this.#timersLeft++;
    const end = (): boolean => {
      if (isOver) return false;
      isOver = true;
      this.#timersLeft--;
      return true;
    };
    const timer = plan(() => {
      if (end()) run();
    });
    return {
      cancel: () => {
        if (end()) timer.cancel();
      },
    };
  }

  /** @returns where the files go on */
  #handOver(): string {
    const { root } = this.#options;
    const next = fs.mkdtempSync(path.join(path.dirname(root), "after-crash-"));
    if (fs.existsSync(root)) fs.cpSync(root, next, { recursive: true });
    this.#revoked = true;
    this.folder.closeAll();
    fs.rmSync(root, { recursive: true, force: true });
    return next;
  }

  #assertLive(): void {
    if (this.#revoked) throw new WorldRevoked();
  }
}

interface FolderParts {
  readonly assertLive: () => void;
  readonly diskSync: () => Promise<void>;
  readonly unsynced: UnsyncedWrites;
}

/** A folder whose every operation first asks whether its world still stands; it can also fail chosen operations. */
export class RevocableFolder implements Folder {
  readonly #inner: Folder;
  readonly #parts: FolderParts;
  readonly #databases = new Set<Database>();
  /** Held here, so that no lock is let go by the garbage collector in the middle of a copy. */
  readonly #locks = new Set<FolderLock>();
  readonly #handles = new Set<FileHandle>();
  /** Called before each operation with its name and path; a throw is that operation's failure. */
  intercept: ((operation: string, path: string) => void) | undefined;

  constructor(inner: Folder, parts: FolderParts) {
    this.#inner = inner;
    this.#parts = parts;
  }

  /** Whoever had them open is gone. */
  closeAll(): void {
    for (const handle of this.#handles) handle.close();
    this.#handles.clear();
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
    this.#parts.unsynced.removing(file, () => this.#inner.readFile(file) ?? new Uint8Array(0));
    this.#inner.remove(file);
  }

  removeTree(file: string): void {
    this.#before("removeTree", file);
    this.#inner.removeTree(file);
  }

  rename(from: string, to: string): void {
    this.#before("rename", from);
    this.#parts.unsynced.renaming(from, to, this.#inner.readFile(to));
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

  open(file: string, mode: OpenMode): FileHandle {
    this.#before("open", file);
    const existed = this.#inner.stat(file) !== undefined;
    const handle = this.#inner.open(file, mode);
    this.#handles.add(handle);
    if (mode === "read") return this.#guarded(file, handle);
    this.#parts.unsynced.opened(file, handle, existed);
    return this.#followed(file, this.#guarded(file, handle), handle);
  }

  async flushDirectory(file: string): Promise<void> {
    const synced = this.#parts.unsynced.syncingNames(file);
    await this.#parts.diskSync();
    this.#before("flushDirectory", file);
    synced();
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

  #guarded(file: string, handle: FileHandle): FileHandle {
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
      async flush() {
        before("flush");
        await handle.flush();
      },
      close: () => {
        // One whose world has ended is closed by that.
        if (this.#handles.delete(handle)) handle.close();
      },
    };
  }

  /** @param handle tells what stands in the file, beside all that may fail */
  #followed(file: string, guarded: FileHandle, handle: FileHandle): FileHandle {
    const { unsynced, diskSync, assertLive } = this.#parts;
    const before = (operation: string): void => this.#before(operation, file);
    return {
      ...guarded,
      write(source, position) {
        assertLive();
        unsynced.changing(file, handle, position, position + source.length);
        guarded.write(source, position);
      },
      truncate(sizeBytes) {
        assertLive();
        unsynced.changing(file, handle, sizeBytes, handle.sizeBytes());
        guarded.truncate(sizeBytes);
      },
      sync() {
        assertLive();
        const syncing = unsynced.syncing(file, handle);
        let failed = true;
        try {
          guarded.sync();
          failed = false;
        } finally {
          syncing.end(failed);
        }
      },
      /** The disk itself is not asked: what a cut may take is on the account, not on the disk of the machine that tests. */
      async flush() {
        assertLive();
        const syncing = unsynced.syncing(file, handle);
        await diskSync();
        let failed = true;
        try {
          before("flush");
          failed = false;
        } finally {
          syncing.end(failed);
        }
      },
    };
  }

  #before(operation: string, file: string): void {
    this.#parts.assertLive();
    this.intercept?.(operation, file);
  }
}
