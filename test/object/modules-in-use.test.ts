import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { readAppSource } from "../../src/app-source.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { VirtualNode } from "../support/virtual-node.js";

const Item = `
local word = require("word")
local Item = class "Item"
function Item:say() return word.say() end
function Item:keep(x) state.store.set("x", x) end
function Item:ask() return Item("other"):say(), word.say() end
function Item.read:kept() return state.store.get("x") end
return Item
`;
const say = (text: string): string => `return { say = function() return "${text}" end }`;
const told = (node: VirtualNode): string[] =>
  node.observations
    .filter((one) => one.kind.startsWith("class_") || one.kind.startsWith("module_"))
    .map((one) => `${one.kind} ${"name" in one ? one.name : "message" in one ? one.message : ""}`);

describe("modules of an app", () => {
  it("take over between calls with every class that requires them, while residents stay", async () => {
    const node = await VirtualNode.start({ classes: { Item }, modules: { word: say("old") } });
    await node.call("Item/a", "keep", 1);
    expect(await node.call("Item/a", "say")).toBe("old");
    const { residents } = await node.node.status();
    node.observations.length = 0;
    await node.reload({ Item }, {}, { word: say("new") });
    expect(told(node)).toEqual(["module_loaded word", "class_loaded Item"]);
    expect(await node.call("Item/a", "say")).toBe("new");
    expect(await node.call("Item/a", "kept")).toBe(1);
    expect((await node.node.status()).residents).toBe(residents);
    node.observations.length = 0;
    await node.reload({ Item }, {}, { word: say("new") });
    expect(told(node)).toEqual([]);
  });

  it("a call that waits goes on with the code it began with", async () => {
    const node = await VirtualNode.start({
      classes: { Item },
      modules: { word: say("old") },
      bucket: { latencyMs: 50 },
    });
    await node.call("Item/a", "keep", 1);
    const asked = node.start("Item/a", "ask");
    await node.time.settle();
    await node.reload({ Item }, {}, { word: say("new") });
    const { value } = await node.time.until(asked);
    expect(value).toEqual(["new", "old"]);
  });

  it("that break leave what requires them on its last good version", async () => {
    const node = await VirtualNode.start({ classes: { Item }, modules: { word: say("old") } });
    node.observations.length = 0;
    await node.reload({ Item }, {}, { word: "\nreturn oops.x" });
    expect(told(node)).toEqual([
      expect.stringContaining("module_failed lib/word.lua:2: no global is called 'oops'"),
      expect.stringContaining('class_failed classes/Item.lua:2: require("word"): lib/word.lua:2: no global'),
    ]);
    expect(await node.call("Item/a", "say")).toBe("old");
    await node.reload({ Item }, {}, {});
    expect(told(node).slice(2)).toEqual([
      expect.stringContaining("class_failed classes/Item.lua:2: no module is called 'word'"),
      "module_removed word",
    ]);
    expect(await node.call("Item/a", "say")).toBe("old");
  });

  it("that are broken from the start refuse it, even if nothing requires them", async () => {
    const starting = VirtualNode.start({
      classes: { Item: Item.replace(/require.*/, "{}") },
      modules: { word: "oops(" },
    });
    await expect(starting).rejects.toMatchObject({
      code: "class_invalid",
      message: expect.stringContaining("lib/word.lua:1"),
    });
  });
});

describe("lib/", () => {
  it("is read with its folders, by dotted names; what is no Lua is passed over", () => {
    const root = temporaryFolder();
    const files = {
      "money.lua": "1",
      "money/rates.lua": "2",
      "money/README.md": "3",
      "deep/er/x.lua": "4",
      "bad.lua": "\xff",
    };
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(root, "lib", file)), { recursive: true });
      fs.writeFileSync(path.join(root, "lib", file), text, "latin1");
    }
    fs.symlinkSync("..", path.join(root, "lib", "deep", "up"));
    const { modules = [], unreadable = [] } = readAppSource("default", new RealFolder(root));
    const near = modules.filter(({ name }) => !name.includes("up"));
    expect(near.map(({ name, file, text }) => [name, file, text])).toEqual([
      ["money", "lib/money.lua", "1"],
      ["deep.er.x", "lib/deep/er/x.lua", "4"],
      ["money.rates", "lib/money/rates.lua", "2"],
    ]);
    expect(unreadable[0]).toMatchObject({ kind: "module", name: "bad", error: { code: "class_invalid" } });
  });
});
