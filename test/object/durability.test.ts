import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { uuidv7 } from "../../src/world/world.js";
import { afterMicrotasks, inTurn } from "../support/turns.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";
import { verified, wellWith } from "../verify/support.js";

const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
function Note:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) emit("added", { text = text }) return text end
function Note:check(text) if text == "no" then error { code = "refused", message = "no" } end return text end
function Note:grow(bytes) state.sql.exec("INSERT INTO lines (text) VALUES (?)", ("x"):rep(bytes)) return bytes end
function Note:drop_half() state.sql.exec("DELETE FROM lines WHERE id % 2 = 0") return state.sql.one("SELECT count(*) AS n FROM lines").n end
function Note:bye() destroy() return "gone" end
function Note.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
function Note.read:slowly() local n = 0 for i = 1, 60000 do n = n + i end return n end
function Note.read:count() return state.sql.one("SELECT count(*) AS n FROM lines").n end
return Note
`;

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, ...more });

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );

/** Whether it is settled yet; asks nothing of time. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([
    promise.then(
      () => true,
      () => true,
    ),
    new Promise<false>((resolve) => setImmediate(() => resolve(false))),
  ]);
}

describe("nothing is told before it is durable (G1)", () => {
  it("holds a reply until its flight has landed", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const gate = node.bucket.gate();
    const reply = node.start("Note/a", "add", ["second"]);
    await node.time.settle();
    expect(await isSettled(reply)).toBe(false);
    gate.release();
    expect(await node.time.until(reply)).toEqual({ value: "second", seq: 2 });
  });

  it("holds reads, reads beside the mailbox and errors behind writes that have not landed", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const gate = node.bucket.gate();
    const waiting = [
      node.start("Note/a", "add", ["second"]),
      node.start("Note/a", "check", ["yes"]),
      node.start("Note/a", "check", ["no"]),
    ];
    await node.time.settle();
    waiting.push(node.start("Note/a", "all"));
    await node.time.settle();
    for (const reply of waiting) expect(await isSettled(reply)).toBe(false);
    gate.release();
    const settled = await node.time.until(Promise.allSettled(waiting));
    expect(settled.map((one) => (one.status === "fulfilled" ? one.value.value : one.reason.code))).toEqual([
      "second",
      "yes",
      "refused",
      ["first", "second"],
    ]);
  });

  it.each([0, 1, 2])(
    "lets no read slip in between COMMIT and the shipper's knowing of it, in turn %i",
    async (turn) => {
      const node = await start();
      await node.call("Note/a", "add", "first");
      const gate = node.bucket.gate();
      const early: unknown[] = [];
      const reads: Promise<void>[] = [];
      // One read after each step of the promises that lead from the call to its flight.
      for (let step = 0; step < 40; step++) {
        inTurn(node.time, turn, () =>
          afterMicrotasks(step, () => {
            reads.push(node.start("Note/a", "all").then(({ value }) => void early.push(value)));
          }),
        );
      }
      void node.start("Note/a", "add", ["second"]);
      await node.time.settle();
      for (const value of early) expect(value).toEqual(["first"]);
      gate.release();
      await node.time.until(Promise.all(reads));
      expect(early).toHaveLength(40);
      expect(early.at(-1)).toEqual(["first", "second"]);
    },
  );

  it("tells no event before its flight has landed", async () => {
    const node = await start();
    const gate = node.bucket.gate();
    const reply = node.start("Note/a", "add", ["x"]);
    await node.time.advance(100);
    expect(node.observations.filter((one) => one.kind === "event")).toEqual([]);
    gate.release();
    await node.time.until(reply);
    expect(node.observations.filter((one) => one.kind === "event")).toMatchObject([{ number: 1, name: "added" }]);
  });

  it("answers outcome_unknown at the gate's bound, and the call id tells later that it is there", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const gate = node.bucket.gate();
    const callId = "0197a000-0000-7000-8000-000000000001";
    const reply = node.start("Note/a", "add", ["second"], { callId });
    await node.time.advance(10_000);
    await expect(reply).rejects.toMatchObject({ code: "outcome_unknown", retryable: true, callId });
    gate.release();
    const again = await node.time.until(node.start("Note/a", "add", ["second"], { callId }));
    expect(again.value).toBe("second");
    expect(await node.call("Note/a", "all")).toEqual(["first", "second"]);
  });

  it("answers a read that times out at its gate with not_durable_yet", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const gate = node.bucket.gate();
    void node.start("Note/a", "add", ["second"]);
    await node.time.settle();
    const read = node.start("Note/a", "all");
    await node.time.advance(10_000);
    expect(await codeOf(read)).toBe("not_durable_yet");
    gate.release();
  });
});

describe("after a crash", () => {
  it("has every acknowledged write, and an unacknowledged one whole or not at all", async () => {
    const node = await start();
    await node.call("Note/a", "add", "told");
    const gate = node.bucket.gate();
    const untold = node.start("Note/a", "add", ["untold"]);
    await node.time.settle();
    node.crash();
    gate.release();
    await node.time.settle();
    expect(await isSettled(untold)).toBe(false);
    await node.open();
    const lines = (await node.call("Note/a", "all")) as string[];
    expect([["told"], ["told", "untold"]]).toContainEqual(lines);
  });

  it("takes one request a flight where segment and manifest cannot land together, and comes back from few", async () => {
    const node = await start({ bucket: { atomic: false }, settings: NO_PAST });
    await node.call("Note/a", "add", "first");
    const before = node.bucket.counts();
    for (let n = 0; n < 200; n++) await node.call("Note/a", "add", `line ${n}`);
    const { write, delete: deletes } = node.bucket.counts();
    // A merged segment or a snapshot now and then: two requests and the deletion of what it replaced.
    expect(write - before.write).toBeLessThan(200 * 1.1);
    expect(deletes).toBeLessThan(200 * 0.1);
    const keys = (await node.time.until(node.bucket.list("objects/"))).keys;
    expect(keys.length).toBeLessThanOrEqual(4);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/a", "count")).toBe(201);
  });

  it("throws away a local tail that never landed", async () => {
    const node = await start();
    await node.call("Note/a", "add", "told");
    node.bucket.faults.failNext(100, { kind: "lost_request" }, ["write"]);
    void node.start("Note/a", "add", ["never landed"]);
    await node.time.advance(1_000);
    node.crash();
    node.bucket.faults.clear();
    await node.open();
    expect(await node.call("Note/a", "all")).toEqual(["told"]);
  });

  it("comes back from the bucket alone when the disk is lost", async () => {
    const node = await start();
    for (let n = 0; n < 10; n++) await node.call("Note/a", "add", `${n}`);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/a", "count")).toBe(10);
  });

  it("rebuilds an object whose local file was damaged while the node was down", async () => {
    const node = await start();
    for (let n = 0; n < 10; n++) await node.call("Note/a", "add", `${n}`);
    await node.stop();
    const path = localFile(node);
    const bytes = node.world.folder.readFile(path) as Uint8Array;
    bytes[bytes.length - 100] = (bytes[bytes.length - 100] ?? 0) ^ 1;
    node.world.folder.replaceFile(path, bytes);
    await node.open();
    expect(await node.call("Note/a", "count")).toBe(10);
  });

  it("trusts an undamaged local file and reads no body from the bucket", async () => {
    const node = await start();
    for (let n = 0; n < 10; n++) await node.call("Note/a", "add", `${n}`);
    await node.stop();
    await node.open();
    const before = node.bucket.counts();
    expect(await node.call("Note/a", "count")).toBe(10);
    const after = node.bucket.counts();
    expect(after.get - before.get).toBeLessThanOrEqual(2);
    expect(after.read_stream).toBe(before.read_stream);
  });

  it("refuses an object whose segment in the bucket is damaged, and serves the others", async () => {
    const node = await start();
    await node.call("Note/a", "add", "x");
    await node.call("Note/b", "add", "y");
    await node.stop();
    node.world.folder.removeTree("objects");
    const keys = await node.keys("objects/default/Note/");
    const segment = keys.find((key) => key.includes("/a/") && key.endsWith(".seg")) as string;
    node.bucket.corrupt(segment);
    await node.open();
    expect(await codeOf(node.call("Note/a", "all"))).toBe("object_corrupt");
    expect(await codeOf(node.call("Note/a", "add", "z"))).toBe("object_corrupt");
    expect(await node.call("Note/b", "all")).toEqual(["y"]);
  });

  it("refuses an object whose segment in the bucket is missing", async () => {
    const node = await start();
    await node.call("Note/a", "add", "x");
    await node.stop();
    node.world.folder.removeTree("objects");
    const keys = await node.keys("objects/default/Note/");
    await node.time.until(node.bucket.delete(keys.filter((key) => key.endsWith(".seg"))));
    await node.open();
    await expect(node.call("Note/a", "all")).rejects.toMatchObject({ code: "object_corrupt" });
  });
});

describe("ownership", () => {
  it("breaks the residency of an owner that another node has overtaken, and nothing of it is acknowledged", async () => {
    const first = await start();
    await first.call("Note/a", "add", "first");
    const second = await first.sibling();
    await second.call("Note/a", "add", "second");
    const late = first.start("Note/a", "add", ["late"]);
    expect(await codeOf(first.time.until(late))).toBe("outcome_unknown");
    expect(await second.call("Note/a", "all")).toEqual(["first", "second"]);
  });

  it("tells every caller when it is lost while a call waits for a read that takes several slices", async () => {
    // The read begins after each step of the promises that lead from the call into its transaction.
    for (let step = 0; step < 24; step++) {
      const node = await start({ settings: { METHOD_SLICE_MS: 1, METHOD_BUDGET_MS: 60_000 } });
      await node.call("Note/a", "add", "first");
      const other = await node.sibling();
      await other.call("Note/a", "add", "second");
      node.world.lookCostMs = 0.5;
      const gate = node.bucket.gate();
      const calls: Promise<unknown>[] = [node.start("Note/a", "add", ["late"])];
      await node.time.settle();
      calls.push(node.start("Note/a", "add", ["waits"]));
      for (let passed = 0; passed < step; passed++) await Promise.resolve();
      calls.push(node.start("Note/a", "slowly"));
      gate.release();
      const settled = await node.time.until(Promise.allSettled(calls), 60_000);
      expect(settled[0]).toMatchObject({ status: "rejected", reason: { code: "outcome_unknown" } });
    }
  });

  it("raises the epoch after a flight was given up in doubt: what lands late meets nothing that counts", async () => {
    const node = await start({
      bucket: { atomic: false },
      settings: { OBJECT_SHIP_FAILURES_MAX: 1, OBJECT_ACK_GATE_MS: 1_000, OBJECT_BYTES_MAX: 100_000 },
    });
    await node.call("Note/a", "add", "1");
    node.bucket.faults.failNext(1, { kind: "late", landsAfterMs: 60_000 }, ["write"]);
    expect(await codeOf(node.call("Note/a", "add", "2"))).toBe("outcome_unknown");
    // The residency breaks, and the flight that is left fails once more.
    node.bucket.faults.failNext(2, { kind: "refused" }, ["write"]);
    expect(await codeOf(node.call("Note/a", "grow", 200_000))).toBe("object_full");
    node.bucket.faults.clear();
    expect(await node.call("Note/a", "add", "3")).toBe("3");
    await node.time.advance(120_000);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/a", "all")).toEqual(["1", "3"]);
  });

  it("claims under a higher epoch after each restart", async () => {
    const node = await start();
    await node.call("Note/a", "add", "1");
    node.crash();
    await node.open();
    await node.call("Note/a", "add", "2");
    expect(node.flights("Note/a").map((flight) => flight.epoch)).toEqual([1, 2]);
  });
});

describe("history stays bounded", () => {
  for (const atomic of [true, false]) {
    it(`by snapshots, and what they replace leaves the bucket (${atomic ? "atomic" : "one write at a time"})`, async () => {
      const node = await start({ bucket: { atomic }, settings: { ...NO_PAST, COMPACT_SEGMENTS_MAX: 8 } });
      for (let n = 0; n < 50; n++) await node.call("Note/a", "add", `${n}`);
      await node.time.settle();
      const keys = await node.keys("objects/");
      expect(keys.length).toBeLessThanOrEqual(11);
      expect(node.flights("Note/a").some((flight) => flight.carried === "snapshot")).toBe(true);
      node.crash();
      node.world.folder.removeTree("objects");
      await node.open();
      expect(await node.call("Note/a", "count")).toBe(50);
    });
  }

  it("by merged segments where little changes in much: no snapshot ships the whole again", async () => {
    const node = await start({ settings: { ...NO_PAST, COMPACT_SEGMENTS_MAX: 8 } });
    await node.call("Note/a", "grow", 600_000);
    for (let n = 0; n < 60; n++) await node.call("Note/a", "add", `${n}`);
    await node.time.settle();
    const flights = node.flights("Note/a");
    // The first one, while the object is new, is a snapshot: all of it had just changed.
    expect(flights.filter((flight) => flight.carried === "snapshot")).toHaveLength(1);
    expect(Math.max(...flights.slice(10).map((flight) => flight.bytes))).toBeLessThan(30_000);
    expect((await node.keys("objects/")).length).toBeLessThanOrEqual(10);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/a", "count")).toBe(61);
  });

  it("whatever mixes of growing, shrinking, leaving and crashing come between", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(fc.integer({ min: 0, max: 40_000 }), fc.constantFrom("small", "drop", "sleep", "crash", "wipe")),
          {
            minLength: 20,
            maxLength: 60,
          },
        ),
        fc.boolean(),
        async (steps, atomic) => {
          const node = await start({
            bucket: { atomic },
            settings: {
              ...NO_PAST,
              COMPACT_SEGMENTS_MAX: 4,
              COMPACT_BYTES_MIN: 1_000,
              SNAPSHOT_INLINE_BYTES_MAX: 64 * 1024,
              SNAPSHOT_PART_BYTES: 64 * 1024,
              OBJECT_WAL_BYTES_MAX: 16 * 1024,
              OBJECT_IDLE_MS: 1_000,
            },
          });
          let rows = 0;
          for (const step of steps) {
            if (typeof step === "number") rows += (await node.call("Note/a", "grow", step)) === step ? 1 : 0;
            else if (step === "small") rows += (await node.call("Note/a", "add", "x")) === "x" ? 1 : 0;
            else if (step === "drop") rows = Number(await node.call("Note/a", "drop_half"));
            else if (step === "sleep") await node.time.advance(5_000);
            else {
              node.crash();
              if (step === "wipe") node.world.folder.removeTree("objects");
              await node.open();
            }
            expect((await node.keys("objects/")).length).toBeLessThanOrEqual(9);
          }
          expect(await node.call("Note/a", "count")).toBe(rows);
          await node.stop();
        },
      ),
      { numRuns: 15 },
    );
  });

  it("streams a snapshot that is too large to be held, while calls go on", async () => {
    const node = await start({
      bucket: { latencyMs: 1 },
      settings: {
        SNAPSHOT_INLINE_BYTES_MAX: 64 * 1024,
        SNAPSHOT_PART_BYTES: 64 * 1024,
        COMPACT_SEGMENTS_MAX: 4,
        OBJECT_WAL_BYTES_MAX: 64 * 1024,
      },
    });
    const replies: Promise<CallReply>[] = [];
    for (let n = 0; n < 40; n++) {
      replies.push(node.start("Note/big", "grow", [20_000]));
      await node.time.advance(3);
    }
    await node.time.until(Promise.all(replies));
    expect(node.bucket.counts().write_stream).toBeGreaterThan(0);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/big", "count")).toBe(40);
  });
});

it("streams what one transaction made of a small object, where that is too much for a flight", async () => {
  const node = await start({
    bucket: { latencyMs: 1 },
    settings: { OBJECT_FLIGHT_BYTES_MAX: 1_048_576, SNAPSHOT_INLINE_BYTES_MAX: 65_536 },
  });
  await node.call("Note/a", "add", "x");
  const grown = Promise.all(Array.from({ length: 20 }, () => node.start("Note/a", "grow", [200_000])));
  await node.time.until(grown);
  expect(node.flights("Note/a").at(-1)?.carried).toBe("snapshot");
  expect(node.bucket.counts().write_stream).toBe(1);
  node.crash();
  node.world.folder.removeTree("objects");
  await node.open();
  expect(await node.call("Note/a", "count")).toBe(21);
});

describe("a snapshot that must be taken of a large object", () => {
  const Shelf = `
    local Shelf = class "Shelf"
    Shelf.migrations = { "CREATE TABLE t (id INTEGER PRIMARY KEY, a)" }
    function Shelf:put(count, bytes)
      for n = 1, count do state.sql.exec("INSERT INTO t (a) VALUES (zeroblob(?))", bytes) end
      return count
    end
    function Shelf.read:walk()
      local rows, n = 0, 0
      for row in state.sql.each("SELECT id FROM t") do
        rows = rows + 1
        if rows == 1 then for i = 1, 20000 do n = n + i end end
      end
      return rows
    end
    function Shelf.read:count() return state.sql.one("SELECT count(*) AS n FROM t").n end
    return Shelf`;

  /** A large object with one flight on its way, and a write behind it that only a snapshot can carry. */
  async function owing(): Promise<{ node: VirtualNode; replies: Promise<CallReply>[]; release: () => void }> {
    const node = await start({
      classes: { Shelf },
      settings: {
        OBJECT_FLIGHT_BYTES_MAX: 1_048_576,
        SNAPSHOT_INLINE_BYTES_MAX: 65_536,
        OBJECT_COMPANY_MS: 0,
        METHOD_SLICE_MS: 1,
      },
    });
    for (const count of [80, 80]) await node.call("Shelf/a", "put", count, 2_000);
    const gate = node.bucket.gate();
    const replies = [node.start("Shelf/a", "put", [1, 10])];
    await node.time.settle();
    replies.push(node.start("Shelf/a", "put", [4, 400_000]));
    await node.time.settle();
    return { node, replies, release: () => gate.release() };
  }

  async function assertLanded(node: VirtualNode, replies: Promise<CallReply>[]): Promise<void> {
    const values = (await node.time.until(Promise.all(replies))).map(({ value }) => value);
    expect(values.slice(0, 2)).toEqual([1, 4]);
    expect(node.flights("Shelf/a").at(-1)).toMatchObject({ carried: "snapshot", seq: 4 });
    expect(node.node.counters.residenciesBroken).toBe(0);
    node.world.lookCostMs = 0;
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Shelf/a", "count")).toBe(165);
    await node.stop();
  }

  it("is taken though a read is in the midst of its rows, and the read sees all of them", async () => {
    const { node, replies, release } = await owing();
    node.world.lookCostMs = 0.5;
    const walk = node.start("Shelf/a", "walk");
    expect(await isSettled(walk)).toBe(false);
    release();
    await assertLanded(node, [...replies, walk]);
    expect((await walk).value).toBe(165);
  });

  it("is tried again when the disk does not take the checkpoint before it", async () => {
    const { node, replies, release } = await owing();
    const checkpoint = vi.spyOn(ObjectDatabase.prototype, "checkpointTruncate");
    onTestFinished(() => checkpoint.mockRestore());
    const full = MoonportError.of("storage_full", "the disk is full");
    for (let n = 0; n < 3; n++) {
      checkpoint.mockImplementationOnce(() => {
        throw full;
      });
    }
    release();
    await assertLanded(node, replies);
    expect(checkpoint.mock.calls.length).toBeGreaterThan(3);
  });
});

describe("a write that sets what stands already", () => {
  const Mark = `
    local Mark = class "Mark"
    Mark.migrations = { "CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "INSERT INTO t VALUES (1, 0)" }
    function Mark:put(value) state.store.set("value", value) return value end
    function Mark:update(a) state.sql.exec("UPDATE t SET a = ? WHERE id = 1", a) return a end
    function Mark:spill() state.sql.exec("UPDATE t SET a = zeroblob(6000000)") error { code = "refused", message = "no" } end
    function Mark.read:value() return state.store.get("value") end
    return Mark`;
  const carried = (node: VirtualNode): string[] => node.flights("Mark/a").map((flight) => flight.carried);

  it("ships as a segment without pages, and is restored and verified as any other", async () => {
    const node = await start({ classes: { Mark } });
    for (const value of ["x", "x", "y", "y"]) await node.call("Mark/a", "put", value);
    for (const a of [1, 1]) await node.call("Mark/a", "update", a);
    expect(carried(node)).toEqual(Array(6).fill("segment"));
    expect(node.flights("Mark/a").at(-1)).toMatchObject({ seq: 6, carried: "segment" });
    expect(await verified(node)).toMatchObject(wellWith({ restorable: 1 }));
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Mark/a", "value")).toBe("y");
    // As the first thing after it was restored, and after it was closed: nothing of a WAL is there yet.
    await node.call("Mark/a", "put", "y");
    await node.time.advance(400_000);
    await node.call("Mark/a", "put", "y");
    expect(carried(node)).toEqual(Array(8).fill("segment"));
    expect(await verified(node)).toMatchObject(wellWith({ restorable: 1 }));
    await node.stop();
  });

  it("takes one snapshot where what was rolled back lies behind the last commit in the WAL, and not one each time", async () => {
    const node = await start({ classes: { Mark } });
    await node.call("Mark/a", "put", "x");
    expect(await codeOf(node.call("Mark/a", "spill"))).toBe("refused");
    for (let n = 0; n < 3; n++) await node.call("Mark/a", "put", "x");
    expect(carried(node)).toEqual(["segment", "snapshot", "segment", "segment"]);
    expect(await verified(node)).toMatchObject(wellWith({ restorable: 1 }));
    await node.stop();
  });
});

describe("residency", () => {
  it("lets an idle object leave, and wakes it again without a bucket request", async () => {
    const node = await start({ settings: { OBJECT_IDLE_MS: 1_000 } });
    await node.call("Note/a", "add", "x");
    expect((await node.node.status()).residents).toBe(1);
    await node.time.advance(2_000);
    expect(await node.node.status()).toMatchObject({ residents: 0, openFiles: 0 });
    const before = node.bucket.counts();
    expect(await node.call("Note/a", "all")).toEqual(["x"]);
    expect(node.bucket.counts()).toEqual(before);
  });

  it("keeps more residents than open files", async () => {
    const node = await start({ settings: { OBJECT_FILES_OPEN_MAX: 3 } });
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 10; n++) await node.call(`Note/n${n}`, "add", `${round}`);
    }
    expect(await node.node.status()).toMatchObject({ residents: 10, openFiles: 3 });
    for (let n = 0; n < 10; n++) expect(await node.call(`Note/n${n}`, "all")).toEqual(["0", "1"]);
  });

  it("makes calls wait for an open file when all are in use, and serves every one", async () => {
    const node = await start({ settings: { OBJECT_FILES_OPEN_MAX: 2 }, bucket: { latencyMs: 5 } });
    const replies = Array.from({ length: 12 }, (_, n) => node.start(`Note/n${n}`, "add", ["x"]));
    await node.time.until(Promise.all(replies));
    expect((await node.node.status()).openFiles).toBeLessThanOrEqual(2);
  });

  it("answers reads although somebody waits for their open file", async () => {
    const node = await start({ settings: { OBJECT_FILES_OPEN_MAX: 1 }, bucket: { latencyMs: 1 } });
    for (const target of ["Note/a", "Note/b", "Note/c"]) await node.call(target, "add", target);
    const reads = Array.from({ length: 30 }, (_, n) => node.start(`Note/${"abc"[n % 3]}`, "all"));
    const replies = await node.time.until(Promise.all(reads));
    for (const [n, reply] of replies.entries()) expect(reply.value).toEqual([`Note/${"abc"[n % 3]}`]);
  });

  it("refuses with node_full when no open file comes free in time", async () => {
    const node = await start({
      settings: { OBJECT_FILES_OPEN_MAX: 1, CALL_TIMEOUT_MS: 1_000, OBJECT_ACK_GATE_MS: 60_000 },
    });
    await node.call("Note/a", "add", "x");
    const gate = node.bucket.gate();
    void node.start("Note/a", "add", ["y"]);
    await node.time.settle();
    const refused = node.start("Note/b", "add", ["x"]);
    await node.time.advance(1_000);
    expect(await codeOf(refused)).toBe("node_full");
    gate.release();
  });

  it("bounds local copies: the oldest leave, and come back from the bucket", async () => {
    const node = await start({ settings: { OBJECT_IDLE_MS: 100, LOCAL_BYTES_MAX: 1024 * 1024 } });
    for (let n = 0; n < 4; n++) {
      await node.call(`Note/n${n}`, "grow", 400_000);
      await node.time.advance(1_000);
    }
    const files = node.world.folder.list("objects").flatMap((folder) => node.world.folder.list(`objects/${folder}`));
    expect(files.length).toBe(2);
    expect(await node.call("Note/n0", "count")).toBe(1);
  });

  it("answers reading methods of a key that was never written without claim or file", async () => {
    const node = await start();
    const before = node.bucket.counts();
    expect(await node.call("Note/never", "all")).toEqual([]);
    expect(node.bucket.counts().write).toBe(before.write);
    expect(node.world.folder.list("objects")).toEqual([]);
  });
});

describe("the end of an object", () => {
  it("is durable, leaves a tombstone, and a later write starts it anew under a higher epoch", async () => {
    const node = await start();
    await node.call("Note/a", "add", "old");
    expect(await node.call("Note/a", "bye")).toBe("gone");
    expect(await node.call("Note/a", "all")).toEqual([]);
    const { object } = { object: node.identity("Note/a") };
    expect(await node.time.until(node.node.inspect(object))).toMatchObject({ state: "destroyed", epoch: 1, seq: 2 });
    node.crash();
    await node.open();
    expect(await node.call("Note/a", "all")).toEqual([]);
    expect(await node.time.until(node.start("Note/a", "add", ["new"]))).toEqual({ value: "new", seq: 3 });
    expect(await node.call("Note/a", "all")).toEqual(["new"]);
    expect(await node.time.until(node.node.inspect(object))).toMatchObject({ epoch: 2, events: { count: 1, last: 2 } });
  });

  it.each(["a time", "none"])("is not done again by a repeat of its call, whose id carries %s", async (what) => {
    const node = await start();
    const call = (method: string, callId: string) =>
      codeOf(node.time.until(node.start("Note/a", method, [], { callId })));
    await node.call("Note/a", "add", "old");
    const callId = what === "none" ? "once" : uuidv7(node.world);
    expect(await call("bye", callId)).toBe("no error");
    for (const life of [1, 2]) {
      expect(await call("bye", callId), `asked again in life ${life}`).toBe("id_expired");
      node.crash();
      await node.open();
      expect(await call("bye", callId), `asked again after a restart in life ${life}`).toBe("id_expired");
      expect(await call("add", uuidv7(node.world))).toBe("no error");
      expect(await call("bye", callId), `asked again of a new life`).toBe("id_expired");
      expect(await call("bye", uuidv7(node.world))).toBe("no error");
    }
  });

  it("has no call that was made at the same time refused, unless it had run", async () => {
    const node = await start();
    const made = Array.from({ length: 4 }, () => uuidv7(node.world));
    const calls = ["add", "bye", "add"].map((method, n) =>
      node.start("Note/a", method, [n], { callId: made[n] as string }),
    );
    const values = (await node.time.until(Promise.all(calls))).map(({ value }) => value);
    expect(values).toEqual([0, "gone", 2]);
    for (const n of [0, 1]) {
      const again = node.start("Note/a", n === 0 ? "add" : "bye", [n], { callId: made[n] as string });
      expect(await codeOf(node.time.until(again))).toBe("id_expired");
    }
    expect(await node.call("Note/a", "all")).toEqual(["2"]);
  });

  it("lets calls that wait behind it begin the next life", async () => {
    const node = await start();
    await node.call("Note/a", "add", "old");
    const replies = [node.start("Note/a", "bye"), node.start("Note/a", "add", ["new"])];
    await node.time.until(Promise.all(replies));
    expect(await node.call("Note/a", "all")).toEqual(["new"]);
  });

  it("comes from the operator too, and is refused for what does not exist", async () => {
    const node = await start();
    await node.call("Note/a", "add", "old");
    await node.time.until(node.node.destroy(node.identity("Note/a")));
    expect(await codeOf(node.time.until(node.node.destroy(node.identity("Note/a"))))).toBe("object_not_found");
  });

  it("leaves nothing but the tombstone in the bucket", async () => {
    const node = await start({ settings: NO_PAST });
    await node.call("Note/a", "add", "old");
    await node.call("Note/a", "bye");
    await node.time.settle();
    const keys = await node.keys("objects/");
    expect(keys).toHaveLength(1);
    expect(keys[0]).toMatch(/\/manifest$/);
  });
});

describe("a failing bucket", () => {
  it("stops shipping after six failures, and the next write starts it again", async () => {
    const node = await start();
    await node.call("Note/a", "add", "1");
    node.bucket.faults.failNext(6, { kind: "refused" }, ["write"]);
    const left = node.start("Note/a", "add", ["2"]);
    await node.time.advance(9_000);
    const state = node.node.inspect(node.identity("Note/a"));
    const next = node.start("Note/a", "add", ["3"]);
    await node.time.until(Promise.all([left, next, state]));
    expect(await node.call("Note/a", "all")).toEqual(["1", "2", "3"]);
  });

  it("that is well again takes what it refused, though nobody calls the object any more", async () => {
    const node = await start();
    await node.call("Note/a", "add", "1");
    node.bucket.faults.failNext(10, { kind: "refused" }, ["write"]);
    const left = node.start("Note/a", "add", ["2"]);
    await node.time.advance(10_000);
    expect(await codeOf(left)).toBe("outcome_unknown");
    expect(node.flights("Note/a")).toHaveLength(1);
    // Four single tries fail, one every quarter of its idle time; the fifth lands, and the object can leave.
    await node.time.advance(180_000);
    expect(node.flights("Note/a")).toHaveLength(2);
    expect((await node.node.status()).residents).toBe(0);
  });

  it("has all the time there is for a node that stops", async () => {
    const node = await start({ settings: { DRAIN_MS: 30_000 } });
    await node.call("Note/a", "add", "1");
    node.bucket.faults.failNext(1_000, { kind: "refused" }, ["write"]);
    const left = node.start("Note/a", "add", ["2"]);
    const stopped = node.node.stop();
    await node.time.advance(20_000);
    expect(await codeOf(left)).toBe("outcome_unknown");
    node.bucket.faults.clear();
    await node.time.until(stopped);
    await node.open();
    expect(await node.call("Note/a", "all")).toEqual(["1", "2"]);
  });

  it("of which an object was destroyed meanwhile gets its tombstone in the same way", async () => {
    const node = await start({ settings: NO_PAST });
    await node.call("Note/a", "add", "1");
    node.bucket.faults.failNext(6, { kind: "refused" }, ["write"]);
    const left = node.start("Note/a", "bye");
    await node.time.advance(10_000);
    expect(await codeOf(left)).toBe("outcome_unknown");
    await node.time.advance(180_000);
    expect(await node.keys("objects/")).toEqual([expect.stringMatching(/\/manifest$/)]);
    node.crash();
    await node.open();
    expect(await codeOf(node.time.until(node.node.destroy(node.identity("Note/a"))))).toBe("object_not_found");
  });

  it("loses no acknowledged write when answers are lost, late or refused at random", async () => {
    for (let seed = 1; seed <= 5; seed++) {
      const node = await start({ seed, bucket: { atomic: seed % 2 === 0, latencyMs: 2 } });
      const told: string[] = [];
      for (let n = 0; n < 30; n++) {
        const kinds = [
          { kind: "refused" },
          { kind: "lost_answer" },
          { kind: "lost_request" },
          { kind: "late", landsAfterMs: 40 },
        ] as const;
        const kind = kinds[(n * 7 + seed) % 9];
        if (kind !== undefined) node.bucket.faults.failNext(1, kind, ["write"]);
        const text = `${n}`;
        await node.time.until(node.start("Note/a", "add", [text])).then(
          () => told.push(text),
          () => {},
        );
      }
      node.crash();
      await node.open();
      const lines = (await node.call("Note/a", "all")) as string[];
      expect(lines.filter((line) => told.includes(line))).toEqual(told);
      expect(new Set(lines).size).toBe(lines.length);
    }
  });

  it("refuses new writes with storage_behind once too much is waiting to land", async () => {
    const node = await start({ settings: { OBJECT_UNSHIPPED_BYTES_MAX: 1024 * 1024, OBJECT_ACK_GATE_MS: 600_000 } });
    await node.call("Note/a", "add", "1");
    const gate = node.bucket.gate();
    const replies = [];
    for (let n = 0; n < 5; n++) {
      replies.push(node.start("Note/a", "grow", [500_000]));
      await node.time.settle();
    }
    const settled = Promise.allSettled(replies);
    gate.release();
    const codes = (await node.time.until(settled)).map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code));
    expect(codes).toEqual(["ok", "ok", "ok", "storage_behind", "storage_behind"]);
    expect(await node.call("Note/a", "add", "after")).toBe("after");
  });
});

describe("stopping", () => {
  it("lands everything that is committed before it ends, and then refuses", async () => {
    const node = await start({ bucket: { latencyMs: 20 } });
    const replies = Array.from({ length: 20 }, (_, n) => node.start(`Note/n${n}`, "add", ["x"]));
    await node.time.settle();
    await node.stop();
    await node.time.until(Promise.all(replies));
    expect(await codeOf(node.time.until(node.start("Note/n0", "add", ["y"])))).toBe("node_stopping");
    await node.open();
    for (let n = 0; n < 20; n++) expect(await node.call(`Note/n${n}`, "all")).toEqual(["x"]);
  });

  it("ends within its bound when the bucket takes nothing, and says that outcomes are unknown", async () => {
    const node = await start({ settings: { DRAIN_MS: 500 } });
    await node.call("Note/a", "add", "x");
    const gate = node.bucket.gate();
    const reply = node.start("Note/a", "add", ["y"]);
    await node.time.settle();
    await node.stop();
    expect(await codeOf(reply)).toBe("outcome_unknown");
    gate.release();
  });
});

function localFile(node: VirtualNode): string {
  const { folder } = node.world;
  const found = folder
    .list("objects")
    .flatMap((dir) => folder.list(`objects/${dir}`).map((name) => `objects/${dir}/${name}`));
  return found.find((path) => path.endsWith(".db")) as string;
}

describe("file descriptors", () => {
  it("bound how many files are open, where the process may have few", async () => {
    const node = await start({ descriptorsMax: 265 });
    for (let n = 0; n < 5; n++) await node.call(`Note/n${n}`, "add", "x");
    expect(await node.node.status()).toMatchObject({ residents: 5, openFiles: 3 });
  });

  it("that are hardly any refuse the start", async () => {
    expect(await codeOf(start({ descriptorsMax: 200 }))).toBe("bad_setting");
  });
});
