/**
 * A delay shard: a system object that keeps the delayed commands, and the times at which objects with timers are to be woken,
 * of every sixteenth partition.
 *
 * - One log, one order: schedule, cancel, move, outcome, operator's word become entries of its log first, and are applied one
 *   at a time. The effect and the position up to which entries are applied commit together.
 * - The tables are the timeline: by their index what is due next is found, however much waits. Nobody keeps a copy.
 */
import type { CallHost } from "../lua/contract.js";
import { type SystemMethod, systemClass } from "../object/system-class.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";
import type { DueWake } from "./command.js";
import { type Entry, subjectOf } from "./shard-entry.js";
import { applyEntry, errorOf, planOf, rowsOf, SHARD_MIGRATIONS, type ShardDatabase } from "./shard-tables.js";

export const DELAY_SHARD = "DelayShard";

/** What `due` answers. */
export type Due = {
  wakes: DueWake[];
  /** Ids of commands. */
  commands: string[];
  /** When the next of either falls due; null when none waits. */
  nextMs: number | null;
  /** Whether any command stands as being delivered. */
  isDelivering: boolean;
};

const write = (run: SystemMethod["run"]): SystemMethod => ({ kind: "write", run });
const read = (run: SystemMethod["run"]): SystemMethod => ({ kind: "read", run });

export const delayShardClass = systemClass({
  name: DELAY_SHARD,
  migrations: SHARD_MIGRATIONS,
  methods: {
    /** `[entries, entriesKept]` → what each came to. */
    append: write(([entries, kept], host) => append(host, entries as unknown as Entry[], Number(kept))),
    /** `[nowMs, limit]` */
    due: read(([nowMs, limit], host) => due(host, Number(nowMs), Number(limit))),
    /** `[keptMs, deadKeptMs, unusedKeptMs]` → when a trim or a sweep would find something; null when never. */
    staleAt: read(([kept, dead, unused], host) => staleAt(host, Number(kept), Number(dead), Number(unused))),
    /** `[{ states, app, object, after, limit }]` */
    list: read(([filter], host) => list(host, filter as PlainObject)),
    /** `[id]` → the command with its runs, or null. */
    get: read(([id], host) => get(host, String(id))),
    /** `[{ after, limit }]` */
    log: read(([filter], host) => log(host, filter as PlainObject)),
    /** → counts of ended runs by outcome, and how many wait. */
    tally: read((_, host) => tally(host)),
  },
});

function append(host: CallHost, entries: readonly Entry[], kept: number): PlainValue {
  let applied = Number(host.sqlOne("SELECT applied FROM position", []).rows[0]?.[0] ?? 0);
  const results: PlainValue[] = [];
  for (const entry of entries) {
    applied++;
    const body = encodeValue(entry as unknown as PlainObject, Number.POSITIVE_INFINITY, "an entry");
    const row: SqlValue[] = [applied, host.startedMs, entry.kind, subjectOf(entry), body];
    host.sqlExec("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", row);
    results.push(applyEntry(host, entry, host.startedMs));
  }
  host.sqlExec("INSERT OR REPLACE INTO position VALUES (1, ?)", [applied]);
  // The tables are the checkpoint: entries behind it are kept for whoever wants to know what happened.
  host.sqlExec("DELETE FROM entry WHERE n <= ?", [applied - kept]);
  return results;
}

function due(database: ShardDatabase, nowMs: number, limit: number): Due {
  const wakes = rowsOf(
    database.sqlAll(
      "SELECT object, look_ms, epoch, seq, failures FROM wake WHERE look_ms <= ? ORDER BY look_ms, object LIMIT ?",
      [nowMs, limit],
    ),
  );
  const commands = database.sqlAll(
    "SELECT id FROM command WHERE look_ms IS NOT NULL AND look_ms <= ? ORDER BY look_ms, id LIMIT ?",
    [nowMs, limit],
  );
  const nextWake = database.sqlOne("SELECT min(look_ms) FROM wake WHERE look_ms > ?", [nowMs]).rows[0]?.[0] ?? null;
  const nextCommand =
    database.sqlOne("SELECT min(look_ms) FROM command WHERE look_ms IS NOT NULL AND look_ms > ?", [nowMs])
      .rows[0]?.[0] ?? null;
  const next = [nextWake, nextCommand].filter((ms) => ms !== null).map(Number);
  return {
    wakes: wakes.map(({ object, look_ms, epoch, seq, failures }) => ({
      object: String(object),
      lookMs: Number(look_ms),
      epoch: Number(epoch),
      seq: Number(seq),
      failures: Number(failures),
    })),
    commands: commands.rows.map(([id]) => String(id)),
    nextMs: next.length === 0 ? null : Math.min(...next),
    isDelivering: database.sqlOne("SELECT 1 FROM command WHERE state = 'delivering' LIMIT 1", []).rows.length > 0,
  };
}

