import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { probeBucket } from "../../src/bucket/probe.js";
import { SqliteBucket } from "../../src/bucket/sqlite-bucket.js";
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

test("memory: gives a bucket in memory", () => {
  expect(open("memory:")).toBeInstanceOf(MemoryBucket);
});

test.each([
  ["s3://bucket", /not in this version/, /sqlite:PATH/],
  ["sqlte:b.sqlite", /no kind of bucket called "sqlte"/, /did you mean sqlite:\?/],
  ["SQLITE:b.sqlite", /no kind of bucket/, /did you mean sqlite:\?/],
  ["memory", /no kind of bucket/, /did you mean memory:\?/],
  ["./b.sqlite", /no kind of bucket/, /did you mean sqlite:\.\/b\.sqlite\?/],
  ["gcs://bucket", /no kind of bucket called "gcs"/, /sqlite:PATH or memory:/],
  ["", /no kind of bucket/, /sqlite:PATH or memory:/],
  ["sqlite:", /needs the path/, /sqlite:PATH/],
  ["sqlite::memory:", /plain path/, /sqlite:PATH/],
  ["sqlite://host/b", /plain path/, /sqlite:PATH/],
  ["sqlite:a\0b", /NUL/, /sqlite:PATH/],
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

test("a secret in a URL does not reach the message", () => {
  expect(() => open("s3://key:secret@host/bucket")).toThrow(/"s3:\/\/\.\.\.@host\/bucket"/);
});

test("a worker's file lies beside the compiled module, and in dist for a module that runs from its source", () => {
  expect(workerFile("file:///app/dist/src/bucket/a.js", "./w.js").href).toBe("file:///app/dist/src/bucket/w.js");
  expect(workerFile("file:///src/app/src/bucket/a.ts", "./w.js").href).toBe("file:///src/app/dist/src/bucket/w.js");
});
