/**
 * What runs before an object's first call in a residency, in that call's transaction: the migrations it lacks, `on_create`
 * the first time ever, `on_wake` each time it woke. A new class version runs the migrations alone.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { LuaClass, LuaEntry } from "../lua/contract.js";
import type { CallHost } from "./call-host.js";
import { type MigratingContext, migrateObject } from "./migrate-object.js";
import type { OpenObject } from "./open-object.js";
import type { LuaEnd } from "./run-lua.js";

export interface WakeParts {
  readonly context: MigratingContext;
  readonly open: OpenObject;
  readonly lua: LuaClass;
  /** Already served calls in this residency, under another version of the class. */
  readonly wasAwake: boolean;
  run(entry: LuaEntry, host: CallHost): LuaEnd | Promise<LuaEnd>;
  newHost(): CallHost;
}

/**
 * @throws MoonportError `quarantined`, `migration_mismatch`, `migration_failed`, `release_behind`, `hook_failed`; the caller
 * rolls back
 */
export async function wakeObject(parts: WakeParts): Promise<CallHost[]> {
  const { open, lua } = parts;
  const { meta } = open.tables;
  migrateObject(parts.context, open.object, open, lua);
  const hosts: CallHost[] = [];
  // A new life's file has not heard of the events before it, nor a recovered one of those that it has lost: between what it still
  // has and what follows there would be a gap that nobody is told of.
  const { eventLast, usedIds } = open.claim.manifest;
  if (eventLast > open.tables.events.last) open.tables.events.startAfter(eventLast);
  if (meta.get("created") !== true) {
    meta.set("created", true);
    // What it was asked for in an earlier life and may be asked for again does not happen in this one (W2).
    if (usedIds !== undefined) open.tables.callIds.startAfter(usedIds);
    if (lua.hooks.on_create) hosts.push(await runHook(parts, "on_create"));
  }
  if (!parts.wasAwake && lua.hooks.on_wake) hosts.push(await runHook(parts, "on_wake"));
  if (meta.get("class_version") !== lua.version) meta.set("class_version", lua.version);
  return hosts;
}

async function runHook(parts: WakeParts, name: "on_create" | "on_wake"): Promise<CallHost> {
  const refusal = parts.context.quarantine.refusal(parts.open.object, name);
  if (refusal !== undefined) throw refusal;
  const host = parts.newHost();
  const end = await parts.run({ kind: "hook", name }, host);
  host.close();
  if (end.kind === "returned") return host;
  const cause = asMoonportError(end.error);
  throw MoonportError.of("hook_failed", `${name} of ${parts.lua.name} failed: ${cause.message}`, {
    cause,
    object: parts.open.object.id,
    ...(cause.details && { details: cause.details }),
  });
}
