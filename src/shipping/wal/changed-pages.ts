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
    this.#uncommitted.set(pgno, offset);
    this.#tooManyUncommitted = this.#uncommitted.size > this.#pagesMax;
  }

  commit(pages: number): void {
    for (const [pgno, offset] of this.#uncommitted) {
      if (pgno <= pages && pgno !== this.#lockPage) this.#offsets.set(pgno, offset);
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
  lastImages(): [pgno: number, offset: number][] {
    return [...this.#offsets].sort((a, b) => a[1] - b[1]);
  }

  /** A page by which the file grew and that no commit wrote, so its content is nobody's word. */
  missingPage(): number | undefined {
    for (let pgno = this.#lowestPages + 1; pgno <= this.finalPages; pgno++) {
      if (pgno !== this.#lockPage && !this.#offsets.has(pgno)) return pgno;
    }
    return undefined;
  }
}
