/**
 * Tables whose AUTOINCREMENT has no id left, because a row has had the highest there is.
 *
 * SQLite refuses their next row with the code of a full disk, and mostly ends the transaction with it. It is the statement's own
 * fault all the same: neither the disk nor the object is full.
 */
import type { Database } from "better-sqlite3";
import { MoonportError } from "../errors.js";

const HIGHEST = "9223372036854775807";

/** By what stands in the database; asked right after a refusal, that of a transaction that has ended says nothing any more. */
export function hasUsedUpIds(connection: Database): boolean {
  const ask = (sql: string): unknown[] => connection.prepare(sql).pluck().all();
  try {
    const tables = ask("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%autoincrement%'").map(
      String,
    );
    if (tables.length === 0) return false;
    const last = tables.map((name) => `SELECT max(rowid) AS id FROM "${name.replaceAll('"', '""')}"`);
    const given = ["SELECT seq AS id FROM sqlite_sequence", ...last].join(" UNION ALL ");
    return ask(`SELECT 1 FROM (${given}) WHERE id = ${HIGHEST} LIMIT 1`).length > 0;
  } catch {
    return false;
  }
}

export function idsUsedUp(cause: unknown): MoonportError {
  return MoonportError.of(
    "sql_error",
    `a table with AUTOINCREMENT has given its highest id, ${HIGHEST}: it has no other`,
    {
      hint: "let no id from outside into such a table; make it anew in a migration",
      cause,
    },
  );
}
