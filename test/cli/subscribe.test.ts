import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { LOG } from "../realtime/log-class.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { type CliOptions, cli, cliJson, RunningCli } from "./cli.js";

function app(): CliOptions & { readonly cwd: string } {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  fs.writeFileSync(path.join(cwd, "classes", "Log.lua"), LOG);
  return { cwd };
}

async function start(options: CliOptions): Promise<RunningCli> {
  const node = new RunningCli(options, "start", "--port", "0", "--json");
  await node.document("url");
  return node;
}

async function stop(node: RunningCli): Promise<void> {
  node.signal("SIGTERM");
  expect(await node.exit).toBe(0);
}

const eventNumbered =
  (wanted: number) =>
  (event: unknown): boolean =>
    (event as { number: number }).number === wanted;

describe("moonport subscribe", () => {
  it("prints events as they come, resumes across a stop and a kill of the node, and ends with 0 on Ctrl-C", async () => {
    const folder = app();
    const first = await start(folder);
    await cli(folder, "call", "Log/a", "say", "before");
    const subscriber = new RunningCli(folder, "subscribe", "Log/a", "--json");
    expect(await subscriber.document("subscribed")).toEqual({ subscribed: { after: 1 } });
    await cli(folder, "call", "Log/a", "say", "one");
    const { event } = await subscriber.document("event");
    expect(event).toEqual({ object: "default/Log/a", number: 2, name: "said", data: "one", atMs: expect.any(Number) });
    await stop(first);
    // The folder is free: this call opens it itself, and nobody listens.
    await cli(folder, "call", "Log/a", "say", "two");
    const second = await start(folder);
    await subscriber.document("event", eventNumbered(3));
    await cli(folder, "call", "Log/a", "say", "three");
    await subscriber.document("event", eventNumbered(4));
    second.signal("SIGKILL");
    await second.exit;
    const third = await start(folder);
    await cli(folder, "call", "Log/a", "say", "four");
    await subscriber.document("event", eventNumbered(5));
    expect(subscriber.stderr).toContain("trying again");
    subscriber.signal("SIGINT");
    expect(await subscriber.exit).toBe(0);
    expect(subscriber.lines.map((line) => (JSON.parse(line) as { event?: { number: number } }).event?.number)).toEqual([
      undefined,
      2,
      3,
      4,
      5,
    ]);
    await stop(third);
  });

  it("begins after a number or with a snapshot, filters by name, and ends with its object", async () => {
    const folder = app();
    const node = await start(folder);
    await cli(folder, "call", "Log/a", "say", "one");
    await cli(folder, "call", "Log/a", "whisper", "two");
    const filtered = new RunningCli(folder, "subscribe", "Log/a", "--after", "0", "--names", "whispered,finished");
    await filtered.line((line) => line === '#2 whispered "two"');
    const fresh = new RunningCli(folder, "subscribe", "Log/a", "--snapshot", "last");
    await fresh.line((line) => line === 'snapshot after #2 "two"');
    await cli(folder, "call", "Log/a", "finish");
    expect(await Promise.all([filtered.exit, fresh.exit])).toEqual([0, 0]);
    expect(filtered.lines).toEqual(['#2 whispered "two"', "#3 finished 1"]);
    expect(fresh.lines).toEqual(['snapshot after #2 "two"', "#3 finished 1"]);
    expect(fresh.stderr).toContain("default/Log/a was destroyed; its last event was #3");
    await stop(node);
  });

  it("ends quietly when nobody reads its output any more", async () => {
    const folder = app();
    const node = await start(folder);
    const subscriber = new RunningCli(folder, "subscribe", "Log/a", "--json");
    await subscriber.document("subscribed");
    subscriber.closeOutput();
    await cli(folder, "call", "Log/a", "many", "50");
    expect(await subscriber.exit).toBe(0);
    expect(subscriber.stderr).toBe("");
    await stop(node);
  });

  it("wants a running node, and says so; a refusal is told as any error", async () => {
    const folder = app();
    const alone = await cliJson(folder, "subscribe", "Log/a");
    expect(alone.code).toBe(5);
    expect(alone.document.error).toMatchObject({
      code: "node_unreachable",
      hint: "start one with `moonport dev` or `moonport start`, or name one with --node",
    });
    const node = await start(folder);
    const refused = await cliJson(folder, "subscribe", "Lag/a");
    expect([refused.code, refused.document.error]).toEqual([3, expect.objectContaining({ code: "class_not_found" })]);
    expect((await cliJson(folder, "subscribe", "Log/a", "--snapshot", "say")).document.error).toMatchObject({
      code: "not_a_reading_method",
    });
    await stop(node);
  });
});
