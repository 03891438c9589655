/** What S3 is to a whole node: its history on a real S3 server, and nothing at all where the bucket is another. */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { probeBucket } from "../../src/bucket/probe.js";
import { Moonport } from "../../src/index.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { startedS3Bucket, world } from "./s3-started.js";

const COUNTER = `
local Counter = class "Counter"

function Counter:add(n)
  local sum = (state.store.get("sum") or 0) + n
  state.store.set("sum", sum)
  return sum
end

return Counter
`;

interface CounterMethods {
  add(n: number): number;
}

async function nodeOn(bucket: string): Promise<Moonport> {
  const dataDir = path.join(temporaryFolder(), "data");
  const moonport = await Moonport.open({ dataDir, bucket, classes: { Counter: COUNTER }, log: { level: "silent" } });
  onTestFinished(() => moonport.close());
  return moonport;
}

describeOnRealS3("a node with its bucket on S3", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  test("finds on an empty disk what a node before it was told had landed", async () => {
    const url = s3().bucketUrl(`node/${randomUUID()}`);
    const first = await nodeOn(url);
    const counters = Array.from({ length: 20 }, (_, index) => `c-${index}`);
    for (let round = 1; round <= 3; round += 1) {
      await Promise.all(counters.map((key) => first.object<CounterMethods>("Counter", key).add(round)));
    }
    await first.close();
    const second = await nodeOn(url);
    const sums = await Promise.all(counters.map((key) => second.object<CounterMethods>("Counter", key).add(10)));
    expect(sums).toEqual(counters.map(() => 16));
  });

  test("does not start on a URL with the wrong quotes, and is told which option to change", async () => {
    const url = s3().bucketUrl(`node/${randomUUID()}`).replace("ifMatchQuotes=false", "ifMatchQuotes=true");
    await expect(nodeOn(url)).rejects.toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringContaining("try ifMatchQuotes=false"),
    });
  });

  test("does not start with wrong credentials, or on a bucket that is not there", async () => {
    const { bucket } = s3();
    const url = s3().bucketUrl(`node/${randomUUID()}`);
    await expect(nodeOn(url.replace(bucket, "no-such-bucket"))).rejects.toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringContaining("make the bucket no-such-bucket first"),
    });
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wrong");
    onTestFinished(() => void vi.stubEnv("AWS_SECRET_ACCESS_KEY", s3().env.AWS_SECRET_ACCESS_KEY));
    await expect(nodeOn(url)).rejects.toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringContaining("AWS_SECRET_ACCESS_KEY"),
    });
  });

  test("finds the bucket refusing while its gateway is dead, and well again when that is back", async () => {
    const gateway = await s3().startGateway();
    const bucket = await startedS3Bucket(s3().bucketUrl(`node/${randomUUID()}`, gateway), {
      settings: { BUCKET_TIMEOUT_MS: 10_000 },
    });
    await probeBucket(bucket, world);
    await gateway.kill();
    await expect(bucket.get("a")).rejects.toMatchObject({ code: "bucket_failed", details: { outcome: "refused" } });
    await gateway.restart();
    await probeBucket(bucket, world);
  });
});

test("a bucket of another kind never loads the SDK, and loading it says nothing to users", () => {
  const [open, settings, world, log] = [
    "bucket/open-bucket",
    "settings/settings",
    "world/real-world",
    "world/logger",
  ].map((file) => pathToFileURL(path.join(packageRoot, "dist", "src", `${file}.js`)).href);
  const script = `
    import Module from "node:module";
    import { openBucket } from "${open}";
    import { resolveSettings } from "${settings}";
    import { realWorld } from "${world}";
    import { silentLogger } from "${log}";
    const isLoaded = () => Object.keys(Module._cache).some((file) => /@aws-sdk|@smithy/.test(file));
    const said = [];
    for (const url of ["sqlite:b.sqlite", "s3://bucket?region=eu-west-1"]) {
      const bucket = openBucket(url, realWorld(".", silentLogger), resolveSettings());
      await bucket.start();
      said.push(isLoaded());
      await bucket.stop();
    }
    console.log(JSON.stringify(said));
  `;
  const env = { ...process.env, AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret" };
  const flags = ["--input-type=module", "--eval", script];
  const child = spawnSync(process.execPath, flags, { cwd: temporaryFolder(), env, encoding: "utf8" });
  expect(child.stderr).toBe("");
  expect(JSON.parse(child.stdout)).toEqual([false, true]);
});
