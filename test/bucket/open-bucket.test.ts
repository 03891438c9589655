import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { probeBucket } from "../../src/bucket/probe.js";
import { S3Bucket } from "../../src/bucket/s3/s3-bucket.js";
import { SqliteBucket } from "../../src/bucket/sqlite-bucket.js";
import { sqliteLocation } from "../../src/bucket/sqlite-location.js";
import type { MoonportError } from "../../src/errors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { workerFile } from "../../src/world/worker-file.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const world = realWorld("/nonexistent", silentLogger);
const open = (url: string) => openBucket(url, world, resolveSettings());

test("sqlite:PATH gives the embedded bucket, which passes the probe", async () => {
  const url = `sqlite:${path.join(temporaryFolder(), "with space", "b:c.sqlite")}`;
  const bucket = open(url);
  onTestFinished(() => bucket.stop());
  expect(bucket).toBeInstanceOf(SqliteBucket);
  expect(bucket.name).toBe(url);
  await bucket.start();
  await probeBucket(bucket, world);
  expect((await bucket.list("")).keys).toEqual([]);
});

test("sqlite:PATH?shared=1 gives the same file, whose writers take turns", async () => {
  const file = path.join(temporaryFolder(), "a?b=c", "b.sqlite");
  for (const [url, isShared] of [
    [`sqlite:${file}?shared=1`, true],
    [`sqlite:${file}?shared=0`, false],
    [`sqlite:${file}`, false],
  ] as const) {
    expect(sqliteLocation(url)).toEqual({ path: file, isShared });
    const bucket = open(url);
    expect(bucket.name).toBe(`sqlite:${file}`);
    await bucket.start();
    const read = await bucket.get("a");
    const outcome = await bucket.write([{ key: "a", bytes: new Uint8Array(1) }]);
    expect([read === undefined, outcome.kind]).toEqual([isShared, "landed"]);
    await bucket.stop();
  }
});

test("memory: gives a bucket in memory", () => {
  expect(open("memory:")).toBeInstanceOf(MemoryBucket);
});

test.each([
  ["s3:bucket", /two slashes/, /s3:\/\/BUCKET/],
  ["s4://bucket", /no kind of bucket called "s4"/, /did you mean s3:\?/],
  ["sqlte:b.sqlite", /no kind of bucket called "sqlte"/, /did you mean sqlite:\?/],
  ["SQLITE:b.sqlite", /no kind of bucket/, /did you mean sqlite:\?/],
  ["memory", /no kind of bucket/, /did you mean memory:\?/],
  ["./b.sqlite", /no kind of bucket/, /did you mean sqlite:\.\/b\.sqlite\?/],
  ["gcs://bucket", /no kind of bucket called "gcs"/, /sqlite:PATH, s3:\/\/BUCKET\/PREFIX or memory:/],
  ["", /no kind of bucket/, /sqlite:PATH, s3:\/\/BUCKET\/PREFIX or memory:/],
  ["sqlite:", /needs the path/, /sqlite:PATH/],
  ["sqlite::memory:", /plain path/, /sqlite:PATH/],
  ["sqlite://host/b", /plain path/, /sqlite:PATH/],
  ["sqlite:a\0b", /NUL/, /sqlite:PATH/],
  ["sqlite:b.sqlite?shraed=1", /no option called "shraed"/, /did you mean shared\?/],
  ["sqlite:b.sqlite?mode=ro", /no option called "mode"/, /takes shared=1/],
  ["sqlite:b.sqlite?shared=yes", /shared is 1 or 0, not "yes"/, /sqlite:PATH\?shared=1/],
  ["memory:x", /takes nothing/, /memory:/],
])("%j is refused with a hint", (url, message, hint) => {
  expect(() => open(url)).toThrow(
    expect.objectContaining({
      code: "bad_option",
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint),
    }),
  );
});

test("s3://BUCKET/PREFIX gives an S3 bucket, named by what tells it from others", () => {
  const bucket = open("s3://my-bucket/some/prefix/?region=eu-central-1&checksums=when-required");
  expect(bucket).toBeInstanceOf(S3Bucket);
  expect(bucket.name).toBe("s3://my-bucket/some/prefix");
});

test.each([
  "s3://key:HIDDEN@host/bucket",
  "s3://bucket/p?secretAccessKey=HIDDEN",
  "s3://bucket/p?X-Amz-Signature=HIDDEN",
  "s3://bucket/p?endpoint=http://key:HIDDEN@host",
  "sqlite://key:HIDDEN@host/b",
  "gcs://key:HIDDEN@host/b",
])("a secret in %s does not reach the error", (url) => {
  const error = thrownBy(() => open(url)) as MoonportError;
  expect(error).toMatchObject({ code: "bad_option" });
  expect(`${error.message} ${error.hint} ${JSON.stringify(error.details)}`).not.toContain("HIDDEN");
});

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("it did not throw");
}

test("a worker's file lies beside the compiled module, and in dist for a module that runs from its source", () => {
  expect(workerFile("file:///app/dist/src/bucket/a.js", "./w.js").href).toBe("file:///app/dist/src/bucket/w.js");
  expect(workerFile("file:///src/app/src/bucket/a.ts", "./w.js").href).toBe("file:///src/app/dist/src/bucket/w.js");
});
