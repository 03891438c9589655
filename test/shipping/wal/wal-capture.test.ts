import fs from "node:fs";
import SqliteDatabase from "better-sqlite3";
import { afterEach, describe, expect, test } from "vitest";
import { PageLedger } from "../../../src/shipping/wal/page-identity.js";
import { type Captured, WalCapture } from "../../../src/shipping/wal/wal-capture.js";
import type { FileHandle, OpenMode } from "../../../src/world/folder.js";
import { RealFolder } from "../../../src/world/real-folder.js";
import { ShippedObject, type ShippedOptions } from "./shipped-object.js";

const opened: ShippedObject[] = [];

function ship(options?: ShippedOptions): ShippedObject {
  const object = new ShippedObject(options);
  opened.push(object);
  return object;
}

function withTable(options?: ShippedOptions): ShippedObject {
  const object = ship(options);
  object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
  object.ship();
  return object;
}

function insert(object: ShippedObject, count: number, bodyBytes: number): void {
  const statement = object.database.prepare("INSERT INTO rows (body) VALUES (randomblob(?))");
  object.database.transaction(() => {
    for (let index = 0; index < count; index++) statement.run(bodyBytes);
  })();
}

/** Makes SQLite write uncommitted pages into the WAL. */
function spillEarly(object: ShippedObject): void {
  object.database.pragma("cache_size = 10");
  object.database.pragma("cache_spill = 1");
}

function pagesOf(captured: Captured): number[] {
  return captured.kind === "pages" ? [...captured.pages.keys()].sort((a, b) => a - b) : [];
}

/** Fails reads of one length, which only the copying of single pages has. */
class FaultyFolder extends RealFolder {
  failsReadsOf: number | undefined;

  override open(relative: string, mode: OpenMode): FileHandle {
    const file = super.open(relative, mode);
    return {
      read: (target, offset, length, position) => {
        if (length === this.failsReadsOf) throw new Error("the disk failed");
        return file.read(target, offset, length, position);
      },
      write: (source, position) => file.write(source, position),
      sizeBytes: () => file.sizeBytes(),
      truncate: (sizeBytes) => file.truncate(sizeBytes),
      sync: () => file.sync(),
      flush: () => file.flush(),
      close: () => file.close(),
    };
  }
}

afterEach(() => {
  for (const object of opened.splice(0)) object.close();
});

