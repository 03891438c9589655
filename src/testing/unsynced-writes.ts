/**
 * What a power cut may take: the writes, sizes and names of a folder's files that no completed sync has made lasting.
 *
 * It keeps, of each sector that was written since, what the disk is sure to have. A cut then leaves some sectors new and
 * some old, or one of them torn, and files that are shorter; of the names, it undoes the latest changes. It covers files
 * that are opened by `Folder.open`; what SQLite writes by itself is not seen. A process crash takes none of this, so the
 * same account goes on in the next world.
 *
 * A sync that fails makes nothing lasting, and the next one does not make up for it: systems drop the mark that says that
 * those sectors were still to be written. Only writing them again does.
 */
import fs from "node:fs";
import path from "node:path";
import type { FileHandle } from "../world/folder.js";
import type { SeededRandom } from "./seeded-random.js";

const SECTOR_BYTES = 512;
const NOTHING = new Uint8Array(0);

/** By number of the sector: its bytes on the disk, fewer than a sector where the file ended. */
type Sectors = Map<number, Uint8Array>;

interface FileAccount {
  lastingBytes: number;
  /** Written since the last sync began. */
  written: Sectors;
  /** Under a sync that has not ended. */
  syncing: Sectors;
  /** Under a sync that failed, and not written again since. */
  dropped: Sectors;
}

interface NameChange {
  readonly folder: string;
  undo(root: string): void;
}

export class UnsyncedWrites {
  readonly #files = new Map<string, FileAccount>();
  /** In order; a journaling file system makes them lasting in order too. */
  #names: NameChange[] = [];

  /** @param existedBefore as anything else than an empty new file */
  opened(file: string, handle: FileHandle, existedBefore: boolean): void {
    if (!existedBefore) {
      this.#names.push({
        folder: path.dirname(file),
        undo: (root) => fs.rmSync(path.join(root, file), { force: true }),
      });
    }
    if (this.#files.has(file)) return;
    const lastingBytes = existedBefore ? handle.sizeBytes() : 0;
    this.#files.set(file, { lastingBytes, written: new Map(), syncing: new Map(), dropped: new Map() });
  }

  /** Before the bytes from `from` to `to` change, or go. */
  changing(file: string, handle: FileHandle, from: number, to: number): void {
    const account = this.#account(file);
    const sizeBytes = handle.sizeBytes();
    for (let sector = Math.floor(from / SECTOR_BYTES); sector * SECTOR_BYTES < to; sector++) {
      if (account.written.has(sector)) continue;
      const onDisk = account.dropped.get(sector) ?? contentOf(handle, sector, sizeBytes);
      account.dropped.delete(sector);
      account.written.set(sector, onDisk);
    }
  }

  /** What was written so far lasts if `end` says that it went well. */
  syncing(file: string, handle: FileHandle): { end(failed: boolean): void } {
    const account = this.#account(file);
    const sizeBytes = handle.sizeBytes();
    account.syncing = account.written;
    account.written = new Map();
    return {
      end: (failed) => {
        if (failed) account.dropped = new Map([...account.syncing, ...account.dropped]);
        else account.lastingBytes = sizeBytes;
        account.syncing = new Map();
      },
    };
  }

  /** @returns to be called when the names that have changed so far are lasting */
  syncingNames(folder: string): () => void {
    const changed = new Set(this.#names.filter((change) => change.folder === path.normalize(folder)));
    return () => {
      this.#names = this.#names.filter((change) => !changed.has(change));
    };
  }

  /** Before it happens. Files that were never opened for writing are not followed. */
  removing(file: string, content: () => Uint8Array): void {
    if (!this.#files.delete(file)) return;
    const bytes = content();
    this.#names.push({
      folder: path.dirname(file),
      undo: (root) => {
        // Its folder may have been removed after it.
        fs.mkdirSync(path.join(root, path.dirname(file)), { recursive: true });
        fs.writeFileSync(path.join(root, file), bytes);
      },
    });
  }

  /** Before it happens. @param overwritten of the file that has the new name by now */
  renaming(from: string, to: string, overwritten: Uint8Array | undefined): void {
    const account = this.#files.get(from);
    if (account === undefined) return;
    this.#files.delete(from);
    this.#files.set(to, account);
    this.#names.push({
      folder: path.dirname(to),
      undo: (root) => {
        if (!fs.existsSync(path.join(root, to))) return;
        fs.mkdirSync(path.join(root, path.dirname(from)), { recursive: true });
        fs.renameSync(path.join(root, to), path.join(root, from));
        if (overwritten !== undefined) fs.writeFileSync(path.join(root, to), overwritten);
      },
    });
  }

  /** No handle is left, a sync that was under way may have done anything. */
  processEnded(): void {
    for (const account of this.#files.values()) {
      for (const [sector, onDisk] of account.syncing) account.written.set(sector, onDisk);
      account.syncing = new Map();
    }
  }

  /** Makes the files under `root` what the disk may have kept of them. */
  cut(root: string, random: SeededRandom): void {
    this.processEnded();
    for (const [file, account] of this.#files) {
      const absolute = path.join(root, file);
      if (fs.existsSync(absolute)) cutFile(absolute, account, random);
    }
    const kept = random.below(this.#names.length + 1);
    for (const change of this.#names.slice(kept).reverse()) change.undo(root);
  }

  /** What a cut at this moment leaves at the worst: nothing that no sync has reached. @param bytes as they stand in the file */
  atWorst(file: string, bytes: Uint8Array): Uint8Array {
    const account = this.#files.get(file);
    if (account === undefined) return bytes;
    const after = Buffer.alloc(account.lastingBytes);
    after.set(bytes.subarray(0, after.length));
    // Oldest last: what is under a sync stood there before what was written since.
    for (const sectors of [account.written, account.syncing, account.dropped]) putBack(after, sectors);
    return after;
  }

  #account(file: string): FileAccount {
    const account = this.#files.get(file);
    if (account === undefined) throw new Error(`${file} was not opened for writing`);
    return account;
  }
}

