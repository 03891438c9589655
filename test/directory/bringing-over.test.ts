import { expect, it } from "vitest";
import { type ApplyRequest, shardNumberOf, shardObject } from "../../src/directory/shard-contract.js";
import type { DirectoryStatus } from "../../src/node-api.js";
import type { Settings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { appOf, VirtualNode } from "../support/virtual-node.js";
import { find, lotClass, rowsOf } from "./lots.js";

const WIDER = lotClass(
  'columns = { top = "integer", double = "integer" }, index = { "double" }',
  'local top = state.store.get("top") return { top = top, double = top and 2 * top }',
);

const status = (virtual: VirtualNode): Promise<DirectoryStatus> =>
  virtual.time.until(virtual.node.directory("default", "Lot"));

async function withLots(count: number, classText = lotClass(), settings: Partial<Settings> = {}): Promise<VirtualNode> {
  const all = { OBJECT_IDLE_MS: 200, ...settings };
  const virtual = await VirtualNode.start({ classes: { Lot: classText }, settings: all });
  await virtual.time.advance(10);
  for (let n = 0; n < count; n++) await virtual.call(`Lot/k${n}`, "put", n, "open");
  await virtual.time.advance(1_000);
  await virtual.time.until(virtual.node.rowsTold());
  return virtual;
}

it("a class that came up without objects needs no walk", async () => {
  const virtual = await withLots(3);
  expect(await status(virtual)).toMatchObject({ rows: 3, current: 3, complete: true });
  expect((await status(virtual)).walk).toBeUndefined();
  await virtual.stop();
  await virtual.open();
  await virtual.time.advance(1_000);
  // Shards that no object has chosen yet are looked after now.
  expect((await status(virtual)).walk?.objects ?? 0).toBe(0);
  await virtual.stop();
});

it("columns that a class gets are filled from objects that nobody calls, and those it loses go with their indexes", async () => {
  const virtual = await withLots(20);
  await virtual.reload({ Lot: WIDER });
  expect((await find(virtual, { where: "double is null", count: true })).count).toBeGreaterThan(0);
  await virtual.time.advance(10_000);
  expect(await status(virtual)).toMatchObject({
    rows: 20,
    current: 20,
    complete: true,
    walk: { why: "columns", state: "done", objects: 20, failed: 0, progress: 1 },
  });
  expect(await find(virtual, { where: "double >= 36", order: "-double" })).toEqual({
    rows: [
      { key: "k19", row: { top: 19, double: 38 } },
      { key: "k18", row: { top: 18, double: 36 } },
    ],
  });
  await expect(find(virtual, { where: "status = 'open'" })).rejects.toMatchObject({ code: "bad_filter" });
  const shard = shardObject("default", "Lot", 0, 4);
  const { rows } = await virtual.time.until(
    virtual.node.sql(shard, "SELECT name, indexed FROM entry_column ORDER BY name", []),
  );
  expect(rows).toEqual([
    ["double", 1],
    ["top", 0],
  ]);
  await virtual.stop();
});

it("a class that gets its first directory has one of the objects it had", async () => {
  const virtual = await withLots(5, lotClass().replace("Lot.directory", "local unused"));
  await expect(find(virtual)).rejects.toMatchObject({ code: "no_directory" });
  await virtual.reload({ Lot: lotClass() });
  await virtual.time.advance(5_000);
  expect(Object.keys(await rowsOf(virtual))).toHaveLength(5);
  expect(await status(virtual)).toMatchObject({ complete: true, walk: { objects: 5 } });
  await virtual.stop();
});

it.each(["reloads", "starts"])(
  "a directory that a class was without for a while is filled anew when it %s with it",
  async (how) => {
    const virtual = await withLots(4);
    const serves = async (classText: string): Promise<void> => {
      if (how === "reloads") await virtual.reload({ Lot: classText });
      else {
        await virtual.stop();
        await virtual.open([appOf({ Lot: classText })]);
      }
      await virtual.time.advance(5_000);
    };
    await serves(lotClass().replace("Lot.directory", "local unused"));
    await virtual.call("Lot/k0", "put", 99, "sold");
    await virtual.call("Lot/k1", "finish");
    await virtual.call("Lot/new", "put", 5, "open");
    await virtual.time.advance(1_000);
    await serves(lotClass());
    expect(await rowsOf(virtual)).toEqual({
      k0: { top: 99, status: "sold" },
      k2: { top: 2, status: "open" },
      k3: { top: 3, status: "open" },
      new: { top: 5, status: "open" },
    });
    expect(await status(virtual)).toMatchObject({ rows: 4, current: 4, complete: true });
    await virtual.stop();
  },
);

it("a walk that a stop broke off begins again at the next start", async () => {
  const virtual = await withLots(20);
  await virtual.stop();
  const reopened = async (): Promise<void> => {
    await virtual.open();
    await virtual.reload({ Lot: WIDER });
  };
  await reopened();
  virtual.crash();
  await reopened();
  await virtual.time.advance(10_000);
  expect(await status(virtual)).toMatchObject({ current: 20, complete: true });
  await virtual.stop();
});

it("objects that cannot tell their row are counted and passed over", async () => {
  const virtual = await withLots(4);
  await virtual.call("Lot/k0", "throw_rows", true);
  const failing = WIDER.replace("local top =", 'if state.store.get("throws") then error("no") end local top =');
  await virtual.reload({ Lot: failing.replace('state.store.set("top", top)', 'state.store.set("top", top + 0)') });
  await virtual.time.advance(10_000);
  expect(await status(virtual)).toMatchObject({ rows: 4, current: 3, stale: 1, complete: true });
  await virtual.stop();
});

it("a directory is rebuilt from its objects: what is wrong in it is put right, and what is of no object goes", async () => {
  const virtual = await withLots(10);
  await virtual.call("Lot/k9", "finish");
  await virtual.time.advance(1_000);
  for (const key of ["k3", "ghost"]) await corrupt(virtual, key);
  expect((await find(virtual, { where: "top = 666" })).rows).toHaveLength(2);
  const begun = await virtual.time.until(virtual.node.rebuildDirectory("default", "Lot"));
  expect(begun.walk).toMatchObject({ why: "rebuild" });
  await expect(virtual.node.rebuildDirectory("default", "Lot")).rejects.toMatchObject({ code: "bad_option" });
  await virtual.time.advance(10_000);
  expect((await status(virtual)).walk).toMatchObject({ why: "rebuild", state: "done", objects: 10, failed: 0 });
  expect(await rowsOf(virtual)).toEqual(
    Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`k${n}`, { top: n, status: "open" }])),
  );
  await virtual.stop();
});

it("a rebuild takes no row away that finds no room to be told", async () => {
  const virtual = await withLots(10, lotClass(), { DIRECTORY_QUEUE_MAX: 1 });
  await virtual.time.until(virtual.node.rebuildDirectory("default", "Lot"));
  while ((await status(virtual)).walk?.state === "running") await virtual.time.advance(10);
  expect(virtual.node.counters.directory.dropped).toBeGreaterThan(0);
  expect(Object.keys(await rowsOf(virtual))).toHaveLength(10);
  await virtual.stop();
});

/** Puts a row into the directory that no object has derived. */
async function corrupt(virtual: VirtualNode, key: string): Promise<void> {
  const object = shardObject("default", "Lot", shardNumberOf(virtual.identity(`Lot/${key}`), 4), 4);
  const request: ApplyRequest = {
    shape: ["shape", { top: "integer" }, []],
    isFresh: false,
    nowMs: 0,
    rows: [[key, 99, 99, "shape", null, { top: 666 }]],
  };
  const args = [request as unknown as PlainValue];
  await virtual.time.until(virtual.node.call({ object, method: "apply", args, caller: { kind: "system" } }));
}
