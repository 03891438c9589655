/** What fails once a transaction is committed: nobody may be told that nothing of it was kept. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { OpenObject } from "../../src/object/open-object.js";
import { KernelStatement } from "../../src/store/kernel-statement.js";
import type { PlainValue } from "../../src/values.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { VirtualNode } from "../support/virtual-node.js";

const Desk = `
local Desk = class "Desk"
Desk.migrations = { "CREATE TABLE t (a)" }
Desk.directory = { columns = { n = "integer" } }
function Desk.directory.row() return { n = state.sql.one("SELECT count(*) AS n FROM t").n } end
local function add(what) state.sql.exec("INSERT INTO t VALUES (?)", what) end
function Desk:add(what) add(what) return what end
function Desk:plan(what) schedule.after(60):_late(what) add(what) end
function Desk:post(what) send(Desk("other"), { delay = "1h" }):add(what) add(what) end
function Desk:tell(what) emit("told", what) add(what) end
function Desk:_late(what) add("late " .. what) end
function Desk:fail() error "no" end
function Desk.read:all()
  local all = array {}
  for row in state.sql.each("SELECT a FROM t ORDER BY rowid") do all[#all + 1] = row.a end
  return all
end
return Desk`;

/** From COMMIT to the end of the turn in which it was told, each read of the file fails. */
let reads: number;
beforeEach(() => {
  reads = 0;
  watchFaultPoints((point, object) => {
    if (point !== "burst.committed" || !object.includes("Desk/a")) return;
    const failing = vi.spyOn(KernelStatement.prototype, "get").mockImplementation(() => {
      reads++;
      throw new Error("disk I/O error");
    });
    setImmediate(() => failing.mockRestore());
  });
});
afterEach(() => {
  watchFaultPoints(() => {});
  vi.restoreAllMocks();
});

const start = (): Promise<VirtualNode> => VirtualNode.start({ classes: { Desk } });

it.each([
  ["add", ["first"], ["first"]],
  ["plan", ["first"], ["first", "late first"]],
  ["post", ["first"], ["first"]],
  ["tell", ["first"], ["first"]],
])("a call of %s reads nothing between its COMMIT and being told", async (method, args: PlainValue[], all) => {
  const node = await start();
  await node.call("Desk/a", method, ...args);
  expect(reads).toBe(0);
  // The timer's own transaction included.
  await node.time.advance(120_000);
  expect(reads).toBe(0);
  expect(await node.call("Desk/a", "all")).toEqual(all);
  expect(node.node.counters.residenciesBroken).toBe(0);
});

it("what fails then leaves the outcome unknown, and is kept", async () => {
  const node = await start();
  // Of an object that has just woken the row is told again, after COMMIT.
  vi.spyOn(OpenObject.prototype, "tellRow").mockImplementationOnce(() => {
    throw new Error("disk I/O error");
  });
  const calls = [node.start("Desk/a", "plan", ["first"]), node.start("Desk/a", "fail")];
  const settled = await node.time.until(Promise.allSettled(calls));
  expect(settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
    "outcome_unknown",
    "object_restarting",
  ]);
  expect(node.node.counters.residenciesBroken).toBe(1);
  await node.time.advance(120_000);
  expect(await node.call("Desk/a", "all")).toEqual(["first", "late first"]);
});
