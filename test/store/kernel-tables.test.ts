import { describe, expect, test } from "vitest";
import { errorOf, ObjectFile } from "./object-file.js";

describe("events", () => {
  test("are numbered from 1 without gaps, a rolled-back call's number being given again", () => {
    const file = new ObjectFile();
    const { database, tables } = file;
    database.begin();
    database.savepoint();
    expect(tables.events.append("bid", { n: 1 }, 1_000)).toBe(1);
    database.release();
    database.savepoint();
    expect(tables.events.append("bid", { n: 2 }, 1_000)).toBe(2);
    database.rollbackTo();
    database.savepoint();
    expect(tables.events.append("sold", null, 2_000)).toBe(2);
    database.release();
    database.commit();
    file.reopen();
    expect(file.tables.events.last).toBe(2);
    expect(file.tables.events.read(0, 10)).toEqual([
      { number: 1, name: "bid", data: { n: 1 }, atMs: 1_000 },
      { number: 2, name: "sold", data: null, atMs: 2_000 },
    ]);
    expect(file.tables.events.read(1, 10)).toHaveLength(1);
    expect(file.tables.events.read(0, 1)).toHaveLength(1);
  });

  test("beyond EVENT_ROWS_MAX go, the oldest first, as new ones come", () => {
    const file = new ObjectFile({ EVENT_ROWS_MAX: 100 });
    file.call(() => {
      for (let n = 1; n <= 1_000; n++) file.tables.events.append("e", n, 0);
    });
    const { first, last, count } = file.tables.events;
    expect(last).toBe(1_000);
    expect(count).toBe(last - first + 1);
    expect(count).toBeGreaterThanOrEqual(100);
    expect(count).toBeLessThan(100 + 64);
    expect(file.tables.events.read(0, 1)[0]?.data).toBe(first);
  });

  test("all of them gone by age, numbering goes on where it was, also after reopening", () => {
    const file = new ObjectFile({ EVENT_RETENTION_MS: 1_000 });
    file.call(() => {
      for (let n = 1; n <= 5; n++) file.tables.events.append("e", n, n * 100);
    });
    expect(file.call(() => file.tables.events.prune(1_250))).toBe(2);
    expect(file.tables.events.first).toBe(3);
    expect(file.call(() => file.tables.events.prune(9_999))).toBe(3);
    expect([file.tables.events.count, file.tables.events.first]).toEqual([0, 6]);
    file.reopen();
    expect(file.call(() => file.tables.events.append("e", 6, 10_000))).toBe(6);
  });

  test("too old or too many, go 128 at a time; the first that need not go ends it, whatever the clock said after it", () => {
    const file = new ObjectFile({ EVENT_RETENTION_MS: 1_000, EVENT_ROWS_MAX: 150 });
    const atMs = (n: number): number => (n === 201 ? 5_000 : 1_000);
    file.call(() => {
      for (let n = 1; n <= 300; n++) file.tables.events.append("e", n, n <= 200 ? 1_000 : atMs(n));
    });
    const before = file.tables.events.first;
    const gone = [1, 2, 3].map(() => file.call(() => file.tables.events.prune(5_500)));
    expect(gone).toEqual([Math.min(128, 201 - before), Math.max(0, 201 - before - 128), 0]);
    expect(file.tables.events.first).toBe(201);
    expect(file.call(() => file.tables.events.prune(9_000))).toBe(100);
  });

  test("larger than VALUE_BYTES_MAX are refused and take no number", () => {
    const file = new ObjectFile({ VALUE_BYTES_MAX: 1_024 });
    file.call(() => {
      expect(errorOf(() => file.tables.events.append("e", "x".repeat(2_000), 0)).code).toBe("too_large");
      expect(file.tables.events.append("e", "x", 0)).toBe(1);
    });
  });
});

