/**
 * A real SQLite database shipped as an object is: captured after commits into a snapshot and segments, and restored from
 * them. `verify` restores everything and compares it byte for byte with what SQLite makes of the file and its WAL.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import SqliteDatabase, { type Database } from "better-sqlite3";
import { expect } from "vitest";
import { DatabaseAssembler } from "../../../src/shipping/wal/assemble.js";
import { PageLedger } from "../../../src/shipping/wal/page-identity.js";
import { PageImageCache } from "../../../src/shipping/wal/page-image-cache.js";
import { encodeSegment } from "../../../src/shipping/wal/segment.js";
import { type Captured, WalCapture } from "../../../src/shipping/wal/wal-capture.js";
import { RealFolder } from "../../../src/world/real-folder.js";

export interface ShippedOptions {
  readonly pageSize?: number;
  readonly autoVacuum?: boolean;
  readonly exclusive?: boolean;
  readonly changedBytesMax?: number;
}

export class ShippedObject {
  readonly root = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-wal-"));
  readonly folder = new RealFolder(this.root);
  readonly pageSize: number;
  readonly database: Database;
  readonly capture: WalCapture;
  readonly segments: Uint8Array[] = [];
  readonly images = new PageImageCache(1 << 20).imagesOf();
  snapshot: { readonly seq: number; readonly bytes: Uint8Array } | undefined;
  ledger: PageLedger;
  seq = 0;
  segmentsMade = 0;
  snapshotsNeeded = 0;
  /** The caller knows of commits since the last flight: if the WAL does not, it was checkpointed away by a stranger. */
  isWritten = false;

  constructor(options: ShippedOptions = {}) {
    this.pageSize = options.pageSize ?? 1024;
    this.database = new SqliteDatabase(this.absolute("object.db"));
    this.database.pragma(`page_size = ${this.pageSize}`);
    if (options.autoVacuum) this.database.pragma("auto_vacuum = INCREMENTAL");
    if (options.exclusive ?? true) this.database.pragma("locking_mode = EXCLUSIVE");
    for (const pragma of ["journal_mode = WAL", "synchronous = OFF", "wal_autocheckpoint = 0"]) {
      this.database.pragma(pragma);
    }
    this.capture = new WalCapture(this.folder, "object.db", {
      pageSize: this.pageSize,
      changedBytesMax: options.changedBytesMax ?? 64 << 20,
    });
    this.ledger = new PageLedger(this.pageSize);
    this.takeSnapshot();
  }

  absolute(name: string): string {
    return path.join(this.root, name);
  }

  walFile(): string {
    return this.absolute("object.db-wal");
  }

  /** As the shipper does at a flight: a segment, or a snapshot where one is needed. */
  ship(): Captured {
    const captured = this.capture.capture();
    if (captured.kind === "pages") this.#addSegment(captured.pages, captured.finalPages);
    if (captured.kind === "snapshot_needed") this.snapshotsNeeded += 1;
    if (captured.kind === "snapshot_needed" || (captured.kind === "nothing" && this.isWritten)) this.takeSnapshot();
    this.isWritten = false;
    return captured;
  }

  /** A snapshot, if one is needed, has to wait: it would hold what is not committed. */
  shipInTransaction(): void {
    const captured = this.capture.capture();
    if (captured.kind === "pages") this.#addSegment(captured.pages, captured.finalPages);
  }

  takeSnapshot(): void {
    const bytes = this.serialize();
    this.capture.startAfterSnapshot();
    this.seq += 1;
    this.snapshot = { seq: this.seq, bytes };
    this.segments.length = 0;
    this.images.drop();
    this.ledger = PageLedger.ofBytes(bytes, this.pageSize);
  }

  /** The page cache may hold another content of free pages than the file and the WAL do: it has to go first. */
  serialize(): Buffer {
    this.database.pragma("shrink_memory");
    return this.database.serialize();
  }

  /** What the next life would find: file and WAL through a connection of its own. */
  content(): Buffer {
    const copy = this.absolute("copy.db");
    fs.copyFileSync(this.absolute("object.db"), copy);
    if (fs.existsSync(this.walFile())) fs.copyFileSync(this.walFile(), `${copy}-wal`);
    const database = new SqliteDatabase(copy);
    const bytes = database.serialize();
    database.close();
    return bytes;
  }

  /** @returns whether it was done; only after everything was captured */
  checkpoint(): boolean {
    if (!this.capture.isFullyCaptured()) return false;
    const [row] = this.database.pragma("wal_checkpoint(TRUNCATE)") as { busy: number }[];
    if (row?.busy !== 0) return false;
    this.capture.noteCheckpoint();
    return true;
  }

  /** Ships what is left, restores all and compares. */
  verify(): void {
    this.ship();
    this.verifyAsShipped(this.content());
  }

  /** Restores what was shipped so far and compares it with `expected`. */
  verifyAsShipped(expected: Uint8Array): void {
    this.restore("restored.db");
    const restored = fs.readFileSync(this.absolute("restored.db"));
    expect(restored.length).toBe(expected.length);
    expect(restored.equals(expected), "the restored file is what the database is").toBe(true);
    expect(PageLedger.ofBytes(expected, this.pageSize).identity()).toBe(this.ledger.identity());
    if (expected.length === 0) return;
    const check = new SqliteDatabase(this.absolute("restored.db"));
    expect(check.pragma("quick_check", { simple: true })).toBe("ok");
    check.close();
  }

  restore(target: string): PageLedger {
    const assembler = new DatabaseAssembler(this.folder, target, { object: "test/Object/1", pageSize: this.pageSize });
    const { snapshot } = this;
    if (snapshot === undefined || snapshot.bytes.length === 0) {
      assembler.startEmpty(snapshot?.seq ?? 0);
    } else {
      // Cut at places that are no page ends, as streams do.
      for (let at = 0; at < snapshot.bytes.length; at += 100_001) {
        assembler.addSnapshotPart(snapshot.bytes.subarray(at, at + 100_001));
      }
      assembler.endSnapshot({ epoch: 1, seq: snapshot.seq, bytes: snapshot.bytes.length });
    }
    for (const segment of this.segments) assembler.addSegment(segment);
    const { seq, ledger } = this;
    return assembler.finish({ seq, pages: ledger.pages, identity: ledger.identity() });
  }

  close(): void {
    this.capture.close();
    this.database.close();
    fs.rmSync(this.root, { recursive: true, force: true });
  }

  #addSegment(pages: ReadonlyMap<number, Uint8Array>, finalPages: number): void {
    const identityBefore = this.ledger.identity();
    this.ledger.apply(pages, finalPages);
    this.seq += 1;
    this.segmentsMade += 1;
    const head = {
      epoch: 1,
      fromSeq: this.seq,
      toSeq: this.seq,
      pageSize: this.pageSize,
      finalPages,
      identityBefore,
      identityAfter: this.ledger.identity(),
    };
    this.segments.push(encodeSegment(head, pages, (pgno) => this.images.get(pgno)));
    this.images.shipped(pages, finalPages);
  }
}