function contentOf(handle: FileHandle, sector: number, sizeBytes: number): Uint8Array {
  const from = sector * SECTOR_BYTES;
  if (from >= sizeBytes) return NOTHING;
  const bytes = new Uint8Array(Math.min(SECTOR_BYTES, sizeBytes - from));
  handle.read(bytes, 0, bytes.length, from);
  return bytes;
}

function putBack(after: Buffer, sectors: Sectors): void {
  for (const [sector, onDisk] of sectors) {
    const place = after.subarray(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
    place.fill(0);
    place.set(onDisk.subarray(0, place.length));
  }
}

function cutFile(file: string, account: FileAccount, random: SeededRandom): void {
  const lost = [...account.dropped, ...account.written].sort(([a], [b]) => a - b);
  const bytes = fs.readFileSync(file);
  const sizeBytes = pick(random, [
    account.lastingBytes,
    bytes.length,
    between(random, account.lastingBytes, bytes.length),
  ]);
  const after = Buffer.alloc(sizeBytes);
  bytes.copy(after);
  const keep = keptSectors(random, lost.length);
  for (const [index, [sector, onDisk]] of lost.entries()) {
    const place = after.subarray(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
    const written = Buffer.from(place);
    const before = Buffer.alloc(place.length);
    before.set(onDisk.subarray(0, place.length));
    const outcome = keep(index);
    if (outcome !== "new") place.set(before);
    if (outcome === "torn") tear(place, written, random);
  }
  fs.writeFileSync(file, after);
}

/** In the middle of its transfer. Bytes that the write left as they were stay: disks and journals count on that of each other. */
function tear(place: Buffer, written: Buffer, random: SeededRandom): void {
  const changed = [...place.keys()].filter((index) => place[index] !== written[index]);
  const [first, last] = [changed[0], changed.at(-1)];
  if (first === undefined || last === undefined) return;
  place.set(random.bytes(last + 1 - first), first);
}

type Outcome = "new" | "old" | "torn";

/** Sectors in order of their place: a first part arrives, then nothing, or one that is torn; or any of them, in any order. */
function keptSectors(random: SeededRandom, count: number): (index: number) => Outcome {
  const arrived = random.below(count + 1);
  const mode = pick(random, ["prefix", "torn", "scattered"] as const);
  if (mode === "scattered") return () => pick(random, ["new", "old"]);
  return (index) => {
    if (index < arrived) return "new";
    return index === arrived && mode === "torn" ? "torn" : "old";
  };
}

function between(random: SeededRandom, one: number, other: number): number {
  return Math.min(one, other) + random.below(Math.abs(one - other) + 1);
}

function pick<T>(random: SeededRandom, choices: readonly T[]): T {
  return choices[random.below(choices.length)] as T;
}
