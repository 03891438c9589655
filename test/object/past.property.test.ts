/**
 * Whatever an object went through, each of its states inside retention comes back as it was: by its seq, and by each moment at
 * which it stood. MOONPORT_PAST_RUNS makes it longer.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Fault } from "../../src/bucket/memory-faults.js";
import { MoonportError } from "../../src/errors.js";
import type { PointInTime } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";

const RUNS = Number(process.env.MOONPORT_PAST_RUNS ?? 40);
const RETENTION_MS = 1_200_000;
const CHECKS_MAX = 12;

const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
function Note:add(text, times)
  state.sql.exec("INSERT INTO lines (text) VALUES (?)", text:rep(times or 1)) emit("added", { text = text })
end
function Note:half() state.sql.exec("DELETE FROM lines WHERE id % 2 = 0") end
function Note:bye() destroy() end
function Note.read:all()
  local found = array {}
  for row in state.sql.each("SELECT substr(text, 1, 20) AS text, length(text) AS n FROM lines ORDER BY id") do
    found[#found + 1] = row.text .. row.n
  end
  return found
end
return Note
`;

type Step =
  | { readonly kind: "call"; readonly method: "add" | "half" | "bye"; readonly times: number }
  /** Calls that share a flight or two. */
  | { readonly kind: "burst"; readonly calls: number }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "fault"; readonly fault: Fault }
  | { readonly kind: "crash"; readonly isWiped: boolean; readonly isMidFlight: boolean }
  /** Of the states so far, in per cent of the way from the first to the last. */
  | { readonly kind: "restore"; readonly where: number; readonly by: "seq" | "time" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("call" as const),
      method: fc.constantFrom("add" as const, "add" as const, "add" as const, "half" as const),
      times: fc.constantFrom(1, 1, 1, 50, 2_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("call" as const),
      method: fc.constant("bye" as const),
      times: fc.constant(1),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("burst" as const), calls: fc.integer({ min: 2, max: 9 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(1, 5_000, 900_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fault" as const),
      fault: fc.oneof(
        fc.record({ kind: fc.constantFrom("refused" as const, "lost_request" as const, "lost_answer" as const) }),
        fc.record({ kind: fc.constant("late" as const), landsAfterMs: fc.integer({ min: 0, max: 3_000 }) }),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("crash" as const), isWiped: fc.boolean(), isMidFlight: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("restore" as const),
      where: fc.integer({ min: 0, max: 100 }),
      by: fc.constantFrom("seq" as const, "time" as const),
    }),
  },
);

const settings = fc.record({
  COMPACT_SEGMENTS_MAX: fc.constantFrom(2, 5),
  COMPACT_BYTES_MIN: fc.constantFrom(0, 1_000_000),
  SEGMENT_INLINE_BYTES_MAX: fc.constantFrom(0, 400, 8_192),
  MANIFEST_INLINE_BYTES_MAX: fc.constantFrom(2_000, 32_768),
  SNAPSHOT_INLINE_BYTES_MAX: fc.constant(65_536),
  SNAPSHOT_PART_BYTES: fc.constant(65_536),
  OBJECT_IDLE_MS: fc.constantFrom(1_000, 60_000),
});

/** How the object stood at rest: its seq, its lines, or nothing while it did not exist, and when that was looked at. */
interface Mark {
  readonly ms: number;
  readonly seq: number;
  readonly lines: PlainValue | undefined;
}

class Play {
  readonly marks: Mark[] = [];
  readonly #node: VirtualNode;
  #texts = 0;

  constructor(node: VirtualNode) {
    this.#node = node;
  }

  async take(step: Step): Promise<void> {
    const { time, bucket } = this.#node;
    switch (step.kind) {
      case "call":
        return await this.#settled(this.#call(step.method, step.times));
      case "burst":
        return await this.#settled(...Array.from({ length: step.calls }, () => this.#call("add", 1)));
      case "wait":
        return await time.advance(step.ms);
      case "fault":
        return bucket.faults.failNext(1, step.fault);
      case "restore":
        return await this.#restore(step);
      case "crash":
        if (step.isMidFlight) void this.#call("add", 1);
        if (step.isMidFlight) await time.advance(2);
        this.#node.crash();
        await time.advance(5_000);
        if (step.isWiped) this.#node.world.folder.removeTree("objects");
        bucket.faults.clear();
        await this.#node.open();
    }
  }

  /** What it is now, once it has come to rest. */
  async mark(): Promise<void> {
    const { time, world, node, bucket } = this.#node;
    bucket.faults.clear();
    await time.advance(4_000);
    const { seq, state } = await time.until(node.inspect(this.#object));
    const isThere = state !== "destroyed" && state !== "unwritten";
    const lines = isThere ? await this.#node.call("Note/a", "all") : undefined;
    this.marks.push({ ms: world.clock.wallMs(), seq, lines });
    await time.advance(1);
  }

  /** Every state that the marks know, or a number of them, by its seq and by its time. */
  async check(): Promise<void> {
    this.#node.bucket.faults.clear();
    const every = Math.max(1, Math.ceil(this.marks.length / CHECKS_MAX));
    for (let index = this.marks.length - 1; index >= 0; index -= every) {
      const mark = this.marks[index] as Mark;
      await this.#compare({ seq: mark.seq }, mark, this.#isOwed(index));
      await this.#compare({ atMs: mark.ms }, mark, this.#isOwed(index, mark.ms));
    }
  }

  /** Whether it must be there: it stood inside retention. */
  #isOwed(index: number, atMs = this.marks[index + 1]?.ms ?? Number.POSITIVE_INFINITY): boolean {
    return atMs >= this.#node.world.clock.wallMs() - RETENTION_MS;
  }

  async #compare(at: PointInTime, mark: Mark, isOwed: boolean): Promise<void> {
    const found = await this.#linesAt(at);
    if (found === "refused") return expect([mark.lines === undefined || !isOwed, at]).toEqual([true, at]);
    expect({ at, ...found }).toEqual({ at, seq: mark.seq, lines: mark.lines });
  }

  async #linesAt(at: PointInTime): Promise<{ seq: number; lines: PlainValue } | "refused"> {
    const { time, node, world } = this.#node;
    try {
      const { parts, seq } = await time.until(node.exportDatabase(this.#object, at));
      const read: Uint8Array[] = [];
      const reading = (async () => {
        for await (const part of parts) read.push(part);
      })();
      await time.until(reading);
      world.folder.replaceFile("exported.db", Buffer.concat(read));
      const database = world.folder.openDatabase("exported.db", { mustExist: true });
      const rows = database.prepare("SELECT substr(text, 1, 20) || length(text) FROM lines ORDER BY id").pluck().all();
      database.close();
      return { seq, lines: rows as string[] };
    } catch (error) {
      if (error instanceof MoonportError && ["not_in_history", "object_not_found"].includes(error.code))
        return "refused";
      throw error;
    }
  }

  async #restore({ where, by }: Extract<Step, { kind: "restore" }>): Promise<void> {
    const index = Math.floor(((this.marks.length - 1) * where) / 100);
    const mark = this.marks[index];
    if (mark === undefined) return;
    const at = by === "seq" ? { seq: mark.seq } : { atMs: mark.ms };
    const restoring = this.#node.node.restore(this.#object, { at });
    await this.#settled(restoring);
    const outcome = await restoring.catch((error: MoonportError) => error);
    await this.mark();
    const now = this.marks.at(-1) as Mark;
    const before = this.marks.at(-2) as Mark;
    if (!(outcome instanceof MoonportError)) {
      expect([outcome.fromSeq, outcome.seq, now.seq]).toEqual([mark.seq, before.seq + 1, before.seq + 1]);
      expect(now.lines).toEqual(mark.lines);
    } else if (["not_in_history", "object_not_found"].includes(outcome.code)) {
      const isOwed = this.#isOwed(index, by === "time" ? mark.ms : undefined);
      expect([mark.lines === undefined || !isOwed, at]).toEqual([true, at]);
    } else {
      // The bucket failed: it happened, or it did not.
      expect([outcome.retryable, outcome.code]).toEqual([true, outcome.code]);
      expect([before.lines, mark.lines]).toContainEqual(now.lines);
    }
  }

  async #settled(...all: Promise<unknown>[]): Promise<void> {
    const settled = Promise.allSettled(all);
    await this.#node.time.until(settled);
  }

  #call(method: string, times: number): Promise<unknown> {
    return this.#node.start("Note/a", method, method === "add" ? [`line ${++this.#texts};`, times] : []);
  }

  get #object() {
    return this.#node.identity("Note/a");
  }
}

