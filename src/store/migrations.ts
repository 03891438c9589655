/**
 * The migrations of a class, applied to one object in order and once each, inside the running transaction.
 *
 * One list must begin with the other. A class that has more brings the object up to itself; one that has fewer is an older
 * release, and serves the object as the newer one left it. Where they differ, a migration that ran somewhere was edited
 * afterwards, and the object is refused.
 */
import { createHash } from "node:crypto";
import { type ErrorCode, isOwn, MoonportError } from "../errors.js";
import type { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";

export interface ClassMigrations {
  readonly name: string;
  readonly migrations: readonly string[];
}

/** Faults of the migration itself; the disk's and the file's keep their own codes. */
const THEIR_FAULT: readonly ErrorCode[] = ["sql_error", "sql_refused", "too_large"];

/**
 * How many of the class's migrations the object lacks; 0 means it may be served as it stands.
 * @throws MoonportError `migration_mismatch`
 */
export function pendingMigrations(meta: Meta, of: ClassMigrations): number {
  const applied = meta.get("migrations") ?? [];
  for (const [index, text] of of.migrations.slice(0, applied.length).entries()) {
    if (hashOf(text) !== applied[index]) throw changed(of, index, text);
  }
  return Math.max(0, of.migrations.length - applied.length);
}

/**
 * How many migrations the object has that the class does not declare: a newer release has brought it further.
 * Their texts are {@link pendingMigrations}' affair.
 */
export function migrationsAhead(meta: Meta, of: ClassMigrations): number {
  return Math.max(0, appliedMigrations(meta) - of.migrations.length);
}

export function appliedMigrations(meta: Meta): number {
  return meta.get("migrations")?.length ?? 0;
}

/** Of each migration's text, in order: what an object keeps of those that it has applied. */
export function migrationHashes({ migrations }: Pick<ClassMigrations, "migrations">): string[] {
  return migrations.map(hashOf);
}

/**
 * Applies what the object lacks; writes nothing when it lacks nothing.
 * @returns how many were applied
 * @throws MoonportError `migration_mismatch`, `migration_failed`; the caller rolls back
 */
export function applyMigrations(database: ObjectDatabase, meta: Meta, of: ClassMigrations): number {
  const pending = pendingMigrations(meta, of);
  const first = of.migrations.length - pending;
  for (const [offset, text] of of.migrations.slice(first).entries()) applyOne(database, of, first + offset, text);
  if (pending > 0) meta.set("migrations", migrationHashes(of));
  return pending;
}

function applyOne(database: ObjectDatabase, of: ClassMigrations, index: number, text: string): void {
  try {
    database.migrate(text);
  } catch (cause) {
    if (!(cause instanceof MoonportError) || !isOwn(cause, ...THEIR_FAULT)) throw cause;
    throw MoonportError.of("migration_failed", `${nameOf(of, index)} failed: ${cause.message}`, {
      cause,
      details: { migration: index + 1 },
      ...(cause.hint === undefined ? {} : { hint: cause.hint }),
    });
  }
}

function changed(of: ClassMigrations, index: number, text: string): MoonportError {
  return MoonportError.of(
    "migration_mismatch",
    `${nameOf(of, index)} (${excerpt(text)}) is not the one that was applied to the object`,
    { hint: "leave applied migrations as they are and add another", details: { migration: index + 1 } },
  );
}

function nameOf(of: ClassMigrations, index: number): string {
  return `migration ${index + 1} of ${of.name}`;
}

function excerpt(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex").slice(0, 32);
}
