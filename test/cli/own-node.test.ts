import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.js";
import { type CliOptions, cli, cliJson, MAIN, RunningCli } from "./cli.js";

const COUNTER = `local Counter = class "Counter"

function Counter:increment(by)
  local value = (state.store.get("value") or 0) + (by or 1)
  state.store.set("value", value)
  emit("changed", { value = value })
  return value
end

function Counter:refuse()
  state.store.set("value", -1)
  error { code = "too_low", message = "no", top = 25 }
end

function Counter.read:value() return state.store.get("value") or 0 end

return Counter
`;

function appWith(
  files: Readonly<Record<string, string>> = { "Counter.lua": COUNTER },
): CliOptions & { readonly cwd: string } {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  for (const [name, text] of Object.entries(files)) save(cwd, name, text);
  return { cwd };
}

function saveUnit(cwd: string, name: string, text: string): void {
  fs.mkdirSync(path.join(cwd, "units"), { recursive: true });
  fs.writeFileSync(path.join(cwd, "units", name), text);
}

function saveModule(cwd: string, name: string, text: string): void {
  fs.mkdirSync(path.dirname(path.join(cwd, "lib", name)), { recursive: true });
  fs.writeFileSync(path.join(cwd, "lib", name), text);
}

function save(cwd: string, name: string, text: string): void {
  fs.writeFileSync(path.join(cwd, "classes", name), text);
}

function nodeFile(cwd: string): string {
  return path.join(cwd, ".moonport", "node.json");
}

