/**
 * The object's row in its class's directory: the last one that was derived well, the seq it was derived at, and the mark of a
 * derivation that failed since (O3: a failure keeps the last good row and never fails the write).
 */
import type { Settings } from "../settings/settings.js";
import type { PlainObject } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export interface DirectoryRowState {
  /** Absent as long as no derivation has succeeded. */
  readonly row?: PlainObject;
  /** The seq of the row; 0 without one. */
  readonly seq: number;
  /** Wall clock of the first failure since the row was good, milliseconds. */
  readonly staleSinceMs?: number;
  readonly failure?: string;
}

/** What the class's directory must hold of the object: a function of the object's own tables, and of nothing else. */
export interface RowStanding {
  /** The seq since which it is so. One seq, one standing. */
  readonly seq: number;
  readonly row: PlainObject;
  /** The shape of the directory that it was derived under. */
  readonly shape: string;
  readonly staleSinceMs?: number;
}

interface Known {
  readonly state: DirectoryRowState;
  readonly encoded: Uint8Array | undefined;
}

const NONE: Known = { state: { seq: 0 }, encoded: undefined };
const FAILURE_LENGTH_MAX = 500;

export class DirectoryRow {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #meta: Meta;
  readonly #limits: Pick<Settings, "DIRECTORY_ROW_BYTES_MAX">;
  #known: Known | undefined;
  /** Whether the open transaction, or the one just committed, changed the standing; whoever publishes it resets it. */
  hasChanged = false;

  constructor(
    database: ObjectDatabase,
    tables: KernelTables,
    meta: Meta,
    limits: Pick<Settings, "DIRECTORY_ROW_BYTES_MAX">,
  ) {
    this.#database = database;
    this.#tables = tables;
    this.#meta = meta;
    this.#limits = limits;
    database.listen({
      rolledBack: () => {
        this.#known = undefined;
        this.hasChanged = false;
      },
      committed() {},
    });
  }

  /** Undefined as long as no derivation has succeeded. */
  standing(): RowStanding | undefined {
    const { row, seq, staleSinceMs } = this.#current().state;
    if (row === undefined) return undefined;
    return {
      seq: Math.max(seq, this.#meta.get("row_marked") ?? 0),
      row,
      shape: this.#meta.get("row_shape") ?? "",
      ...(staleSinceMs !== undefined && { staleSinceMs }),
    };
  }

  get(): DirectoryRowState {
    return this.#current().state;
  }

  /**
   * Keeps a row derived at `seq` and takes the failure mark away; nothing is written when neither changes anything.
   * @param shape the directory's that it was derived under
   * @returns whether the row differs from the last good one
   * @throws MoonportError `too_large` beyond DIRECTORY_ROW_BYTES_MAX
   */
  save(row: PlainObject, seq: number, shape: string): boolean {
    const encoded = encodeValue(row, this.#limits.DIRECTORY_ROW_BYTES_MAX, "the directory row");
    const { state, encoded: before } = this.#current();
    const isNew = before === undefined || !Buffer.from(before).equals(encoded);
    const hasOtherShape = this.#meta.get("row_shape") !== shape;
    if (isNew) this.#write({ state: { row, seq }, encoded });
    else if (state.failure !== undefined) this.#write({ state: { row, seq: state.seq }, encoded });
    if (hasOtherShape) this.#meta.set("row_shape", shape);
    if (!isNew && (hasOtherShape || state.failure !== undefined)) this.#mark(seq);
    return isNew;
  }

  /** Marks that the derivation failed at `seq`; the first failure's time stays. */
  fail(failure: string, seq: number, nowMs: number): void {
    const { state, encoded } = this.#current();
    const text = failure.toWellFormed().slice(0, FAILURE_LENGTH_MAX);
    if (state.failure === text) return;
    this.#write({ state: { ...state, staleSinceMs: state.staleSinceMs ?? nowMs, failure: text }, encoded });
    if (state.failure === undefined && state.row !== undefined) this.#mark(seq);
  }

  #mark(seq: number): void {
    this.#meta.set("row_marked", seq);
    this.hasChanged = true;
  }

  /** The row stands as it is, from `seq` on. In a transaction. */
  standsAt(seq: number): void {
    const { state, encoded } = this.#current();
    if (encoded !== undefined) this.#write({ state: { ...state, seq }, encoded });
  }

  /** Takes the row away, as destroying the object does. */
  clear(): void {
    if (!this.#tables.has("_mp_row") || this.#current() === NONE) return;
    this.#database.kernel("DELETE FROM _mp_row").run();
    this.#known = NONE;
  }

  #current(): Known {
    this.#known ??= this.#read();
    return this.#known;
  }

  #read(): Known {
    const row = this.#tables.has("_mp_row")
      ? this.#database.kernel("SELECT row, seq, stale_since_ms, failure FROM _mp_row").get()
      : undefined;
    if (row === undefined) return NONE;
    const [encoded, seq, staleSinceMs, failure] = row;
    const state: DirectoryRowState = {
      seq: Number(seq),
      ...(encoded === null ? {} : { row: decodeValue(encoded) as PlainObject }),
      ...(staleSinceMs === null ? {} : { staleSinceMs: Number(staleSinceMs) }),
      ...(failure === null ? {} : { failure: String(failure) }),
    };
    return { state, encoded: encoded instanceof Uint8Array ? encoded : undefined };
  }

  #write(next: Known): void {
    this.#tables.ensure("_mp_row");
    const { seq, staleSinceMs = null, failure = null } = next.state;
    this.#database
      .kernel("INSERT OR REPLACE INTO _mp_row VALUES (1, ?, ?, ?, ?)")
      .run(next.encoded ?? null, seq, staleSinceMs, failure);
    this.#known = next;
    this.hasChanged = true;
  }
}
