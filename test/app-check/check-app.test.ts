import { describe, expect, it } from "vitest";
import { type AppReport, checkApp } from "../../src/app-check/check-app.js";
import type { TestSource } from "../../src/lua/contract.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { appOf, VirtualNode } from "../support/virtual-node.js";

type Texts = Readonly<Record<string, string>>;
interface App {
  readonly classes?: Texts;
  readonly units?: Texts;
  readonly modules?: Texts;
  readonly tests?: Texts;
  readonly native?: readonly string[];
}

interface Objects {
  readonly node: VirtualNode;
  readonly objectsMax?: number;
}

async function report(app: App, objects?: Objects): Promise<AppReport> {
  const tests = Object.entries(app.tests ?? {}).map(([name, text]): TestSource => {
    return { kind: "test", app: "default", name, file: `tests/${name}.lua`, text };
  });
  const checking = checkApp({
    app: appOf(app.classes ?? {}, app.units, app.modules),
    tests,
    native: app.native ?? [],
    settings: resolveSettings({}),
    world: realWorld(temporaryFolder(), silentLogger),
    objectsMax: objects?.objectsMax ?? 100,
    ...(objects !== undefined && { bucket: objects.node.bucket }),
  });
  return objects === undefined ? checking : objects.node.time.until(checking);
}

