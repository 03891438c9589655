/**
 * The one way to the disk: a folder, addressed by relative paths with forward slashes.
 *
 * Operations are synchronous: they touch the page cache, SQLite is synchronous anyway, and a caller that moves many
 * bytes does so in bounded steps with {@link yieldTurn} between. Only those that wait for the disk itself have a form that
 * does not hold up the loop (`flush`, `flushDirectory`). Every failure is a MoonportError (`storage_full`,
 * `storage_readonly`, `storage_failed`) that names the operation and the path.
 */
import type { Database } from "better-sqlite3";
import { type ErrorCode, MoonportError } from "../errors.js";

export interface FileStat {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly isDirectory: boolean;
}

export interface FileHandle {
  /** Reads up to `length` bytes at `position` into `target` at `offset`; returns how many there were. */
  read(target: Uint8Array, offset: number, length: number, position: number): number;
  write(source: Uint8Array, position: number): void;
  sizeBytes(): number;
  /** Cuts the file to `sizeBytes`, or extends it with zeros. */
  truncate(sizeBytes: number): void;
  /** Flushes data to the disk (fdatasync). */
  sync(): void;
  /**
   * The same beside the loop: what was written before the call is on the disk when it resolves. One at a time, and `close`
   * comes after it.
   */
  flush(): Promise<void>;
  /** Idempotent; everything else fails from then on. */
  close(): void;
}

/** `read` and `update` refuse a missing file; `write` creates it or empties it. */
export type OpenMode = "read" | "write" | "update";

export interface FolderLock {
  release(): void;
}

export interface Folder {
  /** The absolute path, for messages and for libraries that open files themselves. */
  absolute(path: string): string;
  ensureDirectory(path: string): void;
  /** `undefined` when there is no such file. */
  readFile(path: string): Uint8Array | undefined;
  /** Writes beside and renames over, so a reader sees the old content or the new. */
  replaceFile(path: string, bytes: Uint8Array): void;
  /** No error when it is not there. */
  remove(path: string): void;
  removeTree(path: string): void;
  rename(from: string, to: string): void;
  /** Names in a directory; empty when it is not there. */
  list(path: string): string[];
  stat(path: string): FileStat | undefined;
  open(path: string, mode: OpenMode): FileHandle;
  /** The names in a directory are on the disk when it resolves: a new file's own `sync` does not promise that it is found. */
  flushDirectory(path: string): Promise<void>;
  openDatabase(path: string, options?: { readonly readonly?: boolean; readonly mustExist?: boolean }): Database;
  /** Holds `path` against every other process until released or until this one dies. @throws `folder_locked` */
  lock(path: string): FolderLock;
}

const ERRNO_CODES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: "storage_full",
  EDQUOT: "storage_full",
  EROFS: "storage_readonly",
  EACCES: "storage_readonly",
  EPERM: "storage_readonly",
  SQLITE_FULL: "storage_full",
  SQLITE_READONLY: "storage_readonly",
  SQLITE_CANTOPEN: "storage_readonly",
};

/** A failed file operation as a coded error, with the operation and the path. */
export function storageError(operation: string, path: string, cause: unknown): MoonportError {
  if (cause instanceof MoonportError) return cause;
  const errno = (cause as NodeJS.ErrnoException | undefined)?.code ?? "";
  // SQLite's extended codes go on after the primary one: SQLITE_READONLY_DIRECTORY.
  const primary = /^SQLITE_[A-Z]+/.exec(errno)?.[0] ?? errno;
  const code = ERRNO_CODES[primary] ?? "storage_failed";
  const message = cause instanceof Error ? cause.message : String(cause);
  return MoonportError.of(code, `${operation} ${path}: ${message}`, { cause });
}
