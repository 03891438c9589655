import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import SqliteDatabase from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { SqliteBucket } from "../../src/bucket/sqlite-bucket.js";
import type { LaneRequest } from "../../src/bucket/sqlite-protocol.js";
import { WorkerLane } from "../../src/bucket/worker-lane.js";
import { MoonportError } from "../../src/errors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { bucketConformance, bytesOf, put, textAt, textOf } from "./conformance.js";

const world = realWorld("/nonexistent", silentLogger);

function newFile(): string {
  return path.join(temporaryFolder(), "bucket", "b.sqlite");
}

async function started(
  file: string,
  settings: Record<string, number> = {},
  itsWorld: World = world,
): Promise<SqliteBucket> {
  const bucket = new SqliteBucket(itsWorld, resolveSettings(settings), file);
  onTestFinished(() => bucket.stop());
  await bucket.start();
  return bucket;
}

function writeOf(key: string): LaneRequest {
  return { kind: "write", writes: [{ key, bytes: bytesOf("x"), condition: undefined }] };
}

/** Another process's hold on the file, as far as SQLite is concerned. */
function holdFile(file: string): () => void {
  const other = new SqliteDatabase(file);
  other.exec("BEGIN IMMEDIATE");
  onTestFinished(() => void other.close());
  return () => void other.exec("COMMIT");
}

bucketConformance("the embedded bucket", {
  atomic: true,
  prepare() {
    const file = newFile();
    return () => new SqliteBucket(world, resolveSettings(), file);
  },
});

describe("group commit", () => {
  test("writes that arrive together share one transaction", async () => {
    const bucket = await started(newFile());
    const before = bucket.stats();
    await Promise.all(Array.from({ length: 200 }, (_, index) => put(bucket, `a/${index}`, "x")));
    const after = bucket.stats();
    expect(after.changes - before.changes).toBe(200);
    expect(after.commits - before.commits).toBe(1);
  });

  test("what arrives while a group commits becomes the next group", async () => {
    const bucket = await started(newFile());
    const before = bucket.stats().commits;
    const lanes = Array.from({ length: 32 }, async (_, lane) => {
      for (let round = 0; round < 20; round += 1) await put(bucket, `a/${lane}`, String(round));
    });
    await Promise.all(lanes);
    expect(bucket.stats().commits - before).toBeLessThan((32 * 20) / 4);
  });

  test("a group in which every condition was lost is no transaction", async () => {
    const bucket = await started(newFile());
    await put(bucket, "a", "x");
    const before = bucket.stats().commits;
    await Promise.all(Array.from({ length: 5 }, () => put(bucket, "a", "y", { absent: true })));
    expect(bucket.stats().commits).toBe(before);
  });
});