describe("timers", () => {
  const plan = { kind: "after", delayMs: 500 } as const;

  test("are kept with plan and arguments, the next due first", () => {
    const file = new ObjectFile();
    file.call(() => {
      file.tables.timers.set({ plan, method: "_late", args: [] }, 2_000);
      file.tables.timers.set(
        {
          plan: { kind: "cron", expression: "0 9 * * *", timeZone: "Europe/Paris" },
          name: "daily",
          method: "_tick",
          args: [{ a: 1 }],
        },
        1_000,
      );
    });
    file.reopen();
    const { timers } = file.tables;
    expect(timers.list()).toEqual([
      {
        id: 2,
        name: "daily",
        method: "_tick",
        dueMs: 1_000,
        args: [{ a: 1 }],
        plan: { kind: "cron", expression: "0 9 * * *", timeZone: "Europe/Paris" },
      },
      { id: 1, method: "_late", dueMs: 2_000, args: [], plan },
    ]);
    expect(timers.nextDueMs()).toBe(1_000);
    expect(timers.due(999, 10)).toEqual([]);
    expect(timers.due(5_000, 1).map(({ id }) => id)).toEqual([2]);
    expect(timers.count).toBe(2);
  });

  test("of one name replace each other, and no id is ever used twice", () => {
    const file = new ObjectFile();
    file.call(() => {
      const first = file.tables.timers.set({ plan, name: "close", method: "_a", args: [] }, 1);
      const second = file.tables.timers.set({ plan, name: "close", method: "_b", args: [] }, 2);
      expect(second).toBeGreaterThan(first);
      expect(file.tables.timers.list().map(({ method }) => method)).toEqual(["_b"]);
      expect(file.tables.timers.cancel(second)).toBe(true);
      expect(file.tables.timers.set({ plan, method: "_c", args: [] }, 3)).toBeGreaterThan(second);
    });
  });

  test("are cancelled and moved by id or name; what is not there is not a write", () => {
    const file = new ObjectFile();
    const { database, tables } = file;
    expect(tables.timers.nextDueMs()).toBeUndefined();
    database.begin();
    const id = tables.timers.set({ plan, name: "close", method: "_a", args: [] }, 10);
    expect(tables.timers.move("close", { kind: "at", atMs: 99 }, 99)).toBe(true);
    expect(tables.timers.get(id)).toMatchObject({ id, dueMs: 99, plan: { kind: "at", atMs: 99 } });
    const mark = database.writeMark;
    expect(tables.timers.move("other", plan, 5)).toBe(false);
    expect(tables.timers.cancel("other")).toBe(false);
    expect(tables.timers.cancel(id + 1)).toBe(false);
    expect(database.wroteSince(mark)).toBe(false);
    expect(tables.timers.cancel("close")).toBe(true);
    expect(tables.timers.nextDueMs()).toBeUndefined();
    tables.timers.clear();
    database.commit();
  });
});

describe("the outbox", () => {
  const message = {
    id: "m1",
    className: "Chat",
    key: "lobby",
    method: "say",
    args: ["hi"],
    dueMs: 5,
    isDelayed: false,
  };

  test("keeps messages in the order they were sent until they are removed", () => {
    const file = new ObjectFile();
    file.call(() => {
      expect(file.tables.outbox.add(message)).toBe(true);
      expect(file.tables.outbox.add({ ...message, id: "m0", args: [] })).toBe(true);
    });
    file.reopen();
    expect(file.tables.outbox.read(0, 10)).toEqual([
      { ...message, number: 1 },
      { ...message, id: "m0", args: [], number: 2 },
    ]);
    file.call(() => expect(file.tables.outbox.remove(1)).toBe(true));
    expect(file.tables.outbox.count).toBe(1);
    file.call(() => file.tables.outbox.remove(2));
    file.call(() => file.tables.outbox.add(message));
    expect(file.tables.outbox.read(2, 10).map(({ number }) => number)).toEqual([3]);
  });

  test("takes the same id once", () => {
    const file = new ObjectFile();
    file.call(() => {
      file.tables.outbox.add(message);
      expect(file.tables.outbox.add({ ...message, args: ["again"] })).toBe(false);
    });
    expect(file.tables.outbox.read(0, 10).map(({ args }) => args)).toEqual([["hi"]]);
  });

  test("loses what a rolled-back call sent", () => {
    const file = new ObjectFile();
    file.database.begin();
    file.database.savepoint();
    file.tables.outbox.add(message);
    file.database.rollbackTo();
    expect(file.tables.outbox.count).toBe(0);
    file.tables.outbox.add(message);
    file.database.commit();
    expect(file.tables.outbox.count).toBe(1);
  });
});

