/** A class's migrations on one object, known to the watchdog while they run: they are statements that nothing can interrupt. */
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import { appliedMigrations, applyMigrations, migrationsAhead, pendingMigrations } from "../store/migrations.js";
import { MIGRATIONS_ENTRY } from "../world/watchdog/running-record.js";
import type { HostFile } from "./call-host.js";
import type { ObjectContext } from "./object-context.js";

export type MigratingContext = Pick<ObjectContext, "running" | "quarantine" | "whyBehind">;

/**
 * @throws MoonportError `quarantined`, `migration_mismatch`, `migration_failed`, `release_behind` where a newer release has
 * brought the object further than the one that this node serves; the caller rolls back
 */
export function migrateObject(
  { running, quarantine, whyBehind }: MigratingContext,
  object: ObjectIdentity,
  { database, tables: { meta } }: Pick<HostFile, "database" | "tables">,
  lua: LuaClass,
): void {
  const refusal = quarantine.refusal(object, MIGRATIONS_ENTRY);
  const pending = pendingMigrations(meta, lua);
  if (refusal !== undefined && pending > 0) throw refusal;
  if (migrationsAhead(meta, lua) > 0) {
    const behind = whyBehind(object, appliedMigrations(meta), lua.migrations.length);
    if (behind !== undefined) throw behind;
  }
  running.enter(object.id, MIGRATIONS_ENTRY);
  try {
    applyMigrations(database, meta, lua);
  } finally {
    running.leave();
  }
}