describe("bounds", () => {
  test("one request more than BUCKET_QUEUE_MAX is refused, the others land", async () => {
    const bucket = await started(newFile(), { BUCKET_QUEUE_MAX: 10 });
    const outcomes = await Promise.allSettled(Array.from({ length: 12 }, (_, index) => put(bucket, `a/${index}`, "x")));
    const refused = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
    expect(refused.length).toBeGreaterThanOrEqual(1);
    for (const error of refused) {
      expect(error).toMatchObject({ code: "bucket_failed", hint: "BUCKET_QUEUE_MAX bounds them" });
      expect(error).toMatchObject({ details: { outcome: "refused" } });
    }
    expect((await bucket.list("a/")).keys).toHaveLength(12 - refused.length);
  });

  test("a file that another process holds too long refuses the group, and the next one lands", async () => {
    const file = newFile();
    const bucket = await started(file, { BUCKET_TIMEOUT_MS: 2_000 });
    const release = holdFile(file);
    await expect(put(bucket, "a", "x")).rejects.toMatchObject({
      code: "bucket_failed",
      details: { outcome: "refused", storage: "busy" },
    });
    release();
    expect((await put(bucket, "a", "x", { absent: true })).kind).toBe("landed");
  });

  test("reads do not wait behind a write that waits", async () => {
    const file = newFile();
    const bucket = await started(file);
    await put(bucket, "a", "one");
    const release = holdFile(file);
    const write = put(bucket, "a", "two");
    expect(await textAt(bucket, "a")).toBe("one");
    expect((await bucket.list("")).keys).toEqual(["a"]);
    release();
    await write;
    expect(await textAt(bucket, "a")).toBe("two");
  });

  test("a crowd does not wait for the answers to what left before it; what comes behind it one by one does", async () => {
    const file = newFile();
    const time = new VirtualTime();
    const settings = resolveSettings();
    const lane = new WorkerLane(new VirtualWorld({ time, root: temporaryFolder() }), settings, file, "writer");
    await lane.start();
    onTestFinished(() => lane.stop());
    const release = holdFile(file);
    const writes: Promise<string>[] = [];
    const outcomeOf = (write: Promise<unknown>): Promise<string> =>
      write.then(
        () => "landed",
        (error: { readonly details: { readonly outcome: string } }) => error.details.outcome,
      );
    for (const group of [1, 1, 40, 1, 1]) {
      for (let index = 0; index < group; index++) {
        writes.push(outcomeOf(lane.request(writeOf(`${writes.length}`))));
      }
      await time.settle();
    }
    await time.advance(settings.BUCKET_TIMEOUT_MS + 1);
    const outcomes = await Promise.all(writes);
    release();
    expect(outcomes).toEqual([...Array.from({ length: 42 }, () => "unknown"), "refused", "refused"]);
  });

  test("a write that got no answer in time is unknown and may land; one that never left is refused and does not", async () => {
    const file = newFile();
    const time = new VirtualTime();
    const bucket = await started(file, {}, new VirtualWorld({ time, root: temporaryFolder() }));
    const release = holdFile(file);
    const writes = [];
    for (const key of ["first", "second", "third", "fourth"]) {
      writes.push(put(bucket, key, "x"));
      await time.settle();
    }
    const outcomes = Promise.allSettled(writes);
    await time.advance(10_000);
    const details = (await outcomes).map((outcome) => outcome.status === "rejected" && outcome.reason.details.outcome);
    expect(details).toEqual(["unknown", "unknown", "refused", "refused"]);
    release();
    await put(bucket, "last", "x");
    expect((await bucket.list("")).keys).toEqual(["first", "last", "second"]);
  });

  test("a stream takes from its source only as fast as the store takes the parts", async () => {
    const bucket = await started(newFile());
    let ahead = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      for (let part = 0; part < 20; part += 1) {
        ahead = Math.max(ahead, part - bucket.stats().commits);
        yield new Uint8Array(1024 * 1024);
      }
    }
    await bucket.writeStream("big", source());
    expect(ahead).toBeLessThanOrEqual(2);
  });
});

describe("a thread that dies", () => {
  // No request of the public surface can kill the thread; an unknown kind can.
  const poison = { kind: "no such request" } as unknown as LaneRequest;
  test("leaves its writes unknown, and another thread goes on", async () => {
    const file = newFile();
    const lane = new WorkerLane(world, resolveSettings(), file, "writer");
    await lane.start();
    onTestFinished(() => lane.stop());
    // The first three leave together, as one request.
    const keys = ["a", "b", "c"];
    const outcomes = await Promise.allSettled([
      ...keys.map((key) => lane.request(writeOf(key))),
      lane.request(poison),
      lane.request(writeOf("d")),
    ]);
    const unknown = { status: "rejected", reason: { details: { outcome: "unknown" } } };
    expect(outcomes).toMatchObject(outcomes.map(() => unknown));
    expect(await lane.request(writeOf("e"))).toMatchObject({ kind: "landed" });
    const bucket = await started(file);
    expect((await bucket.list("")).keys).toEqual([...keys, "d", "e"]);
  });

  test("refuses its reads", async () => {
    const file = newFile();
    await (await started(file)).stop();
    const lane = new WorkerLane(world, resolveSettings(), file, "reader");
    await lane.start();
    onTestFinished(() => lane.stop());
    const outcomes = await Promise.allSettled([lane.request(poison), lane.request({ kind: "get", key: "a" })]);
    expect(outcomes[1]).toMatchObject({ status: "rejected", reason: { details: { outcome: "refused" } } });
    expect(await lane.request({ kind: "get", key: "a" })).toEqual({ kind: "absent" });
  });

  test("during a stop does not keep the stop from ending", async () => {
    const lane = new WorkerLane(world, resolveSettings(), newFile(), "writer");
    await lane.start();
    const doomed = lane.request(poison).catch((error: unknown) => error);
    await lane.stop();
    expect(await doomed).toBeInstanceOf(MoonportError);
  });
});

