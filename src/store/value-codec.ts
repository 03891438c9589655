/**
 * Plain values as msgpack, the one form in which the kernel's tables hold them.
 *
 * Maps are decoded key by key onto own properties, so that `__proto__` is a key like any other, and bytes are copied out of
 * what they were read from. A decoded value is the reader's own.
 */
import { Packr } from "msgpackr";
import { MoonportError } from "../errors.js";
import { type PlainObject, type PlainValue, setOwn } from "../values.js";

const packr = new Packr({
  useRecords: false,
  mapsAsObjects: false,
  variableMapSize: true,
  int64AsType: "number",
  useToJSON: false,
});

/** @throws MoonportError `too_large` beyond `maxBytes` */
export function encodeValue(value: PlainValue, maxBytes: number, what: string): Uint8Array {
  const bytes = packr.pack(value);
  if (bytes.byteLength <= maxBytes) return bytes;
  throw MoonportError.of("too_large", `${what} is ${bytes.byteLength} bytes; the limit is ${maxBytes}`);
}

/** @throws MoonportError `object_corrupt` when the bytes are no value */
export function decodeValue(bytes: unknown): PlainValue {
  if (!(bytes instanceof Uint8Array)) throw MoonportError.of("object_corrupt", "a stored value is not a blob");
  try {
    return ownValue(packr.unpack(bytes));
  } catch (cause) {
    throw MoonportError.of("object_corrupt", "a stored value cannot be read", { cause });
  }
}

function ownValue(decoded: unknown): PlainValue {
  if (decoded instanceof Map) {
    const object: PlainObject = {};
    for (const [key, value] of decoded) setOwn(object, String(key), ownValue(value));
    return object;
  }
  if (Array.isArray(decoded)) return decoded.map(ownValue);
  if (decoded instanceof Uint8Array) return new Uint8Array(decoded);
  if (decoded === null || typeof decoded !== "object") return decoded as null | boolean | number | string;
  throw new TypeError("the value is of a kind that is never stored");
}
