/**
 * One object of another node's, readable here: a copy of its file that is brought to where a reader needs it, and read there.
 *
 * Promises:
 * - A reader is given a state no older than the position it asked for (R3), and nothing that has not landed: the bucket's, or
 *   entries of this node's journal through the position, which the owner of that very epoch has said is released (R2).
 * - SQLite has the file open only while nothing is written to it, and readers wait while it is (O1 needs no mailbox here: nobody
 *   writes).
 * - What fails on the way is not the reader's failure: there is no copy for it then, and the owner is asked.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { EntryRange, HeldEntries } from "../journal/contract.js";
import type { Settings } from "../settings/settings.js";
import type { StateSource } from "../shipping/assemble-state.js";
import { CopyFile } from "../shipping/copy-file.js";
import { ObjectKeys } from "../shipping/layout.js";
import { decodeManifest, hasContent, type Manifest, ownershipOf } from "../shipping/manifest.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import { deferred } from "../world/deferred.js";
import type { RunningRecord } from "../world/watchdog/running-record.js";
import { sleep, type World } from "../world/world.js";
import type { HostFile } from "./call-host.js";

/** What an owner says of its object: through which seq it was committed when it was asked, all of which has landed by now. */
export interface Position {
  /** Of its claim. */
  readonly epoch: number;
  readonly seq: number;
  /** Version of the class that the owner serves it with. */
  readonly version: string;
  /** Whether the bucket has it. */
  readonly covered: boolean;
}

export interface ReplicaCopyParts {
  readonly world: World;
  readonly settings: Settings;
  readonly bucket: Bucket;
  readonly running: RunningRecord;
  /** What this node's journal holds; undefined where that is of another line than the range's. */
  entries(object: string, range: EntryRange): Promise<HeldEntries | undefined>;
  /** Whether there may be a file of so many bytes: others go for it. */
  makeRoom(copy: ReplicaCopy, bytes: number): boolean;
}

export interface CopyRead<T> {
  readonly value: T;
  /** Of the state that was read. */
  readonly seq: number;
}

/** While the journal has yet to hear what its owner released. */
const LOOK_FIRST_MS = 1;
const LOOK_MAX_MS = 16;

export class ReplicaCopy {
  readonly #parts: ReplicaCopyParts;
  readonly #object: ObjectIdentity;
  readonly #path: string;
  /** Pauses under way: they end with the copy. */
  readonly #pauses = new Set<AbortController>();
  #isClosed = false;
  #file: CopyFile | undefined;
  #open: HostFile | undefined;
  #readers = 0;
  #whenUnread: (() => void) | undefined;
  /** Set while nobody may begin to read. */
  #writing: Promise<void> | undefined;
  #bringing: Promise<void> | undefined;

  /** @param path of its file, relative to the data folder */
  constructor(parts: ReplicaCopyParts, object: ObjectIdentity, path: string) {
    this.#parts = parts;
    this.#object = object;
    this.#path = path;
  }

  get bytes(): number {
    return this.#file?.bytes ?? 0;
  }

  get isInUse(): boolean {
    return this.#readers > 0 || this.#bringing !== undefined;
  }

  /**
   * @param work what it throws is thrown
   * @returns undefined where the copy cannot be brought there, or not within REPLICA_WAIT_MS
   */
  async read<T>(position: Position, work: (file: HostFile) => T | Promise<T>): Promise<CopyRead<T> | undefined> {
    const { world, settings } = this.#parts;
    const untilMs = world.clock.monotonicMs() + settings.REPLICA_WAIT_MS;
    // From the last look on nothing gives way until it counts as a reader.
    while (this.#writing !== undefined || !this.#isAt(position)) {
      if (this.#isClosed || !(await this.#mayComeTo(position, untilMs))) return undefined;
    }
    const file = this.#opened();
    if (file === undefined) return undefined;
    const seq = this.#file?.seq ?? 0;
    this.#readers++;
    try {
      return { value: await work(file), seq };
    } finally {
      this.#readers--;
      if (this.#readers === 0) this.#unread();
    }
  }

  /** Nobody begins to read it any more; its file goes with the last reader. */
  close(): void {
    this.#isClosed = true;
    for (const pause of this.#pauses) pause.abort();
    if (this.#readers === 0) this.#drop();
  }

  #unread(): void {
    this.#whenUnread?.();
    if (this.#isClosed) this.#drop();
  }

  /** One step on the way. @returns false where it ends before the position, or not in time: others may be glad of it later */
  async #mayComeTo(position: Position, untilMs: number): Promise<boolean> {
    // What others have it brought to may be less than this reader needs.
    const isOthers = this.#bringing !== undefined;
    this.#bringing ??= this.#bring(position).finally(() => {
      this.#bringing = undefined;
    });
    const isInTime = await this.#within(this.#writing ?? this.#bringing, untilMs);
    return isInTime && (isOthers || this.#isAt(position));
  }

  async #within(work: Promise<void>, untilMs: number): Promise<boolean> {
    const over = new AbortController();
    const late = this.#pause(untilMs - this.#parts.world.clock.monotonicMs(), over).then(() => false);
    const isInTime = await Promise.race([work.then(() => true), late]);
    over.abort();
    return isInTime;
  }

  async #pause(pauseMs: number, ending = new AbortController()): Promise<void> {
    this.#pauses.add(ending);
    await sleep(this.#parts.world, Math.max(0, pauseMs), ending.signal);
    this.#pauses.delete(ending);
  }

  /** A later line begins where the earlier one had got to with all that was released of it. */
  #isAt({ epoch, seq }: Position): boolean {
    return this.#file !== undefined && this.#file.bytes > 0 && this.#file.line >= epoch && this.#file.seq >= seq;
  }

