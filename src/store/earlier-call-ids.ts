/**
 * The records of calls as the first table held them, `_mp_call`: one row a call, with an index over their ids. Objects that still
 * have it are brought over to the table of today (call-ids) with the first call that carries an id.
 */
import { type CallRecord, readCallId } from "./call-records.js";
import type { ObjectDatabase } from "./object-database.js";

interface EarlierRecords {
  readonly records: readonly CallRecord[];
  /** Wall clock of the last of them, milliseconds. */
  readonly atMs: number;
}

const ROWS = 64;

/** All of them, in the order they were recorded. */
export function* earlierRecords(database: ObjectDatabase, seed: number): Generator<EarlierRecords> {
  const after = database.kernel(
    "SELECT n, id, method, args, reply, seq, at_ms FROM _mp_call WHERE n > ? ORDER BY n LIMIT ?",
  );
  let last = 0;
  let rows = after.all(last, ROWS);
  while (rows.length > 0) {
    const records = rows.map(([, id, method, args, reply, seq]) => ({
      id: readCallId(textOf(id), seed),
      method: String(method),
      args: unmarked(args as Uint8Array),
      seq: Number(seq),
      reply: reply as Uint8Array,
    }));
    const [n, atMs] = [rows.at(-1)?.[0], rows.at(-1)?.[6]];
    yield { records, atMs: Number(atMs) };
    last = Number(n);
    rows = after.all(last, ROWS);
  }
}

/** A UUID stood there as its 16 bytes. */
function textOf(id: unknown): string {
  if (!Buffer.isBuffer(id)) return String(id);
  const digits = id.toString("hex");
  return [0, 8, 12, 16, 20].map((from, index, all) => digits.slice(from, all[index + 1])).join("-");
}

/** Arguments that were short had a mark of their own. */
function unmarked(args: Uint8Array): Uint8Array {
  return args[0] === 0 ? args.subarray(1) : args;
}
