/** A folder of the machine's file system. */
import fs from "node:fs";
import path from "node:path";
import SqliteDatabase, { type Database } from "better-sqlite3";
import { MoonportError } from "../errors.js";
import { makeDirectory } from "./directories.js";
import { type FileHandle, type FileStat, type Folder, type FolderLock, type OpenMode, storageError } from "./folder.js";

const OPEN_FLAGS: Readonly<Record<OpenMode, string>> = { read: "r", write: "w+", update: "r+" };

export class RealFolder implements Folder {
  readonly #root: string;

  constructor(root: string) {
    this.#root = path.resolve(root);
  }

  absolute(relative: string): string {
    return path.join(this.#root, relative);
  }

  ensureDirectory(relative: string): void {
    this.#do("create folder", relative, makeDirectory);
  }

  readFile(relative: string): Uint8Array | undefined {
    return this.#do("read", relative, (file) => ifThere(() => fs.readFileSync(file)));
  }

  replaceFile(relative: string, bytes: Uint8Array): void {
    this.#do("write", relative, (file) => {
      const beside = `${file}.new`;
      fs.writeFileSync(beside, bytes);
      fs.renameSync(beside, file);
    });
  }

  remove(relative: string): void {
    this.#do("remove", relative, (file) => {
      // Mostly it is not there, and to be told so by rmSync costs four times as much.
      if (fs.lstatSync(file, { throwIfNoEntry: false }) !== undefined) fs.rmSync(file, { force: true });
    });
  }

  removeTree(relative: string): void {
    this.#do("remove", relative, (file) => fs.rmSync(file, { force: true, recursive: true }));
  }

  rename(from: string, to: string): void {
    this.#do("rename", from, (file) => fs.renameSync(file, this.absolute(to)));
  }

  list(relative: string): string[] {
    return this.#do("list", relative, (file) => ifThere(() => fs.readdirSync(file)) ?? []);
  }

  stat(relative: string): FileStat | undefined {
    return this.#do("stat", relative, (file) => {
      const stat = fs.statSync(file, { throwIfNoEntry: false });
      return stat && { sizeBytes: stat.size, modifiedMs: stat.mtimeMs, isDirectory: stat.isDirectory() };
    });
  }

  open(relative: string, mode: OpenMode): FileHandle {
    return this.#do("open", relative, (file) => new RealFile(file, fs.openSync(file, OPEN_FLAGS[mode])));
  }

  async flushDirectory(relative: string): Promise<void> {
    const file = this.absolute(relative);
    const descriptor = this.#do("open", relative, () => fs.openSync(file, "r"));
    try {
      await settled("sync", file, (done) => fs.fsync(descriptor, done));
    } finally {
      fs.closeSync(descriptor);
    }
  }

  openDatabase(relative: string, options: { readonly?: boolean; mustExist?: boolean } = {}): Database {
    return this.#do("open", relative, (file) => {
      return new SqliteDatabase(file, {
        readonly: options.readonly ?? false,
        fileMustExist: options.mustExist ?? false,
      });
    });
  }

  /** An exclusive transaction on a small SQLite file: the operating system drops it with the process, so no stale lock is left. */
  lock(relative: string): FolderLock {
    const database = this.openDatabase(relative);
    try {
      database.pragma("busy_timeout = 0");
      // Nothing is ever written: no journal's file stays behind a process that was killed.
      database.pragma("journal_mode = MEMORY");
      database.pragma("locking_mode = EXCLUSIVE");
      database.exec("BEGIN EXCLUSIVE");
    } catch (cause) {
      database.close();
      if ((cause as { code?: string }).code !== "SQLITE_BUSY")
        throw storageError("lock", this.absolute(relative), cause);
      throw MoonportError.of("folder_locked", `another process uses ${path.dirname(this.absolute(relative))}`, {
        cause,
      });
    }
    return { release: () => void database.close() };
  }

  #do<T>(operation: string, relative: string, action: (file: string) => T): T {
    const file = this.absolute(relative);
    try {
      return action(file);
    } catch (cause) {
      throw storageError(operation, file, cause);
    }
  }
}

/** Closed, it touches no descriptor: the number may be another file's by then. */
class RealFile implements FileHandle {
  readonly #path: string;
  #openDescriptor: number | undefined;

  constructor(file: string, descriptor: number) {
    this.#path = file;
    this.#openDescriptor = descriptor;
  }

  read(target: Uint8Array, offset: number, length: number, position: number): number {
    return this.#do("read", () => fs.readSync(this.#descriptor, target, offset, length, position));
  }

  write(source: Uint8Array, position: number): void {
    this.#do("write", () => {
      let done = 0;
      while (done < source.length) {
        done += fs.writeSync(this.#descriptor, source, done, source.length - done, position + done);
      }
    });
  }

  sizeBytes(): number {
    return this.#do("stat", () => fs.fstatSync(this.#descriptor).size);
  }

  truncate(sizeBytes: number): void {
    this.#do("truncate", () => fs.ftruncateSync(this.#descriptor, sizeBytes));
  }

  sync(): void {
    this.#do("sync", () => fs.fdatasyncSync(this.#descriptor));
  }

  flush(): Promise<void> {
    return settled("sync", this.#path, (done) => fs.fdatasync(this.#descriptor, done));
  }

  close(): void {
    const descriptor = this.#openDescriptor;
    this.#openDescriptor = undefined;
    if (descriptor !== undefined) fs.closeSync(descriptor);
  }

  get #descriptor(): number {
    if (this.#openDescriptor === undefined) throw new Error("it is closed");
    return this.#openDescriptor;
  }

  #do<T>(operation: string, action: () => T): T {
    try {
      return action();
    } catch (cause) {
      throw storageError(operation, this.#path, cause);
    }
  }
}

function settled(operation: string, file: string, start: (done: (error: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    start((error) => (error === null ? resolve() : reject(storageError(operation, file, error))));
  });
}

function ifThere<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
