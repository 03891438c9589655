import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import pino from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { Moonport, type MoonportOptions, type Observation } from "../../src/index.js";
import { type Logger, silentLogger } from "../../src/world/logger.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { embedded } from "./embedded.js";
import { LEDGER, type LedgerMethods } from "./ledger-class.js";

const classes = { Ledger: LEDGER };

function refused(code: string, message: RegExp | string, hint?: string): unknown {
  const said = typeof message === "string" ? message : expect.stringMatching(message);
  return expect.objectContaining({ name: "MoonportError", code, message: said, ...(hint && { hint }) });
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

describe("Moonport.open", () => {
  it.each<[object, string, string?]>([
    [{ datadir: "d", classes }, 'Moonport.open has no option called "datadir"', "did you mean dataDir?"],
    [{ dataDir: "d", clases: classes }, 'Moonport.open has no option called "clases"', "did you mean classes?"],
    [{ dataDir: "d", classes, listen: { prot: 1 } }, 'Moonport.open: listen has no option called "prot"'],
    [
      { dataDir: "d", classes, listen: { port: 70_000 } },
      "Moonport.open: listen: port is a whole number from 0 to 65535",
    ],
    [{ dataDir: "d", classes, log: { level: "loud" } }, /^Moonport.open: log: level is "debug" or "info"/.source],
    [{ dataDir: "", classes }, "Moonport.open: dataDir is a string with something in it"],
    [{ classes }, "Moonport.open needs dataDir"],
    [{ dataDir: "d", units: {} }, "Moonport.open: units are given beside classes"],
    [{ dataDir: "d", dir: ".", classes }, "Moonport.open takes either dir, the app's folder, or classes"],
    [{ dataDir: "d", classes: { Ledger: 7 } }, "classes: Ledger is a string of Lua"],
    [{ dataDir: "d", classes, bucket: "sqlit:x" }, 'there is no kind of bucket called "sqlit"'],
    [{ dataDir: "d", dir: "src" }, "is not an app's folder: it has no classes/"],
  ])("refuses %j", async (options, message, hint) => {
    const said = new RegExp(message.startsWith("^") ? message : message.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const opening = Moonport.open(options as MoonportOptions);
    await expect(opening).rejects.toEqual(refused("bad_option", said, hint));
  });

  it("refuses names and settings with their own codes", async () => {
    const dataDir = temporaryFolder();
    const opening = (more: object): Promise<Moonport> => Moonport.open({ dataDir, classes, ...more });
    await expect(opening({ app: "No" })).rejects.toEqual(refused("bad_name", '"No" is no app name'));
    const system = refused("bad_name", /"system" is the app of Moonport's own objects/);
    await expect(opening({ app: "system" })).rejects.toEqual(system);
    await expect(Moonport.open({ dataDir, app: "system" })).rejects.toEqual(system);
    await expect(opening({ classes: { ledger: LEDGER } })).rejects.toEqual(refused("bad_name", /ledger/));
    const setting = opening({ settings: { DRAIN_MSS: 1 } });
    await expect(setting).rejects.toEqual(refused("bad_setting", /DRAIN_MSS/, "did you mean DRAIN_MS?"));
  });

  it("refuses classes that do not load, naming each, or reports them and serves the others", async () => {
    const dataDir = temporaryFolder();
    const broken = { ...classes, Broken: "return 1 +", Empty: "" };
    const opening = Moonport.open({ dataDir, classes: broken, log: { level: "silent" } });
    await expect(opening).rejects.toEqual(refused("class_invalid", /Broken\.lua[\s\S]*Empty\.lua/));

    const seen: Observation[] = [];
    const observer = (one: Observation): void => void seen.push(one);
    const moonport = await embedded({ dataDir, classes: broken, onClassError: "report", observer });
    expect(await moonport.object("Ledger", "a").call("count")).toBe(0);
    const failed = seen.filter(({ kind }) => kind === "class_failed");
    expect(failed).toMatchObject([{ file: "classes/Broken.lua" }, { file: "classes/Empty.lua" }]);
  });

  it("logs whatever does not load, where it starts all the same", async () => {
    const warned: unknown[] = [];
    const warn = (fields: object): void => void warned.push(fields);
    const log: Logger = { ...silentLogger, warn, child: () => log };
    const broken = { classes: { ...classes, Broken: "" }, units: { bad: "" }, modules: { worse: "return (" } };
    await embedded({ ...broken, onClassError: "report", log });
    expect(warned).toMatchObject([
      { file: "lib/worse.lua" },
      { file: "classes/Broken.lua" },
      { file: "units/bad.lua" },
    ]);
  });

  it("gives the folder back when it fails", async () => {
    const dataDir = temporaryFolder();
    await expect(Moonport.open({ dataDir, classes: { Bad: "" } })).rejects.toThrow();
    await expect(Moonport.open({ dataDir, classes, listen: { host: "0.0.0.0", port: 0 } })).rejects.toEqual(
      refused("insecure_bind", /0\.0\.0\.0/),
    );
    const moonport = await embedded({ dataDir });
    expect(await moonport.object<LedgerMethods>("Ledger", "a").count()).toBe(0);
  });

  it.each([
    ["who has the folder", "node.json", 1],
    ["where its bucket is", "bucket.url", 1],
    ["where it answers", "node.json", 2],
  ])("gives folder and address back when it cannot write down %s", async (_, name, time) => {
    const dataDir = temporaryFolder();
    const port = await freePort();
    const options = { dataDir, classes, bucket: `sqlite:${path.join(dataDir, "other.db")}`, listen: { port } };
    const { renameSync } = fs;
    let times = 0;
    const full = vi.spyOn(fs, "renameSync").mockImplementation((from, to) => {
      if (path.basename(`${to}`) === name && ++times === time) throw new Error("the disk is full");
      renameSync(from, to);
    });
    onTestFinished(() => full.mockRestore());
    await expect(Moonport.open(options)).rejects.toThrow("the disk is full");
    const moonport = await embedded(options);
    expect(await moonport.object<LedgerMethods>("Ledger", "a").count()).toBe(0);
    expect(moonport.url).toBe(`http://127.0.0.1:${port}`);
  });

  it("keeps a second one off the folder, saying who has it, until it is closed; what was written is still there", async () => {
    const dataDir = path.join(temporaryFolder(), "deep", "data");
    const options = { dataDir, classes };
    const first = await Moonport.open(options);
    expect(await first.object<LedgerMethods>("Ledger", "a").add("one")).toEqual({ id: 1 });
    const second = Moonport.open(options);
    await expect(second).rejects.toEqual(refused("folder_locked", `this process (an embedded node) uses ${dataDir}`));
    await Promise.all([first.close(), first.close()]);
    expect(fs.existsSync(path.join(dataDir, "node.json"))).toBe(false);

    const third = await Moonport.open(options);
    expect(await third.object<LedgerMethods>("Ledger", "a").texts()).toEqual(["one"]);
    await third.close();
  });

  it("comes back to the bucket that the folder's writes are in, when it is not told of any", async () => {
    const dataDir = temporaryFolder();
    const elsewhere = `sqlite:${path.join(temporaryFolder(), "elsewhere.db")}`;
    const first = await Moonport.open({ dataDir, classes, bucket: elsewhere, log: { level: "silent" } });
    await first.object<LedgerMethods>("Ledger", "a").add("one");
    await first.close();
    const second = await Moonport.open({ dataDir, classes, log: { level: "silent" } });
    expect(await second.object<LedgerMethods>("Ledger", "a").count()).toBe(1);
    await second.close();
    expect(fs.existsSync(path.join(dataDir, "bucket.db"))).toBe(false);
  });

  it("reads an app's folder, and again at reload", async () => {
    const dir = temporaryFolder();
    const file = path.join(dir, "classes", "Ledger.lua");
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, LEDGER);
    const moonport = await embedded({ dir });
    const ledger = moonport.object("Ledger", "a");
    expect(await ledger.call("count")).toBe(0);

    fs.writeFileSync(file, LEDGER.replace("return Ledger", "function Ledger.read:more() return 1 end return Ledger"));
    expect(await moonport.reload()).toEqual([]);
    expect(await ledger.call("more")).toBe(1);

    fs.writeFileSync(file, "return");
    expect(await moonport.reload()).toMatchObject([{ file: "classes/Ledger.lua" }]);
    expect(await ledger.call("more")).toBe(1);
    await expect(moonport.reload({ classes })).rejects.toEqual(refused("bad_option", /app's folder/));
  });

  it("takes other texts at reload", async () => {
    const moonport = await embedded();
    const named = `local Named = class "Named" function Named.read:name() return self.id end return Named`;
    expect(await moonport.reload({ classes: { ...classes, Named: named } })).toEqual([]);
    expect(await moonport.object("Named", "x").call("name")).toBe("default/Named/x");
    expect((await moonport.classes()).map(({ name }) => name)).toEqual(["Ledger", "Named"]);
    expect(await moonport.reload()).toEqual([]);
    expect((await moonport.status()).classes).toBe(2);
  });

  it("takes modules beside classes, and anew at reload", async () => {
    const says =
      'local a = require("a.word") local Says = class "Says" function Says.read:it() return a end return Says';
    const moonport = await embedded({ classes: { Says: says }, modules: { "a.word": 'return "one"' } });
    expect(await moonport.object("Says", "x").call("it")).toBe("one");
    expect(await moonport.reload({ modules: { "a.word": 'return "two"' } })).toEqual([]);
    expect(await moonport.object("Says", "x").call("it")).toBe("two");
    expect(await moonport.reload({ modules: {} })).toMatchObject([{ file: "classes/Says.lua" }]);
    expect(await moonport.object("Says", "x").call("it")).toBe("two");
    const opening = Moonport.open({ dataDir: temporaryFolder(), dir: ".", modules: {} });
    await expect(opening).rejects.toEqual(refused("bad_option", /with dir, modules are read from the app's folder/));
  });

  it("keeps what an observer throws away from the node, and logs it", async () => {
    const lines: string[] = [];
    const log = pino({ level: "error" }, { write: (line) => void lines.push(line) });
    const moonport = await embedded({
      log,
      observer: () => {
        throw new Error("not my day");
      },
    });
    expect(await moonport.object<LedgerMethods>("Ledger", "a").add("one")).toEqual({ id: 1 });
    expect(lines.join("")).toContain("not my day");
  });

  it("refuses calls and subscriptions once it is closed", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const last = ledger.add("last");
    await moonport.close();
    expect(await last).toEqual({ id: 1 });
    await expect(ledger.add("late")).rejects.toEqual(refused("node_stopping", /./));
    expect(() => ledger.subscribe()).toThrow(expect.objectContaining({ code: "node_stopping" }));
  });

  it("can be disposed of", async () => {
    const moonport = await embedded();
    await moonport[Symbol.asyncDispose]();
    await expect(moonport.object("Ledger", "a").call("count")).rejects.toThrow();
  });
});