describe("opening", () => {
  test("a file that is another SQLite database is refused and stays as it is", async () => {
    const file = path.join(temporaryFolder(), "other.sqlite");
    const other = new SqliteDatabase(file);
    other.exec("CREATE TABLE mine (id)");
    other.close();
    await expect(started(file)).rejects.toMatchObject({ code: "bucket_unusable" });
    const again = new SqliteDatabase(file);
    expect(again.prepare("SELECT name FROM sqlite_schema").pluck().all()).toEqual(["mine"]);
    again.close();
  });

  test("a bucket of another format is refused, naming both", async () => {
    const file = newFile();
    await (await started(file)).stop();
    const other = new SqliteDatabase(file);
    other.pragma("user_version = 99");
    other.close();
    await expect(started(file)).rejects.toThrow(/format 99; this version reads format 1/);
  });

  test("a file that is no database at all is refused", async () => {
    const file = path.join(temporaryFolder(), "text.sqlite");
    fs.writeFileSync(file, "this is not a database, only a long enough text. ".repeat(100));
    await expect(started(file)).rejects.toMatchObject({ code: "bucket_unusable" });
  });

  test("a path that cannot be a file is refused", async () => {
    await expect(started(temporaryFolder())).rejects.toMatchObject({ code: "storage_failed" });
  });

  test("many processes' worth of buckets opening a new file at once all succeed", async () => {
    const file = newFile();
    const buckets = await Promise.all(Array.from({ length: 6 }, () => started(file)));
    await Promise.all(buckets.map((bucket, index) => put(bucket, `a/${index}`, "x")));
    expect((await (buckets[0] as Bucket).list("a/")).keys).toHaveLength(6);
  });

  test("a stop leaves one file, with no WAL beside it", async () => {
    const file = newFile();
    const bucket = await started(file);
    await put(bucket, "a", "x");
    await bucket.stop();
    expect(fs.readdirSync(path.dirname(file))).toEqual(["b.sqlite"]);
  });
});

describe("several processes on a shared file", () => {
  const PROCESSES = 3;
  const CREATIONS = 150;
  const ADDITIONS = 60;
  const script = fileURLToPath(new URL("./fixtures/race.mjs", import.meta.url));

  interface Raced {
    readonly pid: number;
    readonly won: readonly number[];
    readonly added: number;
  }

  /** Starts them all, lets them go when all are there, and gives what each says of itself. */
  async function race(file: string): Promise<Raced[]> {
    const children = Array.from({ length: PROCESSES }, () =>
      spawn(process.execPath, [script, file, "true", `${CREATIONS}`, `${ADDITIONS}`], {
        stdio: ["pipe", "pipe", "inherit"],
      }),
    );
    onTestFinished(() => {
      for (const child of children) child.kill("SIGKILL");
    });
    const lines = children.map((child) => readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]());
    for (const one of lines) expect((await one.next()).value).toBe("started");
    for (const child of children) child.stdin.end("go\n");
    return Promise.all(lines.map(async (one) => JSON.parse((await one.next()).value) as Raced));
  }

  test("race for keys: exactly one creates each, and no addition is lost", async () => {
    const file = newFile();
    const all = await race(file);
    const winners = all.flatMap(({ pid, won }) => won.map((key) => [key, `${pid}`] as const));
    expect(winners.map(([key]) => key).sort((left, right) => left - right)).toEqual([...Array(CREATIONS).keys()]);
    const bucket = await started(file);
    for (const [key, pid] of winners) expect(await textAt(bucket, `race/${key}`)).toBe(pid);
    expect(all.map(({ added }) => added)).toEqual(Array(PROCESSES).fill(ADDITIONS));
    expect(await textAt(bucket, "counter")).toBe(`${PROCESSES * ADDITIONS}`);
  });
});

