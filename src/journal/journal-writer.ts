/**
 * The way of records to the disk. What arrives while one sync is under way makes the next batch: it is written in one go,
 * synced once, and then everything that waits for it is answered, in order. One batch is under way at a time, and each file
 * is synced before the next one begins, so what the disk has is always a beginning of what was recorded.
 *
 * A write or a sync that fails ends the writer: whatever waits gets the error, and nothing is written any more. It is not
 * tried again, because that cannot be trusted: after a failed fsync the system may count the pages as written and drop them,
 * and the next fsync of the same file then says that all is well although they never reached the disk. Only the next start
 * finds out what is there: it writes again, and syncs, what may not have been (open-files).
 *
 * A batch goes on in the sector in which the last one ended. Like SQLite's journal, it counts on a disk that leaves alone,
 * also when its power fails, what a write does not change.
 *
 * Files are written ahead with zeros, because a sync of bytes within a file's size need not write its size too, which about
 * halves its cost.
 */
import { asMoonportError, type MoonportError } from "../errors.js";
import { JournalCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import type { FileHandle } from "../world/folder.js";
import { type World, yieldTurn } from "../world/world.js";
import { Batch, type QueuedRecord } from "./batch.js";
import type { FileLedger } from "./file-ledger.js";
import { journalFileName } from "./file-names.js";
import { fileBeginning } from "./identity-file.js";
import { FrameFormat } from "./records.js";

const STEP_BYTES = 1024 * 1024;
const AHEAD_BYTES = 1024 * 1024;

/** Where the last start left off, or the folder's creation. */
export interface CurrentFile {
  readonly handle: FileHandle;
  readonly number: number;
}

export interface WriterParts {
  readonly world: World;
  readonly settings: Pick<Settings, "JOURNAL_FILE_BYTES">;
  readonly folder: string;
  readonly identity: string;
  readonly ledger: FileLedger;
  /** Whether there is more to record than what was added. */
  hasMore(): boolean;
  /** Adds to a batch that is about to be written what can ride with it. */
  fill(batch: Batch): void;
  failed(error: MoonportError): void;
  readonly counters?: JournalCounters;
}

export class JournalWriter {
  readonly #parts: WriterParts;
  #file: CurrentFile;
  #format: FrameFormat;
  /** Size of the current file with its zeros. */
  #sizeBytes: number;
  /** Nothing was written to the current file since its last sync. */
  #isSynced = true;
  /** Nothing was written to it but its beginning. */
  #isFresh = false;
  #gathering = new Batch();
  #underWay: Batch | undefined;
  #state: "idle" | "running" | "broken" = "idle";
  #rest: (() => void)[] = [];
  #scratch = Buffer.allocUnsafe(64 * 1024);
  readonly #counters: JournalCounters;
  syncs = 0;

  constructor(parts: WriterParts, file: CurrentFile) {
    this.#parts = parts;
    this.#counters = parts.counters ?? new JournalCounters();
    this.#file = file;
    this.#format = new FrameFormat(parts.identity, file.number);
    this.#sizeBytes = parts.ledger.current.bytes;
  }

  /** What records are added to; its sync begins as soon as the work that is ready now has had its turn. */
  get gathering(): Batch {
    return this.#gathering;
  }

  /** Bytes that are not written yet. */
  get queuedBytes(): number {
    return this.#gathering.bytes + (this.#underWay?.bytes ?? 0);
  }

  wake(): void {
    if (this.#state !== "idle") return;
    this.#state = "running";
    this.#parts.world.timers.soon(() => void this.#run());
  }

  /** Resolves when nothing is under way: what was added by then is durable, or has failed. */
  async rested(): Promise<void> {
    this.wake();
    if (this.#state === "running") await new Promise<void>((resolve) => void this.#rest.push(resolve));
  }

  async close(): Promise<void> {
    await this.rested();
    this.#file.handle.close();
  }

  async #run(): Promise<void> {
    try {
      while (this.#gathering.records.length > 0 || this.#parts.hasMore()) {
        await this.#sync();
        // Those who were just answered may have more: together they make the next batch, not each the next one.
        await yieldTurn(this.#parts.world);
      }
      this.#state = "idle";
    } catch (error) {
      this.#fail(asMoonportError(error));
    }
    for (const resolve of this.#rest.splice(0)) resolve();
  }

  async #sync(): Promise<void> {
    const batch = this.#gathering;
    this.#gathering = new Batch();
    this.#underWay = batch;
    this.#parts.fill(batch);
    await this.#write(batch);
    await this.#flush();
    this.#underWay = undefined;
    this.#counters.batches++;
    batch.settle();
  }

  #fail(error: MoonportError): void {
    this.#state = "broken";
    // Those who wait first: whoever hears that it is broken goes on to other journals.
    this.#underWay?.fail(error);
    this.#gathering.fail(error);
    this.#parts.failed(error);
  }

  async #write(batch: Batch): Promise<void> {
    const { records } = batch;
    for (let index = 0; index < records.length; ) {
      const { frameBytes } = records[index] as QueuedRecord;
      // What is larger than a file has one of its own.
      if (!this.#isFresh && !this.#hasRoom(frameBytes)) await this.#nextFile();
      const end = this.#endOfStep(records, index);
      batch.bytes -= this.#writeStep(records.slice(index, end));
      index = end;
      if (index < records.length) await yieldTurn(this.#parts.world);
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#parts.ledger.current.bytes + bytes <= this.#parts.settings.JOURNAL_FILE_BYTES;
  }

  /** At least one record. */
  #endOfStep(records: readonly QueuedRecord[], start: number): number {
    let bytes = 0;
    for (let index = start; index < records.length; index++) {
      bytes += (records[index] as QueuedRecord).frameBytes;
      if (index > start && (bytes > STEP_BYTES || !this.#hasRoom(bytes))) return index;
    }
    return records.length;
  }

  #writeStep(records: readonly QueuedRecord[]): number {
    const { ledger } = this.#parts;
    const start = ledger.current.bytes;
    const total = records.reduce((sum, { frameBytes }) => sum + frameBytes, 0);
    const target = this.#scratchOf(total);
    let at = 0;
    for (const { record, frameBytes } of records) {
      this.#format.put(target, at, start + at, record, frameBytes, this.#isSynced && at === 0);
      at += frameBytes;
    }
    this.#isSynced = false;
    this.#isFresh = false;
    this.#file.handle.write(target.subarray(0, total), start);
    this.#writeAhead(start + total);
    ledger.grew(total);
    let place = start;
    for (const { written, frameBytes } of records) {
      written({ kind: "stored", file: this.#file.number, place, frameBytes });
      place += frameBytes;
    }
    return total;
  }

  #scratchOf(bytes: number): Buffer {
    if (bytes > STEP_BYTES) return Buffer.allocUnsafe(bytes);
    if (bytes > this.#scratch.length) this.#scratch = Buffer.allocUnsafe(STEP_BYTES);
    return this.#scratch;
  }

  #writeAhead(endBytes: number): void {
    if (endBytes <= this.#sizeBytes) return;
    const steps = Math.ceil(endBytes / AHEAD_BYTES) * AHEAD_BYTES;
    this.#sizeBytes = Math.max(endBytes, Math.min(steps, this.#parts.settings.JOURNAL_FILE_BYTES));
    if (this.#sizeBytes > endBytes) this.#file.handle.write(Buffer.alloc(this.#sizeBytes - endBytes), endBytes);
  }

  async #nextFile(): Promise<void> {
    const { world, folder, identity, ledger } = this.#parts;
    await this.#flush();
    const previousBytes = ledger.current.bytes;
    const number = this.#file.number + 1;
    const beginning = fileBeginning({
      kind: "begin",
      identity,
      number,
      previousBytes,
      oldest: ledger.oldest.number,
    });
    const handle = world.folder.open(`${folder}/${journalFileName(number)}`, "write");
    this.#file.handle.close();
    this.#file = { handle, number };
    this.#format = new FrameFormat(identity, number);
    this.#sizeBytes = beginning.length;
    this.#isSynced = false;
    this.#isFresh = true;
    handle.write(beginning, 0);
    ledger.begin(beginning.length);
    await world.folder.flushDirectory(folder);
  }

  async #flush(): Promise<void> {
    if (this.#isSynced) return;
    const { clock } = this.#parts.world;
    const begunMs = clock.monotonicMs();
    await this.#file.handle.flush();
    this.#counters.syncMs.record(clock.monotonicMs() - begunMs);
    this.syncs++;
    this.#isSynced = true;
  }
}
