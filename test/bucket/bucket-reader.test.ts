/** A bucket opened to be read only: what stands in it is seen, beside whoever writes it, and nothing is changed. */
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import SqliteDatabase from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Bucket, BucketReader } from "../../src/bucket/bucket.js";
import { openBucket, openBucketReader } from "../../src/bucket/open-bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { startS3Stub } from "../support/s3-stub.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const world = realWorld("/nonexistent", silentLogger);
const settings = resolveSettings();

async function started<T extends Bucket | BucketReader>(bucket: T): Promise<T> {
  onTestFinished(() => bucket.stop());
  await bucket.start();
  return bucket;
}

const reading = (url: string): Promise<BucketReader> => started(openBucketReader(url, world, settings));

async function* parts(count: number, bytes: number): AsyncGenerator<Uint8Array> {
  for (let part = 0; part < count; part++) yield new Uint8Array(bytes).fill(part);
}

/** Of every file of the folder but SQLite's index of its WAL, which readers keep too. */
function contents(folder: string): Record<string, string> {
  const names = fs.readdirSync(folder).filter((name) => !name.endsWith("-shm"));
  return Object.fromEntries(
    names.map((name) => [
      name,
      createHash("sha256")
        .update(fs.readFileSync(path.join(folder, name)))
        .digest("hex"),
    ]),
  );
}

test("an embedded bucket is read beside the one that writes it, and no byte of its files changes", async () => {
  const folder = temporaryFolder();
  const url = `sqlite:${path.join(folder, "bucket.db")}`;
  const writer = await started(openBucket(url, world, settings));
  await writer.write([{ key: "a", bytes: Buffer.from("small") }]);
  await writer.writeStream("b", parts(3, 1_000_000));
  const before = contents(folder);
  expect(Object.keys(before)).toContain("bucket.db-wal");
  const reader = await reading(url);
  expect(Buffer.from((await reader.get("a"))?.bytes ?? []).toString()).toBe("small");
  let bytes = 0;
  for await (const part of (await reader.readStream("b")) ?? []) bytes += part.length;
  expect(bytes).toBe(3_000_000);
  expect((await reader.list("")).keys).toEqual(["a", "b"]);
  await reader.stop();
  expect(contents(folder)).toEqual(before);

  const again = await reading(url);
  await writer.write([{ key: "c", bytes: Buffer.from("later") }]);
  expect((await again.list("")).keys).toEqual(["a", "b", "c"]);
});

test("what a killed writer left in its WAL is seen, and stays there", async () => {
  const [folder, copy] = [temporaryFolder(), temporaryFolder()];
  const writer = await started(openBucket(`sqlite:${path.join(folder, "bucket.db")}`, world, settings));
  await writer.write([{ key: "a", bytes: Buffer.from("in the WAL") }]);
  for (const name of ["bucket.db", "bucket.db-wal"]) fs.copyFileSync(path.join(folder, name), path.join(copy, name));
  const before = contents(copy);
  const reader = await reading(`sqlite:${path.join(copy, "bucket.db")}`);
  expect((await reader.list("")).keys).toEqual(["a"]);
  await reader.stop();
  expect(contents(copy)).toEqual(before);
});

test("a file that is not there is not made, and one that is no bucket is refused", async () => {
  const folder = temporaryFolder();
  await expect(reading(`sqlite:${path.join(folder, "none.db")}`)).rejects.toMatchObject({ code: "storage_failed" });
  expect(fs.readdirSync(folder)).toEqual([]);
  const other = path.join(folder, "other.db");
  new SqliteDatabase(other).exec("CREATE TABLE t (x)").close();
  await expect(reading(`sqlite:${other}`)).rejects.toMatchObject({ code: "bucket_unusable" });
  expect(() => openBucketReader("memory:", world, settings)).toThrow(expect.objectContaining({ code: "bad_option" }));
});

test("an S3 bucket that is only read gives up no upload, however old", async () => {
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) vi.stubEnv(name, "key");
  vi.stubEnv("AWS_REGION", "us-east-1");
  const stub = await startS3Stub({ buckets: ["test-bucket"] });
  onTestFinished(() => stub.stop());
  const { CreateMultipartUploadCommand, S3Client } = await import("@aws-sdk/client-s3");
  const client = new S3Client({ endpoint: stub.endpoint, forcePathStyle: true });
  onTestFinished(() => client.destroy());
  await client.send(new CreateMultipartUploadCommand({ Bucket: "test-bucket", Key: "left" }));
  const inAYear = { ...world, clock: { ...world.clock, wallMs: () => world.clock.wallMs() + 365 * 86_400_000 } };
  const url = `s3://test-bucket/?endpoint=${stub.endpoint}&pathStyle=true`;
  const reader = await started(openBucketReader(url, inAYear, settings));
  expect(await reader.get("a")).toBeUndefined();
  // What a sweep has in hand when the bucket is stopped is finished before.
  await reader.stop();
  expect(stub.openUploads("test-bucket")).toHaveLength(1);
  expect(stub.requests.map(({ kind }) => kind)).toEqual(["create_upload", "get"]);
});
