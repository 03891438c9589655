/** Everything of the kernel's that stands in one object's file, over one open database. */
import type { Settings } from "../settings/settings.js";
import { CallIds } from "./call-ids.js";
import { DirectoryRow } from "./directory-row.js";
import { Events } from "./events.js";
import { KernelTables } from "./kernel-tables.js";
import { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";
import { Outbox } from "./outbox.js";
import { OwingChange } from "./owing-change.js";
import { StoreMap } from "./store-map.js";
import { Timers } from "./timers.js";

export class ObjectTables {
  readonly store: StoreMap;
  readonly events: Events;
  readonly timers: Timers;
  readonly outbox: Outbox;
  readonly callIds: CallIds;
  readonly directoryRow: DirectoryRow;
  readonly meta: Meta;
  /** Whether timers or messages were changed since it was last asked. */
  readonly owingChange = new OwingChange();

  /** @param seed of the prints of call ids: 32 bits that callers do not know */
  constructor(database: ObjectDatabase, settings: Settings, seed = 0) {
    const tables = new KernelTables(database);
    this.meta = new Meta(database, tables);
    this.store = new StoreMap(database, tables, settings);
    this.events = new Events(database, tables, this.meta, settings);
    this.timers = new Timers(database, tables, settings, this.owingChange);
    this.outbox = new Outbox(database, tables, settings, this.owingChange);
    this.callIds = new CallIds(database, tables, this.meta, settings, seed);
    this.directoryRow = new DirectoryRow(database, tables, this.meta, settings);
  }
}
