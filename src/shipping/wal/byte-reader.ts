/**
 * Reading and writing numbers in byte arrays, bounds first: whatever the bytes are, a reader ends with a value inside them
 * or with `object_corrupt`, never outside and never with another error.
 */
import { MoonportError } from "../../errors.js";

export const VARINT_BYTES_MAX = 5;

/** Writes an unsigned 32-bit number in groups of 7 bits, lowest first; returns the place behind it. */
export function putVarint(target: Uint8Array, at: number, value: number): number {
  let rest = value >>> 0;
  let place = at;
  while (rest > 0x7f) {
    target[place++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[place++] = rest;
  return place;
}

export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** What the bytes are, for messages. */
  readonly #what: string;
  #at = 0;

  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#what = what;
  }

  get remaining(): number {
    return this.#bytes.length - this.#at;
  }

  /** A view, no copy. */
  bytes(length: number, name: string): Uint8Array {
    const at = this.#take(length, name);
    return this.#bytes.subarray(at, at + length);
  }

  uint16(name: string): number {
    return this.#view.getUint16(this.#take(2, name), true);
  }

  uint32(name: string): number {
    return this.#view.getUint32(this.#take(4, name), true);
  }

  /** A 64-bit number that a double holds exactly. */
  safeInteger(name: string): number {
    const at = this.#take(8, name);
    const value = this.#view.getUint32(at + 4, true) * 0x1_0000_0000 + this.#view.getUint32(at, true);
    return Number.isSafeInteger(value) ? value : this.refuse(`${name} is out of range`);
  }

  varint(name: string): number {
    let value = 0;
    for (let index = 0; index < VARINT_BYTES_MAX; index++) {
      const byte = this.#bytes[this.#take(1, name)] as number;
      value += (byte & 0x7f) * 2 ** (7 * index);
      if (byte < 0x80) return value <= 0xffff_ffff ? value : this.refuse(`${name} is out of range`);
    }
    return this.refuse(`${name} is out of range`);
  }

  refuse(why: string): never {
    throw MoonportError.of("object_corrupt", `${this.#what} is damaged: ${why}`);
  }

  #take(length: number, name: string): number {
    if (length > this.remaining) this.refuse(`it ends inside ${name}`);
    const at = this.#at;
    this.#at += length;
    return at;
  }
}
