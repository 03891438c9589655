/** A bounded memory of values by key, absent ones included; what was not used lately goes first. One that alone is half the bound is not kept. */
import type { PlainValue } from "../values.js";

export interface CachedValue {
  readonly value: PlainValue | undefined;
  readonly bytes: number;
}

interface Entry extends CachedValue {
  wasUsed: boolean;
}

/** What an entry takes beside its value and key. */
const ENTRY_BYTES = 100;

export class ValueCache {
  readonly #bytesMax: number;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get(key: string): CachedValue | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined) entry.wasUsed = true;
    return entry;
  }

  set(key: string, value: PlainValue | undefined, bytes: number): void {
    const size = sizeOf(key, bytes);
    if (size > this.#bytesMax / 2) return this.delete(key);
    const before = this.#entries.get(key);
    if (before !== undefined) this.#bytes -= sizeOf(key, before.bytes);
    // In its place where it was: to take it out and put it in again would have the map made anew every other time.
    this.#entries.set(key, { value, bytes, wasUsed: before !== undefined });
    this.#bytes += size;
    while (this.#bytes > this.#bytesMax) this.#evictOne();
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= sizeOf(key, entry.bytes);
  }

  #evictOne(): void {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (!entry.wasUsed) {
        this.#bytes -= sizeOf(key, entry.bytes);
        return;
      }
      entry.wasUsed = false;
      this.#entries.set(key, entry);
    }
  }
}

function sizeOf(key: string, bytes: number): number {
  return ENTRY_BYTES + 2 * key.length + bytes;
}
