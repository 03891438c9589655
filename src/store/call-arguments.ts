/**
 * What a repeat of a call must match besides its method: the encoded arguments themselves where they are short, else a mark and
 * their hash, which is longer than any that are short. Maps count as equal whatever the order of their keys.
 *
 * Stored with the record of a call.
 */
import { createHash } from "node:crypto";
import type { PlainObject, PlainValue } from "../values.js";
import { encodeValue } from "./value-codec.js";

const HASH_BYTES = 16;
const HASHED = 1;

export function argumentsToMatch(args: readonly PlainValue[]): Uint8Array {
  // Encoding changes nothing of it.
  const inOrder = args.some(isTable) ? args.map(inKeyOrder) : (args as PlainValue[]);
  const bytes = encodeValue(inOrder, Number.POSITIVE_INFINITY, "the arguments");
  if (bytes.length <= HASH_BYTES) return bytes;
  const marked = new Uint8Array(1 + HASH_BYTES);
  marked[0] = HASHED;
  marked.set(createHash("sha256").update(bytes).digest().subarray(0, HASH_BYTES), 1);
  return marked;
}

function isTable(value: PlainValue): boolean {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}

function inKeyOrder(value: PlainValue): PlainValue {
  if (value === null || typeof value !== "object" || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map(inKeyOrder);
  const sorted: PlainObject = Object.create(null);
  for (const key of Object.keys(value).sort()) sorted[key] = inKeyOrder(value[key] as PlainValue);
  return sorted;
}
