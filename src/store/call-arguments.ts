/**
 * What a repeat of a call must match besides its method: the encoded arguments themselves where they are short, else a mark and
 * their hash, which is longer than any that are short. Maps count as equal whatever the order of their keys.
 *
 * Where it is known who asks, that is part of it: a mark of its own and a hash over both. Ids are the callers' to choose, and
 * nobody may get what another was told by choosing the same one. What was recorded of nobody, as all was once, is everybody's.
 *
 * Stored with the record of a call.
 */
import { createHash } from "node:crypto";
import type { PlainObject, PlainValue } from "../values.js";
import { encodeValue } from "./value-codec.js";

const HASH_BYTES = 16;
const HASHED = 1;
const HASHED_WITH_PRINCIPAL = 2;

/** @param principal whoever asks in the end, as his token names him; undefined where nobody is known */
export function argumentsToMatch(args: readonly PlainValue[], principal?: string): Uint8Array {
  // Encoding changes nothing of it.
  const inOrder = args.some(isTable) ? args.map(inKeyOrder) : (args as PlainValue[]);
  const named = principal === undefined ? inOrder : [principal, inOrder];
  const bytes = encodeValue(named, Number.POSITIVE_INFINITY, "the arguments");
  if (principal !== undefined) return hashed(HASHED_WITH_PRINCIPAL, bytes);
  return bytes.length <= HASH_BYTES ? bytes : hashed(HASHED, bytes);
}

/** Whether a call is the one that this was kept of. */
export function isMatch(kept: Uint8Array, args: readonly PlainValue[], principal: string | undefined): boolean {
  const isWithPrincipal = kept.length === 1 + HASH_BYTES && kept[0] === HASHED_WITH_PRINCIPAL;
  if (isWithPrincipal && principal === undefined) return false;
  return Buffer.from(argumentsToMatch(args, isWithPrincipal ? principal : undefined)).equals(kept);
}

function hashed(mark: number, bytes: Uint8Array): Uint8Array {
  const marked = new Uint8Array(1 + HASH_BYTES);
  marked[0] = mark;
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