  async #bring(position: Position): Promise<void> {
    const { world, settings } = this.#parts;
    const untilMs = world.clock.monotonicMs() + settings.REPLICA_WAIT_MS;
    try {
      for (let pauseMs = LOOK_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
        if ((await this.#advance(position)) === "done") return;
        const isLate = world.clock.monotonicMs() + pauseMs > untilMs;
        if (isLate || this.#isClosed) return;
        await this.#pause(pauseMs);
      }
    } catch (thrown) {
      this.#failed(thrown);
    }
  }

  /** @returns `missing` where nobody but the owner has it yet that this node can ask */
  async #advance(position: Position): Promise<"done" | "missing"> {
    const { epoch, seq } = position;
    const file = this.#file;
    const from = file?.line === epoch ? file.seq : 0;
    const held = await this.#parts.entries(this.#object.id, { epoch, afterSeq: from, throughSeq: seq });
    const isHeld = (held?.entries.at(-1)?.toSeq ?? 0) >= seq;
    if (held !== undefined && file !== undefined && from > 0 && isHeld && startOf(held) <= from) {
      await this.#exclusively(() => this.#take(file, held, epoch));
      return "done";
    }
    const isCovered = position.covered || (held !== undefined && held.base >= seq);
    if (!isCovered && !isHeld) return "missing";
    await this.#fromBucket(isCovered ? undefined : held, epoch);
    return "done";
  }

  async #fromBucket(held: HeldEntries | undefined, epoch: number): Promise<void> {
    const { bucket, world } = this.#parts;
    const keys = new ObjectKeys(this.#object);
    const found = await bucket.get(keys.manifest);
    const manifest = found && decodeManifest(this.#object.id, found.bytes);
    // Of an object that is new, journals may have all there is.
    if (manifest === undefined || !(hasContent(manifest) || held)) return this.#exclusively(() => this.#drop());
    const source: StateSource = { bucket, folder: world.folder, keys, manifest };
    const way = await this.#file?.wayTo(source);
    await this.#exclusively(async () => {
      const file = way === undefined ? await this.#restored(source) : this.#file;
      if (file === undefined) return;
      if (way !== undefined) await file.bringOn(world, way, ownershipOf(manifest).tailEpoch);
      if (held !== undefined) await this.#take(file, held, epoch);
    });
  }

  async #restored(source: StateSource): Promise<CopyFile | undefined> {
    this.#drop();
    if (!this.#parts.makeRoom(this, bytesOf(source.manifest))) return undefined;
    this.#file = await CopyFile.restore(source, this.#path);
    return this.#file;
  }

  /** Entries of the line of `epoch`, as far as they go on from where the file stands. */
  async #take(file: CopyFile, { entries }: HeldEntries, epoch: number): Promise<void> {
    const next = entries.filter(({ toSeq }) => toSeq > file.seq);
    const [first] = next;
    if (first === undefined || first.afterSeq !== file.seq) return;
    const segments = next.map(({ payload }) => payload);
    await file.bringOn(this.#parts.world, segments, epoch);
  }

  #failed(thrown: unknown): void {
    const { code, message } = asMoonportError(thrown);
    this.#parts.world.log.warn({ object: this.#object.id, code }, `no copy of it for now: ${message}`);
  }

  /** Runs with nobody reading and SQLite away from the file. */
  async #exclusively(write: () => void | Promise<void>): Promise<void> {
    const writing = deferred();
    this.#writing = writing.promise;
    try {
      if (this.#readers > 0) {
        await new Promise<void>((resolve) => {
          this.#whenUnread = resolve;
        });
      }
      this.#whenUnread = undefined;
      this.#closeDatabase();
      if (this.#isClosed) return;
      await write();
      // It may have grown.
      if (!this.#parts.makeRoom(this, this.bytes)) this.#drop();
    } catch (thrown) {
      // Half written, it is nobody's state. It must be gone before anybody may look.
      this.#drop();
      throw thrown;
    } finally {
      this.#writing = undefined;
      writing.resolve();
    }
  }

  #opened(): HostFile | undefined {
    if (this.#open !== undefined) return this.#open;
    const { world, settings, running } = this.#parts;
    let database: ObjectDatabase | undefined;
    try {
      database = ObjectDatabase.open(world.folder, this.#path, settings, { mustExist: true, running });
      this.#open = { object: this.#object, database, tables: new ObjectTables(database, settings) };
      return this.#open;
    } catch (thrown) {
      database?.close();
      this.#failed(thrown);
      this.#drop();
      return undefined;
    }
  }

  #closeDatabase(): void {
    this.#open?.database.close();
    this.#open = undefined;
  }

  #drop(): void {
    this.#closeDatabase();
    if (this.#file === undefined) return;
    this.#file = undefined;
    removeLocalFile(this.#parts.world, this.#path);
  }
}

function startOf({ entries }: HeldEntries): number {
  return entries[0]?.afterSeq ?? Number.POSITIVE_INFINITY;
}

function bytesOf({ pages, pageSize }: Manifest): number {
  return pages * pageSize;
}
