import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, test, vi } from "vitest";
import { barText, ProgressBar } from "../../cli/progress.js";
import type { Bucket } from "../../src/bucket/bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { startFaultProxy } from "../support/fault-proxy.js";
import { startS3Stub } from "../support/s3-stub.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson, RunningCli } from "./cli.js";

/** An app with three counters, of which one is destroyed, and a temporary folder of its own for the command. */
async function appWithObjects(
  folder = temporaryFolder(),
): Promise<{ readonly cwd: string; readonly env: { readonly TMPDIR: string } }> {
  await cli({ cwd: folder }, "new", "app");
  const cwd = path.join(folder, "app");
  for (const key of ["a", "b", "gone"]) await cli({ cwd }, "call", `Counter/${key}`, "increment");
  await cli({ cwd }, "destroy", "Counter/gone", "--yes");
  const TMPDIR = path.join(folder, "tmp");
  fs.mkdirSync(TMPDIR);
  return { cwd, env: { TMPDIR } };
}

async function openedBucket(url: string): Promise<Bucket> {
  const bucket = openBucket(url, realWorld("/nonexistent", silentLogger), resolveSettings());
  onTestFinished(() => bucket.stop());
  await bucket.start();
  return bucket;
}

const bucketUrl = (cwd: string): string => `sqlite:${path.join(cwd, ".moonport", "bucket.db")}`;

describe("moonport verify", () => {
  /** For the tests that change nothing. */
  const shared = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-verify-test-"));
  beforeAll(() => appWithObjects(shared));
  afterAll(() => fs.rmSync(shared, { recursive: true, force: true }));

  it("finds everything well, with and without a node at work, and leaves nothing behind", async () => {
    const { cwd, env } = await appWithObjects();
    const name = bucketUrl(cwd);
    const well = `3 objects in ${name}: 2 restorable (`;
    const first = await cli({ cwd, env }, "verify");
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toContain(well);
    expect(first.stdout).toMatch(/\), 1 destroyed\nwhat they were: 1 past manifest, 1 restorable\n$/);
    expect((await cli({ cwd, env }, "verify", "--no-past")).stdout).toMatch(/\), 1 destroyed\n$/);

    const node = new RunningCli({ cwd }, "start", "--json", "--port", "0");
    await node.document("url");
    await cli({ cwd }, "call", "Counter/a", "increment");
    const { code, document } = await cliJson({ cwd, env }, "verify");
    expect([code, document]).toEqual([
      0,
      {
        bucket: name,
        complete: true,
        objects: 3,
        restorable: 2,
        unwritten: 0,
        destroyed: 1,
        databaseBytes: expect.any(Number),
        damaged: { count: 0, first: [] },
        unread: { count: 0, first: [] },
        // Of the one that was destroyed.
        past: { restorable: 1, damaged: { count: 0, first: [] }, unread: { count: 0, first: [] } },
        garbage: { bodies: 0, bytes: 0, objects: { count: 0, first: [] } },
        underWay: 0,
        strays: { count: 0, first: [] },
      },
    ]);
    expect(fs.readdirSync(env.TMPDIR)).toEqual([]);
  });

  it("names what is damaged and what is left over, and ends with 9 for damage alone", async () => {
    const { cwd, env } = await appWithObjects();
    const bucket = await openedBucket(bucketUrl(cwd));
    const { keys } = await bucket.list("objects/default/Counter/");
    const [segment = ""] = keys.filter((key) => key.includes("/a/") && key.endsWith(".seg"));
    const garbage = segment
      .replace("/a/", "/b/")
      .replace(/\/[0-9a-f]{2}\//, partOf(keys, "/b/"))
      .replace(/e\d+/, "e0");
    const bytes = (await bucket.get(segment))?.bytes ?? new Uint8Array();
    await bucket.write([
      { key: garbage, bytes: new Uint8Array(77) },
      { key: "aside", bytes: new Uint8Array(1) },
    ]);
    await bucket.stop();
    const littered = await cli({ cwd, env }, "verify");
    expect(littered).toMatchObject({ code: 0, stderr: "" });
    expect(littered.stdout.split("\n")).toEqual([
      "stray    aside",
      expect.stringMatching(/^3 objects in /),
      "what they were: 1 past manifest, 1 restorable",
      "garbage: 1 segments and snapshots of 1 object, 77 bytes",
      "belong to nothing: 1 key",
      "",
    ]);

    const again = await openedBucket(bucketUrl(cwd));
    await again.write([{ key: segment, bytes: bytes.subarray(1) }]);
    await again.stop();
    const { code, stdout } = await cli({ cwd, env }, "verify", "Counter");
    expect(code).toBe(9);
    expect(stdout).toMatch(
      /^damaged {2}default\/Counter\/a: .*\n {9}objects\/default\/Counter\/\w\w\/a\/e1\/1-1\.seg\n/,
    );
    expect(stdout).toMatch(/\), 1 destroyed, 1 DAMAGED\n/);
    const { document, code: jsonCode } = await cliJson({ cwd, env }, "verify", "Counter/a");
    expect(jsonCode).toBe(9);
    expect(document).toMatchObject({
      objects: 1,
      damaged: { count: 1, first: [{ object: "default/Counter/a", key: segment }] },
    });
    expect(await cli({ cwd, env }, "verify", "Counter/b")).toMatchObject({ code: 0 });
    expect(fs.readdirSync(env.TMPDIR)).toEqual([]);
  });

  it.each([
    [["verify", "Counter/never"], 3, "object_not_found"],
    [["verify", "Countre"], 3, "object_not_found"],
    [["verify", "--app", "other"], 3, "object_not_found"],
    [["verify", "counter"], 2, "bad_name"],
    [["verify", "--bucket", "memory:"], 2, "bad_option"],
    [["verify", "--node", "http://127.0.0.1:1"], 2, "bad_option"],
    [["verify", "--jobs", "0"], 2, "bad_option"],
    [["verify", "--bucket", "sqlite:none.db"], 7, "bucket_unusable"],
    [["verify", "--data", "none"], 7, "bucket_unusable"],
  ])("%j ends with %i, %s", async (words, exit, errorCode) => {
    const cwd = path.join(shared, "app");
    const { code, document } = await cliJson({ cwd }, ...words);
    expect([code, document]).toEqual([exit, { error: expect.objectContaining({ code: errorCode }) }]);
    expect(["none.db", "none"].filter((name) => fs.existsSync(path.join(cwd, name)))).toEqual([]);
  });

  it("stops at a signal, says what it had done until then, and removes what it was restoring", async () => {
    const { cwd, env } = await appWithObjects();
    const stub = await startS3Stub({ buckets: ["copy"] });
    onTestFinished(() => stub.stop());
    const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: stub.port } });
    onTestFinished(() => proxy.stop());
    const keys = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret", AWS_REGION: "us-east-1" };
    for (const [name, value] of Object.entries(keys)) vi.stubEnv(name, value);
    const from = await openedBucket(bucketUrl(cwd));
    const copy = await openedBucket(`s3://copy?endpoint=${stub.endpoint}`);
    for (const key of (await from.list("")).keys) {
      await copy.write([{ key, bytes: (await from.get(key))?.bytes ?? new Uint8Array() }]);
    }
    const url = `s3://copy?endpoint=${proxy.endpoint}`;
    const held = proxy.next((request) => request.key.endsWith(".seg"), { kind: "black_hole" });
    const words = ["verify", "--bucket", url, "--json", "--jobs", "1", "--set", "BUCKET_TIMEOUT_MS=500"];
    const running = new RunningCli({ cwd, env: { ...env, ...keys } }, ...words);
    await held.struck;
    running.signal("SIGINT");
    expect(await running.exit).toBe(130);
    expect(JSON.parse(running.lines.join(""))).toMatchObject({
      complete: false,
      damaged: { count: 0 },
      unread: { count: 0 },
    });
    expect(fs.readdirSync(env.TMPDIR)).toEqual([]);
    expect(await cli({ cwd, env: { ...env, ...keys } }, "verify", "--bucket", url)).toMatchObject({ code: 0 });
  });
});