async function found(app: App): Promise<string[]> {
  const { findings } = await report(app);
  return findings.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`);
}

const item = (top: string, methods = ""): string => `local Item = class "Item"\n${top}\n${methods}\nreturn Item\n`;

describe("a check", () => {
  it("says what keeps each file from loading, once", async () => {
    const messages = await found({
      classes: {
        Bad: "local Bad = class\n  oops(",
        Item: item("Item.directory = { columns = { a = 'txt' }, row = print }"),
        Top: "local x = nil\nx.y = 1",
        Uses: 'local w = require("word")\nreturn w',
      },
      units: { none: "return 7" },
      modules: { word: "return {\n" },
      tests: { t: "test(" },
    });
    expect(messages.map((one) => one.replace(/(:\d+:\d+: .{28}).*/, "$1"))).toEqual([
      expect.stringMatching(/^classes\/Bad.lua:\d:1: /),
      "classes/Item.lua:2:1: directory.columns.a: the typ",
      "classes/Top.lua:2:1: attempt to index a nil value",
      expect.stringMatching(/^lib\/word.lua:\d:1: /),
      expect.stringMatching(/^tests\/t.lua:1:1: unexpected symbol near/),
      "units/none.lua:1:1: does not return a function (",
    ]);
  });

  it("lints what loads, by the methods that are there", async () => {
    const messages = await found({
      classes: { Item: item("", "function Item:put(x) stat.store.set('x', x) end") },
      units: { ask: 'return function() return Item("a"):pot(1), Mailer("x"):send() end' },
      modules: { help: 'return function() return Item("a"):pt(1) end' },
      tests: { t: 'test("t", function() Item("a"):putt(1) end)' },
      native: ["Mailer"],
    });
    expect(messages).toEqual([
      "classes/Item.lua:3:22: no global is called 'stat'; did you mean 'state'?",
      "lib/help.lua:1:36: Item has no method 'pt'; did you mean 'put'?",
      "tests/t.lua:1:32: Item has no method 'putt'; did you mean 'put'?",
      "units/ask.lua:1:36: Item has no method 'pot'; did you mean 'put'?",
    ]);
  });

  it("says once what both its run and its text show", async () => {
    expect(await found({ modules: { a: "return oops" } })).toEqual(["lib/a.lua:1:1: no global is called 'oops'"]);
  });

  it("runs migrations on an empty database, and names the one that fails where it stands", async () => {
    const top = "Item.migrations = {\n  [[CREATE TABLE t (a)]],\n  [[CREATE TABLE u (a)]], [[CREATE TABLE t (b)]],\n}";
    expect(await found({ classes: { Item: item(top) } })).toEqual([
      "classes/Item.lua:4:27: migration 3 of Item failed: table t already exists",
    ]);
    expect(await found({ classes: { Item: item('Item.migrations = { "PRAGMA user_version = 1" }') } })).toEqual([
      expect.stringMatching(/^classes\/Item.lua:2:21: migration 1 of Item failed: .*PRAGMA/),
    ]);
  });

  it("prepares the SQL that stands in methods on what the migrations make", async () => {
    const methods = `
function Item:put(x)
  state.sql.exec("INSERT INTO t (b) VALUES (?)", x)
  state.sql.exec [[SELECT 1]]
  state.sql.exec("DELETE FROM " .. "anything")
  state.sql.one("DELETE FROM t")
  return state.sql.all("SELECT a FROM t WHERE a = :a", { a = x })
end
function Item.read:get()
  state.sql.exec("DELETE FROM t")
  for row in state.sql.each("SELECT a FROM t") do return row.a end
end`;
    const messages = await found({ classes: { Item: item('Item.migrations = { "CREATE TABLE t (a)" }', methods) } });
    expect(messages).toEqual([
      expect.stringMatching(/^classes\/Item.lua:5:18: .*no column named b/),
      expect.stringMatching(/^classes\/Item.lua:6:18: the statement only reads; exec would drop its rows \(use one/),
      expect.stringMatching(/^classes\/Item.lua:8:17: the statement returns no rows/),
      expect.stringMatching(/^classes\/Item.lua:12:18: .*read/),
    ]);
  });

  it("counts files and finds nothing in a sound app", async () => {
    const sound = await report({ classes: { Item: item("") }, modules: { a: "return 1" } });
    expect(sound).toEqual({ findings: [], files: 2 });
  });
});

describe("a dry run", () => {
  const classes = (...migrations: string[]): Texts => ({
    Item: item(
      `Item.migrations = { ${migrations.map((sql) => `"${sql}"`).join(", ")} }`,
      "function Item:put(x) state.sql.exec('INSERT INTO t VALUES (?)', x) end\nfunction Item:stop() destroy() end",
    ),
  });
  const T = "CREATE TABLE t (a)";
  const UNIQUE = "CREATE UNIQUE INDEX one ON t (a)";

  async function filled(...keys: string[]): Promise<VirtualNode> {
    const node = await VirtualNode.start({ classes: classes(T) });
    for (const key of keys) await node.call(`Item/${key}`, "put", 1);
    return node;
  }

  it("tries what objects lack on copies, while their node runs, and names those on which it fails", async () => {
    const node = await filled("a", "b/c", "dé");
    await node.call("Item/a", "put", 1);
    await node.call("Item/gone", "put", 1);
    await node.call("Item/gone", "stop");
    const result = await report({ classes: classes(T, UNIQUE) }, { node });
    expect(result.objects).toEqual({ tried: 3, migrated: 2, more: [] });
    expect(result.findings.map(({ file, line, message }) => `${file}:${line} ${message}`)).toEqual([
      "classes/Item.lua:2 default/Item/a: migration 2 of Item failed: UNIQUE constraint failed: t.a",
    ]);
    // Nothing of it happened to the objects themselves, and their node still owns them.
    await node.call("Item/a", "put", 1);
    expect(await node.time.until(node.node.inspect(node.identity("Item/b/c")))).toMatchObject({
      migrationsApplied: 1,
      epoch: 1,
    });
  });

  it("says which objects have another text applied, and passes an older release", async () => {
    const node = await filled("a");
    const changed = await report({ classes: classes("CREATE TABLE t (a, b)") }, { node });
    expect(changed.findings.slice(0, 1)).toMatchObject([
      { message: expect.stringMatching(/^default\/Item\/a: migration 1 of Item .* is not the one/) },
    ]);
    const older = await report({ classes: classes() }, { node });
    expect(older.objects).toEqual({ tried: 1, migrated: 0, more: [] });
  });

  it("is bounded, and says so", async () => {
    const node = await filled("a", "b", "c", "d");
    const result = await report({ classes: classes(T, UNIQUE) }, { node, objectsMax: 3 });
    expect(result.objects).toEqual({ tried: 3, migrated: 3, more: ["Item"] });
    expect((await report({ classes: classes(T) }, { node, objectsMax: 4 })).objects?.more).toEqual([]);
  });

  it("tries nothing where a class's migrations fail on an empty database", async () => {
    const node = await filled("a");
    const result = await report({ classes: classes(T, T) }, { node });
    expect(result.findings).toHaveLength(1);
    expect(result.objects).toMatchObject({ tried: 0 });
  });
});