describe("a command without a running node", () => {
  it("runs a unit, which reaches the hosts that it may", async () => {
    const app = appWith();
    saveUnit(app.cwd, "twice.lua", 'return function() Counter("a"):increment() return Counter("a"):increment() end\n');
    saveUnit(app.cwd, "out.lua", 'return function() return select(2, pcall(fetch, "http://127.0.0.1:1/")).code end\n');
    saveUnit(app.cwd, "broken.lua", "return\n");
    const run = await cli(app, "unit", "twice");
    expect(run).toMatchObject({ code: 0, stdout: "2\n" });
    expect(run.stderr).toContain("not loaded: units/broken.lua: does not return a function");
    expect((await cli(app, "unit", "out")).stdout).toBe('"fetch_refused"\n');
    expect((await cli(app, "unit", "out", "--allow-host", "127.0.0.1:1")).stdout).toBe('"fetch_failed"\n');
  });

  it("opens the folder itself, and what it wrote is there for the next one", async () => {
    const app = appWith();
    expect(await cli(app, "call", "Counter/a", "increment", "5")).toEqual({ code: 0, stdout: "5\n", stderr: "" });
    const again = await cliJson(app, "call", "Counter/a", "increment", "--id", "once");
    expect(again.document).toMatchObject({ value: 6, id: "once" });
    const repeated = await cliJson(app, "call", "Counter/a", "increment", "--id", "once");
    expect(repeated.document).toMatchObject({ value: 6 });
    expect((await cli(app, "list", "Counter/a")).stdout).toBe("value  6\n");
    const { document } = await cliJson(app, "inspect", "Counter/a");
    expect(document.landedSeq).toBe(document.seq);
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("comes back to the bucket that the folder's writes are in, wherever it is called from", async () => {
    const { cwd } = appWith();
    const app = { cwd };
    await cli(app, "call", "Counter/a", "increment", "5", "--bucket", "sqlite:elsewhere.db");
    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("6\n");
    expect(fs.existsSync(path.join(cwd, ".moonport", "bucket.db"))).toBe(false);
    const outside = { cwd: temporaryFolder() };
    expect((await cli(outside, "call", "Counter/a", "increment", "--dir", cwd)).stdout).toBe("7\n");
    await cli(app, "call", "Counter/a", "increment", "--bucket", "memory:");
    expect((await cli(app, "call", "Counter/a", "value")).stdout).toBe("7\n");
  });

  it("takes another bucket when it is told so, and says that the folder's writes are elsewhere", async () => {
    const app = appWith();
    const own = `sqlite:${path.join(app.cwd, ".moonport", "bucket.db")}`;
    await cli(app, "call", "Counter/a", "increment", "5");
    const moved = await cli(app, "call", "Counter/a", "increment", "--bucket", "sqlite:other.db");
    expect(moved.stdout).toBe("1\n");
    expect(moved.stderr).toContain("the writes of this data folder were in another bucket before, and still are there");
    expect(moved.stderr).toContain(own);
    expect((await cli(app, "call", "Counter/a", "value", "--bucket", own)).stdout).toBe("5\n");
    expect(await cli(app, "call", "Counter/a", "value")).toEqual({ code: 0, stdout: "5\n", stderr: "" });
  });

  it("keeps nothing of a method that failed, and says what the class said", async () => {
    const app = appWith();
    const refused = await cli(app, "call", "Counter/a", "refuse");
    expect([refused.code, refused.stdout]).toEqual([4, ""]);
    expect(refused.stderr).toContain('error: no (too_low)\n  object: default/Counter/a\n  details: {"top":25}');
    expect((await cli(app, "call", "Counter/a", "value")).stdout).toBe("0\n");
    const unknown = await cli(app, "call", "Counter/a", "incremnt");
    expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining("did you mean increment?")]);
  });

  it("says that its output found no room, and not that Moonport is at fault", () => {
    const { cwd } = appWith();
    const full = fs.openSync("/dev/full", "w");
    onTestFinished(() => fs.closeSync(full));
    const words = [MAIN, "call", "Counter/a", "increment"];
    const run = spawnSync(process.execPath, words, { cwd, stdio: ["ignore", full, "pipe"], encoding: "utf8" });
    expect(run.stderr).toBe("error: write stdout: ENOSPC: no space left on device, write (storage_full)\n");
    expect(run.status).toBe(7);
  });

  it("reads with SQL, refuses to write with it, and destroys once", async () => {
    const app = appWith();
    expect((await cli(app, "sql", "Counter/a", "select 1")).code).toBe(3);
    await cli(app, "call", "Counter/a", "increment");
    const words = ["sql", "Counter/a", "select ? as it, 'x' as x", "7"];
    expect((await cli(app, ...words)).stdout).toBe("it  x\n--  -\n 7  x\n");
    const write = await cliJson(app, "sql", "Counter/a", "create table t (a)");
    expect([write.code, write.document.error]).toEqual([4, expect.objectContaining({ code: "read_only" })]);
    expect((await cli(app, "destroy", "Counter/a", "--yes")).stdout).toBe("destroyed default/Counter/a\n");
    expect((await cli(app, "destroy", "Counter/a", "--yes")).code).toBe(3);
  });

  it("calls a good class beside a broken one, and tells of the broken one", async () => {
    const app = appWith({ "Counter.lua": COUNTER, "Broken.lua": "local x = \n" });
    const run = await cli(app, "call", "Counter/a", "increment");
    expect([run.code, run.stdout]).toEqual([0, "1\n"]);
    expect(run.stderr).toMatch(/not loaded: classes\/Broken\.lua:\d+: /);
    expect((await cli(app, "call", "Broken/a", "x")).code).toBe(4);
  });

  it("runs what moonport new made", async () => {
    const cwd = temporaryFolder();
    await cli({ cwd }, "new", "my-app");
    const app = { cwd: path.join(cwd, "my-app") };
    expect((await cli(app, "call", "Counter/visits", "increment", "10")).stdout).toBe("10\n");
    expect((await cli(app, "call", "Counter/visits", "value")).stdout).toBe("10\n");
    expect((await cli(app, "call", "Counter/visits", "increment", "ten")).stderr).toContain("(not_a_number)");
    expect((await cli({ cwd }, "classes", "--dir", "my-app")).stdout).toBe(
      "Auction  open, bid, close; reading: top, history\nCounter  increment, reset; reading: value\n",
    );
  });
});

