import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ERROR_CODES, type ErrorCode, MoonportError } from "../../src/errors.js";
import { type OpenDoor, openDoor } from "../server/door.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson } from "./cli.js";

let open: OpenDoor;
beforeEach(async () => {
  open = await openDoor();
});
afterEach(() => open.door.stop());

const onNode = (): { cwd: string; flags: string[] } => ({ cwd: temporaryFolder(), flags: ["--node", open.url] });

describe("a command that talks to a running node", () => {
  it("calls with JSON and string arguments, an id and a time, and prints the reply", async () => {
    open.node.answer = ({ args }) => ({ value: { heard: [...args] }, seq: 3 });
    const { cwd, flags } = onNode();
    const words = ["call", "Echo/a/b", "say", "ada", "-5", '{"x":1}', "--id", "id-1", "--timeout", "800", ...flags];
    const talk = await cli({ cwd }, ...words);
    expect(talk).toEqual({ code: 0, stdout: '{"heard":["ada",-5,{"x":1}]}\n', stderr: "" });
    expect(open.node.calls[0]).toMatchObject({
      object: { id: "default/Echo/a/b" },
      method: "say",
      callId: "id-1",
      timeoutMs: 800,
    });
    const { document } = await cliJson({ cwd }, ...words);
    expect(document).toEqual({ value: { heard: ["ada", -5, { x: 1 }] }, seq: 3, id: "id-1" });
  });

  it("lets a replica answer where it is told to, and says so", async () => {
    open.node.answer = ({ consistency }) => ({ value: 25, seq: 3, ...(consistency && { from: "replica" }) });
    const { cwd, flags } = onNode();
    const words = ["call", "Echo/a", "top", "--id", "id-1", "--consistency", "replica", ...flags];
    expect((await cliJson({ cwd }, ...words)).document).toEqual({ value: 25, seq: 3, from: "replica", id: "id-1" });
    expect((await cli({ cwd }, "call", "Echo/a", "top", "--consistency", "stale", ...flags)).code).toBe(2);
  });

  it("makes an id for every call", async () => {
    const { cwd, flags } = onNode();
    const { document } = await cliJson({ cwd }, "call", "Echo/a", "say", ...flags);
    expect(document.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    expect(open.node.calls[0]?.callId).toBe(document.id);
  });

  it("takes words after -- as they are", async () => {
    const { cwd, flags } = onNode();
    await cli({ cwd }, "call", "Echo/a", "say", ...flags, "--", "--json", "-x");
    expect(open.node.calls[0]?.args).toEqual(["--json", "-x"]);
  });

  it("prints no control characters that a class or a user put into a value", async () => {
    open.node.answer = () => Promise.reject(MoonportError.byClass("rude", "look: \u001b[2J\u009b31m"));
    const { cwd, flags } = onNode();
    const talk = await cli({ cwd }, "call", "Echo/a", "say", ...flags);
    expect(talk.stderr).toBe("error: look: \\u001b[2J\\u009b31m (rude)\n  object: default/Echo/a\n");
    open.node.answer = () => ({ value: "\u009b31m" });
    expect((await cli({ cwd }, "call", "Echo/a", "say", ...flags)).stdout).toBe('"\\u009b31m"\n');
  });

  const ofEachExit = new Map<number, ErrorCode>();
  for (const [code, { exit }] of Object.entries(ERROR_CODES)) ofEachExit.set(exit, code as ErrorCode);

  it.each([...ofEachExit])("ends with %i for %s and says so in words and as JSON", async (exit, code) => {
    open.node.answer = () => Promise.reject(MoonportError.of(code, "what happened", { hint: "do this" }));
    const { cwd, flags } = onNode();
    const words = ["call", "Echo/a", "say", "--id", "id-1", ...flags];
    const [talk, json] = await Promise.all([cli({ cwd }, ...words), cliJson({ cwd }, ...words)]);
    expect([talk.code, talk.stdout, json.code, json.stderr]).toEqual([exit, "", exit, ""]);
    expect(talk.stderr).toContain(`error: what happened (${code})\n  object: default/Echo/a\n  hint: do this\n`);
    expect(talk.stderr.includes("to ask again: --id id-1")).toBe(ERROR_CODES[code].retryable);
    expect(json.document).toEqual({
      error: {
        message: "what happened",
        exit,
        code,
        retryable: ERROR_CODES[code].retryable,
        source: "moonport",
        hint: "do this",
        callId: "id-1",
        object: "default/Echo/a",
      },
    });
  });

  it("ends with 4 for an error of the class and shows its fields", async () => {
    open.node.answer = () => Promise.reject(MoonportError.byClass("too_low", "bid more", { details: { top: 25 } }));
    const { cwd, flags } = onNode();
    const talk = await cli({ cwd }, "call", "Echo/a", "say", ...flags);
    expect([talk.code, talk.stderr]).toEqual([4, expect.stringContaining('details: {"top":25}')]);
    const { document } = await cliJson({ cwd }, "call", "Echo/a", "say", ...flags);
    expect(document.error).toMatchObject({ code: "too_low", source: "class", details: { top: 25 } });
  });

  it("reads the store: a value, null, nothing, a list", async () => {
    open.node.stores.set(
      "default/Echo/a",
      new Map([
        ["top", 25],
        ["none", null],
      ]),
    );
    const { cwd, flags } = onNode();
    expect(await cli({ cwd }, "get", "Echo/a", "top", ...flags)).toEqual({ code: 0, stdout: "25\n", stderr: "" });
    expect((await cliJson({ cwd }, "get", "Echo/a", "none", ...flags)).document).toEqual({ found: true, value: null });
    const absent = await cliJson({ cwd }, "get", "Echo/a", "other", ...flags);
    expect([absent.code, absent.document]).toEqual([3, { found: false }]);
    expect((await cli({ cwd }, "list", "Echo/a", ...flags)).stdout).toBe("top   25\nnone  null\n");
    const listed = await cliJson({ cwd }, "list", "Echo/a", "t", ...flags);
    expect(listed.document).toEqual({ entries: [{ key: "top", value: 25 }] });
    expect((await cliJson({ cwd }, "list", "Echo/b", ...flags)).document).toEqual({ entries: [] });
  });

  it("shows SQL as a table and as JSON", async () => {
    const { cwd, flags } = onNode();
    const words = ["sql", "Echo/a", "select ?", "7", ...flags];
    const talk = await cli({ cwd }, ...words);
    expect(talk.stdout).toBe("statement  parameter\n---------  ---------\nselect ?           7\n");
    expect((await cliJson({ cwd }, ...words)).document).toEqual({
      columns: ["statement", "parameter"],
      rows: [["select ?", 7]],
    });
  });

  it("inspects and destroys", async () => {
    const { cwd, flags } = onNode();
    const talk = await cli({ cwd }, "inspect", "Echo/a", ...flags);
    expect(talk.stdout).toContain("seq       4, landed up to 3, a flight is under way\n");
    const { document } = await cliJson({ cwd }, "inspect", "Echo/a", ...flags);
    expect(document).toMatchObject({ object: "default/Echo/a", seq: 4, landedSeq: 3 });
    expect((await cliJson({ cwd }, "destroy", "Echo/a", "--yes", ...flags)).document).toEqual({
      destroyed: "default/Echo/a",
    });
    expect((await cli({ cwd }, "destroy", "Echo/a", "--yes", ...flags)).code).toBe(3);
  });

  it("lists classes and units", async () => {
    const { cwd, flags } = onNode();
    expect((await cli({ cwd }, "classes", ...flags)).stdout).toBe("Echo  say\necho  unit\n");
    expect((await cliJson({ cwd }, "classes", ...flags)).document).toEqual({
      classes: await open.node.classes(),
      units: await open.node.units(),
    });
  });

  it("runs a unit and prints what it answered, whatever the status", async () => {
    const { cwd, flags } = onNode();
    open.node.unitAnswer = ({ body }) => ({
      status: 201,
      headers: { "content-type": "application/json; charset=utf-8" },
      body: JSON.stringify({ heard: body ?? "nothing" }),
    });
    const words = ["unit", "echo", '{"n":1}', "--path", "a/b", "--query", "q=1=2", "--query", "q=3", "--id", "u-1"];
    expect(await cli({ cwd }, ...words, ...flags)).toEqual({ code: 0, stdout: '{"heard":{"n":1}}\n', stderr: "" });
    expect(open.node.unitRequests[0]).toMatchObject({
      app: "default",
      unit: "echo",
      method: "POST",
      path: "/a/b",
      query: { q: ["1=2", "3"] },
      body: { n: 1 },
      callId: "u-1",
    });
    expect((await cliJson({ cwd }, ...words, ...flags)).document).toMatchObject({
      status: 201,
      body: { heard: { n: 1 } },
      id: "u-1",
    });
    expect((await cli({ cwd }, "unit", "echo", "ada", "--method", "PUT", ...flags)).stdout).toBe('{"heard":"ada"}\n');
    await cli({ cwd }, "unit", "echo", ...flags);
    expect(open.node.unitRequests.at(-1)).toMatchObject({ method: "GET", path: "/" });

    open.node.unitAnswer = () => ({
      status: 404,
      headers: { "content-type": "text/plain" },
      body: "no such lot\u001b",
    });
    expect(await cli({ cwd }, "unit", "echo", ...flags)).toEqual({
      code: 4,
      stdout: "no such lot\\u001b\n",
      stderr: "the unit answered 404\n",
    });
    open.node.unitAnswer = () => Promise.reject(MoonportError.of("unit_not_found", "no unit is called that"));
    expect((await cli({ cwd }, "unit", "echo", ...flags)).code).toBe(3);
    expect((await cli({ cwd }, "unit", "No Unit", ...flags)).code).toBe(2);
  });

  it("is told that settings do not reach it, unless it is to be quiet", async () => {
    const { cwd, flags } = onNode();
    const words = ["classes", "--set", "OBJECT_IDLE_MS=99", ...flags];
    expect((await cli({ cwd }, ...words)).stderr).toContain("do not change a node that already runs");
    expect((await cli({ cwd }, ...words, "--quiet")).stderr).toBe("");
  });
});

describe("node.json", () => {
  const write = (cwd: string, text: string): void => {
    fs.mkdirSync(path.join(cwd, ".moonport"));
    fs.writeFileSync(path.join(cwd, ".moonport", "node.json"), text);
  };
  const file = (session: string): string =>
    JSON.stringify({ pid: process.pid, session, command: "start", url: open.url });

  it("leads to the running node", async () => {
    const cwd = temporaryFolder();
    write(cwd, file("session-of-the-fake"));
    expect((await cli({ cwd }, "classes")).stdout).toContain("Echo  say\n");
  });

  it.each([
    ["names another life of the node", () => file("an-older-session")],
    ["is damaged", () => '{"pid": 12'],
    ["is of another shape", () => '{"pid": "12", "url": 5}'],
  ])("is passed over when it %s", async (_what, text) => {
    const cwd = temporaryFolder();
    write(cwd, text());
    expect((await cli({ cwd }, "classes")).stderr).toContain("there is nothing to serve");
  });
});
