/** Local files of objects that are not open, bounded by LOCAL_BYTES_MAX: the longest unused is deleted first, the bucket has it. */

import { removeLocalFile } from "../shipping/open-file.js";
import { UNFINISHED_SUFFIX } from "../shipping/wal/assemble.js";
import type { Folder } from "../world/folder.js";

export class LocalCopies {
  readonly #folder: Folder;
  readonly #bytesMax: number;
  /** Bytes by path, in order of last use. */
  readonly #files = new Map<string, number>();
  #bytes = 0;

  constructor(folder: Folder, bytesMax: number) {
    this.#folder = folder;
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Takes over what an earlier life left, oldest first. What it had not finished is nobody's: its object may live elsewhere by now. */
  scan(): void {
    const paths = this.#folder
      .list("objects")
      .flatMap((partition) => this.#folder.list(`objects/${partition}`).map((name) => `objects/${partition}/${name}`));
    for (const path of paths) if (path.endsWith(UNFINISHED_SUFFIX)) this.#folder.remove(path);
    const found = paths.filter((path) => path.endsWith(".db")).map((path) => ({ path, stat: this.#folder.stat(path) }));
    found.sort((a, b) => (a.stat?.modifiedMs ?? 0) - (b.stat?.modifiedMs ?? 0));
    for (const { path, stat } of found) this.closed(path, stat?.sizeBytes ?? 0);
  }

  closed(path: string, bytes: number): void {
    this.opened(path);
    this.#files.set(path, bytes);
    this.#bytes += bytes;
    for (const oldest of this.#files.keys()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.opened(oldest);
      removeLocalFile({ folder: this.#folder }, oldest);
    }
  }

  /** The file is in use, or gone. */
  opened(path: string): void {
    this.#bytes -= this.#files.get(path) ?? 0;
    this.#files.delete(path);
  }
}
