/** Timers whose methods take the transaction along, and what is due with them. */
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import "../support/property-seed.js";
import { smallDisk } from "../support/small-disk.js";
import { VirtualNode } from "../support/virtual-node.js";

const WORK = `
local Work = class "Work"
Work.migrations = {
  "CREATE TABLE t (a)",
  "CREATE VIRTUAL TABLE words USING fts5(text, content='')",
}
local how = {}
function how.fine() end
function how.throws() error "not today" end
function how.fills() state.sql.exec("INSERT INTO t VALUES (zeroblob(1000000))") end
function how.catches() pcall(how.fills) end
-- An index gathers words in memory: what they take is asked for with a later savepoint, or at COMMIT.
function how.gathers()
  local words = {}
  for n = 1, 9000 do words[n] = "word" .. n end
  state.sql.exec("INSERT INTO words (rowid, text) VALUES (1, ?)", table.concat(words, " "))
end
function Work:set(kinds)
  for n, kind in ipairs(kinds) do schedule.after(1, { name = kind .. " " .. math.floor(n) }):_run(kind, math.floor(n)) end
end
function Work:put(bytes) state.sql.exec("INSERT INTO t VALUES (zeroblob(?))", bytes) end
function Work:clear() state.sql.exec("DELETE FROM t") end
function Work:_run(kind, n)
  if kind == "asks" then Work("b"):ran() kind = "fills" end
  local ran = state.store.get("ran") or {}
  ran[#ran + 1] = n
  state.store.set("ran", ran)
  how[kind]()
end
function Work.read:ran() return state.store.get("ran") or array {} end
return Work`;

const SETTINGS = { OBJECT_BYTES_MAX: 65_536, DELAY_ATTEMPTS_MAX: 2 };

function start(settings: Readonly<Record<string, number>> = {}, root?: string): Promise<VirtualNode> {
  return VirtualNode.start({
    classes: { Work: WORK },
    settings: { ...SETTINGS, ...settings },
    ...(root !== undefined && { root }),
  });
}

/** The error under which each timer that is still set was noted as failed, by what it does. */
async function failures(virtual: VirtualNode): Promise<Record<string, string[]>> {
  const { timers } = await virtual.time.until(virtual.node.timers(virtual.identity("Work/a")));
  const told: Record<string, string[]> = {};
  for (const { name = "", error } of timers) {
    const [kind = ""] = name.split(" ");
    told[kind] = [...(told[kind] ?? []), error?.code ?? "none"];
  }
  return told;
}

const CODES: Readonly<Record<string, string>> = {
  throws: "method_error",
  fills: "object_full",
  catches: "call_doomed",
  gathers: "object_full",
};

it("what is due with timers that end the transaction runs once, and each of those is noted as failed", async () => {
  const kinds = fc.array(fc.constantFrom("fine", "throws", "fills", "catches", "gathers"), {
    minLength: 1,
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(kinds, async (set) => {
      const virtual = await start({ DELAY_BACKOFF_MS: 60_000, DELAY_BACKOFF_MAX_MS: 60_000 });
      await virtual.call("Work/a", "set", set);
      // Nothing of it waits for a second try.
      await virtual.time.advance(10_000);
      const fine = set.flatMap((kind, index) => (kind === "fine" ? [index + 1] : []));
      expect([...((await virtual.call("Work/a", "ran")) as number[])].sort()).toEqual(fine);
      const told: Record<string, string[]> = {};
      for (const kind of set) {
        if (kind !== "fine") told[kind] = [...(told[kind] ?? []), CODES[kind] as string];
      }
      expect(await failures(virtual)).toEqual(told);
      // In one transaction each that took it along, and once more to find out which it was.
      expect(virtual.node.counters.residenciesBroken).toBeLessThanOrEqual(set.length + 1);
      await virtual.stop();
      expect(virtual.time.pendingTimers).toBe(0);
    }),
    { numRuns: Number(process.env.MOONPORT_TIMER_RUNS ?? 10), endOnFailure: true },
  );
}, 60_000);

it("one that asked another object before, and went on in a transaction of its own, is noted as well", async () => {
  const virtual = await start();
  await virtual.call("Work/b", "put", 10);
  await virtual.call("Work/a", "set", ["fine", "asks", "asks", "fine"]);
  await virtual.time.advance(60_000);
  expect(await virtual.call("Work/a", "ran")).toEqual([1, 4]);
  expect(await failures(virtual)).toEqual({ asks: ["object_full", "object_full"] });
});

it("a timer that ends its transaction is given up as any other, and no residency breaks for it any more", async () => {
  const virtual = await start();
  await virtual.call("Work/a", "set", ["catches", "fine"]);
  await virtual.time.advance(3_600_000);
  const { timers } = await virtual.time.until(virtual.node.timers(virtual.identity("Work/a")));
  expect(timers).toMatchObject([{ name: "catches 1", state: "dead", error: { code: "call_doomed" } }]);
  expect(virtual.node.counters.residenciesBroken).toBe(SETTINGS.DELAY_ATTEMPTS_MAX);
});

it("one that ended its transaction and was moved since has not failed", async () => {
  const virtual = await start();
  const move = WORK.replace("return Work", "function Work:move(name, s) return schedule.move(name, s) end return Work");
  await virtual.reload({ Work: move });
  await virtual.call("Work/a", "set", ["catches", "fine"]);
  while (virtual.node.counters.residenciesBroken === 0) await virtual.time.advance(10);
  await virtual.call("Work/a", "move", "catches 1", 3_600);
  await virtual.time.advance(60_000);
  expect(await virtual.call("Work/a", "ran")).toEqual([2]);
  expect(await failures(virtual)).toEqual({ catches: ["none"] });
});

it("an object that is full to its last page has room for the note that a timer failed of that", async () => {
  const virtual = await start();
  await virtual.call("Work/a", "set", ["fills", "fills", "throws"]);
  for (let bytes = 20_000; bytes > 10; ) {
    await virtual.call("Work/a", "put", bytes).catch(() => {
      bytes /= 2;
    });
  }
  await virtual.time.advance(60_000);
  expect(await failures(virtual)).toEqual({ fills: ["object_full", "object_full"], throws: [expect.any(String)] });
  await virtual.call("Work/a", "clear");
  await virtual.call("Work/a", "put", 1_000);
});

it("timers of an object on a full disk are tried again with growing pauses, and run when there is room", async (context) => {
  const disk = smallDisk(context, 2_000);
  const virtual = await start({ OBJECT_BYTES_MAX: 100_000_000 }, disk.folder);
  await virtual.call("Work/a", "set", ["fine"]);
  await virtual.time.advance(500);
  const ballast = path.join(disk.folder, "ballast");
  fillDisk(ballast);
  await virtual.time.advance(1_200_000);
  expect(virtual.node.counters.residenciesBroken).toBeLessThan(60);
  fs.rmSync(ballast);
  await virtual.time.advance(600_000);
  expect(await virtual.call("Work/a", "ran")).toEqual([1]);
});

function fillDisk(file: string): void {
  const descriptor = fs.openSync(file, "w");
  try {
    for (;;) fs.writeSync(descriptor, new Uint8Array(4_096));
  } catch {
    fs.closeSync(descriptor);
  }
}
