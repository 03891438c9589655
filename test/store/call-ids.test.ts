import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { argumentsToMatch } from "../../src/store/call-arguments.js";
import { CALL_ID_AHEAD_MS, type CallLookup, type UsedIds } from "../../src/store/call-ids.js";
import type { PlainValue } from "../../src/values.js";
import { errorOf, ObjectFile } from "./object-file.js";

const ARGS = ["ada", 25];
/** A UUIDv7 of that time, told apart by its tail. */
const idAt = (ms: number, tail = 0): string => {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${tail.toString(16).padStart(12, "0")}`;
};

interface Call {
  readonly id: string;
  readonly reply?: PlainValue;
  readonly seq?: number;
}

/** Adds the records of calls that share a transaction, in the one that is open. */
function add(file: ObjectFile, calls: readonly Call[]): void {
  for (const { id, reply = { top: 25 }, seq = 7 } of calls) {
    const record = file.tables.callIds.prepare({ id, method: "bid", args: ARGS, reply, seq });
    if (record !== undefined) file.tables.callIds.add(record);
  }
}

function record(file: ObjectFile, atMs: number, ...calls: readonly Call[]): void {
  file.database.begin();
  add(file, calls);
  file.tables.callIds.write(atMs);
  file.database.commit();
}

function lookup(file: ObjectFile, id: string, method = "bid", args: readonly PlainValue[] = ARGS): CallLookup {
  return file.tables.callIds.lookup(id, method, args);
}

function kernelValue(file: ObjectFile, sql: string): number {
  return Number(file.database.kernel(sql).get()?.[0]);
}

/** Heads that no reader can read: whoever looks into a row fails. */
function damage(file: ObjectFile, where: string): void {
  file.call(() => file.database.kernel(`UPDATE _mp_reply SET heads = x'ff' WHERE ${where}`).run());
}

describe("call ids", () => {
  test("give the recorded reply to the same call and refuse another under the same id", () => {
    const file = new ObjectFile();
    expect(lookup(file, "any").kind).toBe("unknown");
    for (const id of [idAt(1_000), "text", idAt(1_000).toUpperCase(), "8d9b1f1a-0000-4000-8000-000000000001"]) {
      record(file, 1_000, { id });
      for (const _ of [1, 2]) {
        expect(lookup(file, id)).toEqual({ kind: "hit", reply: { top: 25 }, seq: 7 });
        expect(lookup(file, id, "close").kind).toBe("conflict");
        expect(lookup(file, id, "bid", ["ada", 26]).kind).toBe("conflict");
        file.reopen();
      }
    }
    expect(lookup(file, idAt(1_001)).kind).toBe("unknown");
    expect(lookup(file, idAt(999)).kind).toBe("unknown");
  });

  test("are known to the calls that share the transaction", () => {
    const file = new ObjectFile();
    file.database.begin();
    add(file, [
      { id: "a", reply: 1 },
      { id: idAt(5), reply: 2 },
    ]);
    expect([lookup(file, "a"), lookup(file, idAt(5))]).toMatchObject([{ reply: 1 }, { reply: 2 }]);
    expect(lookup(file, "a", "close").kind).toBe("conflict");
    file.tables.callIds.write(10);
    expect(lookup(file, idAt(5))).toMatchObject({ reply: 2 });
    file.database.commit();
  });

  test("stay when another call of the transaction is undone, and go with the transaction", () => {
    const file = new ObjectFile();
    file.database.begin();
    add(file, [{ id: "kept" }]);
    file.database.savepoint();
    file.tables.store.set("x", 1);
    file.database.rollbackTo();
    file.tables.callIds.write(10);
    file.database.commit();
    for (const undo of ["rollback", "startOver"] as const) {
      file.database.begin();
      add(file, [{ id: "lost" }, { id: idAt(20) }]);
      if (undo === "startOver") file.tables.callIds.write(20);
      file.database[undo]();
      if (undo === "startOver") file.database.rollback();
      expect(["kept", "lost", idAt(20)].map((id) => lookup(file, id).kind)).toEqual(["hit", "unknown", "unknown"]);
    }
    record(file, 30, { id: "next", reply: "n" });
    file.reopen();
    expect(file.tables.callIds.count).toBe(2);
    expect(lookup(file, "next")).toMatchObject({ reply: "n" });
  });

  test("are not left out of a commit", () => {
    const file = new ObjectFile();
    file.database.begin();
    add(file, [{ id: "a" }]);
    expect(() => file.database.commit()).toThrow("without the records");
  });

  test("bring back replies of every size, null included, each its own", () => {
    const file = new ObjectFile();
    const sizes = [0, 1, 250, 251, 252, 253, 254, 255, 256, 5_000, 40_000, 70_000, 3];
    const calls: Call[] = sizes.map((size, at) => ({ id: `id-${at}`, reply: "x".repeat(size), seq: 2 ** 40 + at }));
    record(file, 1, { id: "null", reply: null }, ...calls, { id: "last", reply: [true, { a: new Uint8Array([1]) }] });
    file.reopen();
    expect(lookup(file, "null")).toEqual({ kind: "hit", reply: null, seq: 7 });
    for (const { id, reply = null, seq = 0 } of calls) expect(lookup(file, id)).toEqual({ kind: "hit", reply, seq });
    expect(lookup(file, "last")).toMatchObject({ reply: [true, { a: new Uint8Array([1]) }] });
    // A repeat does not read what a whole transaction replied.
    expect(kernelValue(file, "SELECT count(*) FROM _mp_reply")).toBeGreaterThan(2);
  });

  test("refuse a reply that is too large before anything is kept of it", () => {
    const file = new ObjectFile({ VALUE_BYTES_MAX: 1_024 });
    file.database.begin();
    expect(errorOf(() => add(file, [{ id: "a", reply: "x".repeat(2_000) }])).code).toBe("too_large");
    file.tables.callIds.write(1);
    file.database.commit();
    expect(lookup(file, "a").kind).toBe("unknown");
  });

  test("older than what was deleted are expired, not unknown: the call may have run", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 10_000 });
    for (let n = 0; n < 5; n++) record(file, 1_000 + n * 1_000, { id: idAt(1_000 + n * 1_000) });
    file.call(() => file.tables.callIds.prune(13_500));
    for (const _ of [1, 2]) {
      const kinds = [1_000, 3_000, 2_999, 4_000, 5_000, 5_001].map((ms) => lookup(file, idAt(ms)).kind);
      expect(kinds).toEqual(["expired", "expired", "expired", "hit", "hit", "unknown"]);
      expect(lookup(file, idAt(2_000))).toEqual({ kind: "expired", throughMs: 3_000, hasRun: false });
      expect(lookup(file, "no time in it").kind).toBe("unknown");
      file.reopen();
    }
  });

  test("beyond CALL_ID_ROWS_MAX go as new ones come, however they share transactions", () => {
    for (const together of [1, 7, 64]) {
      const file = new ObjectFile({ CALL_ID_ROWS_MAX: 50 });
      for (let n = 1; n <= 600; n += together) {
        record(file, n, ...Array.from({ length: together }, (_, at) => ({ id: idAt(n + at), reply: n + at })));
      }
      expect(file.tables.callIds.count).toBeGreaterThanOrEqual(50);
      expect(file.tables.callIds.count).toBeLessThan(50 + 64 + together);
      expect(lookup(file, idAt(600))).toMatchObject({ kind: "hit", reply: 600 });
      expect(lookup(file, idAt(400)).kind).toBe("expired");
      file.reopen();
      expect(lookup(file, idAt(580))).toMatchObject({ kind: "hit", reply: 580 });
      expect(lookup(file, idAt(400)).kind).toBe("expired");
    }
  });

  test("may all be deleted, and go on afterwards", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 1_000 });
    for (let n = 1; n <= 3; n++) record(file, n, { id: idAt(n) });
    file.call(() => file.tables.callIds.prune(2_000));
    expect(file.tables.callIds.count).toBe(0);
    for (const ms of [2_000, 3_000]) {
      record(file, ms, { id: idAt(ms) }, { id: `text ${ms}` });
      file.reopen();
      const ids = [idAt(3), idAt(ms), `text ${ms}`, "text 2000"];
      expect(ids.map((id) => lookup(file, id).kind)).toEqual(["expired", "hit", "hit", "hit"]);
    }
  });

  test("are kept as long as they should be when the clock steps back", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 10_000 });
    for (const atMs of [80_000, 100_000, 50_000, 101_000]) record(file, atMs, { id: `at ${atMs}` });
    file.call(() => file.tables.callIds.prune(101_000));
    const kinds = [80_000, 100_000, 50_000, 101_000].map((atMs) => lookup(file, `at ${atMs}`).kind);
    expect(kinds).toEqual(["unknown", "hit", "hit", "hit"]);
  });

  test("that are deleted are not looked for", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 1_000 });
    record(file, 1, { id: idAt(1) });
    record(file, 3_000, { id: idAt(3_000) });
    file.call(() => file.tables.callIds.prune(3_000));
    damage(file, "true");
    expect(lookup(file, idAt(1)).kind).toBe("expired");
  });

  test("far ahead of the clock are kept as long as others, and do not make others expired", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 10_000 });
    const far = idAt(100_000 + 2 * CALL_ID_AHEAD_MS);
    const near = idAt(100_000 + CALL_ID_AHEAD_MS - 1);
    record(file, 100_000, { id: idAt(99_000) }, { id: far }, { id: near });
    for (let n = 1; n <= 3; n++) record(file, 100_000 + n, { id: idAt(100_000 + n) });
    file.reopen();
    expect([far, near, idAt(99_000)].map((id) => lookup(file, id).kind)).toEqual(["hit", "hit", "hit"]);
    file.call(() => file.tables.callIds.prune(110_002));
    file.reopen();
    expect([near, far, idAt(100_003)].map((id) => lookup(file, id).kind)).toEqual(["expired", "unknown", "hit"]);
    expect(lookup(file, idAt(100_000 + CALL_ID_AHEAD_MS)).kind).toBe("unknown");
  });

  test("with CALL_ID_ROWS_MAX 0 are not recorded", () => {
    const file = new ObjectFile({ CALL_ID_ROWS_MAX: 0 });
    record(file, 1, { id: idAt(1) });
    expect(file.tables.callIds.count).toBe(0);
    expect(lookup(file, idAt(1)).kind).toBe("unknown");
  });

  test("newer than all in the file are not looked for there, others only as far back as they may be", () => {
    const file = new ObjectFile();
    for (let n = 1; n <= 300; n++) record(file, n, { id: idAt(n) });
    damage(file, "n <= 290");
    file.reopen();
    expect(lookup(file, idAt(301)).kind).toBe("unknown");
    expect(lookup(file, idAt(295, 1)).kind).toBe("unknown");
    expect(lookup(file, idAt(295)).kind).toBe("hit");
    expect(errorOf(() => lookup(file, idAt(290))).code).toBe("object_corrupt");
    expect(errorOf(() => lookup(file, "no time in it")).code).toBe("object_corrupt");
  });

  test("that were recorded since the file was opened are found without reading others", () => {
    const file = new ObjectFile();
    for (let n = 1; n <= 10; n++) record(file, n, { id: idAt(n) });
    file.reopen();
    record(file, 11, { id: "text" }, { id: idAt(3, 3) });
    damage(file, "n <= 10");
    expect([lookup(file, "text").kind, lookup(file, idAt(3, 3)).kind]).toEqual(["hit", "hit"]);
  });

  test("compare arguments whatever the order of a table's keys, and see every other difference", () => {
    const args = JSON.parse('[{"a": {"x": 1, "__proto__": 2}, "b": [1, 2]}]');
    const reordered = JSON.parse('[{"b": [1, 2], "a": {"__proto__": 2, "x": 1}}]');
    expect(argumentsToMatch(args)).toEqual(argumentsToMatch(reordered));
    const hashes = [[], [null], [[]], [{}], ["1"], [1], [[2, 1]], [[1, 2]], args].map((list) =>
      argumentsToMatch(list).join(),
    );
    expect(new Set(hashes).size).toBe(hashes.length);
  });
});

describe("records are their caller's", () => {
  const principal = fc.constantFrom(undefined, "ada", "bob", "");
  const args = fc.constantFrom<PlainValue[]>(
    [],
    [1],
    ["ada", []],
    [["ada"]],
    ["a long text that is hashed in any case"],
  );

  test("a call is matched by whom it was recorded of, and of nobody by everybody", () => {
    fc.assert(
      fc.property(principal, args, principal, args, (by, said, asks, again) => {
        const file = new ObjectFile();
        file.database.begin();
        const call = { id: "order-1", method: "bid", args: said, principal: by, reply: "told", seq: 1 };
        const record = file.tables.callIds.prepare(call);
        if (record !== undefined) file.tables.callIds.add(record);
        file.tables.callIds.write(1);
        file.database.commit();
        file.reopen();
        const isSame = JSON.stringify(said) === JSON.stringify(again) && (by === undefined || by === asks);
        expect(file.tables.callIds.lookup("order-1", "bid", again, asks).kind).toBe(isSame ? "hit" : "conflict");
      }),
    );
  });
});

describe("what a later life has to know of the ids that were used", () => {
  /** The ids as they stand at the end of a life. @param waiting recorded in the transaction that ends it */
  function usedIn(file: ObjectFile, nowMs: number, ...waiting: readonly Call[]): UsedIds {
    file.database.begin();
    add(file, waiting);
    file.tables.callIds.noteEnd();
    file.tables.callIds.write(nowMs);
    file.database.commit();
    const { used } = file.tables.callIds;
    file.reopen();
    expect(file.tables.callIds.used).toEqual(used);
    return used;
  }

  /** The next life. */
  function nextLife(used: UsedIds): ObjectFile {
    const file = new ObjectFile();
    file.call(() => file.tables.callIds.startAfter(used));
    return file;
  }

  const kindsIn = (file: ObjectFile, ...ids: readonly string[]) =>
    file.call(() => ids.map((id) => lookup(file, id).kind));

  test("is the last of them, whatever time they carry", () => {
    const file = new ObjectFile();
    record(file, 5_000, { id: idAt(5_000, 1) }, { id: idAt(6_000, 2) });
    record(file, 5_000, { id: "once" }, { id: idAt(1_000_000) });
    const used = usedIn(file, 5_001, { id: idAt(5_000, 3) });
    expect(used.throughMs).toBe(0);
    // A life in between, of which nothing is left but this.
    for (const next of [nextLife(used), nextLife(usedIn(nextLife(used), 6_000))]) {
      const ids = [idAt(5_000, 1), idAt(6_000, 2), "once", idAt(1_000_000), idAt(5_000, 3)];
      expect(kindsIn(next, ...ids)).toEqual(ids.map(() => "expired"));
      expect(kindsIn(next, idAt(4_000), idAt(5_000, 4), idAt(7_000), "twice")).not.toContain("expired");
    }
  });

  test("is no more than the last 32, over all lives", () => {
    const file = new ObjectFile();
    for (let n = 0; n < 10; n++) {
      record(file, 6_000 + n, ...Array.from({ length: 10 }, (_, tail) => ({ id: idAt(6_000 + n, tail) })));
    }
    const waiting = Array.from({ length: 5 }, (_, tail) => ({ id: idAt(6_009, 10 + tail) }));
    const used = usedIn(file, 6_010, ...waiting);
    expect(used.throughMs).toBe(0);
    const next = nextLife(used);
    const refused = [idAt(6_007, 3), idAt(6_008, 1), idAt(6_009, 14)];
    expect(kindsIn(next, ...refused)).toEqual(refused.map(() => "expired"));
    expect(kindsIn(next, idAt(6_000, 3), idAt(6_007, 2), idAt(6_009, 15), "once")).not.toContain("expired");
    const last = usedIn(next, 6_011, ...Array.from({ length: 30 }, (_, n) => ({ id: `text ${n}` })));
    expect(last.ids).toHaveLength(32);
    expect(last.ids.slice(29)).toEqual(["text 0", idAt(6_009, 14), idAt(6_009, 13)]);
  });

  test("is the time of those that were forgotten", () => {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 1_000 });
    record(file, 5_000, { id: idAt(5_000, 1) });
    record(file, 9_000, { id: idAt(5_000, 2) }, { id: idAt(9_000) });
    file.call(() => file.tables.callIds.prune(9_000));
    expect(usedIn(file, 9_000)).toEqual({ throughMs: 5_000, ids: [idAt(9_000), idAt(5_000, 2)] });
    expect(usedIn(new ObjectFile(), 9_000)).toEqual({ throughMs: 0, ids: [] });
  });

  test("is forgotten with all of them", () => {
    const next = nextLife({ throughMs: 5_000, ids: ["once"] });
    next.call(() => next.tables.callIds.forgetAll());
    expect(kindsIn(next, idAt(4_000), "once")).toEqual(["unknown", "unknown"]);
  });
});

describe("records of the table of before", () => {
  const DEFINITION = `CREATE TABLE _mp_call (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, method TEXT NOT NULL,
    args BLOB NOT NULL, reply BLOB NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL)`;
  const NULL = new Uint8Array([0xc0]);

  /** As an earlier version left it: numbers from 401 on, UUIDs as their bytes. */
  function earlierFile(rows: number): ObjectFile {
    const file = new ObjectFile({ CALL_ID_RETENTION_MS: 10_000 });
    file.call(() => {
      file.database.kernel(DEFINITION).run();
      for (let n = 401; n < 401 + rows; n++) {
        const id = n % 3 === 0 ? `text ${n}` : Buffer.from(idAt(n, n).replaceAll("-", ""), "hex");
        file.database
          .kernel("INSERT INTO _mp_call VALUES (?, ?, ?, ?, ?, ?, ?)")
          .run(n, id, "bid", Buffer.from([0, ...argumentsToMatch(ARGS)]), NULL, n, n);
      }
      file.tables.meta.set("call_pruned_ms", 400);
    });
    file.reopen();
    return file;
  }

  test("are answered from, and refused as they were", () => {
    const file = earlierFile(200);
    file.call(() => {
      expect(lookup(file, idAt(403, 403))).toEqual({ kind: "hit", reply: null, seq: 403 });
      expect(lookup(file, "text 600")).toEqual({ kind: "hit", reply: null, seq: 600 });
      expect(lookup(file, "text 600", "close").kind).toBe("conflict");
      expect(lookup(file, idAt(400)).kind).toBe("expired");
      expect(lookup(file, idAt(403)).kind).toBe("unknown");
    });
    file.reopen();
    expect(kernelValue(file, "SELECT count(*) FROM sqlite_schema WHERE name = '_mp_call'")).toBe(0);
    expect(lookup(file, idAt(403, 403)).kind).toBe("hit");
    record(file, 20_000, { id: idAt(20_000) });
    for (let n = 0; n < 4; n++) file.call(() => file.tables.callIds.prune(20_000));
    expect([lookup(file, idAt(403, 403)).kind, file.tables.callIds.count]).toEqual(["expired", 1]);
  });

  test("stay where they were when the transaction is rolled back", () => {
    const file = earlierFile(70);
    file.database.begin();
    expect(lookup(file, idAt(403, 403)).kind).toBe("hit");
    file.database.rollback();
    expect(kernelValue(file, "SELECT count(*) FROM _mp_call")).toBe(70);
    file.call(() => expect(lookup(file, idAt(403, 403)).kind).toBe("hit"));
    expect(file.tables.callIds.count).toBe(70);
  });
});

/** What may happen to an object, in any order. */
type Step =
  | {
      readonly kind: "transaction";
      readonly ids: readonly number[];
      readonly ends: "commit" | "rollback" | "startOver";
    }
  | { readonly kind: "undone call" }
  | { readonly kind: "reopen" }
  | { readonly kind: "time passes"; readonly ms: number };

const steps = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant("transaction" as const),
        ids: fc.array(fc.nat(59), { minLength: 1, maxLength: 20 }),
        ends: fc.constantFrom("commit", "commit", "commit", "commit", "rollback", "startOver"),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ kind: "undone call" as const }) },
    { weight: 2, arbitrary: fc.constant({ kind: "reopen" as const }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("time passes" as const), ms: fc.integer({ min: -50, max: 400 }) }),
    },
  ),
  { maxLength: 60 },
);

const ROWS_MAX = 100;
const RETENTION_MS = 1_000;

/** Holds the object against a plain list of what was committed. */
class Checked {
  readonly file = new ObjectFile({ CALL_ID_ROWS_MAX: ROWS_MAX, CALL_ID_RETENTION_MS: RETENTION_MS });
  /** In the order they were recorded. */
  #recorded: { readonly id: string; readonly seq: number; readonly atMs: number }[] = [];
  readonly #ever = new Set<string>();
  #nowMs = 1_000_000;
  #newestAtMs = 0;
  #seq = 0;

  run(step: Step): void {
    switch (step.kind) {
      case "transaction":
        return this.#transaction(step.ids, step.ends);
      case "undone call":
        this.file.database.begin();
        this.file.database.startOver();
        return this.file.database.commit();
      case "reopen":
        return this.file.reopen();
      case "time passes":
        this.#nowMs += step.ms;
    }
  }

  #transaction(choices: readonly number[], ends: "commit" | "rollback" | "startOver"): void {
    const { database, tables } = this.file;
    database.begin();
    const wrote: { id: string; seq: number; atMs: number }[] = [];
    for (const choice of choices) {
      const id = this.#idOf(choice);
      this.#ever.add(id);
      const found = lookup(this.file, id);
      const known = [...this.#recorded, ...wrote].findLast((one) => one.id === id);
      this.#check(id, found, known);
      if (found.kind !== "unknown") continue;
      add(this.file, [{ id, reply: id, seq: ++this.#seq }]);
      wrote.push({ id, seq: this.#seq, atMs: this.#nowMs });
    }
    if (ends === "rollback") return database.rollback();
    if (ends === "startOver") {
      database.startOver();
      return database.commit();
    }
    tables.callIds.write(this.#nowMs);
    database.commit();
    this.#newestAtMs = Math.max(this.#newestAtMs, this.#nowMs);
    this.#recorded.push(...wrote);
  }

  #check(id: string, found: CallLookup, known: { seq: number; atMs: number } | undefined): void {
    if (found.kind === "hit") return expect([found.reply, found.seq]).toEqual([id, known?.seq]);
    expect(found.kind).not.toBe("conflict");
    if (known === undefined) return;
    // Not found although it ran: only where that was promised.
    const place = this.#recorded.length - this.#recorded.findLastIndex((one) => one.seq === known.seq);
    const isOld = known.atMs < this.#newestAtMs - RETENTION_MS;
    expect(place > ROWS_MAX || isOld).toBe(true);
    const aheadMs = timeOf(id) - known.atMs;
    if (timeOf(id) > 0 && aheadMs <= CALL_ID_AHEAD_MS) expect(found.kind).toBe("expired");
  }

  /** A repeat of an earlier one, or a new one: of now, late, ahead, far ahead, without a time. */
  #idOf(choice: number): string {
    const earlier = [...this.#ever];
    const tail = earlier.length;
    if (choice < 20) return earlier[Math.floor((choice / 20) * tail)] ?? idAt(this.#nowMs, tail);
    if (choice < 40) return idAt(this.#nowMs - (choice - 20), tail);
    if (choice < 48) return idAt(this.#nowMs + (choice - 40) * 7, tail);
    if (choice < 50) return idAt(this.#nowMs + CALL_ID_AHEAD_MS * 3, tail);
    return choice < 55 ? `text ${tail}` : `8d9b1f1a-0000-4000-8000-${String(tail).padStart(12, "0")}`;
  }
}

function timeOf(id: string): number {
  return /^.{14}7/.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : 0;
}

test("whatever happens, a call that ran is answered or refused, and a reply is that of its own call", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const checked = new Checked();
      for (const step of plan) checked.run(step);
      checked.file.database.close();
    }),
    { numRuns: Number(process.env.MOONPORT_RUNS ?? 60) },
  );
});
