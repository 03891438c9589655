/** A shard's log: played over a checkpoint of the tables, from wherever it was taken, it gives the tables. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { COMMAND_STATES } from "../../src/delay/contract.js";
import { delayShardClass } from "../../src/delay/shard-class.js";
import type { Entry } from "../../src/delay/shard-entry.js";
import { applyEntry, SHARD_MIGRATIONS, type ShardDatabase } from "../../src/delay/shard-tables.js";
import type { CallHost } from "../../src/lua/contract.js";
import type { TryOutcome } from "../../src/object/try-outcome.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { decodeValue, encodeValue } from "../../src/store/value-codec.js";
import type { PlainObject, PlainValue } from "../../src/values.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const TABLES = ["command", "run", "wake", "argument", "tally"];
const IDS = ["a", "b", "c"];

const id = fc.constantFrom(...IDS);
const time = fc.nat({ max: 60_000 });
const error = fc.constant({ code: "refused", message: "no" });
const planned = fc.oneof(
  time.map((atMs): PlainObject => ({ kind: "at", atMs })),
  fc
    .integer({ min: 1, max: 20_000 })
    .chain((everyMs) =>
      fc.constantFrom("all", "latest", "skip").map((missed): PlainObject => ({ kind: "every", everyMs, missed })),
    ),
);
const command = fc.record({
  id,
  app: fc.constant("default"),
  className: fc.constant("Post"),
  key: fc.constantFrom("x", "y"),
  method: fc.constant("take"),
  args: fc.constant(encodeValue(["hello"], 1_000, "")),
  argsHash: fc.constantFrom(null, "h1"),
  plan: planned,
  expiresMs: fc.option(time),
  caller: fc.constant({}),
  outcome: fc.option(fc.constant({ className: "Post", key: "log", method: "told" })),
  triedAs: fc.option(fc.constant("tried")),
});
const outcome = fc.oneof(
  fc.constant({ kind: "done" as const }),
  fc.record({ kind: fc.constant("dead" as const), doubtful: fc.boolean(), error }),
  fc.record({
    kind: fc.constant("again" as const),
    untilMs: time,
    counts: fc.boolean(),
    doubtful: fc.boolean(),
    renew: fc.boolean(),
    error,
  }),
);

/** Of `ended` the call id is that of the try under way, as far as there is one. */
type Drawn = Entry | { kind: "ends"; id: string; outcome: TryOutcome };

const drawn: fc.Arbitrary<Drawn> = fc.oneof(
  { weight: 4, arbitrary: command.map((one) => ({ kind: "schedule" as const, command: one })) },
  { weight: 6, arbitrary: id.map((one) => ({ kind: "begin" as const, id: one, lateMs: 1_000 })) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("ends" as const), id, outcome }) },
  id.map((one) => ({ kind: "cancel" as const, id: one })),
  id.map((one) => ({ kind: "retry" as const, id: one })),
  fc.record({ kind: fc.constant("move" as const), id, plan: planned }),
  fc.constant({ kind: "resume" as const }),
  fc.record({
    kind: fc.constant("wake" as const),
    object: fc.constantFrom("default/Post/x", "default/Post/y"),
    epoch: fc.nat({ max: 2 }),
    seq: fc.nat({ max: 5 }),
    atMs: fc.option(time),
  }),
  fc.record({ kind: fc.constant("defer" as const), object: fc.constant("default/Post/x"), untilMs: time }),
  fc.record({ kind: fc.constant("trim" as const), endedBeforeMs: time, deadBeforeMs: time }),
  fc.constant({ kind: "reserve" as const, hash: "h1" }),
  time.map((unusedSinceMs) => ({ kind: "sweep" as const, unusedSinceMs })),
  fc.constant({ kind: "swept" as const, hashes: ["h1"] }),
);

