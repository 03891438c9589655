/** The file of an object that has just begun is the one that SQLite would make. */
import fs from "node:fs";
import path from "node:path";
import SqliteDatabase from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { resolveSettings } from "../../src/settings/settings.js";
import { connect, PAGE_BYTES } from "../../src/store/connect.js";
import { emptyDatabase } from "../../src/store/empty-database.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

/** Which release of SQLite wrote it: nothing reads that. */
const WRITER = [96, 100] as const;

function madeBySqlite(pageBytes: number): Buffer {
  const file = path.join(temporaryFolder(), "made.db");
  const database = new SqliteDatabase(file);
  database.exec(`PRAGMA page_size = ${pageBytes}; PRAGMA journal_mode = WAL`);
  database.close();
  return fs.readFileSync(file).fill(0, ...WRITER);
}

describe("the file of an object that has just begun", () => {
  it.each([512, PAGE_BYTES, 4_096, 32_768])("with pages of %i bytes is the one that SQLite makes", (pageBytes) => {
    expect(Buffer.from(emptyDatabase(pageBytes))).toEqual(madeBySqlite(pageBytes));
  });

  it("has no other beside it but its WAL, and is sound", () => {
    const root = temporaryFolder();
    const database = connect(new RealFolder(root), "new.db", resolveSettings(), false);
    expect(fs.readdirSync(root).sort()).toEqual(["new.db", "new.db-wal"]);
    database.exec("CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (7)");
    expect(database.pragma("integrity_check", { simple: true })).toBe("ok");
    expect(database.pragma("page_size", { simple: true })).toBe(PAGE_BYTES);
    database.close();
    expect(fs.statSync(path.join(root, "new.db")).size % PAGE_BYTES).toBe(0);
  });

  it("is not laid over one that is there", () => {
    const folder = new RealFolder(temporaryFolder());
    const first = connect(folder, "one.db", resolveSettings(), false);
    first.exec("CREATE TABLE item(id)");
    first.close();
    const second = connect(folder, "one.db", resolveSettings(), false);
    expect(second.prepare("SELECT count(*) FROM sqlite_schema").pluck().get()).toBe(1);
    second.close();
  });
});
