/**
 * The journal's files: their sizes, and which objects have records in each. Numbers have no gaps: a file goes only when it
 * is the oldest, so what an object's latest record says outlives all of its earlier ones.
 */
import { assert } from "../errors.js";
import type { HeldSlot } from "./held-slot.js";

export interface StandingFile {
  readonly number: number;
  /** Without the zeros that are written ahead. */
  bytes: number;
  readonly slots: Set<HeldSlot>;
}

export class FileLedger {
  readonly #files: StandingFile[];
  #bytes = 0;

  /** @param files by number */
  constructor(files: StandingFile[]) {
    this.#files = files;
    this.#bytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#files.length;
  }

  get oldest(): StandingFile {
    const [oldest] = this.#files;
    assert(oldest !== undefined, "a journal has a file");
    return oldest;
  }

  get current(): StandingFile {
    const current = this.#files.at(-1);
    assert(current !== undefined, "a journal has a file");
    return current;
  }

  begin(bytes: number): StandingFile {
    const file = { number: this.current.number + 1, bytes: 0, slots: new Set<HeldSlot>() };
    this.#files.push(file);
    this.grew(bytes);
    return file;
  }

  /** Of the current file. */
  grew(bytes: number): void {
    this.current.bytes += bytes;
    this.#bytes += bytes;
  }

  /** A record about the object was written to the current file. */
  stands(slot: HeldSlot): void {
    this.current.slots.add(slot);
  }

  forget(slot: HeldSlot): void {
    for (const { slots } of this.#files) slots.delete(slot);
  }

  removeOldest(): StandingFile {
    assert(this.#files.length > 1, "the current file stays");
    const file = this.#files.shift() as StandingFile;
    this.#bytes -= file.bytes;
    return file;
  }
}
