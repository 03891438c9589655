/**
 * One shard of a class's directory, as an object: rows by key, each with the epoch and the seq it was told at.
 *
 * Promises:
 * - The newest (epoch, seq) of a key wins, whatever order rows come in, and what is gone stays gone for what is older. Told twice,
 *   a row changes nothing and writes nothing.
 * - A column is there from the first row that was told with it. A column goes when the whole class has been brought over to a
 *   shape without it (`settle`): as long as nodes of two releases tell rows, each finds its columns.
 * - What says that all rows have a shape is taken back by the first that is told with another one.
 *
 * Columns have no type in SQLite, so that a declared type may change; a row's values were checked where it was derived.
 */
import { assert } from "../errors.js";
import { type SystemHost, systemClass } from "../object/system-class.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";
import type { Columns } from "./filter/filter.js";
import { type Parameters, parseFilter } from "./filter/parse.js";
import { type Condition, conditionOf } from "./filter/to-sql.js";
import { parseOrder } from "./order.js";
import { pageStatements } from "./page-sql.js";
import {
  type ApplyRequest,
  DIRECTORY_CLASS,
  type ShardPage,
  type ShardQuery,
  type ShardStatus,
  type TravellingShape,
} from "./shard-contract.js";

const MIGRATIONS = [
  `CREATE TABLE entry (key TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, shape TEXT NOT NULL,
     stale_since_ms INTEGER);
   CREATE TABLE gone (key TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL)
     WITHOUT ROWID;
   CREATE INDEX gone_at ON gone (at_ms);
   CREATE TABLE entry_column (name TEXT NOT NULL PRIMARY KEY, indexed INTEGER NOT NULL) WITHOUT ROWID;
   CREATE TABLE fact (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;`,
];

/** How long it is remembered that an object is gone. No row is under way for longer than its call may take, by far. */
const GONE_KEPT_MS = 86_400_000;
const GONE_TRIMMED_MAX = 100;
/** A page is cut short beyond it: it has to travel. */
const PAGE_BYTES_MAX = 4 * 1024 * 1024;
const SETTLED = "settled";

export function directoryClass(limits: { readonly filterBytesMax: number }) {
  return systemClass({
    name: DIRECTORY_CLASS,
    migrations: MIGRATIONS,
    methods: {
      apply: { kind: "write", run: ([request], host) => new Shard(host).apply(request as unknown as ApplyRequest) },
      doubt: { kind: "write", run: (_args, host) => new Shard(host).doubt() },
      settle: {
        kind: "write",
        run: ([travelling, dropsDoubted], host) => {
          return new Shard(host).settle(travelling as unknown as TravellingShape, dropsDoubted === true);
        },
      },
      find: { kind: "read", run: ([query], host) => new Shard(host).find(query as unknown as ShardQuery, limits) },
      count: { kind: "read", run: ([query], host) => new Shard(host).count(query as unknown as ShardQuery, limits) },
      status: { kind: "read", run: ([shape], host) => ({ ...new Shard(host).status(String(shape)) }) },
    },
  });
}

interface FilterLimits {
  readonly filterBytesMax: number;
}

class Shard {
  readonly #host: SystemHost;
  /** Columns that the table has; whether each has its index. */
  readonly #columns: Map<string, boolean>;

  constructor(host: SystemHost) {
    this.#host = host;
    const { rows } = host.sqlAll("SELECT name, indexed FROM entry_column", []);
    this.#columns = new Map(rows.map(([name, indexed]) => [String(name), indexed === 1]));
  }

