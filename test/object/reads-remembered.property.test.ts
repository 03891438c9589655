/**
 * Reading calls of a whole node answer what a run on the object as it stands gives, whatever was done to it: beside each asks a
 * writing method that runs the same code, and which nothing remembers.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PlainValue } from "../../src/values.js";
import "../support/property-seed.js";
import { VirtualNode } from "../support/virtual-node.js";

const RUNS = Number(process.env.MOONPORT_READS_RUNS ?? 30);

const Shelf = (label: string): string => `
local Shelf = class "Shelf"
Shelf.migrations = {
  "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT UNIQUE)",
  "CREATE TABLE gone (title TEXT)",
  "CREATE VIEW latest AS SELECT max(id) AS id FROM books",
  "CREATE TRIGGER goes AFTER DELETE ON books BEGIN INSERT INTO gone VALUES (old.title); END",
}
local see = {}
function see.titles()
  local found = array {}
  for row in state.sql.each("SELECT title FROM books ORDER BY id") do found[#found + 1] = row.title end
  return found
end
function see.latest() return state.sql.one("SELECT id FROM latest").id or 0 end
function see.gone() return state.sql.one("SELECT count(*) AS n FROM gone").n end
function see.note(name) return state.store.get(name) end
function see.notes(prefix) return state.store.list(prefix) end
function see.timers() return schedule.list() end
function see.label() return "${label}" end
function see.missing() return error { code = "not_here", message = "never" } end

for name, f in pairs(see) do Shelf.read[name] = function(self, ...) return f(...) end end
-- A writing method that writes nothing.
function Shelf:afresh(name, ...) return see[name](...) end

function Shelf:add(title) state.sql.exec("INSERT OR IGNORE INTO books (title) VALUES (?)", title) end
function Shelf:rename(from, to) return pcall(state.sql.exec, "UPDATE books SET title = ? WHERE title = ?", to, from) end
function Shelf:drop(title) state.sql.exec("DELETE FROM books WHERE title = ?", title) end
function Shelf:write_note(name, text) state.store.set(name, text) end
function Shelf:grow_note(name, text) state.store.append_volatile(name, text) end
function Shelf:drop_note(name) state.store.delete(name) end
function Shelf:plan(name, after) schedule.after(after, { name = name }):add("due " .. name) end
function Shelf:fail(title)
  state.sql.exec("INSERT OR IGNORE INTO books (title) VALUES (?)", title)
  state.store.set(title, "lost")
  error "not today"
end
function Shelf:bye() destroy() end
return Shelf
`;

const TITLES = ["a", "b", "c"];
const READS: readonly (readonly [string, ...PlainValue[]])[] = [
  ["titles"],
  ["latest"],
  ["gone"],
  ["timers"],
  ["label"],
  ["missing"],
  ["note", "a"],
  ["note", "b"],
  ["notes", ""],
  ["notes", "a"],
];

const title = fc.constantFrom(...TITLES);
const write: fc.Arbitrary<readonly [string, ...PlainValue[]]> = fc.oneof(
  fc.tuple(fc.constantFrom("add", "drop", "fail", "drop_note"), title),
  fc.tuple(fc.constantFrom("rename", "write_note", "grow_note"), title, title),
  fc.tuple(fc.constant("plan"), title, fc.constantFrom("1s", "20s")),
  fc.constant<readonly ["bye"]>(["bye"]),
);
type Step =
  | { readonly kind: "write"; readonly calls: readonly (readonly [string, ...PlainValue[]])[] }
  | { readonly kind: "read"; readonly reads: readonly number[] }
  | { readonly kind: "both"; readonly write: readonly [string, ...PlainValue[]]; readonly reads: readonly number[] }
  | { readonly kind: "wait" | "restart" | "crash" | "deploy" };

const reads = fc.array(fc.nat({ max: READS.length - 1 }), { minLength: 1, maxLength: 8 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("write" as const), calls: fc.array(write, { maxLength: 3 }) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("read" as const), reads }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("both" as const), write, reads }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("wait" as const, "restart" as const, "crash" as const, "deploy" as const),
    }),
  },
);

type Told = { readonly value: PlainValue } | { readonly code: string };

async function told(node: VirtualNode, method: string, args: readonly PlainValue[]): Promise<Told> {
  try {
    return { value: (await node.time.until(node.start("Shelf/s", method, args))).value };
  } catch (error) {
    return { code: (error as { code?: string }).code ?? String(error) };
  }
}

async function readAll(node: VirtualNode, which: readonly number[]): Promise<void> {
  for (const index of which) {
    const [method, ...args] = READS[index] as (typeof READS)[number];
    const fresh = await told(node, "afresh", [method, ...args]);
    for (let time = 0; time < 4; time++) expect(await told(node, method, args), method).toEqual(fresh);
  }
}

it("answers what a run gives, after whatever the object went through", { timeout: 300_000 }, async () => {
  let remembered = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const node = await VirtualNode.start({ classes: { Shelf: Shelf("0") } });
      let version = 0;
      for (const one of steps) {
        if (one.kind === "write") for (const [method, ...args] of one.calls) await told(node, method, args);
        else if (one.kind === "read") await readAll(node, one.reads);
        else if (one.kind === "both") {
          // Reads that arrive while a write is under way; what they answer is one of the two states.
          const [method, ...args] = one.write;
          const states = one.reads.map((index) => READS[index] as (typeof READS)[number]);
          const before: Told[] = [];
          for (const [name, ...of] of states) before.push(await told(node, "afresh", [name, ...of]));
          const writing = told(node, method, args);
          const between = await Promise.all(states.map(([name, ...of]) => told(node, name, of)));
          await writing;
          for (const [index, [name, ...of]] of states.entries()) {
            expect([before[index], await told(node, "afresh", [name, ...of])], name).toContainEqual(between[index]);
          }
          await readAll(node, one.reads);
        } else if (one.kind === "wait") await node.time.advance(5_000);
        else if (one.kind === "deploy") await node.reload({ Shelf: Shelf(`${++version}`) });
        else {
          remembered += node.node.counters.rememberedReads;
          if (one.kind === "crash") node.crash();
          else await node.stop();
          await node.open();
          await node.reload({ Shelf: Shelf(`${version}`) });
        }
      }
      remembered += node.node.counters.rememberedReads;
      await node.stop();
    }),
    { numRuns: RUNS },
  );
  expect(remembered).toBeGreaterThan(RUNS);
});

const Odd = `
local Odd = class "Odd"
Odd.migrations = { "CREATE TABLE t (a)", "CREATE VIEW dice AS SELECT abs(random() % 1000000) AS n" }
function Odd:begin() state.sql.exec("INSERT INTO t VALUES (1)") end
function Odd.read:now() return now() end
function Odd.read:os_time() return os.time() end
function Odd.read:os_clock() return os.clock() end
function Odd.read:os_date() return os.date() end
function Odd.read:random() return random() end
function Odd.read:math_random() return math.random(1000000) end
function Odd.read:uuid() return uuid() end
function Odd.read:who() return caller.id or "nobody" end
function Odd.read:log() log.info("asked") return 1 end
function Odd.read:print() print("asked") return 1 end
function Odd.read:sql_random() return state.sql.one("SELECT abs(random() % 1000000) AS n").n end
function Odd.read:sql_now() return state.sql.one("SELECT unixepoch('now') AS n").n end
function Odd.read:caught_sql() return (pcall(state.sql.one, "SELECT nothing FROM nowhere")) end
function Odd.read:explained() return #state.sql.all("EXPLAIN SELECT a FROM t") > 0 end
function Odd.read:caught() return pcall(function() error(caller.kind) end) end
function Odd.read:view() return state.sql.one("SELECT n FROM dice").n end
return Odd
`;
/** Without the view, whose mere presence is enough. */
const Plain = Odd.replace(/, "CREATE VIEW.*AS n"/, "").replaceAll("Odd", "Plain");

