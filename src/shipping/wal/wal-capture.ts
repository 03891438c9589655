/**
 * Capture: what an object committed since the last flight, read from its WAL.
 *
 * The parse of the WAL is the truth. A capture holds whole commits and continues exactly where the last one ended, or it
 * says that the object needs a snapshot (S1): it never skips, never guesses, and never moves past a commit. It relies on
 * S2: only the shipper checkpoints, in the same tick in which {@link WalCapture.isFullyCaptured} held.
 *
 * Everything is synchronous and meant for the thread of the object's connection: between two statements nothing moves.
 */
import { assert } from "../../errors.js";
import type { FileHandle, Folder } from "../../world/folder.js";
import { ChangedPages } from "./changed-pages.js";
import { WAL_HEADER_BYTES, type WalHeader } from "./wal-format.js";
import { type Cursor, lastImages, readHeader, type Scan, scanCommits, startOf } from "./wal-scan.js";

export type SnapshotReason =
  /** Nothing was captured yet and no start was set. */
  | "not_started"
  /** The WAL began again without our having checkpointed, or more often than we did: commits may be lost in between. */
  | "wal_restarted"
  /** The WAL is shorter than what was captured of it. */
  | "wal_truncated"
  /** The WAL's header is not intact although frames under it were captured. */
  | "wal_damaged"
  | "page_size_changed"
  /** The file grew over a page that no commit wrote. */
  | "page_missing"
  /** More bytes of pages changed than a segment may carry. */
  | "too_large";

export type Captured =
  /**
   * No commit since the last capture. If the caller knows of one, it set what stood already, which {@link WalCapture.endsAtPosition}
   * proves, or the WAL is not what it was: take a snapshot.
   */
  | { readonly kind: "nothing" }
  | {
      readonly kind: "pages";
      /** Last image of each changed page by page number: to be used, or copied, before any WAL is read again. */
      readonly pages: ReadonlyMap<number, Uint8Array>;
      /** Size of the database after the last commit, in pages. */
      readonly finalPages: number;
      readonly commits: number;
    }
  /** Stays the answer until {@link WalCapture.startAfterSnapshot}: a snapshot that was not taken stays owed. */
  | { readonly kind: "snapshot_needed"; readonly reason: SnapshotReason };

/** What the first header after a restart of the WAL must look like. `salt1` is unknown before a connection's first commit. */
interface NextHeader {
  readonly checkpointSeq: number;
  readonly salt1: number | undefined;
}

type Position =
  /** `resume`: how far it was read all the same. `next`: what a WAL begun again after this would start with. */
  | { readonly kind: "lost"; readonly reason: SnapshotReason; readonly resume?: Cursor; readonly next: NextHeader }
  /** All is captured and checkpointed: the next commit begins the WAL anew. */
  | { readonly kind: "before_first_commit"; readonly next: NextHeader }
  | { readonly kind: "within"; readonly cursor: Cursor };

/** Where to read from, or why nothing can be read. */
type Look =
  | { readonly kind: "frames"; readonly file: FileHandle; readonly from: Cursor }
  | { readonly kind: "nothing" }
  | { readonly kind: "lost"; readonly reason: SnapshotReason; readonly header?: WalHeader };

const NOTHING: Captured & Look = { kind: "nothing" };
/** A connection that opened a file without a WAL. */
const FIRST_HEADER: NextHeader = { checkpointSeq: 0, salt1: undefined };
const NOT_STARTED: Position = { kind: "lost", reason: "not_started", next: FIRST_HEADER };

export interface WalCaptureOptions {
  /** Bytes. */
  readonly pageSize: number;
  /** Changed pages beyond this many bytes make a snapshot instead of a segment. */
  readonly changedBytesMax: number;
}

/**
 * One for each opening of the object's database: made and started before the connection's first checkpoint, closed with the
 * connection, which deletes the WAL.
 */
export class WalCapture {
  readonly #folder: Folder;
  readonly #databasePath: string;
  readonly #pageSize: number;
  readonly #pagesMax: number;
  #file: FileHandle | undefined;
  #position: Position = NOT_STARTED;
  /** Size of the database at the position. */
  #pages = 0;

