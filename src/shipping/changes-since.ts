/** Which pages changed since a base in the object's history: what a merged segment from there on would hold. */
import type { Manifest, Position } from "./manifest.js";

export class ChangesSince {
  /** The merged segment would begin right after this seq. */
  seq: number;
  /** Content identity at the base. */
  identity: string;
  /** How many of the manifest's segments lie before the base. */
  kept: number;
  readonly #pages = new Set<number>();

  /** At the opening of a file: what earlier openings shipped stays as it is. */
  constructor(manifest: Manifest) {
    this.seq = manifest.seq;
    this.identity = manifest.identity;
    this.kept = manifest.segments.length;
  }

  get size(): number {
    return this.#pages.size;
  }

  add(pages: Iterable<number>): void {
    for (const page of pages) this.#pages.add(page);
  }

  /** Those of a database of `pages` pages, ascending. */
  within(pages: number): number[] {
    return [...this.#pages].filter((page) => page <= pages).sort((a, b) => a - b);
  }

  /** From here on: `kept` segments of the manifest as it will be lie before. */
  restart(base: Pick<Position, "seq" | "identity">, kept: number): void {
    this.seq = base.seq;
    this.identity = base.identity;
    this.kept = kept;
    this.#pages.clear();
  }
}
