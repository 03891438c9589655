/** Bytes as base64 text and back (RFC 4648, padded), with nothing but the language: browsers have no Buffer. */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SIGNS = Uint8Array.from(ALPHABET, (sign) => sign.charCodeAt(0));
const PADDING = "=".charCodeAt(0);
const SIX_BITS = sixBitsBySign();
const TEXT = new TextDecoder();

export function toBase64(bytes: Uint8Array): string {
  const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let at = 0;
  for (let from = 0; from < bytes.length; from += 3) {
    const three = (byteAt(bytes, from) << 16) | (byteAt(bytes, from + 1) << 8) | byteAt(bytes, from + 2);
    for (let shift = 18; shift >= 0; shift -= 6) text[at++] = byteAt(SIGNS, (three >>> shift) & 63);
  }
  const missing = (3 - (bytes.length % 3)) % 3;
  text.fill(PADDING, text.length - missing);
  return TEXT.decode(text);
}

/** @param text must be base64 with its padding: the caller has looked */
export function fromBase64(text: string): Uint8Array {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  for (let from = 0, at = 0; from < text.length; from += 4, at += 3) {
    let three = 0;
    for (let sign = 0; sign < 4; sign++) three = (three << 6) | byteAt(SIX_BITS, text.charCodeAt(from + sign));
    // What stands beyond the end falls on no element.
    bytes[at] = three >>> 16;
    bytes[at + 1] = three >>> 8;
    bytes[at + 2] = three;
  }
  return bytes;
}

function byteAt(bytes: Uint8Array, index: number): number {
  return bytes[index] ?? 0;
}

function sixBitsBySign(): Uint8Array {
  const table = new Uint8Array(128);
  for (const [value, sign] of SIGNS.entries()) table[sign] = value;
  return table;
}