  /** @param databasePath relative to the folder; the WAL is the same with `-wal` behind */
  constructor(folder: Folder, databasePath: string, options: WalCaptureOptions) {
    this.#folder = folder;
    this.#databasePath = databasePath;
    this.#pageSize = options.pageSize;
    this.#pagesMax = Math.max(1, Math.floor(options.changedBytesMax / options.pageSize));
  }

  /** What was committed since the last capture. */
  capture(): Captured {
    const look = this.#look();
    if (look.kind === "nothing") return NOTHING;
    if (look.kind === "lost") return this.#lose(look.reason, look.header && after(look.header));
    const changed = new ChangedPages(this.#pageSize, this.#pages, this.#pagesMax);
    const scan = scanCommits(look.file, look.from, changed);
    if (changed.commits === 0) return this.#nothingNew(look.file, look.from);
    if (changed.tooMany) return this.#loseAfter(scan, changed, "too_large");
    if (changed.missingPage() !== undefined) return this.#loseAfter(scan, changed, "page_missing");
    // Read before the position moves: if that fails, the next capture takes the same commits.
    const pages = lastImages(look.file, look.from, scan, changed);
    this.#moveTo(scan.end, changed.finalPages);
    return { kind: "pages", pages, finalPages: changed.finalPages, commits: changed.commits };
  }

  /** Whether every commit is captured, so that a checkpoint in this very tick loses nothing (S2). */
  isFullyCaptured(): boolean {
    const look = this.#look();
    if (look.kind !== "frames") return look.kind === "nothing";
    const changed = new ChangedPages(this.#pageSize, this.#pages, 0);
    scanCommits(look.file, look.from, changed);
    return changed.commits === 0 && look.file.sizeBytes() >= look.from.offset;
  }

  /**
   * Right after a capture of nothing: whether the WAL ends where that stands, so that no commit has left anything behind it. One
   * whose frames are damaged would have made it longer; so does what was spilled and rolled back, and then nobody can tell.
   */
  endsAtPosition(): boolean {
    const position = this.#position;
    if (position.kind === "lost" || this.#file === undefined) return false;
    const sizeBytes = this.#file.sizeBytes();
    return position.kind === "within" ? sizeBytes === position.cursor.offset : sizeBytes <= WAL_HEADER_BYTES;
  }

  /** After a `wal_checkpoint(TRUNCATE)` that was not busy, in the tick in which {@link isFullyCaptured} held. Not for any other. */
  noteCheckpoint(): void {
    const position = this.#position;
    if (position.kind === "within") {
      this.#position = { kind: "before_first_commit", next: after(position.cursor.header) };
    } else if (position.kind === "before_first_commit") {
      this.#position = { kind: "before_first_commit", next: after(position.next) };
    }
  }

  /**
   * Puts the position at the end of what is committed now: in the tick of a snapshot, or at opening a file whose content is
   * known to be what the manifest names. A later capture holds what comes after.
   */
  startAfterSnapshot(): void {
    const file = this.#openFile();
    const header = file && readHeader(file);
    if (file === undefined || header === undefined) return this.#startBeforeFirstCommit(this.#nextHeader());
    assert(header.pageSize === this.#pageSize, "the WAL is of another page size than the database");
    const from = this.#resumable(header) ?? startOf(header);
    const changed = new ChangedPages(this.#pageSize, this.#pages, 0);
    const { end } = scanCommits(file, from, changed);
    if (end.offset > WAL_HEADER_BYTES) this.#moveTo(end, changed.finalPages);
    else this.#startBeforeFirstCommit({ checkpointSeq: header.checkpointSeq, salt1: undefined });
  }

  /** How much of the WAL was captured since it last began. Costs nothing. */
  capturedBytes(): number {
    return this.#position.kind === "within" ? this.#position.cursor.offset : 0;
  }

  /** Size of the WAL file, captured or not, what was rolled back included. Asks the file system. */
  walBytes(): number {
    return this.#openFile()?.sizeBytes() ?? 0;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
    this.#position = NOT_STARTED;
  }

  /**
   * The header is read anew each time: a WAL that began again may have the size it had before, and frames of its last life may
   * stand where the next ones are looked for, whole and in their chain.
   */
  #look(): Look {
    const position = this.#position;
    if (position.kind === "lost") return position;
    const file = this.#openFile();
    const header = file && readHeader(file);
    if (position.kind === "within") return lookWithin(file, position.cursor, header);
    // No header, or a torn one whose commit failed: SQLite writes it with the next commit.
    if (file === undefined || header === undefined) return NOTHING;
    if (header.pageSize !== this.#pageSize) return { kind: "lost", reason: "page_size_changed", header };
    if (!isNext(header, position.next)) return { kind: "lost", reason: "wal_restarted", header };
    return { kind: "frames", file, from: startOf(header) };
  }

  #nothingNew(file: FileHandle, from: Cursor): Captured {
    return file.sizeBytes() < from.offset ? this.#lose("wal_truncated") : NOTHING;
  }

  #loseAfter(scan: Scan, changed: ChangedPages, reason: SnapshotReason): Captured {
    this.#moveTo(scan.end, changed.finalPages);
    return this.#lose(reason);
  }

  #lose(reason: SnapshotReason, next: NextHeader = this.#nextHeader()): Captured {
    const position = this.#position;
    const resume =
      position.kind === "within" ? position.cursor : position.kind === "lost" ? position.resume : undefined;
    this.#position = { kind: "lost", reason, next, ...(resume && { resume }) };
    return { kind: "snapshot_needed", reason };
  }

  #nextHeader(): NextHeader {
    return this.#position.kind === "within" ? after(this.#position.cursor.header) : this.#position.next;
  }

  /** The end of what was read already, if the WAL is still the same one: spares reading a long WAL twice. */
  #resumable(header: WalHeader): Cursor | undefined {
    const position = this.#position;
    const cursor =
      position.kind === "within" ? position.cursor : position.kind === "lost" ? position.resume : undefined;
    return cursor && isSame(cursor.header, header) ? cursor : undefined;
  }