function staleAt(database: ShardDatabase, keptMs: number, deadKeptMs: number, unusedKeptMs: number): number | null {
  const found = database.sqlOne(
    `SELECT min(at) FROM (
       SELECT min(ended_ms) + :kept AS at FROM command WHERE ended_ms IS NOT NULL AND state <> 'dead'
       UNION ALL SELECT min(ended_ms) + :dead FROM command WHERE ended_ms IS NOT NULL AND state = 'dead'
       UNION ALL SELECT min(since_ms) + :unused FROM argument WHERE refs = 0)`,
    { kept: keptMs, dead: deadKeptMs, unused: unusedKeptMs },
  ).rows[0]?.[0];
  return found === null || found === undefined ? null : Number(found);
}

const SHOWN = `id, app, class, key, method, state, due_ms, look_ms, plan, run, attempts, tries, created_ms, expires_ms, last_ms,
  error`;

function list(database: ShardDatabase, filter: PlainObject): PlainValue {
  const { states, app, object, after, limit } = filter;
  const { rows, columns } = database.sqlAll(
    `SELECT ${SHOWN} FROM command WHERE id > :after AND (:states = '' OR instr(:states, ' ' || state || ' ') > 0)
     AND (:app = '' OR app = :app) AND (:object = '' OR class || '/' || key = :object) ORDER BY id LIMIT :limit`,
    {
      after: String(after ?? ""),
      states: Array.isArray(states) && states.length > 0 ? ` ${states.join(" ")} ` : "",
      app: String(app ?? ""),
      object: String(object ?? ""),
      limit: Number(limit),
    },
  );
  return rowsOf({ columns, rows }).map(shown);
}

function get(database: ShardDatabase, id: string): PlainValue {
  const row = rowsOf(database.sqlOne(`SELECT ${SHOWN} FROM command WHERE id = ?`, [id]))[0];
  if (row === undefined) return null;
  const sql = "SELECT run, due_ms, ended_ms, outcome, tries, error FROM run WHERE command = ? ORDER BY run";
  const runs = rowsOf(database.sqlAll(sql, [id])).map((one) => ({
    run: Number(one.run),
    dueMs: Number(one.due_ms),
    endedMs: Number(one.ended_ms),
    outcome: String(one.outcome),
    tries: Number(one.tries),
    ...withError(one.error),
  }));
  return { command: shown(row), runs };
}

function shown(row: Readonly<Record<string, SqlValue>>): PlainObject {
  const { kind } = planOf(decodeValue(row.plan) as PlainObject);
  return {
    id: String(row.id),
    object: `${row.app}/${row.class}/${row.key}`,
    method: String(row.method),
    state: String(row.state),
    dueMs: Number(row.due_ms),
    ...(row.look_ms !== null && { nextMs: Number(row.look_ms) }),
    recurring: kind === "every" || kind === "cron",
    run: Number(row.run),
    attempts: Number(row.attempts),
    tries: Number(row.tries),
    createdMs: Number(row.created_ms),
    ...(row.expires_ms !== null && { expiresMs: Number(row.expires_ms) }),
    ...(row.last_ms !== null && { lastMs: Number(row.last_ms) }),
    ...withError(row.error),
  };
}

function withError(stored: SqlValue | undefined): PlainObject {
  const error = errorOf(stored);
  return error === undefined ? {} : { error: { ...error } };
}

function log(database: ShardDatabase, { after, limit }: PlainObject): PlainValue {
  const sql = "SELECT n, at_ms, kind, subject, body FROM entry WHERE n > ? ORDER BY n LIMIT ?";
  return rowsOf(database.sqlAll(sql, [Number(after), Number(limit)])).map((row) => ({
    number: Number(row.n),
    atMs: Number(row.at_ms),
    kind: String(row.kind),
    subject: String(row.subject),
    what: decodeValue(row.body),
  }));
}

function tally(database: ShardDatabase): PlainValue {
  const counts: PlainObject = {};
  for (const [name, count] of database.sqlAll("SELECT name, count FROM tally", []).rows)
    counts[String(name)] = count ?? 0;
  const waiting = database.sqlOne("SELECT count(*) FROM command WHERE look_ms IS NOT NULL", []).rows[0]?.[0] ?? 0;
  const wakes = database.sqlOne("SELECT count(*) FROM wake", []).rows[0]?.[0] ?? 0;
  return { counts, waiting, wakes };
}
