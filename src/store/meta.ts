/** Single facts about an object, beside its data: whether it was created, which class it follows, what it once had. */
import type { PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { ObjectDatabase } from "./object-database.js";
import { decodeValue, encodeValue } from "./value-codec.js";

/** The keys as stored, and what stands under each. */
interface Facts {
  /** `on_create` has run. */
  created: boolean;
  /** Wall clock, milliseconds, of the call that destroyed the object, which stays until its messages have left; else 0. */
  destroyed_ms: number;
  /** The version of the class that wrote last. */
  class_version: string;
  /** A hash of each applied migration's text, in order. */
  migrations: string[];
  /** Number of the last event, kept when that event itself is deleted. */
  event_last: number;
  /** The shape of the directory that the row was derived under. */
  row_shape: string;
  /** The seq at which something else about the row changed than the row: its shape, or the mark of a failure. */
  row_marked: number;
  /** The latest time in the id (UUIDv7) of a call whose record was deleted, milliseconds. */
  call_pruned_ms: number;
  /** The last ids of calls of earlier lives. */
  call_ids_used: string[];
}

export type FactName = keyof Facts;

export class Meta {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #known = new Map<FactName, PlainValue | undefined>();

  constructor(database: ObjectDatabase, tables: KernelTables) {
    this.#database = database;
    this.#tables = tables;
    database.listen({ rolledBack: () => this.#known.clear(), committed() {} });
  }

  get<Name extends FactName>(name: Name): Facts[Name] | undefined {
    if (!this.#known.has(name)) this.#known.set(name, this.#read(name));
    // What stands under a name was put there by `set`, with the type of that name.
    return this.#known.get(name) as Facts[Name] | undefined;
  }

  /** Writes only what differs from what stands there. */
  set<Name extends FactName>(name: Name, value: Facts[Name]): void {
    if (this.get(name) === value) return;
    this.#tables.ensure("_mp_meta");
    this.#database
      .kernel("INSERT INTO _mp_meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
      .run(name, encodeValue(value, Number.POSITIVE_INFINITY, name));
    this.#known.set(name, value);
  }

  #read(name: FactName): PlainValue | undefined {
    if (!this.#tables.has("_mp_meta")) return undefined;
    const row = this.#database.kernel("SELECT value FROM _mp_meta WHERE key = ?").get(name);
    return row === undefined ? undefined : decodeValue(row[0]);
  }
}
