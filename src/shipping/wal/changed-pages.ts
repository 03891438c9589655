/**
 * What the frames of a stretch of WAL come to: for each page the place of its last committed image.
 *
 * Frames count only once their transaction's commit frame is seen; what was spilled and rolled back never does. A page
 * beyond the size that a commit leaves is gone, and must be written anew if the file grows over it again.
 */
import { lockPage } from "./words.js";

export class ChangedPages {
  readonly #lockPage: number;
  readonly #pagesMax: number;
  /** In file order, as the uncommitted ones. */
  readonly #offsets = new Map<number, number>();
  readonly #uncommitted = new Map<number, number>();
  /** Smallest size since the start: every page above it must have been written since. */
  #lowestPages: number;
  #tooMany = false;
  #tooManyUncommitted = false;
  finalPages: number;
  commits = 0;

  /**
   * @param pages size of the database before
   * @param pagesMax beyond so many changed pages places are no longer kept, only sizes
   */
  constructor(pageSize: number, pages: number, pagesMax: number) {
    this.#lockPage = lockPage(pageSize);
    this.#pagesMax = pagesMax;
    this.#lowestPages = pages;
    this.finalPages = pages;
  }

  /** More pages changed than may be kept. */
  get tooMany(): boolean {
    return this.#tooMany;
  }

  frame(pgno: number, offset: number): void {
    if (this.#tooMany || this.#tooManyUncommitted) return;
    putLast(this.#uncommitted, pgno, offset);
    this.#tooManyUncommitted = this.#uncommitted.size > this.#pagesMax;
  }

  commit(pages: number): void {
    for (const [pgno, offset] of this.#uncommitted) {
      if (pgno <= pages && pgno !== this.#lockPage) putLast(this.#offsets, pgno, offset);
    }
    this.#uncommitted.clear();
    if (pages < this.finalPages) {
      for (const pgno of this.#offsets.keys()) if (pgno > pages) this.#offsets.delete(pgno);
    }
    this.#lowestPages = Math.min(this.#lowestPages, pages);
    this.finalPages = pages;
    this.commits += 1;
    if (this.#tooManyUncommitted || this.#offsets.size > this.#pagesMax) {
      this.#tooMany = true;
      this.#offsets.clear();
    }
  }

  /** Page number and frame offset of every last image, in file order. */
  lastImages(): Iterable<readonly [pgno: number, offset: number]> {
    return this.#offsets;
  }

  /** A page by which the file grew and that no commit wrote, so its content is nobody's word. */
  missingPage(): number | undefined {
    for (let pgno = this.#lowestPages + 1; pgno <= this.finalPages; pgno++) {
      if (pgno !== this.#lockPage && !this.#offsets.has(pgno)) return pgno;
    }
    return undefined;
  }
}

function putLast(places: Map<number, number>, pgno: number, offset: number): void {
  places.delete(pgno);
  places.set(pgno, offset);
}
