import path from "node:path";
import SqliteDatabase from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import type { WriteCondition } from "../../src/bucket/bucket.js";
import { addWrites, type ChangeRequest, noWrites, type StoreAnswer } from "../../src/bucket/sqlite-protocol.js";
import { SqliteStore, STAGING_IDLE_MS_MAX } from "../../src/bucket/sqlite-store.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const MIB = 1024 * 1024;

function newStore() {
  const file = path.join(temporaryFolder(), "b.sqlite");
  const store = new SqliteStore(file, 1_000);
  const probe = new SqliteDatabase(file, { readonly: true });
  onTestFinished(() => {
    store.close();
    probe.close();
  });
  const count = (table: string): unknown => probe.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
  const one = (request: ChangeRequest): StoreAnswer => store.applyGroup([request])[0] as StoreAnswer;
  return { store, one, count };
}

function put(key: string, bytes: number, condition?: WriteCondition): ChangeRequest {
  const columns = noWrites<Uint8Array>();
  addWrites(columns, [{ key, bytes: new Uint8Array(bytes), condition }], (whole) => whole);
  return columns;
}

function stage(body: number, part: number, nowMs: number): ChangeRequest {
  return { kind: "stage", body, part, bytes: new Uint8Array(MIB), nowMs };
}

function sweepAll(one: (request: ChangeRequest) => StoreAnswer, nowMs: number): number {
  let steps = 0;
  for (;;) {
    const answer = one({ kind: "sweep", nowMs });
    if (answer.kind !== "swept" || !answer.more) return steps;
    steps += 1;
  }
}

test("parts that a dead process staged are swept when idle for long, and not before", () => {
  const { one, count } = newStore();
  one(stage(0, 0, 1_000));
  sweepAll(one, 1_000 + STAGING_IDLE_MS_MAX);
  expect(count("parts")).toBe(1);
  sweepAll(one, 1_001 + STAGING_IDLE_MS_MAX);
  expect(count("parts")).toBe(0);
  expect(count("bodies")).toBe(0);
});

test("each part keeps a staging alive, and a clock set back does not keep a dead one for ever", () => {
  const { one, count } = newStore();
  const begun = one(stage(0, 0, 0));
  const body = begun.kind === "staged" ? begun.body : 0;
  one(stage(body, 1, STAGING_IDLE_MS_MAX));
  sweepAll(one, STAGING_IDLE_MS_MAX + 1);
  expect(count("parts")).toBe(2);
  sweepAll(one, -1);
  expect(count("parts")).toBe(0);
});

test("a staging that was swept can neither go on nor be published", () => {
  const { one, count } = newStore();
  const begun = one(stage(0, 0, 0));
  const body = begun.kind === "staged" ? begun.body : 0;
  sweepAll(one, STAGING_IDLE_MS_MAX * 3);
  expect(one(stage(body, 1, 0))).toMatchObject({ kind: "failed", outcome: "refused" });
  expect(one({ kind: "publish", key: "a", body })).toMatchObject({ kind: "failed", outcome: "refused" });
  expect(count("objects")).toBe(0);
  expect(count("parts")).toBe(0);
});

test("a staging is published once", () => {
  const { one } = newStore();
  const begun = one(stage(0, 0, 0));
  const body = begun.kind === "staged" ? begun.body : 0;
  expect(one({ kind: "publish", key: "a", body }).kind).toBe("landed");
  expect(one({ kind: "publish", key: "b", body })).toMatchObject({ kind: "failed", outcome: "refused" });
});

test("the parts of a large object that was replaced or deleted are freed in bounded steps", () => {
  const { one, count, store } = newStore();
  const write = (megabytes: number): ChangeRequest => put("a", megabytes * MIB);
  one(write(40));
  expect(count("parts")).toBe(40);
  sweepAll(one, 0);
  expect(store.garbage).toBe(false);
  one(write(1));
  expect(store.garbage).toBe(true);
  expect(sweepAll(one, 0)).toBe(3);
  expect(count("parts")).toBe(1);
  one({ kind: "delete", keys: ["a"] });
  expect(count("parts")).toBe(0);
  expect(store.garbage).toBe(false);
});

test("a refused request leaves the others of its group", () => {
  const { store, count } = newStore();
  const answers = store.applyGroup([
    put("a", 5),
    { kind: "publish", key: "b", body: 77 },
    put("a", 6, { absent: true }),
    put("c", 7, { absent: true }),
  ]);
  expect(answers).toEqual([
    { kind: "outcomes", outcomes: [["1"]] },
    expect.objectContaining({ kind: "failed" }),
    { kind: "outcomes", outcomes: ["a"] },
    { kind: "outcomes", outcomes: [["2"]] },
  ]);
  expect(count("objects")).toBe(2);
});

test("part numbers stay exact where a JavaScript number would round", () => {
  const file = path.join(temporaryFolder(), "b.sqlite");
  new SqliteStore(file, 1_000).close();
  const database = new SqliteDatabase(file);
  database.prepare("UPDATE counter SET last = ?").run(2n ** 45n);
  database.close();
  const late = new SqliteStore(file, 1_000);
  onTestFinished(() => late.close());
  const [answer] = late.applyGroup([put("a", 3 * MIB)]);
  expect(answer).toEqual({ kind: "outcomes", outcomes: [[String(2 ** 45 + 1)]] });
  const probe = new SqliteDatabase(file, { readonly: true });
  onTestFinished(() => void probe.close());
  const ids = probe.prepare("SELECT id FROM parts ORDER BY id").pluck().safeIntegers().all();
  const first = (2n ** 45n + 1n) * 2n ** 15n;
  expect(ids).toEqual([first, first + 1n, first + 2n]);
});