describe("what a capture holds", () => {
  test("nothing when nothing was committed", () => {
    const object = withTable();
    expect(object.capture.capture()).toEqual({ kind: "nothing" });
    expect(object.capture.isFullyCaptured()).toBe(true);
  });

  test("nothing, proven, of commits that set what stood already", () => {
    const object = withTable();
    object.database.exec("INSERT INTO rows VALUES (1, 'x')");
    object.ship();
    const same = object.database.prepare("UPDATE rows SET body = 'x' WHERE id = 1");
    for (const checkpoint of [false, true, false]) {
      if (checkpoint) expect(object.checkpoint()).toBe(true);
      expect(same.run().changes).toBe(1);
      expect(object.capture.capture().kind).toBe("nothing");
      expect(object.capture.endsAtPosition()).toBe(true);
    }
    object.database.exec("UPDATE rows SET body = 'y' WHERE id = 1");
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test("the last image of each page and the number of commits", () => {
    const object = withTable();
    for (let index = 0; index < 3; index++) insert(object, 1, 10);
    const captured = object.ship();
    expect(captured).toMatchObject({ kind: "pages", commits: 3, finalPages: 2 });
    expect(pagesOf(captured), "a commit that leaves page 1 alone does not write it").toEqual([2]);
    object.verify();
  });

  test("nothing of what a snapshot holds already", () => {
    const object = withTable();
    insert(object, 20, 500);
    object.takeSnapshot();
    expect(object.capture.capture().kind).toBe("nothing");
    insert(object, 1, 50);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    object.verify();
  });

  test("nothing before a start is set", () => {
    const object = withTable();
    object.capture.close();
    expect(object.capture.capture()).toEqual({ kind: "snapshot_needed", reason: "not_started" });
    object.takeSnapshot();
    insert(object, 1, 10);
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test.each([512, 1024, 4096, 65_536])("pages of %i bytes", (pageSize) => {
    const object = withTable({ pageSize });
    insert(object, 20, 3_000);
    object.verify();
    expect(object.segments.length).toBeGreaterThan(0);
  });
});

describe("a WAL that begins again", () => {
  test("goes on after our own checkpoint", () => {
    const object = withTable();
    insert(object, 3, 50);
    object.ship();
    expect(object.checkpoint()).toBe(true);
    expect(object.capture.walBytes()).toBe(0);
    expect(object.ship().kind).toBe("nothing");
    insert(object, 3, 50);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    object.verify();
  });

  test("goes on after several checkpoints without a commit between", () => {
    const object = withTable();
    for (let index = 0; index < 3; index++) expect(object.checkpoint()).toBe(true);
    insert(object, 1, 50);
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test("goes on when the checkpoints came before the connection's first commit", () => {
    const object = ship();
    object.checkpoint();
    object.checkpoint();
    object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test("needs a snapshot when somebody else restarted it, though size and number of frames are equal", () => {
    const object = withTable();
    object.checkpoint();
    insert(object, 1, 50);
    object.ship();
    const sizeBytes = object.capture.walBytes();
    object.database.pragma("wal_checkpoint(RESTART)");
    insert(object, 1, 50);
    expect(object.capture.walBytes()).toBe(sizeBytes);
    expect(object.capture.isFullyCaptured()).toBe(false);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "wal_restarted" });
    object.verify();
  });

  test("needs a snapshot when it began again behind commits that nobody captured, whose frames still stand there", () => {
    const object = withTable();
    insert(object, 50, 500);
    object.database.pragma("wal_checkpoint(PASSIVE)");
    insert(object, 1, 50);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "wal_restarted" });
    object.verify();
  });

  test("reads only the new frames when a shorter life follows a longer one in the same file", () => {
    const object = withTable();
    insert(object, 50, 500);
    object.ship();
    object.database.pragma("wal_checkpoint(RESTART)");
    object.capture.noteCheckpoint();
    insert(object, 1, 50);
    const captured = object.ship();
    expect(captured).toMatchObject({ kind: "pages", commits: 1 });
    expect(pagesOf(captured).length).toBeLessThan(5);
    object.verify();
  });

  test("needs a snapshot after two restarts of which we know one", () => {
    const object = withTable();
    insert(object, 1, 50);
    object.ship();
    object.checkpoint();
    insert(object, 1, 50);
    object.database.pragma("wal_checkpoint(TRUNCATE)");
    insert(object, 1, 50);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "wal_restarted" });
    object.verify();
  });

  test("needs a snapshot when commits came and went in a WAL that was empty at the start", () => {
    const object = ship();
    object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
    object.database.pragma("wal_checkpoint(TRUNCATE)");
    insert(object, 1, 50);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "wal_restarted" });
    object.verify();
  });

  test("needs a snapshot when it was cut to nothing under us", () => {
    const object = withTable();
    insert(object, 1, 50);
    object.ship();
    insert(object, 1, 50);
    object.database.pragma("wal_checkpoint(TRUNCATE)");
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "wal_truncated" });
    insert(object, 1, 50);
    expect(object.ship().kind, "the snapshot knows how the next WAL begins").toBe("pages");
    object.verify();
  });

  test("does not allow a checkpoint over a commit that came after the capture", () => {
    const object = withTable();
    insert(object, 1, 50);
    object.ship();
    insert(object, 1, 50);
    expect(object.checkpoint()).toBe(false);
    expect(object.ship().kind).toBe("pages");
    expect(object.checkpoint()).toBe(true);
    object.verify();
  });

  test("keeps a snapshot owed until it is taken", () => {
    const object = withTable();
    object.database.pragma("wal_checkpoint(TRUNCATE)");
    insert(object, 1, 50);
    expect(object.capture.capture().kind).toBe("snapshot_needed");
    expect(object.capture.capture().kind).toBe("snapshot_needed");
    expect(object.capture.isFullyCaptured()).toBe(false);
    object.ship();
    expect(object.capture.capture().kind).toBe("nothing");
    object.verify();
  });
});