it("gives the tables, from any checkpoint", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(drawn, fc.nat({ max: 5_000 })), { maxLength: 60 }), fc.nat(), (steps, at) => {
      const folder = new RealFolder(temporaryFolder());
      const live = new Shard(folder, "live.db");
      const checkpointAt = steps.length === 0 ? 0 : at % steps.length;
      let nowMs = 0;
      let checkpoint = new Map<string, PlainValue>();
      for (const [index, [step, afterMs]] of steps.entries()) {
        nowMs += afterMs;
        if (index === checkpointAt) checkpoint = live.dump();
        live.append(step.kind === "ends" ? live.endOf(step.id, step.outcome) : step, nowMs);
        live.assertSound();
      }
      const replayed = new Shard(folder, "replayed.db");
      const late = new Shard(folder, "late.db");
      late.load(checkpoint);
      for (const { number, entry, atMs } of live.log()) {
        replayed.apply(entry, atMs);
        if (number > checkpointAt) late.apply(entry, atMs);
      }
      expect(replayed.dump()).toEqual(live.dump());
      expect(late.dump()).toEqual(live.dump());
      for (const shard of [live, replayed, late]) shard.database.close();
    }),
    { numRuns: 150 },
  );
});

class Shard {
  readonly database: ObjectDatabase;
  readonly #host: ShardDatabase;

  constructor(folder: RealFolder, name: string) {
    this.database = ObjectDatabase.open(folder, name, resolveSettings({}));
    this.database.begin();
    for (const migration of SHARD_MIGRATIONS) this.database.migrate(migration);
    this.#host = {
      sqlExec: (sql, parameters) => this.database.exec(sql, parameters),
      sqlAll: (sql, parameters) => this.database.all(sql, parameters),
      sqlOne: (sql, parameters) => this.database.one(sql, parameters),
    };
  }

  append(entry: Entry, startedMs: number): void {
    const host = { ...this.#host, startedMs } as unknown as CallHost;
    const args = [[entry as unknown as PlainObject], 10_000];
    const step = delayShardClass.start({ kind: "method", name: "append" }, args, host).resume();
    if (step.kind === "failed") throw step.error;
  }

  apply(entry: Entry, atMs: number): void {
    applyEntry(this.#host, entry, atMs);
  }

  endOf(id: string, outcome: TryOutcome): Entry {
    const [run = 1, callId = ""] =
      this.#host.sqlOne("SELECT run, call_id FROM command WHERE id = ?", [id]).rows[0] ?? [];
    return { kind: "ended", id, run: Number(run), callId: String(callId), outcome };
  }

  log(): { number: number; entry: Entry; atMs: number }[] {
    const { rows } = this.#host.sqlAll("SELECT n, at_ms, body FROM entry ORDER BY n", []);
    return rows.map(([n, atMs, body]) => ({
      number: Number(n),
      entry: decodeValue(body) as unknown as Entry,
      atMs: Number(atMs),
    }));
  }

  /** What must hold of every command, whatever happened. */
  assertSound(): void {
    const { rows } = this.#host.sqlAll(
      "SELECT state, look_ms, ended_ms, call_id, next_ms, attempts, tries FROM command",
      [],
    );
    for (const [state, lookMs, endedMs, callId, , attempts, tries] of rows) {
      expect(COMMAND_STATES).toContain(state);
      const waits = state === "pending" || state === "retrying";
      expect(lookMs !== null, String(state)).toBe(waits);
      expect(endedMs !== null, String(state)).toBe(!waits && state !== "delivering");
      if (state === "delivering") expect(callId).not.toBeNull();
      expect(Number(attempts)).toBeLessThanOrEqual(Number(tries));
    }
    const [refs] = this.#host.sqlOne("SELECT sum(refs) FROM argument", []).rows[0] ?? [];
    const [used] = this.#host.sqlOne("SELECT count(*) FROM command WHERE args_hash IS NOT NULL", []).rows[0] ?? [];
    expect(Number(refs ?? 0)).toBe(Number(used));
  }

  dump(): Map<string, PlainValue> {
    return new Map(
      TABLES.map((table) => [
        table,
        this.#host.sqlAll(`SELECT * FROM ${table} ORDER BY 1, 2`, []).rows.map((row) => [...row]),
      ]),
    );
  }

  load(dump: ReadonlyMap<string, PlainValue>): void {
    for (const [table, rows] of dump) {
      for (const row of rows as (string | number | null)[][]) {
        this.#host.sqlExec(`INSERT INTO ${table} VALUES (${row.map(() => "?").join(", ")})`, row);
      }
    }
  }
}
