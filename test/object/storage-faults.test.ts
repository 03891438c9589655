import fs from "node:fs";
import path from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { smallDisk } from "../support/small-disk.js";
import { VirtualNode } from "../support/virtual-node.js";

const Box = `
local Box = class "Box"
Box.migrations = {
  "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
  "CREATE VIRTUAL TABLE words USING fts5(text, content='')",
}
function Box:put(bytes) state.sql.exec("INSERT INTO t (a) VALUES (zeroblob(?))", bytes) return bytes end
function Box:gather(count)
  local words = {}
  for n = 1, count do words[n] = "word" .. n end
  state.sql.exec("INSERT INTO words (rowid, text) VALUES (1, ?)", table.concat(words, " "))
end
function Box:caught(bytes)
  local ok, fault = pcall(state.sql.exec, "INSERT INTO t (a) VALUES (zeroblob(?))", bytes)
  if not ok then state.store.set("after", true) end
  return "went on"
end
function Box:sneak(sql) pcall(state.sql.exec, sql) state.store.set("x", 1) return "went on" end
function Box.read:count() return state.sql.one("SELECT count(*) AS n FROM t").n end
return Box
`;

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );

describe("a full disk", () => {
  it("fails calls with storage_full, keeps what was acknowledged, and serves again when there is room", async (context) => {
    const disk = smallDisk(context, 2_000);
    const node = await VirtualNode.start({ classes: { Box }, root: disk.folder });
    const ballast = path.join(disk.folder, "ballast");
    fs.writeFileSync(ballast, Buffer.alloc(1_000_000));
    let told = 0;
    let code = "no error";
    for (; told < 100 && code === "no error"; ) {
      code = await codeOf(node.call("Box/a", "put", 50_000));
      if (code === "no error") told++;
    }
    expect(code).toBe("storage_full");
    expect(told).toBeGreaterThan(2);
    fs.rmSync(ballast);
    expect(await node.call("Box/a", "count")).toBe(told);
    expect(await node.call("Box/a", "put", 50_000)).toBe(50_000);
    expect(await node.call("Box/a", "count")).toBe(told + 1);
  });

  it("dooms a call that caught the error: the rest of it writes nothing", async (context) => {
    const disk = smallDisk(context, 2_000);
    const node = await VirtualNode.start({
      classes: { Box },
      root: disk.folder,
      settings: { OBJECT_WAL_BYTES_MAX: 16_384 },
    });
    await node.call("Box/a", "put", 1_000);
    const code = await codeOf(node.call("Box/a", "caught", 8_000_000));
    expect(["storage_full", "call_doomed"]).toContain(code);
    expect(await node.call("Box/a", "count")).toBe(1);
    expect(await node.time.until(node.node.storeGet(node.identity("Box/a"), "after"))).toBeUndefined();
  });

  it("tells the other calls of the same burst to try again, and none of them is kept", async (context) => {
    const disk = smallDisk(context, 2_000);
    const node = await VirtualNode.start({ classes: { Box }, root: disk.folder });
    await node.call("Box/a", "put", 1_000);
    const calls = [
      node.start("Box/a", "put", [1_000]),
      node.start("Box/a", "put", [8_000_000]),
      node.start("Box/a", "put", [1_000]),
    ];
    const settled = await node.time.until(Promise.allSettled(calls));
    const codes = settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code));
    expect(codes).toEqual(["storage_full", "storage_full", "object_restarting"]);
    expect(await node.call("Box/a", "count")).toBe(1);
  });
});

describe("a read-only folder", () => {
  it("stops the start with storage_readonly, and nothing once it can be written", async (context) => {
    const disk = smallDisk(context, 8_000);
    disk.setReadOnly(true);
    expect(await codeOf(VirtualNode.start({ classes: { Box }, root: disk.folder }))).toBe("storage_readonly");
    disk.setReadOnly(false);
    const node = await VirtualNode.start({ classes: { Box }, root: disk.folder });
    expect(await node.call("Box/a", "put", 1_000)).toBe(1_000);
  });

  it("that lets go of no file keeps what was destroyed, and what is too much, and the node serves on", async () => {
    const node = await VirtualNode.start({
      classes: { Box },
      settings: { OBJECT_IDLE_MS: 1_000, LOCAL_BYTES_MAX: 1_048_576 },
    });
    for (const name of ["a", "b", "c"]) await node.call(`Box/${name}`, "put", 700_000);
    node.world.folder.intercept = (operation) => {
      if (operation === "remove") throw MoonportError.of("storage_readonly", "the disk is read-only");
    };
    await node.time.until(node.node.destroy(node.identity("Box/a")));
    await node.time.advance(5_000);
    expect((await node.time.until(node.node.status())).openFiles).toBe(0);
    node.world.folder.intercept = undefined;
    expect(await node.call("Box/b", "count")).toBe(1);
    expect(await codeOf(node.call("Box/a", "put", 1_000))).toBe("no error");
    expect(await node.call("Box/a", "count")).toBe(1);
  });

  it("fails the objects whose files cannot be made, while those already open are served", async () => {
    const node = await VirtualNode.start({ classes: { Box } });
    await node.call("Box/a", "put", 1_000);
    node.world.folder.intercept = (operation, file) => {
      if (operation !== "openDatabase" && operation !== "ensureDirectory") return;
      throw MoonportError.of("storage_readonly", `${operation} ${file}: read-only file system`);
    };
    expect(await codeOf(node.call("Box/b", "put", 1_000))).toBe("storage_readonly");
    expect(await node.call("Box/a", "put", 1_000)).toBe(1_000);
    node.world.folder.intercept = undefined;
    expect(await node.call("Box/b", "put", 1_000)).toBe(1_000);
  });
});

