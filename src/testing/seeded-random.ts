/** Repeatable randomness: sfc32 (Chris Doty-Humphrey, PractRand), seeded from a number. */
import type { Random } from "../world/world.js";

export class SeededRandom implements Random {
  readonly #state: Uint32Array;

  constructor(seed: number) {
    this.#state = Uint32Array.of(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0, 0x9e3779b9, 1);
    for (let round = 0; round < 16; round++) this.#next();
  }

  fraction(): number {
    return this.#next() / 2 ** 32;
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.#next() & 0xff);
  }

  #next(): number {
    const s = this.#state as unknown as [number, number, number, number];
    const result = (s[0] + s[1] + s[3]) >>> 0;
    s[3] = s[3] + 1;
    s[0] = s[1] ^ (s[1] >>> 9);
    s[1] = s[2] + (s[2] << 3);
    s[2] = (s[2] << 21) | (s[2] >>> 11);
    s[2] = s[2] + result;
    return result;
  }
}
