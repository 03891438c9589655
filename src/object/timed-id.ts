/**
 * Ids that are made from what they stand for, and carry a time: UUIDs of version 7 in form, whose random part is a hash. Whoever
 * makes one again gets the same, and objects can tell that one is older than what they remember (store/call-ids).
 */
import { createHash } from "node:crypto";

/** @param timeMs wall clock, milliseconds */
export function timedId(timeMs: number, of: string): string {
  const time = Math.max(0, Math.floor(timeMs)).toString(16).padStart(12, "0").slice(-12);
  const hash = createHash("sha256").update(of, "utf8").digest("hex");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(0, 3)}-a${hash.slice(3, 6)}-${hash.slice(6, 18)}`;
}

const TIMED = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An id made from another one: it carries that one's time, if that does (UUIDv7), and else none. */
export function derivedId(from: string, of: string): string {
  if (TIMED.test(from)) return timedId(Number.parseInt(from.slice(0, 8) + from.slice(9, 13), 16), of);
  const hash = createHash("sha256").update(of, "utf8").digest("hex");
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(12, 15)}-a${hash.slice(15, 18)}-${hash.slice(18, 30)}`;
}