describe("moonport start", () => {
  it("says where it is, serves other commands, keeps others off the folder, and stops when told", async () => {
    const app = appWith();
    const node = new RunningCli(app, "start", "--json", "--port", "0", "--flights");
    const ready = await node.document("url");
    expect(Object.keys(ready)).toEqual(["url", "pid", "session"]);
    expect(ready.pid).toBe(node.pid);
    expect(JSON.parse(fs.readFileSync(nodeFile(app.cwd), "utf8"))).toMatchObject({ ...ready, command: "start" });

    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("1\n");
    const { flight } = await node.document("flight");
    expect(flight).toMatchObject({ object: "default/Counter/a", flight: 1, ticketsReleased: 1 });

    const second = await cliJson(app, "start", "--port", "0");
    expect([second.code, second.document.error]).toEqual([
      8,
      expect.objectContaining({
        code: "folder_locked",
        message: expect.stringContaining(`process ${node.pid} (moonport start at`),
      }),
    ]);
    const port = new URL(ready.url as string).port;
    const elsewhere = ["--data", path.join(app.cwd, "other")];
    expect((await cli(app, "start", "--port", port, ...elsewhere)).code).toBe(8);
    // The one that found its address taken has let go of its own folder.
    expect((await cli(app, "call", "Counter/a", "value", ...elsewhere)).stdout).toBe("0\n");

    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
    expect((await cli(app, "call", "Counter/a", "value")).stdout).toBe("1\n");
  });

  it("leaves what it acknowledged behind when it is killed", async () => {
    const app = appWith();
    const node = new RunningCli(app, "start", "--json", "--port", "0");
    await node.document("url");
    expect((await cli(app, "call", "Counter/a", "increment", "7")).stdout).toBe("7\n");
    node.signal("SIGKILL");
    await node.exit;
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(true);
    expect((await cli(app, "call", "Counter/a", "value")).stdout).toBe("7\n");
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("refuses classes that do not load, naming each file and line", async () => {
    const app = appWith({
      "Counter.lua": COUNTER,
      "First.lua": 'local First = class "First"\nfunction First:go( end\nreturn First\n',
      "Second.lua": "\n\nreturn 5 5\n",
    });
    const talk = await cli(app, "start", "--port", "0");
    expect([talk.code, talk.stdout]).toEqual([4, ""]);
    expect(talk.stderr).toMatch(/^error: classes\/First\.lua:2: .*\nclasses\/Second\.lua:3: /);
    const { document } = await cliJson(app, "start", "--port", "0");
    expect(document.error).toMatchObject({
      code: "class_invalid",
      details: {
        files: [
          { file: "classes/First.lua", line: 2 },
          { file: "classes/Second.lua", line: 3 },
        ],
      },
    });
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("ends at once when told a second time, though a call still runs", async () => {
    const slow =
      'local Slow = class "Slow"\nfunction Slow:spin() log.warn("spinning") while true do end end\nreturn Slow\n';
    const app = {
      ...appWith({ "Slow.lua": slow }),
      env: { METHOD_BUDGET_MS: "60000", METHOD_INSTRUCTIONS_MAX: "1000000000000" },
    };
    const node = new RunningCli(app, "start", "--json", "--port", "0");
    await node.document("url");
    const call = cli(app, "call", "Slow/a", "spin", "--id", "spin-17");
    await expect.poll(() => node.stderr, { timeout: 10_000 }).toContain("spinning");
    node.signal("SIGTERM");
    await expect.poll(() => node.stderr, { timeout: 10_000 }).toContain("SIGTERM: letting running calls finish");
    node.signal("SIGTERM");
    expect(await node.exit).toBe(143);
    const lost = await call;
    expect([lost.code, lost.stderr]).toEqual([6, expect.stringContaining("to ask again: --id spin-17")]);
  });

  it("stops in order when nobody reads its output any more", async () => {
    const app = appWith();
    const node = new RunningCli(app, "start", "--port", "0", "--flights", "--json");
    await node.document("url");
    node.closeOutput();
    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("1\n");
    expect(await node.exit).toBe(0);
    expect(node.stderr).toMatch(/stopped\n$/);
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("stops in order though nobody hears what it says of that", async () => {
    const app = appWith();
    const node = new RunningCli(app, "start", "--port", "0", "--json");
    await node.document("url");
    node.closeTalk();
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("listens on this machine only", async () => {
    const refused = await cli(appWith(), "start", "--host", "0.0.0.0", "--port", "0");
    expect([refused.code, refused.stderr]).toEqual([7, expect.stringContaining("(insecure_bind)")]);
  });
});

describe("moonport dev", () => {
  it("ends when it cannot watch its app: nothing of it stays behind", async () => {
    const app = appWith();
    const patch = path.join(app.cwd, "few-watchers.mjs");
    fs.writeFileSync(
      patch,
      `import fs from "node:fs";
const { watch } = fs;
let watchers = 0;
fs.watch = (...given) => {
  if (++watchers > 1) throw Object.assign(new Error("no space left for a watcher"), { code: "ENOSPC" });
  return watch(...given);
};`,
    );
    const node = new RunningCli({ ...app, env: { NODE_OPTIONS: `--import=${patch}` } }, "dev", "--port", "0");
    expect(await node.exit).not.toBe(0);
    expect(node.stderr).toContain("no space left for a watcher");
    expect(fs.existsSync(nodeFile(app.cwd))).toBe(false);
  });

  it("loads classes again as they are saved, keeps the last good one, and shows events", async () => {
    const app = appWith({ "Counter.lua": COUNTER, "Broken.lua": "return\nreturn" });
    const node = new RunningCli(app, "dev", "--json", "--port", "0");
    await node.document("url");
    const changed = (change: string, file: string) =>
      node.document("class", (value) => {
        const it = value as { change: string; file?: string; line?: number };
        return it.change === change && it.file === `classes/${file}`;
      });
    expect((await changed("failed", "Broken.lua")).class).toMatchObject({ line: 2 });
    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("1\n");
    expect((await node.document("event")).event).toEqual({
      object: "default/Counter/a",
      number: 1,
      name: "changed",
      data: { value: 1 },
    });

    save(app.cwd, "Counter.lua", `${COUNTER.replace("return Counter\n", "")}\noops`);
    await changed("failed", "Counter.lua");
    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("2\n");

    save(
      app.cwd,
      "Broken.lua",
      'local Broken = class "Broken"\nfunction Broken:go() return "went" end\nreturn Broken\n',
    );
    await changed("loaded", "Broken.lua");
    expect((await cli(app, "call", "Broken/a", "go")).stdout).toBe('"went"\n');

    fs.rmSync(path.join(app.cwd, "classes", "Broken.lua"));
    await node.document("class", (value) => (value as { change: string }).change === "removed");
    expect((await cli(app, "call", "Broken/a", "go")).code).toBe(3);

    // The folder of units may come later than the node.
    saveUnit(app.cwd, "twice.lua", 'return function() Counter("a"):increment() return Counter("a"):increment() end\n');
    await node.document("unit", (value) => (value as { change: string }).change === "loaded");
    expect((await cli(app, "unit", "twice")).stdout).toBe("4\n");
    saveUnit(app.cwd, "twice.lua", "return oops\n");
    expect(
      (await node.document("unit", (value) => (value as { change: string }).change === "failed")).unit,
    ).toMatchObject({ file: "units/twice.lua", line: 1 });

    node.signal("SIGINT");
    expect(await node.exit).toBe(0);
  });

  it("loads what requires a module again when the module is saved, in folders that come later, too", async () => {
    const app = appWith({ "Counter.lua": `local word = require("a.word")\n${COUNTER}` });
    saveModule(app.cwd, "a/word.lua", 'return "one"\n');
    const node = new RunningCli(app, "dev", "--json", "--port", "0");
    await node.document("url");
    await node.document("class", (value) => (value as { change: string }).change === "loaded");
    const loaded = (name: string) =>
      node.document("module", (value) => {
        const it = value as { change: string; name?: string };
        return it.change === "loaded" && it.name === name;
      });
    await loaded("a.word");
    const classes = (): number => node.lines.filter((line) => line.startsWith('{"class":{"change":"loaded"')).length;
    saveModule(app.cwd, "a/word.lua", 'return "two"\n');
    await expect.poll(classes).toBe(2);
    saveModule(app.cwd, "late/comer.lua", "return 1\n");
    await loaded("late.comer");
    saveModule(app.cwd, "late/comer.lua", "return\noops\n");
    const failed = await node.document("module", (value) => (value as { change: string }).change === "failed");
    expect(failed.module).toMatchObject({ file: "lib/late/comer.lua", line: 2 });
    saveModule(app.cwd, "a/word.lua", "return\noops\n");
    const broken = await node.document("class", (value) => (value as { change: string }).change === "failed");
    expect(broken.class).toMatchObject({
      line: 1,
      message: expect.stringContaining('classes/Counter.lua:1: require("a.word"): lib/a/word.lua:2:'),
    });
    expect((await cli(app, "call", "Counter/a", "increment")).stdout).toBe("1\n");
    node.signal("SIGINT");
    expect(await node.exit).toBe(0);
  });

  it("tells people the same in lines", async () => {
    const app = appWith();
    const node = new RunningCli(app, "dev", "--port", "0", "--flights");
    await node.line((line) => line.startsWith("ready at http://127.0.0.1:"));
    await node.line((line) => line === "loaded  Counter (classes/Counter.lua)");
    await cli(app, "call", "Counter/a", "increment");
    await node.line((line) =>
      /^landed {2}default\/Counter\/a seq 1 flight 1 .* 1 ticket released, [\d.]+ ms/.test(line),
    );
    await node.line((line) => line === 'event   default/Counter/a #1 changed {"value":1}');
    node.signal("SIGTERM");
    await node.exit;
    expect(node.stderr).toMatch(/^stopped$/m);
  });
});