describe("is run each time", () => {
  it.each([...Plain.matchAll(/read:(\w+)/g)].map(([, name]) => name as string).filter((name) => name !== "view"))(
    "a method that depends on more than its object: %s",
    async (method) => {
      const node = await VirtualNode.start({ classes: { Plain } });
      await node.call("Plain/p", "begin");
      for (let time = 0; time < 6; time++) await node.call("Plain/p", method);
      expect(node.node.counters.rememberedReads).toBe(0);
    },
  );

  it("every method of a class with a view that draws lots", async () => {
    const node = await VirtualNode.start({ classes: { Odd } });
    await node.call("Odd/o", "begin");
    const drawn = new Set<PlainValue>();
    for (let time = 0; time < 6; time++) drawn.add(await node.call("Odd/o", "view"));
    expect(drawn.size).toBeGreaterThan(1);
    expect(node.node.counters.rememberedReads).toBe(0);
  });

  it("every method where nothing may be remembered", async () => {
    const node = await VirtualNode.start({ classes: { Shelf: Shelf("0") }, settings: { ANSWERS_BYTES: 0 } });
    await node.call("Shelf/s", "add", "a");
    for (let time = 0; time < 6; time++) expect(await node.call("Shelf/s", "titles")).toEqual(["a"]);
    expect(node.node.counters.rememberedReads).toBe(0);
  });
});

it("takes no memory for an object that is here no more", async () => {
  const node = await VirtualNode.start({ classes: { Shelf: Shelf("0") }, settings: { OBJECT_IDLE_MS: 1_000 } });
  for (const key of ["s", "t", "u"]) {
    await node.call(`Shelf/${key}`, "add", "a");
    for (let time = 0; time < 4; time++) await node.call(`Shelf/${key}`, "titles");
  }
  expect(node.node.gauges().answerBytes).toBeGreaterThan(0);
  await node.time.advance(60_000);
  expect(node.node.gauges()).toMatchObject({ residents: 0, answerBytes: 0 });
});