describe("an object at its own bound", () => {
  it("refuses the write that would pass it with object_full, keeps the rest, and serves on", async () => {
    const node = await VirtualNode.start({ classes: { Box }, settings: { OBJECT_BYTES_MAX: 200_000 } });
    let told = 0;
    for (; told < 100 && (await codeOf(node.call("Box/a", "put", 20_000))) === "no error"; ) told++;
    expect(await codeOf(node.call("Box/a", "put", 20_000))).toBe("object_full");
    expect(await node.call("Box/a", "count")).toBe(told);
    expect(await node.call("Box/a", "put", 10)).toBe(10);
  });

  it("tells object_full of what COMMIT alone would write, and all of a burst that died of it", async () => {
    const node = await VirtualNode.start({ classes: { Box }, settings: { OBJECT_BYTES_MAX: 65_536 } });
    expect(await codeOf(node.call("Box/a", "gather", 9_000))).toBe("object_full");
    const calls = [node.start("Box/a", "gather", [9_000]), node.start("Box/a", "put", [10])];
    const settled = await node.time.until(Promise.allSettled(calls));
    expect(settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
      "object_full",
      "object_full",
    ]);
    expect(await node.call("Box/a", "put", 10)).toBe(10);
    expect(await node.call("Box/a", "count")).toBe(1);
  });
});

describe("a statement's own fault that looks like the file's", () => {
  const Index = `
local Index = class "Index"
Index.migrations = {
  "CREATE TABLE docs (id INTEGER PRIMARY KEY, text)",
  "CREATE VIRTUAL TABLE words USING fts5(text, content='docs', content_rowid='id')",
  "CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
  "INSERT INTO n VALUES (9223372036854775807, 'the last')",
}
Index.directory = { columns = { found = "text" } }
function Index.directory.row()
  local found = state.sql.one("SELECT text FROM words WHERE words MATCH 'gone'")
  return { found = found and found.text }
end
function Index:add(text)
  local _, id = state.sql.exec("INSERT INTO docs (text) VALUES (?)", text)
  state.sql.exec("INSERT INTO words (rowid, text) VALUES (?, ?)", id, text)
  return id
end
function Index:lose(text) state.sql.exec("DELETE FROM docs WHERE text = ?", text) end
function Index:search(word) return state.sql.one("SELECT text FROM words WHERE words MATCH ?", word).text end
function Index:number() state.sql.exec("INSERT INTO n (a) VALUES ('one more')") end
function Index.read:texts()
  local texts = array {}
  for row in state.sql.each("SELECT text FROM docs ORDER BY id") do texts[#texts + 1] = row.text end
  return texts
end
return Index`;

  it("fails its own call alone, and never the row that is derived of what others wrote", async () => {
    const node = await VirtualNode.start({ classes: { Index } });
    await node.call("Index/a", "add", "gone for good");
    await node.call("Index/a", "add", "kept");
    // From here on the row cannot be derived (O3).
    await node.call("Index/a", "lose", "gone for good");
    const calls = [
      node.start("Index/a", "add", ["one"]),
      node.start("Index/a", "search", ["gone"]),
      node.start("Index/a", "add", ["two"]),
    ];
    const settled = await node.time.until(Promise.allSettled(calls));
    expect(settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
      "ok",
      "sql_error",
      "ok",
    ]);
    expect(await node.call("Index/a", "texts")).toEqual(["kept", "one", "two"]);
    expect(node.node.counters.residenciesBroken).toBe(0);
    expect(await node.time.until(node.node.inspect(node.identity("Index/a")))).toMatchObject({
      directoryRow: { failure: expect.stringContaining("index") },
    });
  });

  it("is told as its own where SQLite has ended the transaction, and the others of the burst may try again", async () => {
    const node = await VirtualNode.start({ classes: { Index } });
    await node.call("Index/a", "add", "first");
    const calls = [node.start("Index/a", "add", ["one"]), node.start("Index/a", "number")];
    const settled = await node.time.until(Promise.allSettled(calls));
    expect(settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
      "object_restarting",
      "sql_error",
    ]);
    expect(await node.call("Index/a", "add", "two")).toBe(2);
  });
});

it("a savepoint that fails of what others have left to be written is no fault of the call that asked for it", async () => {
  const node = await VirtualNode.start({ classes: { Box } });
  await node.call("Box/a", "put", 1);
  const failing = vi.spyOn(ObjectDatabase.prototype, "savepoint").mockImplementationOnce(() => {
    throw MoonportError.of("sql_error", "an index does not fit what it indexes");
  });
  onTestFinished(() => failing.mockRestore());
  const calls = [node.start("Box/a", "put", [2]), node.start("Box/a", "put", [3])];
  const settled = await node.time.until(Promise.allSettled(calls));
  expect(settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
    "object_restarting",
    "object_restarting",
  ]);
  expect(await node.call("Box/a", "count")).toBe(1);
});

describe("SQL that would end the transaction", () => {
  it.each([
    "INSERT OR ROLLBACK INTO t (id) VALUES (1), (1)",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT x",
    "PRAGMA journal_mode = DELETE",
    "ATTACH ':memory:' AS m",
    "CREATE TEMP TABLE x (a)",
    "VACUUM",
    "DELETE FROM _mp_meta",
  ])("is refused, and the call that caught the refusal goes on unharmed: %s", async (sql) => {
    const node = await VirtualNode.start({ classes: { Box } });
    await node.call("Box/a", "put", 10);
    expect(await node.call("Box/a", "sneak", sql)).toBe("went on");
    expect(await node.call("Box/a", "count")).toBe(1);
    expect(await node.time.until(node.node.storeGet(node.identity("Box/a"), "x"))).toBe(1);
  });
});
