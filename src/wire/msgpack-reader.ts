/**
 * MessagePack of strangers, as plain values.
 *
 * It reads what a frame may hold and nothing else: no extension types, no records, text that is UTF-8, maps whose keys are
 * text and become own properties (`__proto__` too), bytes copied out. Bytes that are no MessagePack, or end too early, are
 * thrown out; a value that has its place but may not travel (too deep, of an extension type, not a finite number) is read
 * over, and reported as a fault beside the rest, so that a door can still answer the call it stood in.
 */
import { MoonportError } from "../errors.js";
import { type PlainObject, type PlainValue, setOwn } from "../values.js";

export interface Decoded {
  readonly value: PlainValue;
  /** What is wrong with something inside: `too_deep`, `bad_value`. The value is then good for its outermost fields only. */
  readonly fault: MoonportError | undefined;
}

/**
 * @param depthMax arrays and maps that may stand inside each other, the outermost included
 * @throws MoonportError `bad_request` when the bytes are not one MessagePack value
 */
export function readMsgpack(bytes: Uint8Array, what: string, depthMax: number): Decoded {
  const reader = new Reader(bytes, what);
  const value = reader.read(depthMax);
  reader.end();
  return { value, fault: reader.fault };
}

const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const TWO_32 = 0x1_0000_0000;

/** Short texts of the last frames, by a hash of their bytes: field names, classes, methods and keys come again and again. */
const SEEN: (string | undefined)[] = new Array(1_024).fill(undefined);
const SEEN_LENGTH_MAX = 32;

class Reader {
  fault: MoonportError | undefined;
  readonly #bytes: Uint8Array;
  readonly #what: string;
  #at = 0;

  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  end(): void {
    if (this.#at !== this.#bytes.length) this.#refuse("has bytes behind its end");
  }

  read(depthLeft: number): PlainValue {
    const token = this.#byte();
    if (token < 0x80) return token;
    if (token < 0x90) return this.#map(token & 0x0f, depthLeft);
    if (token < 0xa0) return this.#array(token & 0x0f, depthLeft);
    if (token < 0xc0) return this.#text(token & 0x1f);
    if (token >= 0xe0) return token - 0x100;
    switch (token) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return this.#binary(this.#byte());
      case 0xc5:
        return this.#binary(this.#uint16());
      case 0xc6:
        return this.#binary(this.#uint32());
      case 0xca:
        return this.#finite(this.#view(4).getFloat32(0));
      case 0xcb:
        return this.#finite(this.#view(8).getFloat64(0));
      case 0xcc:
        return this.#byte();
      case 0xcd:
        return this.#uint16();
      case 0xce:
        return this.#uint32();
      case 0xcf:
        return this.#uint32() * TWO_32 + this.#uint32();
      case 0xd0:
        return (this.#byte() << 24) >> 24;
      case 0xd1:
        return (this.#uint16() << 16) >> 16;
      case 0xd2:
        return this.#uint32() | 0;
      case 0xd3:
        return (this.#uint32() | 0) * TWO_32 + this.#uint32();
      case 0xd9:
        return this.#text(this.#byte());
      case 0xda:
        return this.#text(this.#uint16());
      case 0xdb:
        return this.#text(this.#uint32());
      case 0xdc:
        return this.#array(this.#uint16(), depthLeft);
      case 0xdd:
        return this.#array(this.#uint32(), depthLeft);
      case 0xde:
        return this.#map(this.#uint16(), depthLeft);
      case 0xdf:
        return this.#map(this.#uint32(), depthLeft);
      case 0xc1:
        return this.#refuse("is not MessagePack");
      default:
        return this.#extension(token);
    }
  }

  #array(length: number, depthLeft: number): PlainValue {
    if (depthLeft <= 0) return this.#tooDeep(length);
    this.#need(length);
    const array: PlainValue[] = [];
    for (let index = 0; index < length; index++) array.push(this.read(depthLeft - 1));
    return array;
  }

  #map(length: number, depthLeft: number): PlainValue {
    if (depthLeft <= 0) return this.#tooDeep(length * 2);
    this.#need(length * 2);
    const object: PlainObject = {};
    for (let index = 0; index < length; index++) {
      const key = this.read(0);
      const value = this.read(depthLeft - 1);
      if (typeof key === "string") setOwn(object, key, value);
      else this.#report("bad_value", "holds a map with a key that is not text");
    }
    return object;
  }

  #text(length: number): string {
    const from = this.#take(length);
    const bytes = this.#bytes;
    if (length > SEEN_LENGTH_MAX) return this.#utf8(from, length);
    let hash = length;
    for (let at = from; at < from + length; at++) {
      const byte = bytes[at] as number;
      if (byte >= 0x80) return this.#utf8(from, length);
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    const slot = hash & (SEEN.length - 1);
    const seen = SEEN[slot];
    if (seen !== undefined && seen.length === length && isAt(seen, bytes, from)) return seen;
    const text = String.fromCharCode(...bytes.subarray(from, from + length));
    SEEN[slot] = text;
    return text;
  }

  #utf8(from: number, length: number): string {
    try {
      return TEXT.decode(this.#bytes.subarray(from, from + length));
    } catch {
      this.#report("bad_value", "holds text that is not UTF-8");
      return "";
    }
  }

  #binary(length: number): Uint8Array {
    const from = this.#take(length);
    // A copy on memory of its own: the bytes lie in a chunk of the socket that others write into.
    return Uint8Array.from(this.#bytes.subarray(from, from + length));
  }

  #finite(number: number): number {
    if (!Number.isFinite(number)) this.#report("bad_value", "holds a number that is not finite");
    return number;
  }

