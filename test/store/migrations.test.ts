import { describe, expect, test } from "vitest";
import { applyMigrations, pendingMigrations } from "../../src/store/migrations.js";
import { errorOf, ObjectFile } from "./object-file.js";

const TABLE = "CREATE TABLE bids (id INTEGER PRIMARY KEY, who TEXT NOT NULL)";
const INDEX = "CREATE INDEX bids_who ON bids (who)";
const COLUMN = "ALTER TABLE bids ADD COLUMN amount INTEGER";

const classOf = (...migrations: string[]) => ({ name: "Auction", migrations });
const apply = (file: ObjectFile, ...migrations: string[]): number =>
  applyMigrations(file.database, file.tables.meta, classOf(...migrations));

describe("migrations", () => {
  test("run once each, in order, as the class grows", () => {
    const file = new ObjectFile();
    expect(pendingMigrations(file.tables.meta, classOf(TABLE))).toBe(1);
    expect(file.call(() => apply(file, TABLE, INDEX))).toBe(2);
    file.reopen();
    expect(pendingMigrations(file.tables.meta, classOf(TABLE, INDEX, COLUMN))).toBe(1);
    expect(file.call(() => apply(file, TABLE, INDEX, COLUMN))).toBe(1);
    file.call(() => file.database.exec("INSERT INTO bids (who, amount) VALUES ('ada', 1)", []));
    file.reopen();
    file.database.begin();
    const mark = file.database.writeMark;
    expect(apply(file, TABLE, INDEX, COLUMN)).toBe(0);
    expect(file.database.wroteSince(mark)).toBe(false);
    file.database.rollback();
  });

  test("may hold several statements, a trigger's body among them, and may move data", () => {
    const file = new ObjectFile();
    const trigger = `CREATE TABLE log (who);
      CREATE TRIGGER bids_log AFTER INSERT ON bids BEGIN
        INSERT INTO log VALUES (CASE WHEN new.who = '' THEN 'nobody;' ELSE new.who END);
        DELETE FROM log WHERE who IS NULL;
      END;
      INSERT INTO bids (who) SELECT 'ada' UNION ALL SELECT ''; -- the first ones`;
    file.call(() => apply(file, TABLE, trigger));
    expect(file.database.all("SELECT who FROM log ORDER BY rowid", []).rows).toEqual([["ada"], ["nobody;"]]);
  });

  test("make full-text tables, which then work inside calls", () => {
    const file = new ObjectFile();
    file.call(() => apply(file, "CREATE VIRTUAL TABLE words USING fts5(body)"));
    file.call(() => file.database.exec("INSERT INTO words VALUES ('the moon rises')", []));
    file.database.begin();
    file.database.savepoint();
    file.database.exec("INSERT INTO words VALUES ('the moon sets')", []);
    file.database.rollbackTo();
    file.database.commit();
    expect(file.database.all("SELECT body FROM words WHERE words MATCH 'moon'", []).rows).toEqual([["the moon rises"]]);
  });

  test("that were changed after they were applied are named, and nothing runs", () => {
    const file = new ObjectFile();
    file.call(() => apply(file, TABLE, INDEX));
    const error = errorOf(() =>
      pendingMigrations(file.tables.meta, classOf(TABLE, "CREATE INDEX other ON bids (id)", COLUMN)),
    );
    expect(error.code).toBe("migration_mismatch");
    expect(error.message).toMatch(/migration 2 of Auction \(CREATE INDEX other/);
    expect(error.details).toEqual({ migration: 2 });
  });

  test("that an older release does not have yet stay applied while it serves, and run no second time", () => {
    const file = new ObjectFile();
    file.call(() => apply(file, TABLE, INDEX));
    file.database.begin();
    const mark = file.database.writeMark;
    expect(apply(file)).toBe(0);
    expect(apply(file, TABLE)).toBe(0);
    expect(file.database.wroteSince(mark)).toBe(false);
    file.database.rollback();
    expect(file.call(() => apply(file, TABLE, INDEX, COLUMN))).toBe(1);
  });

  test("that an older release has in other words than were applied are named", () => {
    const file = new ObjectFile();
    file.call(() => apply(file, TABLE, INDEX, COLUMN));
    const error = errorOf(() => pendingMigrations(file.tables.meta, classOf(TABLE, "CREATE INDEX other ON bids (id)")));
    expect(error.code).toBe("migration_mismatch");
    expect(error.details).toEqual({ migration: 2 });
  });

  test.each([
    ["a faulty one", "CREATE TABLE bids (x)", /migration 2 of Auction failed: table bids already exists/],
    [
      "one that is not allowed",
      "CREATE TABLE x (a); PRAGMA user_version = 1",
      /migration 2 of Auction failed: .*PRAGMA/,
    ],
    [
      "one whose trigger rolls back",
      "CREATE TRIGGER x AFTER INSERT ON bids BEGIN SELECT RAISE(ROLLBACK, ''); END",
      /ROLLBACK in any form/,
    ],
    ["one that makes a temporary table", "CREATE TEMP TABLE x (a)", /temporary/],
  ])("%s fails with its number and leaves the object as it was", (_, faulty, message) => {
    const file = new ObjectFile();
    file.database.begin();
    file.database.savepoint();
    const error = errorOf(() => apply(file, TABLE, faulty));
    expect(error.code).toBe("migration_failed");
    expect(error.message).toMatch(message);
    expect(error.details).toEqual({ migration: 2 });
    file.database.rollbackTo();
    file.database.commit();
    expect(file.database.tableNames()).toEqual([]);
    expect(pendingMigrations(file.tables.meta, classOf(TABLE))).toBe(1);
  });

  test("on a full object keep the code of the disk", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 65_536 });
    file.database.begin();
    const error = errorOf(() => apply(file, "CREATE TABLE big AS SELECT zeroblob(100000) AS a"));
    expect(error.code).toBe("object_full");
    expect(file.database.doomed).toBe(true);
  });
});
