import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ValueCache } from "../../src/store/value-cache.js";
import type { PlainValue } from "../../src/values.js";
import { errorOf, ObjectFile } from "./object-file.js";
import { TransactionModel, type TransactionStep } from "./transaction-model.js";

const volatileRows = (file: ObjectFile): unknown =>
  file.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%volatile'");
const logRows = (file: ObjectFile): unknown => file.database.kernel("SELECT count(*) FROM _mp_volatile").get()?.[0];

describe("state.store", () => {
  test("costs no table until it is written", () => {
    const file = new ObjectFile();
    file.call(() => {
      expect(file.tables.store.get("a")).toBeUndefined();
      expect(file.tables.store.delete("a")).toBe(false);
      expect(file.tables.store.list("")).toEqual([]);
      expect(file.tables.store.fold()).toBe(0);
    });
    expect(file.database.pageCount()).toBeLessThanOrEqual(1);
    expect(volatileRows(file)).toBe(0);
  });

  test("keeps values of every kind, with and without memory", () => {
    const file = new ObjectFile();
    const values: PlainValue[] = [null, true, 0, -1.5, 2 ** 40, "☾", "", [], {}, Uint8Array.of(0, 255)];
    values.push([1, [2, { a: null }]], JSON.parse('{"__proto__": {"x": 1}, "constructor": [1], "toJSON": "a"}'));
    file.call(() => {
      for (const [index, value] of values.entries()) file.tables.store.set(`k${index}`, value);
    });
    for (const reopen of [false, true]) {
      if (reopen) file.reopen();
      expect(values.map((_, index) => file.tables.store.get(`k${index}`))).toEqual(values);
    }
    expect(Object.keys(file.tables.store.get("k11") as object)).toEqual(["__proto__", "constructor", "toJSON"]);
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  test("a call that only reads, or deletes what is not there, has not written", () => {
    const file = new ObjectFile();
    file.call(() => {
      file.tables.store.set("a", 1);
      file.tables.store.appendVolatile("log", "x");
    });
    file.database.begin();
    const mark = file.database.writeMark;
    file.tables.store.get("a");
    file.tables.store.list("");
    file.tables.store.delete("missing");
    expect(file.database.wroteSince(mark)).toBe(false);
    file.tables.store.setVolatile("b", 1);
    expect(file.database.wroteSince(mark)).toBe(true);
    file.database.rollback();
  });

  test("lists by prefix in the order of UTF-8 bytes, stored and volatile keys alike", () => {
    const file = new ObjectFile();
    const keys = ["a", "a/", "a/1", "a/\u{1f319}", "a/\uffee", "a/é", "a0", "b"];
    file.call(() => {
      for (const [index, key] of keys.entries()) {
        if (index % 2 === 0) file.tables.store.set(key, key);
        else file.tables.store.setVolatile(key, key);
      }
    });
    const byBytes = keys
      .filter((key) => key.startsWith("a/"))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(file.tables.store.list("a/").map(([key]) => key)).toEqual(byBytes);
    expect(file.tables.store.list("a/", 2)).toEqual([
      ["a/", "a/"],
      ["a/1", "a/1"],
    ]);
    expect(file.tables.store.list("%")).toEqual([]);
  });

  test.each([
    ["an empty key", "", 1, "bad_key"],
    ["a key over 256 bytes", "é".repeat(129), 1, "bad_key"],
    ["a key that is no Unicode", "\udc00", 1, "bad_key"],
    ["a value over VALUE_BYTES_MAX", "a", "x".repeat(2_000), "too_large"],
  ])("refuses %s", (_, key, value, code) => {
    const file = new ObjectFile({ VALUE_BYTES_MAX: 1_024 });
    file.call(() => {
      expect(errorOf(() => file.tables.store.set(key, value)).code).toBe(code);
      expect(errorOf(() => file.tables.store.setVolatile(key, value)).code).toBe(code);
    });
    expect(file.tables.store.list("")).toEqual([]);
  });

  test("forgets what a later call read of an earlier one, when their whole burst is rolled back", () => {
    const file = new ObjectFile();
    const { database, tables } = file;
    file.call(() => tables.store.set("a", "committed"));
    database.begin();
    database.savepoint();
    tables.store.set("a", "of the first call");
    database.release();
    database.savepoint();
    database.rollbackTo();
    database.savepoint();
    expect(tables.store.get("a")).toBe("of the first call");
    database.release();
    database.rollback();
    expect(tables.store.get("a")).toBe("committed");
  });

  test.each(["savepoint", "transaction"])("a write whose %s is rolled back leaves nothing behind in memory", (of) => {
    const file = new ObjectFile();
    const forgotten = vi.spyOn(ValueCache.prototype, "delete");
    onTestFinished(() => forgotten.mockRestore());
    for (let n = 0; n < 20; n++) {
      file.database.begin();
      if (of === "savepoint") file.database.savepoint();
      file.tables.store.set(`key ${n}`, n);
      if (of === "savepoint") file.database.rollbackTo();
      forgotten.mockClear();
      file.database.rollback();
      // What a rollback forgets is what its own transaction has changed.
      expect(forgotten.mock.calls.length).toBeLessThanOrEqual(1);
    }
  });

  test("list refuses more than SQL_ROWS_MAX entries unless a limit stops before", () => {
    const file = new ObjectFile({ SQL_ROWS_MAX: 3 });
    file.call(() => {
      for (const key of ["a", "b", "c", "d"]) file.tables.store.set(key, key);
    });
    expect(errorOf(() => file.tables.store.list("")).code).toBe("too_large");
    expect(file.tables.store.list("", 3)).toHaveLength(3);
    expect(file.tables.store.list("d")).toEqual([["d", "d"]]);
  });

  test("remembers no more than STORE_CACHE_BYTES and reads the rest from the file", () => {
    const file = new ObjectFile({ STORE_CACHE_BYTES: 2_000 });
    file.call(() => {
      for (let n = 0; n < 50; n++) file.tables.store.set(`k${n}`, { n, text: "x".repeat(n * 40) });
    });
    for (let n = 0; n < 50; n++) expect(file.tables.store.get(`k${n}`)).toEqual({ n, text: "x".repeat(n * 40) });
  });
});

describe("a volatile write", () => {
  test("replays identically from the files as a crash leaves them", () => {
    const file = new ObjectFile();
    file.call(() => file.tables.store.set("text", "once"));
    file.call(() => file.tables.store.appendVolatile("text", " upon"));
    file.database.begin();
    file.tables.store.appendVolatile("text", " never committed");
    for (const end of ["", "-wal"]) {
      file.folder.replaceFile(`crashed.db${end}`, file.folder.readFile(`${file.path}${end}`) ?? new Uint8Array());
    }
    const crashed = new ObjectFile({}, file.folder.absolute("."), "crashed.db");
    expect(crashed.tables.store.get("text")).toBe("once upon");
    file.database.rollback();
  });

  test("adds a log row and leaves the stored value alone; a read sees both", () => {
    const file = new ObjectFile();
    file.call(() => file.tables.store.set("text", "once"));
    const stored = () => file.database.kernel("SELECT hex(value) FROM _mp_store").all();
    const before = stored();
    for (const word of [" upon", " a", " time"]) file.call(() => file.tables.store.appendVolatile("text", word));
    expect(stored()).toEqual(before);
    expect(logRows(file)).toBe(3);
    file.reopen();
    expect(file.tables.store.get("text")).toBe("once upon a time");
    file.call(() => file.tables.store.setVolatile("text", { no: "text" }));
    file.reopen();
    expect(file.tables.store.get("text")).toEqual({ no: "text" });
  });

  test("appends only to text", () => {
    const file = new ObjectFile();
    file.call(() => {
      file.tables.store.set("n", 5);
      expect(errorOf(() => file.tables.store.appendVolatile("n", "x")).code).toBe("bad_value");
      expect(errorOf(() => file.tables.store.appendVolatile("t", "\ud800")).code).toBe("bad_value");
      file.tables.store.appendVolatile("t", "begun");
    });
    expect(file.tables.store.get("t")).toBe("begun");
  });

  test("cannot grow a value beyond VALUE_BYTES_MAX, whether it is remembered or not", () => {
    for (const cacheBytes of [0, 65_536]) {
      const file = new ObjectFile({ VALUE_BYTES_MAX: 1_024, STORE_CACHE_BYTES: cacheBytes });
      file.call(() => {
        for (let n = 0; n < 8; n++) file.tables.store.appendVolatile("t", "é".repeat(64));
        expect(errorOf(() => file.tables.store.appendVolatile("t", "x")).code).toBe("too_large");
      });
    }
  });

  test("is folded when asked, and a set or delete takes its log away", () => {
    const file = new ObjectFile();
    file.call(() => {
      file.tables.store.appendVolatile("a", "1");
      file.tables.store.setVolatile("b", 2);
      file.tables.store.setVolatile("c", 3);
      file.tables.store.set("b", 22);
      expect(file.tables.store.delete("c")).toBe(true);
      expect(file.tables.store.fold()).toBe(1);
    });
    expect(logRows(file)).toBe(0);
    file.reopen();
    expect(file.tables.store.list("")).toEqual([
      ["a", "1"],
      ["b", 22],
    ]);
  });

  test("keeps the log of one key short by itself", () => {
    const file = new ObjectFile();
    for (let n = 0; n < 600; n++) file.call(() => file.tables.store.appendVolatile("t", "word "));
    expect(logRows(file)).toBeLessThan(256);
    file.call(() => {
      for (let n = 0; n < 10; n++) file.tables.store.setVolatile("big", "x".repeat(100_000));
    });
    expect(file.database.sizeBytes()).toBeLessThan(1_000_000);
    file.reopen();
    expect(file.tables.store.get("t")).toBe("word ".repeat(600));
  });
});

type Step =
  | { readonly kind: "set" | "setVolatile"; readonly key: string; readonly value: PlainValue }
  | { readonly kind: "append"; readonly key: string; readonly text: string }
  | { readonly kind: "delete" | "get"; readonly key: string }
  | { readonly kind: "list"; readonly prefix: string; readonly limit: number }
  /** Sets so many keys, each so often: what waits for COMMIT goes beyond each of its bounds. */
  | { readonly kind: "flood"; readonly keys: number; readonly times: number; readonly bytes: number }
  | { readonly kind: "fold" | TransactionStep };

const keys = fc.constantFrom("a", "ab", "b", "b/c", "☾");
const plain: fc.Arbitrary<PlainValue> = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.integer(),
  fc.constant(null),
  fc.array(fc.integer(), { maxLength: 30 }),
  fc
    .dictionary(fc.constantFrom("x", "__proto__", "constructor", "toJSON", "length"), fc.integer())
    .map((value) => ({ ...value })),
);
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("set", "setVolatile"), key: keys, value: plain }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("append"),
      key: keys,
      text: fc.string({ unit: "grapheme", maxLength: 20 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("delete", "get", "get"), key: keys }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("list"),
      prefix: fc.constantFrom("", "a", "b", "☾"),
      limit: fc.constantFrom(1, 2, 1_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("flood"),
      keys: fc.constantFrom(1, 2, 300),
      times: fc.integer({ min: 1, max: 4 }),
      bytes: fc.constantFrom(1, 4_000, 5_000),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom("fold", "savepoint", "savepoint", "release", "rollbackTo", "commit", "rollback", "reopen"),
    }),
  },
);

