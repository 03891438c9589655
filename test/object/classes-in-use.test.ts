import { describe, expect, it } from "vitest";
import { subscribe } from "../realtime/support.js";
import { VirtualNode } from "../support/virtual-node.js";

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );

const basic = (migrations: readonly string[], more = ""): string => `
local Item = class "Item"
Item.migrations = { ${migrations.map((sql) => `[[${sql}]]`).join(", ")} }
function Item:put(x) state.store.set("x", x) return x end
function Item:columns() return #state.sql.all("SELECT name FROM pragma_table_info('t')") end
function Item.read:x() return state.store.get("x") end
function Item.read:rows() return #state.sql.all("SELECT * FROM t") end
${more}
return Item
`;

const T = "CREATE TABLE t (a)";

describe("migrations", () => {
  it("run once each, in the first transaction, and again for what a new version adds", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([T]) } });
    await node.call("Item/a", "put", 1);
    await node.reload({ Item: basic([T, "INSERT INTO t VALUES (1)"]) });
    expect(await node.call("Item/a", "rows")).toBe(1);
    expect(await node.call("Item/a", "rows")).toBe(1);
    expect(await node.time.until(node.node.inspect(node.identity("Item/a")))).toMatchObject({ migrationsApplied: 2 });
    expect(await node.call("Item/a", "x")).toBe(1);
  });

  it("that fail leave the object as it was, harm no other, and say which one failed", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([T]) } });
    await node.call("Item/a", "put", 1);
    await node.reload({ Item: basic([T, "INSERT INTO nowhere VALUES (1)"]) });
    await expect(node.call("Item/a", "put", 2)).rejects.toMatchObject({
      code: "migration_failed",
      details: { migration: 2 },
    });
    await node.reload({ Item: basic([T]) });
    expect(await node.call("Item/a", "x")).toBe(1);
  });

  it("that were changed after they ran are refused by name", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([T, "CREATE TABLE u (a)"]) } });
    await node.call("Item/a", "put", 1);
    await node.reload({ Item: basic(["CREATE TABLE t (a, b)", "CREATE TABLE u (a)"]) });
    await expect(node.call("Item/a", "put", 2)).rejects.toMatchObject({ code: "migration_mismatch" });
  });

  it("may be ahead of an older release, which serves the object as it is, awake or not", async () => {
    const U = "CREATE TABLE u (a)";
    const node = await VirtualNode.start({ classes: { Item: basic([T, U]) }, settings: { OBJECT_IDLE_MS: 1_000 } });
    await node.call("Item/a", "put", 1);
    await node.reload({ Item: basic([T]) });
    expect(await node.call("Item/a", "put", 2)).toBe(2);
    await node.time.advance(3_000);
    expect(await node.call("Item/a", "x")).toBe(2);
    expect(await node.time.until(node.node.inspect(node.identity("Item/a")))).toMatchObject({ migrationsApplied: 2 });
    await node.reload({ Item: basic([T, U, "INSERT INTO t VALUES (1)"]) });
    expect(await node.call("Item/a", "rows")).toBe(1);
  });
});

describe("hooks", () => {
  const hooks = `
function Item:on_create() state.store.set("created", (state.store.get("created") or 0) + 1) emit("created", self.key) end
function Item:on_wake() state.store.set("woke", (state.store.get("woke") or 0) + 1) end
function Item.read:hooks() return { created = state.store.get("created"), woke = state.store.get("woke") } end
`;

  it("run at the first call ever and at each waking", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([], hooks) }, settings: { OBJECT_IDLE_MS: 1_000 } });
    await node.call("Item/a", "put", 1);
    await node.time.advance(3_000);
    await node.call("Item/a", "put", 2);
    expect(await node.call("Item/a", "hooks")).toEqual({ created: 1, woke: 2 });
    expect(node.observations.filter((one) => one.kind === "event")).toMatchObject([{ name: "created", data: "a" }]);
  });

  it("that throw fail the call that woke the object and leave it unwritten", async () => {
    const broken = `function Item:on_create() error { code = "not_today", message = "no" } end`;
    const node = await VirtualNode.start({ classes: { Item: basic([], broken) } });
    await expect(node.call("Item/a", "put", 1)).rejects.toMatchObject({ code: "hook_failed" });
    expect(await node.time.until(node.node.inspect(node.identity("Item/a")))).toMatchObject({ state: "unwritten" });
  });

  it("cannot end the object that they wake, and say so", async () => {
    const ending = "function Item:on_wake() destroy() end";
    const node = await VirtualNode.start({ classes: { Item: basic([], ending) } });
    await expect(node.call("Item/a", "put", 1)).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining("destroy() in a hook"),
    });
  });

  it("run again on an object whose file was closed only when it left residency", async () => {
    const node = await VirtualNode.start({
      classes: { Item: basic([], hooks) },
      settings: { OBJECT_FILES_OPEN_MAX: 1 },
    });
    for (let round = 0; round < 3; round++) {
      await node.call("Item/a", "put", round);
      await node.call("Item/b", "put", round);
    }
    expect(await node.call("Item/a", "hooks")).toEqual({ created: 1, woke: 1 });
  });
});

