import fc from "fast-check";
import { expect, test } from "vitest";
import type { StoredTimer } from "../../src/store/timers.js";
import { ObjectFile } from "./object-file.js";

const NAMES = ["a", "b", "c"] as const;
const when = fc.integer({ min: 1, max: 20 });
const change = fc.oneof(
  fc.record({ kind: fc.constant("set" as const), name: fc.constantFrom(...NAMES, undefined), dueMs: when }),
  fc.record({ kind: fc.constant("cancel" as const), name: fc.constantFrom(...NAMES) }),
  fc.record({ kind: fc.constant("move" as const), name: fc.constantFrom(...NAMES), dueMs: when }),
  fc.record({
    kind: fc.constant("end" as const),
    outcome: fc.constantFrom("done" as const, "dead" as const),
    nextMs: fc.option(when, { nil: undefined }),
  }),
  fc.record({ kind: fc.constant("again" as const), untilMs: when }),
  fc.record({ kind: fc.constant("clear" as const) }),
);
const step = fc.constantFrom("savepoint", "release", "rollback", "commit", "startOver", "reopen");
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What the table says, read anew. */
function nextOf(file: ObjectFile): number | undefined {
  const dues = file.tables.timers.list().map(({ dueMs }: StoredTimer) => dueMs);
  const next = Math.min(...dues);
  return next < 1_000 ? next : undefined;
}

class Driven {
  readonly file = new ObjectFile();
  #savepoints = 0;

  constructor() {
    this.file.database.begin();
  }

  do(step: Step): void {
    const { database } = this.file;
    switch (step) {
      case "savepoint":
        this.#savepoints++;
        return database.savepoint();
      case "release":
      case "rollback":
        if (this.#savepoints === 0) return;
        this.#savepoints--;
        return step === "release" ? database.release() : database.rollbackTo();
      case "startOver":
        this.#savepoints = 0;
        return database.startOver();
      case "commit":
      case "reopen":
        for (; this.#savepoints > 0; this.#savepoints--) database.release();
        database.commit();
        if (step === "reopen") this.file.reopen();
        return this.file.database.begin();
    }
  }

  change(operation: Change): void {
    const { timers } = this.file.tables;
    const [first] = timers.due(20, 1);
    switch (operation.kind) {
      case "set": {
        const plan = { kind: "at" as const, atMs: operation.dueMs };
        const request = { method: "ring", args: [], plan, ...(operation.name && { name: operation.name }) };
        return void timers.set(request, operation.dueMs);
      }
      case "cancel":
        return void timers.cancel(operation.name);
      case "move":
        return void timers.move(operation.name, { kind: "at", atMs: operation.dueMs }, operation.dueMs);
      case "clear":
        return timers.clear();
      case "end": {
        const { outcome, nextMs } = operation;
        return first && timers.ended({ timer: first, dueMs: first.dueMs, atMs: 20, outcome, nextMs });
      }
      case "again": {
        const error = { code: "class_error", message: "no" };
        const { dueMs } = first ?? { dueMs: 0 };
        const tried = { untilMs: operation.untilMs, dueMs, tries: 1, attempts: 1, beganMs: 20, error };
        return first && timers.again(first, tried);
      }
    }
  }
}

test("when the next timer is due is what the table says, whatever was changed, kept or undone", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(change, step), { minLength: 1, maxLength: 30 }), (operations) => {
      const driven = new Driven();
      for (const operation of operations) {
        if (typeof operation === "string") driven.do(operation);
        else driven.change(operation);
        expect(driven.file.tables.timers.nextDueMs()).toBe(nextOf(driven.file));
      }
      driven.file.database.close();
    }),
    { numRuns: 60 },
  );
});