/** The same operations on a Map. */
type Model = TransactionModel<Map<string, PlainValue>>;

function play(file: ObjectFile, model: Model, step: Step): void {
  const { store } = file.tables;
  switch (step.kind) {
    case "set":
    case "setVolatile":
      store[step.kind](step.key, step.value);
      model.current.set(step.key, step.value);
      return;
    case "append": {
      const before = model.current.has(step.key) ? model.current.get(step.key) : "";
      if (typeof before === "string") {
        store.appendVolatile(step.key, step.text);
        model.current.set(step.key, before + step.text);
      } else {
        expect(errorOf(() => store.appendVolatile(step.key, step.text)).code).toBe("bad_value");
      }
      return;
    }
    case "delete":
      expect(store.delete(step.key)).toBe(model.current.delete(step.key));
      return;
    case "get":
      expect(store.get(step.key)).toEqual(model.current.get(step.key));
      return;
    case "list":
      expect(store.list(step.prefix, step.limit)).toEqual(
        [...model.current]
          .filter(([key]) => key.startsWith(step.prefix))
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .slice(0, step.limit),
      );
      return;
    case "flood":
      for (let time = 0; time < step.times; time++) {
        for (let key = 0; key < step.keys; key++) {
          const value = `${time}`.padEnd(step.bytes / step.keys + 1, "x");
          store.set(`ab${key}`, value);
          model.current.set(`ab${key}`, value);
        }
      }
      return;
    case "fold":
      store.fold();
      return;
    default:
      model.play(file, step.kind);
  }
}

test("behaves as a Map through savepoints, rollbacks, folds and reopening, whatever its memory holds", () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 60 }), fc.constantFrom(0, 500, 65_536), (played, cacheBytes) => {
      const file = new ObjectFile({ STORE_CACHE_BYTES: cacheBytes });
      const model: Model = new TransactionModel(new Map(), (entries) => new Map(entries));
      file.database.begin();
      for (const step of played) play(file, model, step);
      expect(file.tables.store.list("")).toEqual([...model.current].sort());
      file.database.close();
    }),
    { numRuns: 150 },
  );
});
