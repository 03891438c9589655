import fs from "node:fs";
import path from "node:path";
import SqliteDatabase from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { BucketWrite, WriteOutcome } from "../../src/bucket/bucket.js";
import { LoneWriter } from "../../src/bucket/lone-writer.js";
import { SqliteBucket } from "../../src/bucket/sqlite-bucket.js";
import { SqliteStore } from "../../src/bucket/sqlite-store.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { bucketConformance, bytesOf, textAt } from "./conformance.js";

/** A disk may be as slow as it likes: what is tested elsewhere is when to leave it. */
const PATIENT = { BUCKET_LONE_MS: 1_000 };
const world = realWorld("/nonexistent", silentLogger);

function newFile(): string {
  return path.join(temporaryFolder(), "b.sqlite");
}

/** Whoever writes is taken for alone. */
class LoneBucket extends SqliteBucket {
  override write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    return super.write(writes, { isLone: true });
  }
}

async function started(settings: Record<string, number> = PATIENT, file = newFile(), itsWorld: World = world) {
  const bucket = new LoneBucket(itsWorld, resolveSettings(settings), file);
  onTestFinished(() => bucket.stop());
  await bucket.start();
  return bucket;
}

function put(bucket: SqliteBucket, key: string, text = "x"): Promise<WriteOutcome> {
  return bucket.write([{ key, bytes: bytesOf(text) }]);
}

function holdFile(file: string): () => void {
  const other = new SqliteDatabase(file);
  other.exec("BEGIN IMMEDIATE");
  onTestFinished(() => void other.close());
  return () => void other.exec("COMMIT");
}

bucketConformance("the embedded bucket, asked by one who is alone", {
  atomic: true,
  prepare() {
    const file = newFile();
    return () => new LoneBucket(world, resolveSettings(PATIENT), file);
  },
});