  #moveTo(cursor: Cursor, pages: number): void {
    this.#position = { kind: "within", cursor };
    this.#pages = pages;
  }

  #startBeforeFirstCommit(next: NextHeader): void {
    // Only stat: to open and close the file would drop the locks that SQLite holds on it in this process.
    const databaseBytes = this.#folder.stat(this.#databasePath)?.sizeBytes ?? 0;
    this.#pages = Math.floor(databaseBytes / this.#pageSize);
    this.#position = { kind: "before_first_commit", next };
  }

  /** SQLite creates the WAL when it first needs it, and keeps that file until it closes. */
  #openFile(): FileHandle | undefined {
    const path = `${this.#databasePath}-wal`;
    if (this.#file === undefined && this.#folder.stat(path) !== undefined) this.#file = this.#folder.open(path, "read");
    return this.#file;
  }
}

function lookWithin(file: FileHandle | undefined, from: Cursor, header: WalHeader | undefined): Look {
  if (file === undefined) return { kind: "lost", reason: "wal_truncated" };
  if (header === undefined) {
    return { kind: "lost", reason: file.sizeBytes() < WAL_HEADER_BYTES ? "wal_truncated" : "wal_damaged" };
  }
  return isSame(header, from.header)
    ? { kind: "frames", file, from }
    : { kind: "lost", reason: "wal_restarted", header };
}

function isSame(a: WalHeader, b: WalHeader): boolean {
  return a.salt1 === b.salt1 && a.salt2 === b.salt2 && a.checkpointSeq === b.checkpointSeq && a.pageSize === b.pageSize;
}

function isNext(header: WalHeader, next: NextHeader): boolean {
  return header.checkpointSeq === next.checkpointSeq && (next.salt1 === undefined || header.salt1 === next.salt1);
}

/** SQLite counts both up by one each time it begins the WAL again. */
function after({ checkpointSeq, salt1 }: NextHeader): NextHeader {
  return { checkpointSeq: (checkpointSeq + 1) >>> 0, salt1: salt1 === undefined ? undefined : (salt1 + 1) >>> 0 };
}
