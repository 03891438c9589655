import fc from "fast-check";
import { expect, test } from "vitest";
import { ObjectFile } from "./object-file.js";
import { TransactionModel, type TransactionStep } from "./transaction-model.js";

type Step = { readonly kind: "append"; readonly events: number } | { readonly kind: TransactionStep };

const steps: fc.Arbitrary<Step> = fc.oneof(
  // Some write more than one statement takes, and more than is deleted at a time.
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("append"), events: fc.constantFrom(1, 2, 15, 17, 140) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "savepoint",
        "savepoint",
        "release",
        "rollbackTo",
        "commit",
        "commit",
        "rollback",
        "reopen",
      ),
    }),
  },
);

/** How many events there ever were. */
type Model = TransactionModel<number>;

function play(file: ObjectFile, model: Model, step: Step): void {
  if (step.kind !== "append") return model.play(file, step.kind, () => checkKept(file, model.committed));
  for (let count = 0; count < step.events; count++) {
    const mark = file.database.writeMark;
    expect(file.tables.events.append("e", model.current + 1, 0)).toBe(model.current + 1);
    expect(file.database.wroteSince(mark)).toBe(true);
    model.current++;
  }
}

const ROWS_MAX = 200;

function checkKept(file: ObjectFile, last: number): void {
  const { events } = file.tables;
  expect(events.last).toBe(last);
  // As many as are to be kept, and those that wait to be deleted together.
  expect(events.count).toBeGreaterThanOrEqual(Math.min(last, ROWS_MAX));
  expect(events.count).toBeLessThan(ROWS_MAX + 64);
  const kept = Array.from({ length: events.count }, (_, index) => events.first + index);
  expect(kept.at(-1) ?? last).toBe(last);
  expect(events.read(0, 1_000).map(({ number, data }) => [number, data])).toEqual(kept.map((n) => [n, n]));
}

test("whatever is rolled back and opened again, events are numbered without gaps, and those kept are the last", () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 50 }), (played) => {
      const file = new ObjectFile({ EVENT_ROWS_MAX: ROWS_MAX });
      const model = new TransactionModel(0, (events) => events);
      file.database.begin();
      for (const step of played) {
        play(file, model, step);
        expect(file.tables.events.last).toBe(model.current);
      }
      file.database.close();
    }),
    { numRuns: 100 },
  );
});

test.each([
  ["rows", 400, 1],
  ["bytes", 20, 50_000],
])(
  "a transaction writes events at once beyond a bound of waiting %s, and keeps them in their order",
  (_, count, bytes) => {
    const file = new ObjectFile();
    const { database } = file;
    const written = (): number => Number(database.kernel("SELECT count(*) FROM _mp_event").get()?.[0]);
    const data = "x".repeat(bytes);
    const append = (times: number): void => {
      for (let n = 0; n < times; n++) file.tables.events.append("e", data, 0);
    };
    file.call(() => append(1));
    database.begin();
    append(count);
    const waiting = count + 1 - written();
    expect(waiting).toBeLessThan(count / 1.5);
    // Rolled back are some that were written; below, all that were and some that waited.
    database.savepoint();
    append(10);
    database.rollbackTo();
    expect(file.tables.events.last).toBe(count + 1);
    database.commit();
    expect(file.tables.events.count).toBe(count + 1);
    expect(written()).toBe(count + 1);
    database.begin();
    append(1);
    database.savepoint();
    append(count);
    database.rollbackTo();
    append(2);
    expect([file.tables.events.last, written()]).toEqual([count + 4, count + 1]);
    database.commit();
    expect(written()).toBe(count + 4);
  },
);