describe("a reader that stays", () => {
  test("an open iterator keeps the checkpoint away, not the capture", () => {
    const object = withTable();
    insert(object, 50, 500);
    object.ship();
    const iterator = object.database.prepare("SELECT * FROM rows").iterate();
    iterator.next();
    expect(() => object.checkpoint()).toThrow(/busy/);
    expect(object.capture.capture().kind).toBe("nothing");
    iterator.return?.();
    insert(object, 1, 50);
    expect(object.ship().kind).toBe("pages");
    expect(object.checkpoint()).toBe(true);
    object.verify();
  });

  test("a busy checkpoint leaves the position where it is", () => {
    const object = withTable({ exclusive: false });
    insert(object, 50, 500);
    object.ship();
    object.database.pragma("busy_timeout = 0");
    const reader = new SqliteDatabase(object.absolute("object.db"));
    const iterator = reader.prepare("SELECT * FROM rows").iterate();
    iterator.next();
    insert(object, 5, 50);
    object.ship();
    expect(object.checkpoint()).toBe(false);
    insert(object, 5, 50);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    iterator.return?.();
    reader.close();
    expect(object.checkpoint()).toBe(true);
    insert(object, 5, 50);
    object.verify();
    expect(object.segments.length).toBe(5);
  });
});

describe("transactions that end otherwise", () => {
  test("spilled and rolled back: never shipped", () => {
    const object = withTable();
    spillEarly(object);
    const before = object.capture.walBytes();
    object.database.exec("BEGIN");
    for (let index = 0; index < 200; index++) {
      object.database.prepare("INSERT INTO rows (body) VALUES (randomblob(900))").run();
    }
    expect(object.capture.walBytes(), "the transaction did spill").toBeGreaterThan(before + 50_000);
    expect(object.capture.capture().kind).toBe("nothing");
    object.database.exec("ROLLBACK");
    expect(object.capture.capture().kind).toBe("nothing");
    expect(object.capture.isFullyCaptured()).toBe(true);
    expect(object.capture.endsAtPosition(), "nobody can tell it from a damaged commit").toBe(false);
    insert(object, 1, 50);
    const captured = object.ship();
    expect(captured).toMatchObject({ kind: "pages", commits: 1 });
    expect(pagesOf(captured).length).toBeLessThan(5);
    object.verify();
  });

  test("spilled and rolled back as the first thing in a WAL: the header that follows may have other salts", () => {
    const object = withTable();
    object.capture.close();
    object.database.pragma("journal_mode = DELETE");
    object.database.pragma("journal_mode = WAL");
    object.takeSnapshot();
    spillEarly(object);
    object.database.exec("BEGIN");
    for (let index = 0; index < 200; index++) {
      object.database.prepare("INSERT INTO rows (body) VALUES (randomblob(900))").run();
    }
    const salts = (): string => fs.readFileSync(object.walFile()).subarray(16, 24).toString("hex");
    const first = salts();
    expect(object.ship().kind).toBe("nothing");
    object.database.exec("ROLLBACK");
    insert(object, 1, 50);
    expect(salts()).not.toBe(first);
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test("spilled and committed: shipped whole, pages rewritten in the WAL included", () => {
    const object = withTable();
    spillEarly(object);
    object.database.exec("BEGIN");
    for (let index = 0; index < 300; index++) {
      object.database.prepare("INSERT INTO rows (body) VALUES (randomblob(700))").run();
      object.database.prepare("UPDATE rows SET body = randomblob(701) WHERE id % 7 = ?").run(index % 7);
    }
    object.database.exec("COMMIT");
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    object.verify();
  });

  test("savepoints rolled back inside a commit, spilled or not", () => {
    const object = withTable();
    spillEarly(object);
    object.database.exec("BEGIN");
    for (let round = 0; round < 5; round++) {
      object.database.exec("SAVEPOINT a");
      object.database.prepare("INSERT INTO rows (body) SELECT randomblob(800) FROM (VALUES (1),(2),(3))").run();
      object.database.exec("SAVEPOINT b");
      for (let index = 0; index < 60; index++) {
        object.database.prepare("INSERT INTO rows (body) VALUES (randomblob(900))").run();
      }
      object.database.exec(round % 2 === 0 ? "ROLLBACK TO b; RELEASE b; RELEASE a" : "ROLLBACK TO a; RELEASE a");
    }
    object.database.exec("COMMIT");
    object.ship();
    object.verify();
  });
});

describe("files that grow and shrink", () => {
  test("growth", () => {
    const object = withTable();
    for (let round = 0; round < 5; round++) {
      insert(object, 40, 900);
      expect(object.ship().kind).toBe("pages");
    }
    object.verify();
  });

  test("VACUUM after DELETE: pages beyond the end are gone", () => {
    const object = withTable();
    insert(object, 200, 900);
    object.ship();
    object.database.exec("DELETE FROM rows WHERE id > 5");
    object.database.exec("VACUUM");
    const captured = object.ship();
    if (captured.kind !== "pages") throw new Error("expected pages");
    expect(Math.max(...captured.pages.keys())).toBeLessThanOrEqual(captured.finalPages);
    expect(captured.finalPages).toBeLessThan(20);
    object.verifyAsShipped(object.content());
    object.checkpoint();
    insert(object, 50, 900);
    object.verify();
  });

  test("incremental vacuum in steps, growing again in between and in one capture", () => {
    const object = withTable({ autoVacuum: true });
    insert(object, 300, 900);
    object.ship();
    object.database.exec("DELETE FROM rows WHERE id % 3 <> 0");
    for (let round = 0; round < 6; round++) {
      object.database.pragma("incremental_vacuum(40)");
      insert(object, 10 + round, 900);
      if (round % 2 === 0) {
        expect(object.ship().kind).toBe("pages");
        object.verifyAsShipped(object.content());
      }
    }
    object.verify();
  });

  test("DROP TABLE", () => {
    const object = withTable({ autoVacuum: true });
    insert(object, 100, 900);
    object.database.exec("CREATE TABLE other (a); INSERT INTO other VALUES (1)");
    object.ship();
    object.database.exec("DROP TABLE rows");
    object.ship();
    object.verify();
  });

  test("rows with overflow pages, rewritten and cut down", () => {
    const object = withTable();
    insert(object, 10, 20_000);
    object.ship();
    object.database.exec("UPDATE rows SET body = randomblob(30000) WHERE id % 2 = 0");
    object.ship();
    object.database.exec("UPDATE rows SET body = randomblob(10) WHERE id % 3 = 0");
    object.verify();
  });
});

describe("free pages", () => {
  /** Leaves pages in SQLite's cache, rolled back and then freed, that are otherwise in the file and the WAL. */
  function churn(object: ShippedObject): void {
    const { database } = object;
    const remove = (count: number) =>
      database.prepare("DELETE FROM rows WHERE id IN (SELECT id FROM rows ORDER BY body LIMIT ?)").run(count);
    insert(object, 3, 1346);
    database.exec("UPDATE rows SET body = x'' WHERE id < 3");
    database.exec("CREATE INDEX IF NOT EXISTS by_body ON rows (body)");
    remove(3);
    database.exec("BEGIN; SAVEPOINT half");
    database.exec("INSERT INTO rows (body) SELECT randomblob(246) FROM (VALUES (1),(2),(3),(4))");
    remove(4);
    database.exec("ROLLBACK TO half; RELEASE half; INSERT INTO rows (body) VALUES (randomblob(246)); COMMIT");
  }

  test("are shipped as the file and the WAL hold them, whatever the page cache says", () => {
    for (let life = 0; life < 20; life++) {
      const object = withTable({ autoVacuum: true });
      spillEarly(object);
      churn(object);
      object.verify();
    }
  });

  test("are in a snapshot as the file and the WAL hold them, so that its identity is that of the file", () => {
    for (let life = 0; life < 20; life++) {
      const object = withTable({ autoVacuum: true });
      spillEarly(object);
      churn(object);
      object.takeSnapshot();
      expect(object.checkpoint()).toBe(true);
      const file = fs.readFileSync(object.absolute("object.db"));
      expect(PageLedger.ofBytes(file, 1024).identity()).toBe(object.ledger.identity());
    }
  });
});

describe("large transactions", () => {
  test("50 MB in one transaction, read in steps", () => {
    const object = withTable({ pageSize: 4096 });
    insert(object, 50, 1 << 20);
    const captured = object.ship();
    expect(captured).toMatchObject({ kind: "pages", commits: 1 });
    expect(pagesOf(captured).length).toBeGreaterThan(12_000);
    object.verify();
  });

  test("a read that fails while images are copied loses nothing: the next capture takes the same commits", () => {
    const object = withTable();
    object.capture.close();
    const faulty = new FaultyFolder(object.root);
    const capture = new WalCapture(faulty, "object.db", { pageSize: 1024, changedBytesMax: 1 << 30 });
    capture.startAfterSnapshot();
    insert(object, 400, 900);
    faulty.failsReadsOf = 1024;
    expect(() => capture.capture()).toThrow("the disk failed");
    faulty.failsReadsOf = undefined;
    expect(capture.capture()).toMatchObject({ kind: "pages", commits: 1 });
    capture.close();
  });

  test("more changed pages than a segment may carry: a snapshot, taken at once or later", () => {
    const object = withTable({ changedBytesMax: 100_000 });
    insert(object, 300, 900);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "too_large" });
    insert(object, 1, 50);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    object.verify();

    insert(object, 300, 900);
    expect(object.capture.capture().kind).toBe("snapshot_needed");
    insert(object, 1, 50);
    expect(object.ship()).toEqual({ kind: "snapshot_needed", reason: "too_large" });
    insert(object, 1, 50);
    expect(object.ship().kind).toBe("pages");
    object.verify();
  });

  test("many commits over few pages stay a segment, however long the WAL is", () => {
    const object = withTable({ changedBytesMax: 20_000 });
    insert(object, 1, 100);
    object.ship();
    for (let index = 0; index < 400; index++) object.database.exec("UPDATE rows SET body = randomblob(100)");
    expect(object.capture.walBytes()).toBeGreaterThan(400_000);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 400 });
    object.verify();
  });
});