describe("the directory row", () => {
  test("is kept with its seq and written only when it changed", () => {
    const file = new ObjectFile();
    const { database, tables } = file;
    expect(tables.directoryRow.get()).toEqual({ seq: 0 });
    file.call(() => expect(tables.directoryRow.save({ top: 1 }, 5, "shape")).toBe(true));
    database.begin();
    const mark = database.writeMark;
    expect(tables.directoryRow.save({ top: 1 }, 6, "shape")).toBe(false);
    expect(database.wroteSince(mark)).toBe(false);
    expect(tables.directoryRow.save({ top: 2 }, 7, "shape")).toBe(true);
    database.commit();
    file.reopen();
    expect(file.tables.directoryRow.get()).toEqual({ row: { top: 2 }, seq: 7 });
  });

  test("survives failures of its derivation, which leave a mark until one succeeds", () => {
    const file = new ObjectFile();
    file.call(() => file.tables.directoryRow.save({ top: 1 }, 5, "shape"));
    file.call(() => file.tables.directoryRow.fail("row threw", 6, 1_000));
    file.call(() => file.tables.directoryRow.fail("row ran too long", 6, 2_000));
    file.reopen();
    expect(file.tables.directoryRow.get()).toEqual({
      row: { top: 1 },
      seq: 5,
      staleSinceMs: 1_000,
      failure: "row ran too long",
    });
    file.call(() => expect(file.tables.directoryRow.save({ top: 1 }, 8, "shape")).toBe(false));
    expect(file.tables.directoryRow.get()).toEqual({ row: { top: 1 }, seq: 5 });
  });

  test("may fail before there was ever a good one, and may be taken away", () => {
    const file = new ObjectFile();
    file.call(() => file.tables.directoryRow.fail("row threw", 6, 1_000));
    file.reopen();
    expect(file.tables.directoryRow.get()).toEqual({ seq: 0, staleSinceMs: 1_000, failure: "row threw" });
    file.call(() => file.tables.directoryRow.clear());
    file.reopen();
    expect(file.tables.directoryRow.get()).toEqual({ seq: 0 });
  });

  test("goes back with the call that wrote it", () => {
    const file = new ObjectFile();
    file.call(() => file.tables.directoryRow.save({ top: 1 }, 1, "shape"));
    file.database.begin();
    file.database.savepoint();
    file.tables.directoryRow.save({ top: 2 }, 2, "shape");
    file.database.rollbackTo();
    expect(file.tables.directoryRow.get()).toEqual({ row: { top: 1 }, seq: 1 });
    file.database.commit();
  });

  test("beyond DIRECTORY_ROW_BYTES_MAX is refused", () => {
    const file = new ObjectFile({ DIRECTORY_ROW_BYTES_MAX: 256 });
    file.call(() =>
      expect(errorOf(() => file.tables.directoryRow.save({ text: "x".repeat(300) }, 1, "shape")).code).toBe(
        "too_large",
      ),
    );
  });
});

describe("facts", () => {
  test("stay until they change, and go back with a rollback", () => {
    const file = new ObjectFile();
    expect(file.tables.meta.get("created")).toBeUndefined();
    file.call(() => file.tables.meta.set("created", true));
    file.database.begin();
    const mark = file.database.writeMark;
    file.tables.meta.set("created", true);
    expect(file.database.wroteSince(mark)).toBe(false);
    file.tables.meta.set("class_version", "abc");
    expect(file.tables.meta.get("class_version")).toBe("abc");
    file.database.rollback();
    expect(file.tables.meta.get("class_version")).toBeUndefined();
    file.reopen();
    expect(file.tables.meta.get("created")).toBe(true);
  });
});

test("a table that a rolled-back call made is made again by the next", () => {
  const file = new ObjectFile();
  for (const isKept of [false, true]) {
    file.database.begin();
    file.database.savepoint();
    file.tables.store.set("a", 1);
    file.tables.events.append("e", 1, 0);
    file.tables.timers.set({ plan: { kind: "at", atMs: 1 }, method: "_m", args: [] }, 1);
    if (isKept) file.database.release();
    else file.database.rollbackTo();
    file.database.commit();
  }
  file.reopen();
  expect([file.tables.store.get("a"), file.tables.events.last, file.tables.timers.count]).toEqual([1, 1, 1]);
});

test("one damaged value is object_corrupt when it is read, and nothing else is hurt", () => {
  const file = new ObjectFile();
  file.call(() => {
    file.tables.store.set("whole", 1);
    file.tables.store.set("broken", "text");
  });
  file.call(() => file.database.kernel("UPDATE _mp_store SET value = x'a5' WHERE key = 'broken'").run());
  file.reopen();
  expect(errorOf(() => file.tables.store.get("broken")).code).toBe("object_corrupt");
  expect(file.tables.store.get("whole")).toBe(1);
});