describe("the directory row", () => {
  const directory = `
Item.directory = { columns = { x = "integer", kind = "text" }, index = { "x" },
  row = function(self)
    local x = state.store.get("x")
    if x == "throw" then error("cannot") end
    if x == "loop" then while true do end end
    if x == "type" then return { x = "text" } end
    if x == "column" then return { y = 1 } end
    if x == "write" then state.store.set("z", 1) end
    if x == "flaky" and random() >= 0 and not state.store.get("calm") then error("flaky") end
    return { x = tonumber(x) or 0, kind = "item" }
  end }
function Item:calm() state.store.set("calm", true) end
`;
  const settings = { METHOD_INSTRUCTIONS_MAX: 1_000_000 };
  const start = (): Promise<VirtualNode> => VirtualNode.start({ classes: { Item: basic([], directory) }, settings });
  const row = async (node: VirtualNode) =>
    (await node.time.until(node.node.inspect(node.identity("Item/a")))).directoryRow;

  it("is derived in the transaction it describes, with its seq", async () => {
    const node = await start();
    await node.call("Item/a", "put", 5);
    expect(await row(node)).toEqual({ seq: 1, row: { x: 5, kind: "item" } });
  });

  it.each(["throw", "loop", "type", "column", "write"])(
    "keeps the last good one when the derivation fails (%s), and never the write",
    async (how) => {
      const node = await start();
      await node.call("Item/a", "put", 5);
      expect(await node.call("Item/a", "put", how)).toBe(how);
      expect(await node.call("Item/a", "x")).toBe(how);
      expect(await row(node)).toMatchObject({
        seq: 1,
        row: { x: 5 },
        failure: expect.any(String),
        staleSinceMs: expect.any(Number),
      });
    },
  );

  it("loses its failure mark with the next derivation that succeeds", async () => {
    const node = await start();
    await node.call("Item/a", "put", "throw");
    await node.call("Item/a", "put", 7);
    expect(await row(node)).toEqual({ seq: 2, row: { x: 7, kind: "item" } });
  });

  it("is derived once more by itself after a failure", async () => {
    const node = await start();
    await node.call("Item/a", "put", 1);
    await node.call("Item/a", "put", "throw");
    // What made it fail is gone by the time it is tried again: here, a class that was corrected.
    await node.reload({ Item: basic([], directory.replace('error("cannot")', "x = 9")) });
    await node.time.advance(2_000);
    expect(await row(node)).toMatchObject({ row: { x: 9 } });
    expect((await row(node))?.failure).toBeUndefined();
  });
});

describe("loading", () => {
  it("serves the classes that load and names file, line and fault of those that do not", async () => {
    const node = await VirtualNode.start({
      classes: { Item: basic([]), Broken: "local Broken = class 'Broken'\nfunction Broken:x(\nreturn Broken" },
      onClassError: "report",
    });
    expect(await node.call("Item/a", "put", 1)).toBe(1);
    await expect(node.call("Broken/a", "x")).rejects.toMatchObject({
      code: "class_invalid",
      details: { line: expect.any(Number) },
    });
    expect(node.observations.filter((one) => one.kind === "class_failed")).toMatchObject([
      { file: "classes/Broken.lua" },
    ]);
  });

  it("refuses to start with a class that does not load, and gives folder and bucket back", async () => {
    const broken = { Item: basic([]), Broken: "nonsense" };
    await expect(VirtualNode.start({ classes: broken })).rejects.toMatchObject({ code: "class_invalid" });
  });

  it("keeps the last good version of a class whose new text does not load", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([]) }, onClassError: "report" });
    await node.call("Item/a", "put", 1);
    await node.reload({ Item: "nonsense" });
    expect(await node.call("Item/a", "x")).toBe(1);
  });

  it("tells that a class loads again, also where it is what it was before", async () => {
    const node = await VirtualNode.start({ classes: { Item: basic([]) }, onClassError: "report" });
    const told = (): string[] => node.observations.splice(0).map(({ kind }) => kind);
    expect(told()).toContain("class_loaded");
    await node.reload({ Item: "nonsense" });
    await node.reload({ Item: "nonsense" });
    expect(told()).toEqual(["class_failed", "class_failed"]);
    await node.reload({ Item: basic([]) });
    await node.reload({ Item: basic([]) });
    expect(told()).toEqual(["class_loaded"]);
  });

  it("takes new code over between calls, while residents, subscriptions and running calls stay", async () => {
    const told = (text: string): string => `function Item:tell() emit("told", "${text}") return "${text}" end
      function Item:ask() return Item("other"):tell(), self:_mine() end
      function Item:_mine() return "${text}" end`;
    const node = await VirtualNode.start({ classes: { Item: basic([], told("old")) }, bucket: { latencyMs: 50 } });
    const { sink } = await subscribe(node, "Item/a");
    await node.call("Item/a", "tell");
    const asking = node.start("Item/a", "ask");
    await node.time.settle();
    const before = await node.node.status();
    await node.reload({ Item: basic([], told("new")) });
    expect((await node.time.until(asking)).value).toEqual(["new", "old"]);
    expect(await node.call("Item/a", "tell")).toBe("new");
    expect(sink.events.map(({ data }) => data)).toEqual(["old", "new"]);
    const { residents, subscriptions, session } = await node.node.status();
    expect({ residents, subscriptions, session }).toEqual({
      residents: before.residents,
      subscriptions: 1,
      session: before.session,
    });
  });

  it("answers class_not_found for a class that a reload removed", async () => {
    const node = await VirtualNode.start({
      classes: { Item: basic([]), Other: basic([]).replaceAll("Item", "Other") },
    });
    await node.call("Other/a", "put", 1);
    await node.reload({ Item: basic([]) });
    expect(await codeOf(node.call("Other/a", "put", 2))).toBe("class_not_found");
  });
});