  #extension(token: number): null {
    this.#report("bad_value", "holds an extension type");
    if (token >= 0xd4) this.#take(1 + (1 << (token - 0xd4)));
    else this.#take(1 + (token === 0xc7 ? this.#byte() : token === 0xc8 ? this.#uint16() : this.#uint32()));
    return null;
  }

  #tooDeep(children: number): null {
    this.#report("too_deep", "is nested deeper than the limit");
    this.#skip(children);
    return null;
  }

  /** Past so many values and all that they hold, on no stack. */
  #skip(values: number): void {
    for (let left = values; left > 0; left--) {
      this.#need(left);
      const token = this.#byte();
      if (token >= 0x80 && token < 0x90) left += (token & 0x0f) * 2;
      else if (token >= 0x90 && token < 0xa0) left += token & 0x0f;
      else if (token === 0xdc) left += this.#uint16();
      else if (token === 0xdd) left += this.#uint32();
      else if (token === 0xde) left += this.#uint16() * 2;
      else if (token === 0xdf) left += this.#uint32() * 2;
      else {
        this.#at--;
        this.read(0);
      }
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) return this.#refuse("ends too early");
    this.#at++;
    return byte;
  }

  #uint16(): number {
    const from = this.#take(2);
    return ((this.#bytes[from] as number) << 8) | (this.#bytes[from + 1] as number);
  }

  #uint32(): number {
    return this.#uint16() * 0x10000 + this.#uint16();
  }

  #view(length: number): DataView {
    const from = this.#take(length);
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + from, length);
  }

  /** Where the next `length` bytes begin. */
  #take(length: number): number {
    const from = this.#at;
    this.#need(length);
    this.#at = from + length;
    return from;
  }

  /** A length that more bytes would be needed for than there are is refused before anything is made for it. */
  #need(bytes: number): void {
    if (bytes > this.#bytes.length - this.#at) this.#refuse("ends too early");
  }

  #report(code: "bad_value" | "too_deep", fault: string): void {
    this.fault ??= MoonportError.of(code, `${this.#what} ${fault}`);
  }

  #refuse(fault: string): never {
    throw MoonportError.of("bad_request", `${this.#what} ${fault}`);
  }
}

function isAt(text: string, bytes: Uint8Array, from: number): boolean {
  for (let index = 0; index < text.length; index++) {
    if (text.charCodeAt(index) !== bytes[from + index]) return false;
  }
  return true;
}