describe("a damaged WAL", () => {
  function captureDamaged(object: ShippedObject, damage: (wal: Buffer) => Buffer): Captured {
    fs.writeFileSync(object.walFile(), damage(fs.readFileSync(object.walFile())));
    return object.capture.capture();
  }

  test.each([1, 23, 24, 500, 1023, 1024, 1047, 1048])(
    "a tail torn by %i bytes ends at the last whole commit",
    (missing) => {
      const object = withTable();
      insert(object, 1, 50);
      object.ship();
      const shipped = object.content();
      insert(object, 1, 50);
      const captured = captureDamaged(object, (wal) => wal.subarray(0, wal.length - missing));
      expect(captured.kind).toBe("nothing");
      // Cut off whole it leaves no trace, but no file of a process that lives loses its end.
      expect(object.capture.endsAtPosition()).toBe(missing === 1048);
      object.verifyAsShipped(shipped);
    },
  );

  test("a tail torn into what was captured needs a snapshot", () => {
    const object = withTable();
    insert(object, 1, 50);
    object.ship();
    const captured = captureDamaged(object, (wal) => wal.subarray(0, wal.length - 1));
    expect(captured).toEqual({ kind: "snapshot_needed", reason: "wal_truncated" });
  });

  test.each([
    ["page number", 3],
    ["database size", 7],
    ["salt", 12],
    ["checksum", 20],
    ["page", 600],
  ])("a flipped bit in a frame's %s ends the walk before it", (_name, at) => {
    const object = withTable();
    insert(object, 1, 50);
    object.ship();
    const end = object.capture.walBytes();
    insert(object, 1, 50);
    insert(object, 1, 50);
    const captured = captureDamaged(object, (wal) => {
      wal[end + at] = (wal[end + at] ?? 0) ^ 4;
      return wal;
    });
    expect(captured.kind).toBe("nothing");
    expect(object.capture.endsAtPosition()).toBe(false);
  });

  test("commits before a damaged one are captured", () => {
    const object = withTable();
    insert(object, 1, 50);
    const end = object.capture.walBytes();
    const whole = object.content();
    insert(object, 1, 50);
    const wal = fs.readFileSync(object.walFile());
    wal[end + 100] = (wal[end + 100] ?? 0) ^ 1;
    fs.writeFileSync(object.walFile(), wal);
    expect(object.ship()).toMatchObject({ kind: "pages", commits: 1 });
    object.verifyAsShipped(whole);
  });

  test("a damaged header needs a snapshot", () => {
    const object = withTable();
    const wal = fs.readFileSync(object.walFile());
    wal[17] = (wal[17] ?? 0) ^ 1;
    fs.writeFileSync(object.walFile(), wal);
    expect(object.capture.capture()).toEqual({ kind: "snapshot_needed", reason: "wal_damaged" });
  });
});