test("moonport verify of a bucket that only an operator can make readable ends with 7", async () => {
  const stub = await startS3Stub({ buckets: ["closed"] });
  onTestFinished(() => stub.stop());
  stub.always("any", { status: 403, code: "InvalidAccessKeyId" });
  const env = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret", AWS_REGION: "us-east-1" };
  const url = `s3://closed?endpoint=${stub.endpoint}`;
  const { code, document } = await cliJson({ cwd: temporaryFolder(), env }, "verify", "--bucket", url);
  expect([code, document]).toMatchObject([7, { error: { code: "bucket_unusable", hint: expect.any(String) } }]);
});

describe("progress", () => {
  function stream(isTTY: boolean) {
    const written: string[] = [];
    return { isTTY, columns: 60, written, write: (text: string) => written.push(text) };
  }

  it("is a bar on a terminal, redrawn in place and not too often, and taken away", () => {
    let nowMs = 1_000;
    const terminal = stream(true);
    const bar = new ProgressBar(terminal, () => nowMs);
    bar.show(0, "no objects");
    nowMs += 50;
    bar.show(0.3, "never drawn");
    nowMs += 50;
    bar.show(0.5, "7 objects");
    bar.clear();
    bar.clear();
    expect(terminal.written).toEqual([
      `\r\u001b[K${barText(0, "no objects", 60)}`,
      `\r\u001b[K${barText(0.5, "7 objects", 60)}`,
      "\r\u001b[K",
    ]);
  });

  it("is a line now and then where nobody watches", () => {
    let nowMs = 0;
    const log = stream(false);
    const bar = new ProgressBar(log, () => nowMs);
    for (; nowMs < 25_000; nowMs += 1_000) bar.show(nowMs / 100_000, `${nowMs} objects`);
    bar.clear();
    expect(log.written).toEqual([" 10 %  10000 objects\n", " 20 %  20000 objects\n"]);
  });

  test.each([
    [0, 60, `[${".".repeat(39)}]   0 %  7 objects`],
    [0.5, 60, `[${"#".repeat(20)}${".".repeat(19)}]  50 %  7 objects`],
    [0.999, 60, `[${"#".repeat(39)}]  99 %  7 objects`],
    [0.5, 18, " 50 %  7 objects"],
    [0.5, 9, " 50 %  7"],
    [0.5, 0, ""],
    [undefined, 60, "7 objects"],
  ])("of %d in %i columns fits into them", (share, columns, expected) => {
    expect(barText(share, "7 objects", columns)).toBe(expected);
    expect(expected.length).toBeLessThan(Math.max(1, columns));
  });
});

function partOf(keys: readonly string[], name: string): string {
  const key = keys.find((one) => one.includes(name));
  return /\/[0-9a-f]{2}\//.exec(key ?? "")?.[0] ?? "//";
}
