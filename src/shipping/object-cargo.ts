/**
 * The cut: what one object committed, taken out of its file as a segment or a snapshot, in one tick.
 *
 * It owns the object's capture, the ledger of its pages and its checkpoints. Only it checkpoints, and only what it has
 * captured (S2). A segment continues exactly where the last load ended; where it cannot, a snapshot takes its place (S1).
 * What journals took before a snapshot that had to be taken, or the object's end, goes ahead of it: they may have released it,
 * flight by flight, and each of those states stands in the object's history. A compaction takes in what the bucket lacks yet, and
 * only the last state of that can be had (docs/history.md).
 */
import { asMoonportError, assert, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { type ObjectDatabase, PAGE_BYTES } from "../store/object-database.js";
import type { FileHandle, Folder } from "../world/folder.js";
import { type World, yieldTurn } from "../world/world.js";
import { ChangesSince } from "./changes-since.js";
import type { Claim } from "./claim.js";
import { type CompactionSettings, compactionOf, mergeIsFull } from "./compaction.js";
import { hasContent, type Position } from "./manifest.js";
import type { ObjectEnd, ObjectLoad, RecordLoad, SegmentLoad, SnapshotLoad } from "./object-load.js";
import type { Cargo, Taken } from "./shipper.js";
import { encodeBundle } from "./wal/bundle.js";
import { PageLedger } from "./wal/page-identity.js";
import type { PageImages } from "./wal/page-image-cache.js";
import { encodeSegment, pagesWithin, type SegmentHead } from "./wal/segment.js";
import { type Captured, WalCapture } from "./wal/wal-capture.js";

type CargoSettings = Pick<Settings, "OBJECT_FLIGHT_BYTES_MAX" | "OBJECT_WAL_BYTES_MAX" | "SNAPSHOT_PART_BYTES"> &
  MessageSettings &
  CompactionSettings;

type MessageSettings = Pick<Settings, "LINK_MESSAGE_BYTES_MAX" | "LINK_BUFFER_BYTES_MAX">;

/** What a message between nodes has around a segment at most: the object's id, names, numbers. */
const AROUND_BYTES = 16_384;

export interface CargoParts {
  readonly world: Pick<World, "timers" | "clock"> & { readonly folder: Folder };
  readonly settings: CargoSettings;
  readonly claim: Claim;
  readonly database: ObjectDatabase;
  /** Of the file as it was opened: what the claim's manifest names. */
  readonly ledger: PageLedger;
  readonly images: PageImages;
  /** Last committed seq, asked in the tick of the cut. */
  readonly committedSeq: () => number;
  /** Whether the record is to be written though nothing of the content changed. */
  readonly recordOwed?: () => boolean;
  /** Told of every segment as it is taken, by whoever took it: journals get each. */
  readonly segmentTaken?: (load: SegmentLoad) => void;
}

export type TakenSegment =
  | { readonly kind: "segment" | "nothing" }
  /** Only a snapshot can carry it, and that goes to the bucket alone. */
  | { readonly kind: "snapshot_owed" };

type Checkpoint = { readonly kind: "settled" | "in_use" } | { readonly kind: "failed"; readonly error: MoonportError };

/** What a segment holds: none where commits set what stood already. */
type ChangedPages = Pick<Extract<Captured, { kind: "pages" }>, "pages" | "finalPages">;

/** Bytes of changed pages of which a segment fits into a message between nodes, however little the pages have in common. */
export function changedBytesInMessage({ LINK_MESSAGE_BYTES_MAX, LINK_BUFFER_BYTES_MAX }: MessageSettings): number {
  const messageBytesMax = Math.min(LINK_MESSAGE_BYTES_MAX, LINK_BUFFER_BYTES_MAX);
  return pagesWithin(messageBytesMax - AROUND_BYTES, PAGE_BYTES) * PAGE_BYTES;
}

export class ObjectCargo implements Cargo<ObjectLoad> {
  readonly #parts: CargoParts;
  readonly #capture: WalCapture;
  #ledger: PageLedger;
  /** Where the last load ended. */
  #takenSeq: number;
  #takenIdentity: string;
  #cutMs = 0;
  readonly #changes: ChangesSince;
  /** Taken for the journals, and in no load for the bucket yet; each continues the one before. */
  #forBucket: SegmentLoad[] = [];
  /** Whether any load has a base to continue. */
  #hasBase: boolean;
  #end: ObjectEnd | undefined;
  /** A snapshot that must be taken once no transaction is open. */
  #snapshotOwed = false;
  /** Of what was taken last the content is not known until a streamed snapshot has been read. */
  #ledgerPending = false;
  /** A streamed snapshot reads the file: no checkpoint may change it meanwhile. */
  #fileHeld = false;
  /** Kept open until the database closes: closing a descriptor of its file would drop SQLite's locks on it. */
  #fileHandle: FileHandle | undefined;
  /** The connection is in doubt: what is committed is still shipped, but nothing is asked of the connection any more. */
  #connectionUsable = true;

  constructor(parts: CargoParts) {
    this.#parts = parts;
    const { manifest } = parts.claim;
    this.#ledger = parts.ledger;
    this.#takenSeq = manifest.seq;
    this.#takenIdentity = manifest.identity;
    this.#changes = new ChangesSince(manifest);
    this.#hasBase = hasContent(manifest);
    this.#capture = new WalCapture(parts.world.folder, parts.database.path, {
      pageSize: PAGE_BYTES,
      changedBytesMax: this.#changedBytesMax(),
    });
    this.#capture.startAfterSnapshot();
  }

  /** What journals take must travel to them, and from each of them to whoever claims the object. */
  #changedBytesMax(): number {
    const { OBJECT_FLIGHT_BYTES_MAX } = this.#parts.settings;
    if (this.#parts.segmentTaken === undefined) return OBJECT_FLIGHT_BYTES_MAX;
    return Math.min(OBJECT_FLIGHT_BYTES_MAX, changedBytesInMessage(this.#parts.settings));
  }

  take(): Taken<ObjectLoad> {
    if (this.#end !== undefined) {
      this.#noteCut();
      if (this.#forBucket.length > 0) return { kind: "load", load: this.#bundle(), isPart: true };
      return { kind: "load", load: { carried: "tombstone", bytes: 0, cutMs: this.#cutMs, ...this.#end } };
    }
    const taken = this.takeSegment();
    if (taken.kind === "snapshot_owed") {
      if (this.#forBucket.length > 0) return { kind: "load", load: this.#bundle(), isPart: true };
      if (!this.#connectionUsable) throw lostWithConnection();
      if (this.#parts.database.inTransaction) return { kind: "after_transaction" };
      const load = this.#snapshot();
      return load instanceof Error ? { kind: "failed", error: load } : { kind: "load", load };
    }
    const load = this.#forBucket.length === 0 ? this.#record() : (this.#compacted() ?? this.#bundle());
    return load === undefined ? { kind: "nothing" } : { kind: "load", load };
  }

  /** What was committed since the last call, for the journals; the bucket gets it with the next {@link take}. */
  takeSegment(): TakenSegment {
    this.#noteCut();
    if (this.#snapshotOwed || this.#ledgerPending) return { kind: "snapshot_owed" };
    if (this.#end !== undefined) return { kind: "nothing" };
    const captured = this.#capture.capture();
    if (captured.kind === "nothing" && this.#parts.committedSeq() === this.#takenSeq) return { kind: "nothing" };
    const changed = this.#changedBy(captured);
    if (changed !== undefined) {
      this.#ledger.apply(changed.pages, changed.finalPages);
      this.#changes.add(changed.pages.keys());
    }
    if (changed === undefined || this.#lacksBase(changed)) {
      this.#snapshotOwed = true;
      return { kind: "snapshot_owed" };
    }
    const load = this.#segment(changed);
    this.#forBucket.push(load);
    this.#parts.segmentTaken?.(load);
    return { kind: "segment" };
  }

  /** Of an object the times of its loads never go back, whatever the clock does. */
  #noteCut(): void {
    this.#cutMs = Math.max(this.#cutMs, Math.floor(this.#parts.world.clock.wallMs()));
  }

  /** The object ends: the next load is its tombstone. */
  endAt(end: ObjectEnd): void {
    this.#end = end;
  }

  /** WAL that has not been checkpointed, bytes: what piles up while nothing lands. */
  walBytes(): number {
    return this.#capture.walBytes();
  }

  /** WAL that no load has taken, bytes, what was rolled back included. */
  untakenBytes(): number {
    return this.#capture.walBytes() - this.#capture.capturedBytes();
  }

  /** From now on only the WAL is read: what only a snapshot could carry is lost. */
  distrustConnection(): void {
    this.#connectionUsable = false;
  }

  /**
   * Everything has landed: brings the file to exactly the manifest's position, so that it can be trusted later.
   * `failed`: the disk would not take it; the file is then worth nothing, but the bucket has everything.
   */
  settleFile(): Checkpoint["kind"] {
    if (!this.#connectionUsable || this.#fileHeld || !this.#capture.isFullyCaptured()) return "in_use";
    return this.#checkpoint().kind;
  }

  /** After the database is closed. Idempotent. */
  close(): void {
    this.#capture.close();
    this.#fileHandle?.close();
    this.#fileHandle = undefined;
    this.#parts.images.drop();
  }

  /** What the commits since the last load changed; undefined where the WAL does not say it and a snapshot must. */
  #changedBy(captured: Captured): ChangedPages | undefined {
    if (captured.kind === "pages") return captured;
    // SQLite writes no page that is set to what it held: such a commit changed nothing. Otherwise the WAL is not what it was.
    if (captured.kind === "nothing" && this.#capture.endsAtPosition()) {
      return { pages: new Map(), finalPages: this.#ledger.pages };
    }
    return undefined;
  }

  /** The first segment of an object is its base, and must hold every page. */
  #lacksBase(changed: ChangedPages): boolean {
    return !this.#hasBase && (changed.finalPages === 0 || changed.pages.size !== changed.finalPages);
  }

  /** What makes history short again where it has grown long; nothing where the file is in use or takes no checkpoint. */
  #compacted(): ObjectLoad | undefined {
    const { claim, database, settings } = this.#parts;
    if (!this.#connectionUsable || this.#fileHeld || database.inTransaction) return undefined;
    const history = {
      manifest: claim.manifest,
      databaseBytes: this.#ledger.pages * PAGE_BYTES,
      kept: this.#changes.kept,
      changedBytes: this.#changes.size * PAGE_BYTES,
    };
    const how = compactionOf(history, settings);
    if (how === "none") return undefined;
    if (how === "snapshot" && this.#fitsInline(history.databaseBytes)) return this.#wholeSnapshot();
    if (this.#checkpoint().kind !== "settled") return undefined;
    return how === "merge" ? this.#merged() : this.#streamedSnapshot();
  }

  /** In place of the segments since the base: every page changed since, as it stands in the file right after a checkpoint. */
  #merged(): SegmentLoad {
    const { claim, settings } = this.#parts;
    this.#forBucket = [];
    const { seq, identity, kept } = this.#changes;
    const position = this.#positionAt(this.#parts.committedSeq());
    const pages = this.#readPages(this.#changes.within(position.pages));
    const head: SegmentHead = { ...this.#headOf(seq, identity, position), isMerged: true };
    const body = encodeSegment(head, pages);
    this.#noteTaken(position);
    if (mergeIsFull(pages.size * PAGE_BYTES, settings)) this.#changes.restart(position, kept + 1);
    const entry = { epoch: claim.manifest.epoch, fromSeq: head.fromSeq, toSeq: head.toSeq, bytes: body.length };
    return {
      carried: "segment",
      toSeq: head.toSeq,
      bytes: body.length,
      cutMs: this.#cutMs,
      entry,
      position,
      body,
      kept,
    };
  }

  #readPages(numbers: readonly number[]): Map<number, Uint8Array> {
    const file = this.#databaseFile();
    const pages = new Map<number, Uint8Array>();
    for (const number of numbers) {
      const image = new Uint8Array(PAGE_BYTES);
      const got = file.read(image, 0, PAGE_BYTES, (number - 1) * PAGE_BYTES);
      assert(got === PAGE_BYTES, "a page of the object's file is missing right after a checkpoint");
      pages.set(number, image);
    }
    return pages;
  }

  #databaseFile(): FileHandle {
    this.#fileHandle ??= this.#parts.world.folder.open(this.#parts.database.path, "read");
    return this.#fileHandle;
  }

  /** Of a segment from `seq` and its identity on to the position. */
  #headOf(seq: number, identity: string, position: Position): SegmentHead {
    return {
      epoch: this.#parts.claim.manifest.epoch,
      fromSeq: seq + 1,
      toSeq: position.seq,
      pageSize: PAGE_BYTES,
      finalPages: position.pages,
      identityBefore: identity,
      identityAfter: position.identity,
      cutMs: this.#cutMs,
    };
  }

  #segment({ pages, finalPages }: ChangedPages): SegmentLoad {
    const { claim, images } = this.#parts;
    const position = this.#positionAt(this.#parts.committedSeq());
    const head = this.#headOf(this.#takenSeq, this.#takenIdentity, position);
    const body = encodeSegment(head, pages, (pgno) => images.get(pgno));
    images.shipped(pages, finalPages);
    const entry = { epoch: claim.manifest.epoch, fromSeq: head.fromSeq, toSeq: head.toSeq, bytes: body.length };
    this.#noteTaken(position);
    this.#checkpointIfLong();
    return { carried: "segment", toSeq: head.toSeq, bytes: body.length, cutMs: this.#cutMs, entry, position, body };
  }

  /** The segments that the journals have, as one. */
  #bundle(): SegmentLoad {
    const segments = this.#forBucket;
    this.#forBucket = [];
    const first = segments[0] as SegmentLoad;
    if (segments.length === 1) return first;
    const last = segments.at(-1) as SegmentLoad;
    const body = encodeBundle(segments.map((segment) => segment.body));
    const entry = { ...last.entry, fromSeq: first.entry.fromSeq, bytes: body.length };
    return { ...last, bytes: body.length, entry, body };
  }

  #record(): RecordLoad | undefined {
    if (this.#parts.recordOwed?.() !== true) return undefined;
    return { carried: "record", toSeq: this.#takenSeq, bytes: 0, cutMs: this.#cutMs };
  }

  /** The one that is owed, or why it cannot be taken now: then it stays owed. */
  #snapshot(): SnapshotLoad | Error {
    // What the ledger knows of is from before the commits that only a snapshot can carry.
    if (this.#fitsInline(this.#parts.database.sizeBytes())) return this.#wholeSnapshot();
    this.#parts.database.parkCursors();
    this.#capture.startAfterSnapshot();
    const done = this.#checkpoint();
    if (done.kind === "settled") return this.#streamedSnapshot();
    return done.kind === "failed" ? done.error : MoonportError.of("storage_failed", "the file takes no checkpoint now");
  }

  #fitsInline(databaseBytes: number): boolean {
    return databaseBytes <= this.#parts.settings.SNAPSHOT_INLINE_BYTES_MAX;
  }

  #beginSnapshot(): void {
    this.#snapshotOwed = false;
    this.#forBucket = [];
    this.#parts.images.drop();
  }

  #wholeSnapshot(): SnapshotLoad {
    const bytes = this.#parts.database.serialize();
    this.#beginSnapshot();
    this.#capture.startAfterSnapshot();
    this.#ledger = PageLedger.ofBytes(bytes, PAGE_BYTES);
    const position = this.#startAt(this.#parts.committedSeq());
    this.#checkpointIfLong(this.untakenBytes() > 0);
    return {
      carried: "snapshot",
      toSeq: position.seq,
      bytes: bytes.length,
      cutMs: this.#cutMs,
      body: { kind: "whole", bytes },
      position: () => position,
      release: () => {},
    };
  }

  /**
   * The file itself, right after a checkpoint: as long as none follows, commits go to the WAL and the file stands still. Where it
   * was owed the ledger is not of what the file holds: one is made while the file is read, and until then nothing else can be
   * taken.
   */
  #streamedSnapshot(): SnapshotLoad {
    const isLedgerKnown = !this.#snapshotOwed;
    this.#beginSnapshot();
    this.#fileHeld = true;
    const toSeq = this.#parts.committedSeq();
    const file = this.#databaseFile();
    const bytes = file.sizeBytes();
    let position = isLedgerKnown ? this.#startAt(toSeq) : undefined;
    this.#ledgerPending = !isLedgerKnown;
    const wasRead = (ledger: PageLedger): void => {
      if (position !== undefined) {
        assert(ledger.identity() === position.identity, "the file of an object is not what its ledger says");
        return;
      }
      this.#ledger = ledger;
      this.#ledgerPending = false;
      position = this.#startAt(toSeq);
    };
    return {
      carried: "snapshot",
      toSeq,
      bytes,
      cutMs: this.#cutMs,
      body: {
        kind: "stream",
        parts: () => this.#readParts(file, bytes, this.#parts.settings.SNAPSHOT_PART_BYTES, wasRead),
      },
      position: () => {
        assert(position !== undefined, "the position of a streamed snapshot before its end");
        return position;
      },
      release: () => {
        this.#fileHeld = false;
      },
    };
  }

  /** A snapshot at `seq`: what follows continues it. */
  #startAt(seq: number): Position {
    const position = this.#positionAt(seq);
    this.#noteTaken(position);
    this.#changes.restart(position, 0);
    return position;
  }

  async *#readParts(
    file: FileHandle,
    bytes: number,
    partBytes: number,
    done: (ledger: PageLedger) => void,
  ): AsyncGenerator<Uint8Array> {
    const ledger = new PageLedger(PAGE_BYTES);
    const wholePages = Math.max(PAGE_BYTES, partBytes - (partBytes % PAGE_BYTES));
    for (let offset = 0; offset < bytes; offset += wholePages) {
      const part = new Uint8Array(Math.min(wholePages, bytes - offset));
      const got = file.read(part, 0, part.length, offset);
      assert(got === part.length, "the file of an object shrank under its snapshot");
      ledger.append(part);
      yield part;
      await yieldTurn(this.#parts.world);
    }
    done(ledger);
  }

  #positionAt(seq: number): Position {
    return { seq, identity: this.#ledger.identity(), pages: this.#ledger.pages, pageSize: PAGE_BYTES };
  }

  #noteTaken(position: Position): void {
    this.#hasBase = true;
    this.#takenSeq = position.seq;
    this.#takenIdentity = position.identity;
  }

  /**
   * In the tick of a capture, so that everything in the WAL is captured (S2).
   * @param isLittered something that was rolled back lies behind that: as long as it does, no commit is proven to have changed nothing
   */
  #checkpointIfLong(isLittered = false): void {
    if (!this.#connectionUsable || this.#fileHeld || this.#parts.database.inTransaction) return;
    const isLong = this.#capture.capturedBytes() > this.#parts.settings.OBJECT_WAL_BYTES_MAX;
    if (isLong || isLittered) this.#checkpoint();
  }

  /** A checkpoint that fails leaves the WAL as it was, so nothing committed depends on it. */
  #checkpoint(): Checkpoint {
    try {
      if (!this.#parts.database.checkpointTruncate()) return { kind: "in_use" };
    } catch (error) {
      return { kind: "failed", error: asMoonportError(error) };
    }
    this.#capture.noteCheckpoint();
    return { kind: "settled" };
  }
}

function lostWithConnection(): MoonportError {
  return MoonportError.of(
    "storage_failed",
    "only a snapshot could carry what is committed, and its connection is in doubt",
  );
}