describe("a killed process", () => {
  const script = fileURLToPath(new URL("./fixtures/put-until-killed.mjs", import.meta.url));

  /** Runs until `lines` writes are acknowledged, kills it, and gives all that it acknowledged. */
  async function runUntilKilled(file: string, prefix: string, lines: number): Promise<string[]> {
    const child: ChildProcess = spawn(process.execPath, [script, file, prefix], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = new Promise<void>((resolve) => void child.once("close", () => resolve()));
    let output = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.split("\n").length > lines) child.kill("SIGKILL");
    });
    await exited;
    expect(child.signalCode).toBe("SIGKILL");
    return output.slice(0, output.lastIndexOf("\n")).split("\n");
  }

  test("has lost nothing that was acknowledged, and left nothing half", async () => {
    const file = newFile();
    for (const [round, lines] of [300, 50, 700].entries()) {
      const acknowledged = (
        await Promise.all(
          ["one", "two"].map(async (name) => {
            const prefix = `${round}-${name}`;
            return (await runUntilKilled(file, prefix, lines)).map((line) => [prefix, ...line.split(" ")] as const);
          }),
        )
      ).flat();
      const bucket = await started(file);
      for (const [prefix, lane, number] of acknowledged) {
        const key = `${prefix}/${lane}/${number}`;
        expect((await textAt(bucket, key))?.trimEnd()).toBe(key);
        expect(Number(await textAt(bucket, `${prefix}/head/${lane}`))).toBeGreaterThanOrEqual(Number(number));
      }
      for (const prefix of [`${round}-one`, `${round}-two`]) await expectHeadsMatch(bucket, prefix);
      await bucket.stop();
    }
    const database = new SqliteDatabase(file);
    expect(database.pragma("integrity_check", { simple: true })).toBe("ok");
    database.close();
  });

  /** Each batch wrote an entry and the head that counts it: both are there or neither. */
  async function expectHeadsMatch(bucket: Bucket, prefix: string): Promise<void> {
    for (const headKey of (await bucket.list(`${prefix}/head/`)).keys) {
      const lane = headKey.slice(headKey.lastIndexOf("/") + 1);
      const head = Number(await textAt(bucket, headKey));
      expect(await bucket.get(`${prefix}/${lane}/${head}`)).toBeDefined();
      expect(await bucket.get(`${prefix}/${lane}/${head + 1}`)).toBeUndefined();
    }
  }
});

test("a full disk refuses with its reason, keeps what landed, and takes writes again when there is room", async (context) => {
  const folder = temporaryFolder();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], { stdio: "pipe" });
  } catch {
    return context.skip("needs the right to mount a small tmpfs");
  }
  onTestFinished(() => void execFileSync("umount", ["-l", folder]));
  const ballast = path.join(folder, "ballast");
  fs.writeFileSync(ballast, Buffer.alloc(800_000));
  const bucket = await started(path.join(folder, "b.sqlite"));

  let landed = 0;
  let failure: unknown;
  while (failure === undefined) {
    const write = bucket.write([{ key: `a/${landed}`, bytes: new Uint8Array(20_000).fill(landed % 256) }]);
    await write.then(
      () => void landed++,
      (error: unknown) => {
        failure = error;
      },
    );
  }
  expect(failure).toMatchObject({ code: "bucket_failed", details: { outcome: "refused", storage: "full" } });
  expect((failure as MoonportError).hint).toMatch(/full/);
  expect(landed).toBeGreaterThan(5);
  expect((await bucket.list("a/")).keys).toHaveLength(landed);
  for (let index = 0; index < landed; index += 1) expect((await bucket.get(`a/${index}`))?.bytes[0]).toBe(index);

  fs.rmSync(ballast);
  expect((await put(bucket, "after", "room", { absent: true })).kind).toBe("landed");
  await bucket.stop();
  const again = await started(path.join(folder, "b.sqlite"));
  expect(textOf((await again.get("after"))?.bytes)).toBe("room");
  expect((await again.list("a/")).keys).toHaveLength(landed);
});
