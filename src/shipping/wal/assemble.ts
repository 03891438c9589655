/**
 * Restore: a database file built from a snapshot and the segments that follow it, each applied only where it belongs.
 *
 * The file grows beside its final name and takes it at the end, when seq, size and identity are what the manifest says; a
 * gap, a wrong base or a damaged byte ends the assembly with `object_corrupt` and nothing is left on disk (S1).
 */
import { posix } from "node:path";
import { assert, MoonportError } from "../../errors.js";
import type { FileHandle, Folder } from "../../world/folder.js";
import { segmentsOf } from "./bundle.js";
import { GrowingFile } from "./growing-file.js";
import { PageLedger } from "./page-identity.js";
import { isPageSize } from "./words.js";

export interface AssemblyOptions {
  /** Object id, for messages. */
  readonly object: string;
  /** Bytes. */
  readonly pageSize: number;
}

/** What the manifest says the database is at its seq. */
export interface AssemblyTarget {
  readonly seq: number;
  readonly pages: number;
  readonly identity: string;
}

/** Files that SQLite would replay over a restored database if an earlier life had left them. */
const SIDE_FILES = ["-wal", "-shm", "-journal"];

/** Behind the name of the database that it is to become. */
export const UNFINISHED_SUFFIX = ".restoring";

/** Base (`addSnapshotPart`... `endSnapshot`, or `startEmpty`), then `addSegment` in order, then `finish`. Any failure is final. */
export class DatabaseAssembler {
  readonly #folder: Folder;
  readonly #path: string;
  readonly #options: AssemblyOptions;
  readonly #ledger: PageLedger;
  #file: FileHandle | undefined;
  /** The start of a page whose rest comes with the next part of the snapshot. */
  #partial = new Uint8Array(0);
  #snapshotBytes = 0;
  /** The content so far, once the base is there. */
  #content: GrowingFile | undefined;
  #isFinished = false;

  /** @param path of the database, relative to the folder; what stands there is replaced at the end */
  constructor(folder: Folder, path: string, options: AssemblyOptions) {
    this.#folder = folder;
    this.#path = path;
    this.#options = options;
    if (!isPageSize(options.pageSize)) throw this.#corrupt(`its page size is ${options.pageSize}`);
    this.#ledger = new PageLedger(options.pageSize);
    folder.ensureDirectory(posix.dirname(path));
    this.#file = folder.open(this.#besidePath, "write");
  }

  /** The next bytes of the snapshot, cut anywhere. */
  addSnapshotPart(part: Uint8Array): void {
    this.#step((file) => {
      assert(this.#content === undefined, "a snapshot comes first");
      file.write(part, this.#snapshotBytes);
      this.#snapshotBytes += part.length;
      const bytes = this.#partial.length === 0 ? part : Buffer.concat([this.#partial, part]);
      const wholeBytes = bytes.length - (bytes.length % this.#options.pageSize);
      this.#ledger.append(bytes.subarray(0, wholeBytes));
      this.#partial = new Uint8Array(bytes.subarray(wholeBytes));
    });
  }

  endSnapshot(expected: { readonly epoch: number; readonly seq: number; readonly bytes: number }): void {
    this.#step((file) => {
      assert(this.#content === undefined, "a snapshot ends once");
      const name = `its snapshot at seq ${expected.seq}`;
      if (this.#snapshotBytes !== expected.bytes) {
        throw this.#corrupt(`${name} has ${this.#snapshotBytes} bytes instead of ${expected.bytes}`);
      }
      if (this.#partial.length > 0 || expected.bytes === 0) {
        throw this.#corrupt(`${name} is no whole number of pages of ${this.#options.pageSize} bytes`);
      }
      this.#content = this.#growing(file, expected.seq, expected.epoch);
    });
  }

  /** There is no snapshot: the history begins after `seq` with an empty database. */
  startEmpty(seq: number): void {
    this.#step((file) => {
      assert(this.#content === undefined && this.#snapshotBytes === 0, "an assembly has one base");
      this.#content = this.#growing(file, seq, 0);
    });
  }

  /** Content identity of what was assembled so far. */
  get identity(): string {
    return this.#ledger.identity();
  }

  /** The next segment, or several in a bundle, as they lay in the bucket. */
  addSegment(body: Uint8Array): void {
    let segments: readonly Uint8Array[] = [];
    this.#step(() => {
      segments = segmentsOf(body);
    });
    for (const segment of segments) this.#addOne(segment);
  }

  #addOne(bytes: Uint8Array): void {
    this.#step(() => {
      assert(this.#content !== undefined, "a segment needs a base");
      this.#content.add(bytes);
    });
  }

  /** Gives the file its name. Returns the ledger of its pages, for the shipper that goes on from there. */
  finish(target: AssemblyTarget): PageLedger {
    this.#step((file) => {
      const ledger = this.#ledger;
      const seq = this.#content?.seq;
      if (seq !== target.seq) throw this.#corrupt(`its history ends at seq ${seq} instead of ${target.seq}`);
      if (ledger.pages !== target.pages) throw this.#corrupt(`it has ${ledger.pages} pages instead of ${target.pages}`);
      if (ledger.identity() !== target.identity) {
        throw this.#corrupt(`its content is ${ledger.identity()} instead of ${target.identity}`);
      }
      file.truncate(ledger.pages * this.#options.pageSize);
      file.close();
      this.#file = undefined;
      for (const suffix of SIDE_FILES) this.#folder.remove(`${this.#path}${suffix}`);
      this.#folder.rename(this.#besidePath, this.#path);
      this.#isFinished = true;
    });
    return this.#ledger;
  }

  /** Gives up; idempotent, and without effect after `finish`. */
  abort(): void {
    if (this.#isFinished) return;
    this.#file?.close();
    this.#file = undefined;
    this.#folder.remove(this.#besidePath);
  }

  get #besidePath(): string {
    return `${this.#path}${UNFINISHED_SUFFIX}`;
  }

  #step(action: (file: FileHandle) => void): void {
    const file = this.#file;
    assert(file !== undefined, "the assembly has ended");
    try {
      action(file);
    } catch (error) {
      this.abort();
      throw error instanceof MoonportError ? error.with({ object: this.#options.object }) : error;
    }
  }

  #growing(file: FileHandle, seq: number, epoch: number): GrowingFile {
    const { object } = this.#options;
    return new GrowingFile({ file, path: this.#besidePath, object, ledger: this.#ledger }, seq, epoch);
  }

  #corrupt(why: string): MoonportError {
    const { object } = this.#options;
    return MoonportError.of("object_corrupt", `the history of ${object} is damaged: ${why}`, { object });
  }
}