describe("a lone write", () => {
  test("is made where it is asked for, and nothing else is", async () => {
    const bucket = await started();
    await put(bucket, "a");
    expect(bucket.stats()).toMatchObject({ commits: 1, loneCommits: 1 });
    await bucket.delete(["a"]);
    await bucket.bulk.write([[{ key: "b", bytes: bytesOf("x") }]]);
    expect(bucket.stats()).toMatchObject({ commits: 3, loneCommits: 1 });
  });

  test("of many that are asked for at once, the first", async () => {
    const bucket = await started();
    const thread = bucket.delete(["a"]);
    await Promise.all([thread, ...Array.from({ length: 10 }, (_, index) => put(bucket, `a/${index}`))]);
    expect(bucket.stats().loneCommits).toBe(0);
    await Promise.all(Array.from({ length: 10 }, (_, index) => put(bucket, `a/${index}`)));
    expect((await bucket.list("a/")).keys).toHaveLength(10);
  });

  test("of every 64 one goes to the thread, which copies the WAL into the file", async () => {
    const file = newFile();
    const bucket = await started(PATIENT, file);
    const text = "x".repeat(60_000);
    let walBytes = 0;
    for (let index = 0; index < 640; index++) {
      await put(bucket, `a/${index % 64}`, text);
      walBytes = Math.max(walBytes, fs.statSync(`${file}-wal`).size);
    }
    expect(bucket.stats()).toMatchObject({ commits: 640, loneCommits: 630 });
    // 4,000 pages and what 64 writes add; all of them are 40 MB.
    expect(walBytes).toBeLessThan(24 * 1024 * 1024);
  });

  test("of more than 64 KiB goes to the thread", async () => {
    const bucket = await started();
    await put(bucket, "a", "x".repeat(64 * 1024 + 1));
    expect(bucket.stats().loneCommits).toBe(0);
    expect(await textAt(bucket, "a")).toHaveLength(64 * 1024 + 1);
  });

  test("is never made here where BUCKET_LONE_MS is 0, or several processes share the file", async () => {
    const never = await started({ BUCKET_LONE_MS: 0 });
    await put(never, "a");
    const shared = new SqliteBucket(world, resolveSettings(PATIENT), newFile(), { isShared: true });
    onTestFinished(() => shared.stop());
    await shared.start();
    await shared.write([{ key: "a", bytes: bytesOf("x") }], { isLone: true });
    for (const bucket of [never, shared]) expect(bucket.stats()).toMatchObject({ commits: 1, loneCommits: 0 });
  });

  test("does not wait for a file that another process holds: the thread does", async () => {
    const file = newFile();
    const bucket = await started(PATIENT, file);
    await put(bucket, "a", "one");
    const release = holdFile(file);
    const write = put(bucket, "a", "two");
    expect(await textAt(bucket, "a")).toBe("one");
    release();
    await write;
    expect(await textAt(bucket, "a")).toBe("two");
    expect(bucket.stats()).toMatchObject({ commits: 2, loneCommits: 1 });
  });

  test("does not overtake what has timed out on the thread and may happen yet", async () => {
    const file = newFile();
    const time = new VirtualTime();
    const bucket = await started(PATIENT, file, new VirtualWorld({ time, root: temporaryFolder() }));
    await put(bucket, "a", "one");
    const release = holdFile(file);
    const deleted = bucket.delete(["a"]).catch((error: unknown) => error);
    await time.settle();
    await time.advance(10_000);
    expect(await deleted).toMatchObject({ code: "bucket_failed", details: { outcome: "unknown" } });
    release();
    await put(bucket, "a", "two");
    // The thread has done all that it was given when it has done this.
    await bucket.delete(["b"]);
    expect(await textAt(bucket, "a")).toBe("two");
  });

  test("has the parts swept of what it replaces", async () => {
    const file = newFile();
    const bucket = await started(PATIENT, file);
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let part = 0; part < 12; part++) yield new Uint8Array(1024 * 1024);
    }
    await bucket.writeStream("big", parts());
    // What the start of a bucket sweeps is over.
    for (let turn = 0; turn < 4; turn++) await bucket.delete(["none"]);
    const before = bucket.stats().loneCommits;
    await put(bucket, "big");
    expect(bucket.stats().loneCommits).toBe(before + 1);
    const rest = new SqliteDatabase(file, { readonly: true });
    onTestFinished(() => void rest.close());
    await expect.poll(() => rest.prepare("SELECT count(*) FROM parts").pluck().get(), { timeout: 20_000 }).toBe(0);
  });

  test("never copies the WAL into the file itself", () => {
    const file = newFile();
    const thread = new SqliteStore(file, 0);
    onTestFinished(() => thread.close());
    const sizeBytes = fs.statSync(file).size;
    const beside = new SqliteStore(file, 0, { isBeside: true });
    onTestFinished(() => beside.close());
    const bytes = [new Uint8Array(20 * 1024 * 1024)];
    beside.applyGroup([{ kind: "write_many", sizes: [1], keys: ["a"], bytes, versions: [undefined] }]);
    expect(fs.statSync(file).size).toBe(sizeBytes);
  });

  test("leaves one file at a stop, with no WAL beside it", async () => {
    const file = newFile();
    const bucket = await started(PATIENT, file);
    await put(bucket, "a");
    await bucket.stop();
    expect(fs.readdirSync(path.dirname(file)).filter((name) => name.startsWith("b.sqlite-"))).toEqual([]);
    await expect(put(bucket, "a")).rejects.toMatchObject({ details: { outcome: "refused" } });
  });

  test("whatever is written alone, among others or deleted, the last of each key stands there", async () => {
    const key = fc.constantFrom("a", "b", "c");
    const step = fc.oneof(
      fc.record({ kind: fc.constant("lone"), key }),
      fc.record({ kind: fc.constant("thread"), key }),
      fc.record({ kind: fc.constant("delete"), key }),
      fc.record({ kind: fc.constant("settle"), key }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const bucket = new SqliteBucket(world, resolveSettings(PATIENT), newFile());
        await bucket.start();
        const model = new Map<string, string>();
        let asked: Promise<unknown>[] = [];
        for (const [index, { kind, key }] of steps.entries()) {
          const writes = [{ key, bytes: bytesOf(String(index)) }];
          if (kind === "settle") {
            await Promise.all(asked);
            asked = [];
          } else if (kind === "delete") asked.push(bucket.delete([key]));
          else asked.push(bucket.write(writes, { isLone: kind === "lone" }));
          if (kind === "delete") model.delete(key);
          else if (kind !== "settle") model.set(key, String(index));
        }
        await Promise.all(asked);
        for (const name of ["a", "b", "c"]) expect(await textAt(bucket, name)).toBe(model.get(name));
        await bucket.stop();
      }),
      { numRuns: 15 },
    );
  });
});

describe("a disk that is slow", () => {
  /** Each write takes so long. */
  function writerOver(tookMs: number[]): { write(): boolean; pass(ms: number): void } {
    const file = newFile();
    new SqliteStore(file, 0).close();
    let nowMs = 0;
    let isBegun = false;
    const clock = {
      wallMs: () => 0,
      monotonicMs: () => {
        if (isBegun) nowMs += tookMs.shift() ?? 0;
        isBegun = !isBegun;
        return nowMs;
      },
    };
    const writer = new LoneWriter({ clock, log: silentLogger }, resolveSettings({ BUCKET_LONE_MS: 2 }), file);
    onTestFinished(() => writer.close());
    const writes = [{ key: "a", bytes: bytesOf("x"), condition: undefined }];
    return {
      write: () => {
        const isDone = writer.write({ kind: "write", writes }) !== undefined;
        isBegun = false;
        return isDone;
      },
      pass: (ms) => {
        nowMs += ms;
      },
    };
  }

  test("holds up the thread for no more than a tenth of the time beyond BUCKET_LONE_MS", () => {
    const writer = writerOver([2, 12, 1]);
    expect(writer.write()).toBe(true);
    expect(writer.write()).toBe(true);
    expect(writer.write()).toBe(false);
    writer.pass(89);
    expect(writer.write()).toBe(false);
    writer.pass(1);
    expect(writer.write()).toBe(true);
    expect(writer.write()).toBe(true);
  });
});