async function play(steps: readonly Step[], more: object, atomic: boolean): Promise<void> {
  const node = await VirtualNode.start({
    classes: { Note },
    settings: { ...more, PITR_RETENTION_MS: RETENTION_MS },
    bucket: { atomic, latencyMs: 3, timeoutMs: 1_000 },
  });
  const play = new Play(node);
  for (const one of steps) {
    await play.take(one);
    if (one.kind !== "fault") await play.mark();
  }
  await play.check();
  await node.stop();
}

it(
  "each state of the past comes back as it was",
  async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 40 }), settings, fc.boolean(), play), {
      numRuns: RUNS,
    });
  },
  Math.max(120_000, RUNS * 2_000),
);

it("a state that was merged with later ones and is older than retention is refused, and no earlier one is taken for it", async () => {
  const call = (method: "add" | "half"): Step => ({ kind: "call", method, times: 1 });
  const crash = (isMidFlight: boolean): Step => ({ kind: "crash", isWiped: false, isMidFlight });
  const steps: Step[] = [
    call("half"),
    crash(true),
    { kind: "burst", calls: 2 },
    call("add"),
    { kind: "wait", ms: 900_000 },
    call("add"),
    { kind: "wait", ms: 900_000 },
    crash(false),
    call("add"),
    call("add"),
    { kind: "burst", calls: 2 },
    { kind: "burst", calls: 2 },
    call("add"),
  ];
  await play(steps, { COMPACT_SEGMENTS_MAX: 2, COMPACT_BYTES_MIN: 0, SEGMENT_INLINE_BYTES_MAX: 0 }, false);
});
