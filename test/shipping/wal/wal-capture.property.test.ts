/** Random lives of a database: whatever was done to it, what was shipped restores to what the database is. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ShippedObject } from "./shipped-object.js";

type Action =
  | { readonly kind: "insert" | "update" | "delete"; readonly rows: number; readonly bytes: number }
  | { readonly kind: "rolled_back" | "half_rolled_back"; readonly rows: number; readonly bytes: number }
  | { readonly kind: "ship" | "checkpoint" | "snapshot" | "vacuum" | "index" | "drop_index" }
  /** A checkpoint that is none of ours, after a commit that may not be captured. */
  | { readonly kind: "foreign_checkpoint"; readonly mode: "TRUNCATE" | "RESTART" | "PASSIVE" }
  | { readonly kind: "incremental_vacuum"; readonly pages: number };

const rows = fc.integer({ min: 1, max: 40 });
const bytes = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 6_000 }));

const ours: fc.WeightedArbitrary<Action>[] = [
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom("insert" as const, "update" as const, "delete" as const),
      rows,
      bytes,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom("rolled_back" as const, "half_rolled_back" as const), rows, bytes }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("ship" as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("checkpoint" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("snapshot" as const, "vacuum" as const, "index" as const, "drop_index" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("incremental_vacuum" as const), pages: fc.integer({ min: 1, max: 50 }) }),
  },
];
const foreign: fc.WeightedArbitrary<Action> = {
  weight: 2,
  arbitrary: fc.record({
    kind: fc.constant("foreign_checkpoint" as const),
    mode: fc.constantFrom("TRUNCATE" as const, "RESTART" as const, "PASSIVE" as const),
  }),
};

function write(object: ShippedObject, kind: "insert" | "update" | "delete", count: number, size: number): void {
  const { database } = object;
  if (kind === "delete") {
    database.prepare("DELETE FROM rows WHERE id IN (SELECT id FROM rows ORDER BY body LIMIT ?)").run(count);
  } else if (kind === "update") {
    database
      .prepare("UPDATE rows SET body = randomblob(?) WHERE id IN (SELECT id FROM rows ORDER BY body LIMIT ?)")
      .run(size, count);
  } else {
    const statement = database.prepare("INSERT INTO rows (body) VALUES (randomblob(?))");
    for (let index = 0; index < count; index++) statement.run(size);
  }
}

function run(object: ShippedObject, step: Action): void {
  const { database } = object;
  switch (step.kind) {
    case "insert":
    case "update":
    case "delete":
      return database.transaction(() => write(object, step.kind, step.rows, step.bytes))();
    case "rolled_back":
      database.exec("BEGIN");
      write(object, "insert", step.rows, step.bytes);
      write(object, "update", step.rows, step.bytes);
      object.shipInTransaction();
      database.exec("ROLLBACK");
      return;
    case "half_rolled_back":
      database.exec("BEGIN");
      write(object, "update", step.rows, step.bytes);
      database.exec("SAVEPOINT half");
      write(object, "insert", step.rows, step.bytes);
      write(object, "delete", step.rows, step.bytes);
      database.exec("ROLLBACK TO half; RELEASE half");
      write(object, "insert", 1, step.bytes);
      database.exec("COMMIT");
      return;
    case "ship":
      object.ship();
      return object.verifyAsShipped(object.content());
    case "checkpoint":
      object.checkpoint();
      return;
    case "snapshot":
      return object.takeSnapshot();
    case "foreign_checkpoint":
      database.pragma(`wal_checkpoint(${step.mode})`);
      return;
    case "vacuum":
      database.exec("VACUUM");
      return;
    case "incremental_vacuum":
      database.pragma(`incremental_vacuum(${step.pages})`);
      return;
    case "index":
      database.exec("CREATE INDEX IF NOT EXISTS by_body ON rows (body)");
      return;
    case "drop_index":
      database.exec("DROP INDEX IF EXISTS by_body");
      return;
  }
}

const COMMITTING: ReadonlySet<Action["kind"]> = new Set([
  "insert",
  "update",
  "delete",
  "half_rolled_back",
  "vacuum",
  "index",
]);

/** @returns segments made and snapshots needed in all lives */
function live(actions: fc.WeightedArbitrary<Action>[], changedBytesMax: number, numRuns: number): [number, number] {
  let segments = 0;
  let snapshots = 0;
  const life = fc.array(fc.oneof(...actions), { minLength: 5, maxLength: 40, size: "max" });
  fc.assert(
    fc.property(fc.boolean(), life, (autoVacuum, steps) => {
      const object = new ShippedObject({ autoVacuum, changedBytesMax });
      try {
        object.database.pragma("cache_size = 10");
        object.database.pragma("cache_spill = 1");
        object.database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, body)");
        object.isWritten = true;
        for (const step of steps) {
          object.isWritten ||= COMMITTING.has(step.kind);
          run(object, step);
        }
        object.verify();
        segments += object.segmentsMade;
        snapshots += object.snapshotsNeeded;
      } finally {
        object.close();
      }
    }),
    { numRuns },
  );
  return [segments, snapshots];
}

test("while only the shipper checkpoints, every life is shipped in segments and restores to what the database is", () => {
  const [segments, snapshots] = live(ours, 1 << 30, 20);
  expect(segments).toBeGreaterThan(40);
  expect(snapshots, "no snapshot was ever needed").toBe(0);
});

test("when strangers checkpoint too and segments are bounded, snapshots take over and nothing is lost", () => {
  const [segments, snapshots] = live([...ours, foreign], 150_000, 20);
  expect(segments).toBeGreaterThan(20);
  expect(snapshots).toBeGreaterThan(5);
});
