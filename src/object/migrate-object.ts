/** A class's migrations on one object, known to the watchdog while they run: they are statements that nothing can interrupt. */
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import { applyMigrations, pendingMigrations } from "../store/migrations.js";
import { MIGRATIONS_ENTRY } from "../world/watchdog/running-record.js";
import type { HostFile } from "./call-host.js";
import type { ObjectContext } from "./object-context.js";

/** @throws MoonportError `quarantined`, `migration_mismatch`, `migration_failed`; the caller rolls back */
export function migrateObject(
  { running, quarantine }: Pick<ObjectContext, "running" | "quarantine">,
  object: ObjectIdentity,
  { database, tables: { meta } }: Pick<HostFile, "database" | "tables">,
  lua: LuaClass,
): void {
  const refusal = quarantine.refusal(object, MIGRATIONS_ENTRY);
  if (refusal !== undefined && pendingMigrations(meta, lua) > 0) throw refusal;
  running.enter(object.id, MIGRATIONS_ENTRY);
  try {
    applyMigrations(database, meta, lua);
  } finally {
    running.leave();
  }
}