  /** @returns how many rows it took */
  apply({ shape: [shape, columns, index], isFresh, nowMs, rows }: ApplyRequest): number {
    let taken = 0;
    const shapes = new Set<string>();
    for (const [key, epoch, seq, ofShape, staleSinceMs, row] of rows) {
      if (!this.#isNews(key, epoch, seq)) continue;
      if (taken++ === 0) this.#prepare(shape, columns, index, isFresh);
      if (row === null) this.#remove(key, epoch, seq, nowMs);
      else {
        // What it has in other columns is not kept: whoever tells it under its own shape is to be heard.
        const isWhole = ofShape === shape;
        this.#put(isWhole ? [key, epoch, seq, shape, staleSinceMs] : [key, 0, 0, "", staleSinceMs], columns, row);
        if (staleSinceMs === null) shapes.add(isWhole ? shape : "");
      }
    }
    if (taken > 0) this.#trimGone(nowMs);
    this.#unsettleBy(shapes);
    return taken;
  }

  /** Every row is to be told again: the next of each wins, whatever is known. */
  doubt(): null {
    this.#host.sqlExec("UPDATE entry SET epoch = 0, seq = 0", []);
    return null;
  }

  /** Everything has been brought over to the shape. @param dropsDoubted whether rows that nobody told since `doubt` are gone */
  settle([shape, columns, index]: TravellingShape, dropsDoubted: boolean): null {
    const [wanted, indexed] = [Object.keys(columns), new Set<PlainValue>(index)];
    if (dropsDoubted) this.#host.sqlExec("DELETE FROM entry WHERE epoch = 0", []);
    // Of a release that has them; where nodes of several run, that one walks again, and is not to find that all is known.
    const isLosing = [...this.#columns.keys()].some((name) => !wanted.includes(name));
    if (isLosing) this.#host.sqlExec("UPDATE entry SET epoch = 0, seq = 0 WHERE shape <> ?", [shape]);
    for (const [name, hasIndex] of this.#columns) {
      if (hasIndex && !indexed.has(name)) this.#dropIndex(name);
      if (!wanted.includes(name)) this.#dropColumn(name);
    }
    this.#addColumns(columns, index as readonly string[]);
    this.#setFact(SETTLED, shape);
    return null;
  }

  find(query: ShardQuery, { filterBytesMax }: FilterLimits): PlainObject {
    const { limit, place } = query;
    const columns = query.columns as Columns;
    const statements = pageStatements({
      filter: this.#filter(query, filterBytesMax),
      order: parseOrder(query.order, columns),
      place: place ?? undefined,
      columns: ["key", STALE, ...Object.keys(columns)],
      nameOf: this.#nameOf,
    });
    const page: SqlValue[][] = [];
    let bytes = 0;
    for (const { sql, values } of statements) {
      if (page.length >= limit || bytes > PAGE_BYTES_MAX) break;
      for (const row of this.#host.sqlAll(sql, [...values, limit - page.length]).rows) {
        page.push([...row]);
        bytes += bytesOf(row);
        if (bytes > PAGE_BYTES_MAX) break;
      }
    }
    const answer: ShardPage = { rows: page, hasMore: page.length >= limit || bytes > PAGE_BYTES_MAX };
    return answer as unknown as PlainObject;
  }

  count(query: ShardQuery, { filterBytesMax }: FilterLimits): number {
    const filter = this.#filter(query, filterBytesMax);
    const where = filter === undefined ? "" : ` WHERE ${filter.sql}`;
    return this.#number(`SELECT count(*) FROM entry${where}`, filter?.values ?? []);
  }

  status(shape: string): ShardStatus {
    const [settled] = this.#host.sqlOne("SELECT value FROM fact WHERE name = ?", [SETTLED]).rows;
    return {
      rows: this.#number("SELECT count(*) FROM entry", []),
      current: this.#number("SELECT count(*) FROM entry WHERE shape = ?", [shape]),
      stale: this.#number("SELECT count(*) FROM entry WHERE stale_since_ms IS NOT NULL", []),
      settled: settled === undefined ? null : String(settled[0]),
    };
  }

  readonly #nameOf = (column: string): string => {
    if (column === "key") return "key";
    if (column === STALE) return "stale_since_ms";
    return this.#columns.has(column) ? sqlName(column) : "NULL";
  };

  #filter({ where, parameters, columns }: ShardQuery, bytesMax: number): Condition | undefined {
    if (where === null) return undefined;
    return conditionOf(parseFilter(where, columns as Columns, parameters as Parameters, { bytesMax }), this.#nameOf);
  }

  /** One seq is one state of its object, whichever epoch tells it. */
  #isNews(key: string, epoch: number, seq: number): boolean {
    const { rows } = this.#host.sqlAll(
      "SELECT epoch, seq FROM entry WHERE key = ? UNION ALL SELECT epoch, seq FROM gone WHERE key = ?",
      [key, key],
    );
    return rows.every(([knownEpoch, knownSeq]) => {
      if (seq === knownSeq) return false;
      return epoch === knownEpoch ? seq > Number(knownSeq) : epoch > Number(knownEpoch);
    });
  }

  #put(head: readonly SqlValue[], columns: PlainObject, row: PlainObject): void {
    const [key] = head;
    const names = Object.keys(columns);
    const values = names.map((name) => sqlValueOf(Object.hasOwn(row, name) ? row[name] : null));
    const all = ["key", "epoch", "seq", "shape", "stale_since_ms", ...names.map(sqlName)];
    const others = [...this.#columns.keys()].filter((name) => !names.includes(name));
    const updated = [
      ...all.slice(1).map((name) => `${name} = excluded.${name}`),
      ...others.map((name) => `${sqlName(name)} = NULL`),
    ];
    this.#host.sqlExec(
      `INSERT INTO entry (${all.join(", ")}) VALUES (${all.map(() => "?").join(", ")})
       ON CONFLICT (key) DO UPDATE SET ${updated.join(", ")}`,
      [...head, ...values],
    );
    this.#host.sqlExec("DELETE FROM gone WHERE key = ?", [key as string]);
  }

  #remove(key: string, epoch: number, seq: number, nowMs: number): void {
    this.#host.sqlExec("DELETE FROM entry WHERE key = ?", [key]);
    this.#host.sqlExec(
      "INSERT INTO gone VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, at_ms = excluded.at_ms",
      [key, epoch, seq, nowMs],
    );
  }

  #trimGone(nowMs: number): void {
    this.#host.sqlExec("DELETE FROM gone WHERE key IN (SELECT key FROM gone WHERE at_ms < ? ORDER BY at_ms LIMIT ?)", [
      nowMs - GONE_KEPT_MS,
      GONE_TRIMMED_MAX,
    ]);
  }

  #prepare(shape: string, columns: PlainObject, index: readonly PlainValue[], isFresh: boolean): void {
    const isFirst = this.#columns.size === 0;
    this.#addColumns(columns, index as readonly string[]);
    if (isFresh && isFirst) this.#setFact(SETTLED, shape);
  }

  #addColumns(columns: PlainObject, index: readonly string[]): void {
    for (const name of Object.keys(columns)) if (!this.#columns.has(name)) this.#addColumn(name);
    for (const name of new Set(index)) if (this.#columns.get(name) === false) this.#addIndex(name);
  }

  #addColumn(name: string): void {
    this.#host.changeSchema(`ALTER TABLE entry ADD COLUMN ${sqlName(name)}`);
    this.#host.sqlExec("INSERT INTO entry_column VALUES (?, 0)", [name]);
    this.#columns.set(name, false);
  }

  #addIndex(name: string): void {
    this.#host.changeSchema(`CREATE INDEX entry_${name} ON entry (${sqlName(name)}, key)`);
    this.#host.sqlExec("UPDATE entry_column SET indexed = 1 WHERE name = ?", [name]);
    this.#columns.set(name, true);
  }

  #dropIndex(name: string): void {
    this.#host.changeSchema(`DROP INDEX entry_${name}`);
    this.#host.sqlExec("UPDATE entry_column SET indexed = 0 WHERE name = ?", [name]);
    this.#columns.set(name, false);
  }

  #dropColumn(name: string): void {
    this.#host.changeSchema(`ALTER TABLE entry DROP COLUMN ${sqlName(name)}`);
    this.#host.sqlExec("DELETE FROM entry_column WHERE name = ?", [name]);
    this.#columns.delete(name);
  }

  /**
   * A row of another shape lacks columns of the one that all had been brought over to: whoever has that one walks again. One whose
   * derivation has failed stays what it was, however often its object is asked.
   */
  #unsettleBy(shapes: ReadonlySet<string>): void {
    for (const shape of shapes) this.#host.sqlExec("DELETE FROM fact WHERE name = ? AND value <> ?", [SETTLED, shape]);
  }

  #setFact(name: string, value: string): void {
    this.#host.sqlExec("INSERT INTO fact VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", [
      name,
      value,
    ]);
  }

  #number(sql: string, values: readonly SqlValue[]): number {
    return Number(this.#host.sqlOne(sql, values).rows[0]?.[0] ?? 0);
  }
}

const STALE = "-";
const COLUMN_NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** With a sign before it no column is called like a word of SQL, or like one of the shard's own. */
function sqlName(column: string): string {
  assert(COLUMN_NAME.test(column), "columns are declared, and checked where they are");
  return `c_${column}`;
}

function sqlValueOf(value: PlainValue | undefined): SqlValue {
  if (typeof value === "boolean") return value ? 1 : 0;
  assert(value == null || typeof value === "string" || typeof value === "number", "a row's cells were checked");
  return value ?? null;
}

function bytesOf(row: readonly SqlValue[]): number {
  return row.reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 8), 0);
}
