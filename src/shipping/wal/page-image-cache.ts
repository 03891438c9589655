/**
 * The last shipped images of pages, as bases for deltas: one bounded cache for all objects of a node.
 *
 * What is here is only ever an aid: without a base a page travels whole. What must hold is that an image is exactly what the
 * chain of segments holds for that page; so a flight's images go in when its segment is made, in order, and an object whose
 * chain breaks (snapshot, takeover, failed residency) drops its images.
 */

/** What the maps and array headers of one image cost beside its bytes, about. */
const IMAGE_OVERHEAD_BYTES = 160;

export class PageImageCache {
  readonly #bytesMax: number;
  /** Least recently shipped first. */
  readonly #objects = new Set<PageImages>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** The images of one object for one residency; costs nothing until images are shipped. */
  imagesOf(): PageImages {
    return new PageImages((images, change) => this.#account(images, change));
  }

  /** Bytes held, overhead included. */
  get bytes(): number {
    return this.#bytes;
  }

  #account(images: PageImages, change: number): void {
    this.#bytes += change;
    this.#objects.delete(images);
    if (images.bytes > 0) this.#objects.add(images);
    for (const oldest of this.#objects) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#objects.delete(oldest);
      // The one shipped just now is last: if it alone is too large, its oldest images go.
      this.#bytes -= oldest === images ? oldest.evict(this.#bytes - this.#bytesMax) : oldest.evict(oldest.bytes);
      if (oldest.bytes > 0) this.#objects.add(oldest);
      if (oldest === images) return;
    }
  }
}

export class PageImages {
  readonly #account: (images: PageImages, change: number) => void;
  /** By page number, least recently shipped first. */
  readonly #images = new Map<number, Uint8Array>();
  #bytes = 0;
  #highest = 0;

  constructor(account: (images: PageImages, change: number) => void) {
    this.#account = account;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(pgno: number): Uint8Array | undefined {
    return this.#images.get(pgno);
  }

  /** A segment with these images was made: they are the bases of the next. Keeps copies; pages beyond the size are gone. */
  shipped(images: ReadonlyMap<number, Uint8Array>, finalPages: number): void {
    const before = this.#bytes;
    for (const [pgno, image] of images) {
      const kept = this.#images.get(pgno);
      if (kept === undefined) {
        this.#images.set(pgno, new Uint8Array(image));
        this.#bytes += image.byteLength + IMAGE_OVERHEAD_BYTES;
      } else {
        // In place: the same pages change again and again, and an array of this size costs more than the copy.
        kept.set(image);
        this.#images.delete(pgno);
        this.#images.set(pgno, kept);
      }
      if (pgno > this.#highest) this.#highest = pgno;
    }
    if (this.#highest > finalPages) this.#dropBeyond(finalPages);
    this.#account(this, this.#bytes - before);
  }

  /** The chain broke: nothing here is a base any more. */
  drop(): void {
    const before = this.#bytes;
    this.#images.clear();
    this.#bytes = 0;
    this.#highest = 0;
    this.#account(this, -before);
  }

  /** For the cache alone: gives up at least `wanted` bytes, the oldest images first; returns how many. */
  evict(wanted: number): number {
    const before = this.#bytes;
    for (const pgno of this.#images.keys()) {
      if (before - this.#bytes >= wanted) break;
      this.#delete(pgno);
    }
    return before - this.#bytes;
  }

  #dropBeyond(finalPages: number): void {
    for (const pgno of this.#images.keys()) if (pgno > finalPages) this.#delete(pgno);
    this.#highest = finalPages;
  }

  #delete(pgno: number): void {
    const image = this.#images.get(pgno);
    if (image === undefined) return;
    this.#images.delete(pgno);
    this.#bytes -= image.byteLength + IMAGE_OVERHEAD_BYTES;
  }
}
