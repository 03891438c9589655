import { afterEach, describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { ExportedDatabase, PointInTime, Restoration, Restored } from "../../src/node-api.js";
import type { Delivery } from "../../src/realtime/contract.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import type { PlainValue } from "../../src/values.js";
import { deferred } from "../../src/world/deferred.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";

const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
Note.directory = { columns = { lines = "integer" }, row = function(self) return { lines = state.sql.one("SELECT count(*) AS n FROM lines").n } end }
function Note:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) emit("added", { text = text }) return text end
function Note:remind(ms) schedule.after(ms / 1000):add("late") return "set" end
function Note:tell(key) send(Note(key)):add("told") return "sent" end
function Note:hand(key) send(Slow(key)):take() return "sent" end
function Note:bye() destroy() return "gone" end
function Note.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
return Note
`;

const Full = `
local Full = class "Full"
Full.migrations = { "CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT)" }
function Full:fill(id) state.sql.exec("INSERT INTO rows VALUES (?, ?)", id, string.rep("x", 900)) return "filled" end
function Full:empty() state.sql.exec("DELETE FROM rows") return "emptied" end
function Full.read:count() return state.sql.one("SELECT count(*) AS n FROM rows").n end
return Full
`;

/** Compacts often, whatever it is, and with bodies of each kind. */
const BUSY = { COMPACT_SEGMENTS_MAX: 4, SEGMENT_INLINE_BYTES_MAX: 300 };

afterEach(() => watchFaultPoints(() => {}));

describe.each([
  ["an atomic", true],
  ["another", false],
])("on %s bucket", (_kind, atomic) => {
  const start = (settings: Readonly<Record<string, number>> = BUSY): Promise<VirtualNode> =>
    VirtualNode.start({ classes: { Note, Full }, settings, bucket: { atomic } });
  const restore = (node: VirtualNode, at: PointInTime, more: Partial<Restoration> = {}): Promise<Restored> =>
    node.time.until(node.node.restore(node.identity("Note/a"), { at, ...more }));
  const fork = (node: VirtualNode, to: string, more: Partial<Restoration> = {}): Promise<Restored> =>
    node.time.until(node.node.fork(node.identity("Note/a"), more, to));
  const lines = (node: VirtualNode, target = "Note/a"): Promise<PlainValue> => node.call(target, "all");
  const adds = async (node: VirtualNode, ...texts: string[]): Promise<void> => {
    for (const text of texts) {
      await node.call("Note/a", "add", text);
      await node.time.advance(1_000);
    }
  };

  it("an object becomes what it was at a seq, in a new epoch, and that can be undone", async () => {
    const node = await start();
    await adds(node, ..."abcdefghij");
    const restored = await restore(node, { seq: 3 });
    expect(restored).toMatchObject({ object: "default/Note/a", fromSeq: 3, seq: 11, epoch: 2 });
    expect(await lines(node)).toEqual(["a", "b", "c"]);
    await adds(node, "k");
    expect(await lines(node)).toEqual(["a", "b", "c", "k"]);
    expect(await restore(node, { seq: 10 })).toMatchObject({ fromSeq: 10, seq: 13, epoch: 3 });
    expect(await lines(node)).toEqual([..."abcdefghij"]);
    await restore(node, { seq: 12 });
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await lines(node)).toEqual(["a", "b", "c", "k"]);
  });

  it("or at a time: with all that was acknowledged by then, and nothing that came after", async () => {
    const node = await start();
    const beganMs = node.world.clock.wallMs();
    await adds(node, ..."abcdefghij");
    expect((await restore(node, { atMs: beganMs + 4_500 })).fromMs).toBeLessThanOrEqual(beganMs + 4_500);
    expect(await lines(node)).toEqual([..."abcde"]);
    await restore(node, { atMs: beganMs + 8_999 });
    expect(await lines(node)).toEqual([..."abcdefghi"]);
    await restore(node, { atMs: node.world.clock.wallMs() });
    expect(await lines(node)).toEqual([..."abcdefghi"]);
  });

  it("what is not in its history is refused, and the error says what is", async () => {
    const node = await start();
    const beganMs = node.world.clock.wallMs();
    await adds(node, ..."abcdefghij");
    const times = [beganMs - 1, beganMs + 60_000, Number.MAX_SAFE_INTEGER];
    const refused = [{ seq: 0 }, { seq: 11 }, ...times.map((atMs) => ({ atMs }))];
    for (const at of refused) {
      const error: MoonportError = await restore(node, at).catch((thrown) => thrown);
      expect(error.code).toBe("not_in_history");
      expect(error.message).toMatch(/it is kept from seq 1 \(2026-01-01T00:00:00.000Z\) to seq 10$/);
    }
    expect(await lines(node)).toHaveLength(10);
    await expect(node.time.until(node.node.restore(node.identity("Note/b"), { at: { seq: 1 } }))).rejects.toMatchObject(
      {
        code: "object_not_found",
      },
    );
    await expect(restore(node, { seq: 2 }, {}).then(() => restore(node, { seq: 99 }))).rejects.toMatchObject({
      code: "not_in_history",
    });
  });

  it("without retention only what stands can be had, to the grain of its flights", async () => {
    const node = await start({ ...BUSY, ...NO_PAST });
    await adds(node, ..."abcdefghijk");
    const history = await node.time.until(node.node.history(node.identity("Note/a")));
    expect(history.eras).toHaveLength(1);
    await expect(restore(node, { seq: 1 })).rejects.toMatchObject({ code: "not_in_history" });
    const seq = (history.from?.seq ?? 0) + 1;
    expect((await restore(node, { seq })).fromSeq).toBe(seq);
    expect(await lines(node)).toHaveLength(seq);
  });

  it("event numbers go on, an event tells of it, and whoever lags behind hears of the gap", async () => {
    const node = await start();
    await adds(node, ..."abcdef");
    const told: Delivery[] = [];
    const sink = { deliver: (one: Delivery) => void told.push(one), room: () => undefined, isFull: () => false };
    const caller = { kind: "client" } as const;
    const object = node.identity("Note/a");
    const request = { object, from: { kind: "now" } as const, caller };
    await node.time.until(node.node.subscribe(request, sink));
    const { fromMs } = await restore(node, { seq: 2 });
    await adds(node, "g");
    await node.time.settle();
    const events = told.flatMap((one) => (one.kind === "event" ? [one.event] : []));
    expect(events.map(({ number, name, data }) => [number, name, data])).toEqual([
      [7, "restored", { seq: 2, atMs: fromMs }],
      [8, "added", { text: "g" }],
    ]);
    const late: Delivery[] = [];
    const after = { object, from: { kind: "after", number: 4 } as const, caller };
    await node.time.until(node.node.subscribe(after, { ...sink, deliver: (one) => void late.push(one) }));
    await node.time.settle();
    expect(late).toContainEqual({ kind: "gap", from: 5, first: 7 });
  });

  it("a destroyed object comes back, and was nothing while it was destroyed", async () => {
    const node = await start();
    await adds(node, ..."abcdef");
    await node.call("Note/a", "bye");
    const goneMs = node.world.clock.wallMs();
    await node.time.advance(5_000);
    await expect(restore(node, { atMs: goneMs + 1_000 })).rejects.toMatchObject({ code: "not_in_history" });
    await expect(restore(node, { seq: 7 })).rejects.toThrow(/to seq 7, where it was destroyed/);
    expect(await restore(node, { seq: 6 })).toMatchObject({ seq: 8, fromSeq: 6 });
    expect(await lines(node)).toEqual([..."abcdef"]);
    await expect(restore(node, { seq: 7 })).rejects.toMatchObject({ code: "not_in_history" });
    await expect(restore(node, { atMs: goneMs + 1_000 })).rejects.toMatchObject({ code: "not_in_history" });
    await adds(node, "g");
    await node.call("Note/a", "bye");
    await adds(node, "new", "life");
    await restore(node, { seq: 9 });
    expect(await lines(node)).toEqual([..."abcdefg"]);
    const { eras } = await node.time.until(node.node.history(node.identity("Note/a")));
    expect(eras.filter(({ destroyed }) => destroyed)).toHaveLength(2);
  });

  it("calls that come while it is replaced wait, and see what it became", async () => {
    const node = await start();
    await adds(node, ..."abcdef");
    const before = node.start("Note/a", "add", ["before"]);
    const restored = node.node.restore(node.identity("Note/a"), { at: { seq: 2 } });
    const read = node.start("Note/a", "all");
    await node.time.settle();
    const after = node.start("Note/a", "add", ["after"]);
    await node.time.until(Promise.all([before, restored, read, after]));
    expect(await lines(node)).toEqual(["a", "b", "after"]);
  });

  it("calls are repeated as if they had not been made after the state that is restored", async () => {
    const node = await start();
    const add = async (text: string): Promise<unknown> =>
      (await node.time.until(node.start("Note/a", "add", [text], { callId: `id-${text}` }))).seq;
    for (const text of ["a", "b", "c"]) await add(text);
    await restore(node, { seq: 2 });
    expect(await add("b")).toBe(2);
    expect(await add("c")).toBe(5);
    expect(await lines(node)).toEqual(["a", "b", "c"]);
  });

  it("timers of then are set again, unless they are to be left away", async () => {
    const node = await start();
    await adds(node, "a");
    await node.call("Note/a", "remind", 60_000);
    await adds(node, "b");
    const timers = async (target = "Note/a"): Promise<number> =>
      (await node.time.until(node.node.inspect(node.identity(target)))).timers;
    await restore(node, { seq: 1 });
    expect(await timers()).toBe(0);
    await restore(node, { seq: 3 });
    expect(await timers()).toBe(1);
    await restore(node, { seq: 3 }, { timers: "drop" });
    expect(await timers()).toBe(0);
    await fork(node, "kept", { at: { seq: 3 } });
    await fork(node, "dropped", { at: { seq: 3 }, timers: "drop" });
    expect([await timers("Note/kept"), await timers("Note/dropped")]).toEqual([1, 0]);
  });

  it("a fork begins another object, which none of the first one's calls, messages and events happened to", async () => {
    const node = await start();
    await node.time.until(node.start("Note/a", "add", ["a"], { callId: "id-a" }));
    await node.call("Note/a", "tell", "other");
    // The message leaves in a write of its own, whenever that is.
    const { seq = 0 } = await node.time.until(node.start("Note/a", "add", ["b"]));
    await adds(node, ..."cdef");
    expect(await fork(node, "b/c", { at: { seq } })).toMatchObject({
      object: "default/Note/b/c",
      seq: 1,
      fromSeq: seq,
    });
    expect(await lines(node, "Note/b/c")).toEqual(["a", "b"]);
    const seen = await node.time.until(node.node.inspect(node.identity("Note/b/c")));
    expect(seen).toMatchObject({ outbox: 0, events: { count: 0, last: 0 }, directoryRow: { row: { lines: 2 } } });
    await node.time.until(node.start("Note/b/c", "add", ["again"], { callId: "id-a" }));
    expect(await lines(node, "Note/b/c")).toEqual(["a", "b", "again"]);
    expect(await lines(node)).toEqual([..."abcdef"]);
    await fork(node, "now");
    expect(await lines(node, "Note/now")).toEqual([..."abcdef"]);
    for (const taken of ["a", "b/c"]) {
      await expect(fork(node, taken)).rejects.toMatchObject({ code: "object_exists" });
    }
    expect(await lines(node, "Note/b/c")).toEqual(["a", "b", "again"]);
  });

  it("a message that was on its way takes no later one along", async () => {
    const arrived = deferred();
    const taken = deferred();
    const Slow = {
      take: () => {
        arrived.resolve();
        return taken.promise;
      },
    };
    const node = await VirtualNode.start({ classes: { Note }, settings: BUSY, bucket: { atomic }, native: { Slow } });
    await adds(node, "a");
    await node.call("Note/a", "hand", "slow");
    await node.time.until(arrived.promise);
    // Both wait until it is replaced: the call, and behind that the word that the message has been taken.
    watchFaultPoints((point) => {
      if (point !== "restore.claimed") return;
      void node.start("Note/a", "tell", ["other"]);
      taken.resolve();
    });
    await restore(node, { seq: 1 });
    await node.time.advance(5_000);
    expect(await lines(node, "Note/other")).toEqual(["told"]);
  });

  it("an exported database opens by itself, and nothing of it stays on the node", async () => {
    const node = await start();
    await adds(node, ..."abcdef");
    const read = async ({ parts, bytes }: ExportedDatabase): Promise<Uint8Array> => {
      const found: Uint8Array[] = [];
      for await (const part of parts) found.push(part);
      const whole = Buffer.concat(found);
      expect(whole).toHaveLength(bytes);
      return whole;
    };
    const object = node.identity("Note/a");
    for (const [at, count] of [[{ seq: 4 }, 4] as const, [undefined, 6] as const]) {
      const exported = await node.time.until(node.node.exportDatabase(object, at));
      expect(exported.seq).toBe(count);
      const bytes = await node.time.until(read(exported));
      node.world.folder.replaceFile("out.db", bytes);
      const database = node.world.folder.openDatabase("out.db", { mustExist: true });
      expect(database.prepare("SELECT count(*) FROM lines").pluck().get()).toBe(count);
      expect(database.pragma("journal_mode", { simple: true })).toBe("delete");
      database.close();
    }
    expect(node.world.folder.list("restoring")).toEqual([]);
    const unread = await node.time.until(node.node.exportDatabase(object));
    await unread.parts[Symbol.asyncIterator]().return?.();
    expect(node.world.folder.list("restoring")).toEqual([]);
  });

  it("an object whose history is damaged comes back from before the damage", async () => {
    const node = await start();
    await adds(node, ..."abcdefghij");
    // As long as it stands in the owing list, whoever begins wakes it.
    await node.time.advance(120_000);
    node.crash();
    node.world.folder.removeTree("objects");
    const { past } = new ObjectKeys(node.identity("Note/a"));
    const { eras } = await (async () => {
      await node.open();
      return await node.time.until(node.node.history(node.identity("Note/a")));
    })();
    const { prefix } = new ObjectKeys(node.identity("Note/a"));
    const standing = eras.at(-1);
    for (const key of await node.keys(prefix)) {
      const isOfStanding = key.endsWith(`/${standing?.snapshotSeq}.snap`);
      if (isOfStanding && !key.startsWith(past)) node.bucket.corrupt(key, (bytes) => bytes.subarray(0, 100));
    }
    await expect(lines(node)).rejects.toMatchObject({ code: "object_corrupt" });
    const undamaged = eras.at(-2)?.toSeq ?? 0;
    expect(undamaged).toBeGreaterThan(3);
    await restore(node, { seq: undamaged });
    expect(await lines(node)).toEqual([..."abcdefghij"].slice(0, undamaged));
    await adds(node, "k");
    const { events } = await node.time.until(node.node.inspect(node.identity("Note/a")));
    expect(events.last).toBeGreaterThan(10);
  });

  it("the history of an object tells of all that is not damaged", async () => {
    const node = await start({ ...BUSY, SEGMENT_INLINE_BYTES_MAX: 0 });
    await adds(node, ..."abcdefghijklmnop");
    const object = node.identity("Note/a");
    const erasOf = async () => (await node.time.until(node.node.history(object))).eras;
    const [first, second, ...others] = await erasOf();
    const keys = new ObjectKeys(object);
    node.bucket.corrupt(keys.segment({ epoch: 1, fromSeq: 1, toSeq: 1 }));
    node.bucket.corrupt((await node.keys(keys.past))[1] ?? "");
    const { fromMs, ...untimed } = first ?? {};
    expect([fromMs, second]).not.toContain(undefined);
    expect(await erasOf()).toEqual([untimed, ...others]);
    expect((await restore(node, { seq: others[0]?.toSeq ?? 0 })).fromSeq).toBe(others[0]?.toSeq);
  });

  it("an object that was full then is full again, or its fork is", async () => {
    const node = await start({ ...BUSY, OBJECT_BYTES_MAX: 64 * 1024 });
    for (let seq = 1; (await node.call("Full/a", "fill", seq).catch(() => "full")) !== "full"; seq++);
    const object = node.identity("Full/a");
    const { seq } = await node.time.until(node.node.history(object));
    await node.call("Full/a", "empty");
    await node.time.until(node.node.fork(object, { at: { seq } }, "b"));
    await node.time.until(node.node.restore(object, { at: { seq } }));
    for (const target of ["Full/a", "Full/b"]) {
      await expect(node.call(target, "fill", seq + 1)).rejects.toMatchObject({ code: "object_full" });
      expect(await node.call(target, "count")).toBe(seq);
    }
  });

  // On another bucket the first write is the one that goes ahead of the manifest's.
  it.runIf(atomic)(
    "what may have landed before another node wrote on top of it is not known, and nothing that may be tried again",
    async () => {
      const node = await start({ ...BUSY, OBJECT_SHIP_BACKOFF_MS: 5_000, OBJECT_SHIP_BACKOFF_MAX_MS: 5_000 });
      await adds(node, ..."abc");
      const tried = new Promise<void>((resolve) => {
        let isClaimed = false;
        watchFaultPoints((point) => {
          isClaimed ||= point === "restore.claimed";
          if (point !== "leg.begins" || !isClaimed) return;
          watchFaultPoints(() => {});
          node.bucket.faults.failNext(1, { kind: "lost_answer" }, ["write"]);
          node.bucket.faults.failNext(1, { kind: "refused" }, ["get"]);
          resolve();
        });
      });
      const code = node.node.restore(node.identity("Note/a"), { at: { seq: 1 } }).then(
        () => "restored",
        (error: MoonportError) => error.code,
      );
      await node.time.until(tried);
      // Between its first try, which lands, and the next.
      await node.time.advance(20);
      const other = await node.sibling();
      await other.call("Note/a", "add", "on top");
      expect(await node.time.until(code)).toBe("outcome_unknown");
      expect(await lines(other)).toEqual(["a", "on top"]);
    },
  );

  it("what has landed is restored, though this node's disk cannot keep it", async () => {
    const node = await start();
    await adds(node, ..."abc");
    const { folder } = node.world;
    watchFaultPoints((point) => {
      if (point !== "restore.landed") return;
      folder.intercept = (operation) => {
        folder.intercept = undefined;
        throw MoonportError.of("storage_full", `${operation}: the disk is full`);
      };
    });
    expect(await restore(node, { seq: 1 })).toMatchObject({ fromSeq: 1, seq: 4 });
    expect(folder.intercept).toBeUndefined();
    expect(await lines(node)).toEqual(["a"]);
  });
});
