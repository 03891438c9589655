/**
 * The S3 bucket against a stub, for what the real server at hand does not do: AWS's own answers, stores that lie, clocks that
 * are wrong, throttling. What holds on a real store is shown on the real one.
 */
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { probeBucket } from "../../src/bucket/probe.js";
import { S3Bucket } from "../../src/bucket/s3/s3-bucket.js";
import { parseS3Url } from "../../src/bucket/s3/s3-location.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { startFaultProxy } from "../support/fault-proxy.js";
import { type S3Stub, type StubManners, startS3Stub } from "../support/s3-stub.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { bucketConformance, put, textAt } from "./conformance.js";
import { startedS3Bucket, world } from "./s3-started.js";

const NAME = "stubbed";

beforeEach(() => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "key");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  vi.stubEnv("AWS_REGION", "us-east-1");
  return () => vi.unstubAllEnvs();
});

async function stubWith(manners: Partial<StubManners> = {}): Promise<S3Stub> {
  const stub = await startS3Stub({ buckets: [NAME], manners });
  onTestFinished(() => stub.stop());
  return stub;
}

function urlOf(stub: Pick<S3Stub, "endpoint">, more = ""): string {
  return `s3://${NAME}?endpoint=${stub.endpoint}${more}`;
}

describe("on a stub with AWS's answers", () => {
  let stub: S3Stub;
  beforeEach(async () => {
    stub = await startS3Stub({ buckets: [NAME], manners: { ifMatchQuotes: "required", conflictsInRaces: true } });
    return () => stub.stop();
  });

  bucketConformance("without a prefix, the S3 bucket", {
    atomic: false,
    rivals: 24,
    prepare() {
      // In a race among dozens a store that refuses all but those without company needs many tries.
      const settings = resolveSettings({ BUCKET_TIMEOUT_MS: 60_000, BUCKET_TRIES_MAX: 20 });
      return () => new S3Bucket(world, settings, parseS3Url(urlOf(stub)));
    },
  });
});

test.each(["when-required", "when-supported"])("checksums=%s is what is sent, and both serve", async (checksums) => {
  const stub = await stubWith();
  const bucket = await startedS3Bucket(urlOf(stub, `&checksums=${checksums}`));
  await put(bucket, "a", "x");
  await put(bucket, "b", "x");
  expect(await textAt(bucket, "a")).toBe("x");
  await bucket.delete(["a", "b"]);
  const sent = stub.requests.filter(({ kind }) => kind === "put").map(({ headers }) => headers["x-amz-checksum-crc32"]);
  expect(sent.map((sum) => sum !== undefined)).toEqual([0, 0].map(() => checksums === "when-supported"));
  // No body comes in chunks with a trailer, which old stores refuse.
  expect(stub.requests.filter(({ headers }) => headers["x-amz-trailer"] !== undefined)).toEqual([]);
  expect(stub.keys(NAME)).toEqual([]);
});

describe("a write against a version", () => {
  test("is sent with its etag in quotes, or without where the URL says so, and never with anything else", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub));
    const bare = await startedS3Bucket(urlOf(stub, "&ifMatchQuotes=false"));
    await put(bucket, "a", "one", { version: "0123" });
    await put(bare, "a", "one", { version: "0123" });
    for (const version of ["", '"', "a\r\nx: y", "é"]) {
      expect(await put(bucket, "a", "one", { version })).toEqual({ kind: "lost", key: "a" });
    }
    const puts = stub.requests.filter(({ kind }) => kind === "put").map(({ headers }) => headers["if-match"]);
    expect(puts).toEqual(['"0123"', "0123"]);
  });

  test("on a key that is gone is lost, whether the store says 404 or 412", async () => {
    for (const ifMatchAbsentStatus of [404, 412] as const) {
      const bucket = await startedS3Bucket(urlOf(await stubWith({ ifMatchAbsentStatus })));
      expect(await put(bucket, "a", "one", { version: "0123" })).toEqual({ kind: "lost", key: "a" });
    }
  });

  test("in a bucket that is not there is refused, not lost", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(`s3://elsewhere?endpoint=${stub.endpoint}`);
    await expect(put(bucket, "a", "one", { version: "0123" })).rejects.toMatchObject({
      hint: expect.stringContaining("make the bucket elsewhere first"),
      details: { outcome: "refused", code: "NoSuchBucket" },
    });
  });

  test("whose answer names no version is in doubt", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub));
    stub.next("put", { status: 200, applies: false });
    await expect(put(bucket, "a", "one")).rejects.toMatchObject({ details: { outcome: "unknown" } });
  });
});

describe("the probe", () => {
  async function probed(url: string): Promise<unknown> {
    const bucket = await startedS3Bucket(url);
    return probeBucket(bucket, world).catch((error: unknown) => error);
  }

  test("passes a store that keeps its promises, and leaves nothing behind", async () => {
    const stub = await stubWith({ conflictsInRaces: true });
    expect(await probed(urlOf(stub))).toBeUndefined();
    expect(stub.keys(NAME)).toEqual([]);
  });

  test.each<readonly [string, Partial<StubManners>, string, string, RegExp]>([
    ["ignores conditions", { conditions: "ignored" }, "", "reject_create", /ignores conditional writes/],
    ["ignores If-Match", { conditions: "create_only" }, "", "reject_stale", /ignores conditional writes/],
    ["has no conditional writes", { conditions: "not_implemented" }, "", "create", /has no conditional writes/],
    ["wants etags bare", { ifMatchQuotes: "forbidden" }, "", "update", /try ifMatchQuotes=false/],
    [
      "wants etags in quotes",
      { ifMatchQuotes: "required" },
      "&ifMatchQuotes=false",
      "update",
      /try ifMatchQuotes=true/,
    ],
  ])("names what is wrong with a store that %s", async (_, manners, more, check, hint) => {
    const stub = await stubWith(manners);
    expect(await probed(urlOf(stub, more))).toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringMatching(hint),
      details: { check },
    });
    expect(stub.keys(NAME)).toEqual([]);
  });

  test.each<readonly [string, number, string | undefined, Record<string, string>, RegExp]>([
    [
      "a bucket in another region",
      301,
      "PermanentRedirect",
      { "x-amz-bucket-region": "eu-west-1" },
      /region=eu-west-1/,
    ],
    ["a signature for another region", 400, "AuthorizationHeaderMalformed", {}, /set region=/],
    ["credentials that are not known", 403, "InvalidAccessKeyId", {}, /AWS_ACCESS_KEY_ID/],
    ["credentials without rights", 403, "AccessDenied", {}, /s3:PutObject/],
  ])("asks for an operator where it meets %s", async (_, status, code, headers, hint) => {
    const stub = await stubWith();
    stub.always("any", { status, headers, ...(code !== undefined && { code }) });
    expect(await probed(urlOf(stub))).toMatchObject({
      code: "bucket_unusable",
      retryable: false,
      hint: expect.stringMatching(hint),
      details: { check: "create", code },
    });
  });

  test("names a bucket that is not there", async () => {
    const stub = await stubWith();
    expect(await probed(`s3://elsewhere?endpoint=${stub.endpoint}`)).toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringContaining("make the bucket elsewhere first"),
    });
  });

  test("says of a store that is down that it did not answer, for it may be back soon", async () => {
    const stub = await stubWith();
    const url = urlOf(stub);
    await stub.stop();
    expect(await probed(url)).toMatchObject({ code: "bucket_failed", retryable: true, details: { check: "create" } });
  });
});

describe("a clock that is wrong by twenty minutes", () => {
  test.each([20, -20])(
    "costs one write (%i minutes): it is refused with a hint, and the next is signed right",
    async (minutes) => {
      const stub = await stubWith({ clockAheadMs: minutes * 60_000 });
      const bucket = await startedS3Bucket(urlOf(stub));
      await expect(put(bucket, "a", "one")).rejects.toMatchObject({
        hint: expect.stringContaining("clock"),
        details: { outcome: "refused", code: "RequestTimeTooSkewed" },
      });
      expect((await put(bucket, "a", "two")).kind).toBe("landed");
    },
  );

  test("costs a read nothing but a second try", async () => {
    const stub = await stubWith({ clockAheadMs: 20 * 60_000 });
    const bucket = await startedS3Bucket(urlOf(stub));
    expect(await bucket.get("a")).toBeUndefined();
  });
});

describe("a store that throttles", () => {
  test("is asked nothing in the time it asked for, and half as much afterwards", async () => {
    const time = new VirtualTime();
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub), {
      world: new VirtualWorld({ time, root: temporaryFolder() }),
      settings: { BUCKET_REQUESTS_MAX: 16, BUCKET_TIMEOUT_MS: 30_000 },
    });
    const recover = stub.always("put", { status: 503, code: "SlowDown", headers: { "retry-after": "10" } });
    const puts = () => stub.requests.filter(({ kind }) => kind === "put").length;

    const burst = await Promise.allSettled(Array.from({ length: 16 }, (_, index) => put(bucket, `a/${index}`, "x")));
    for (const end of burst) {
      expect(end).toMatchObject({ reason: { retryAfterMs: 10_000, details: { outcome: "refused", throttled: true } } });
    }
    expect(puts()).toBe(16);

    const later = Array.from({ length: 40 }, (_, index) =>
      put(bucket, `b/${index}`, "x").catch((error: unknown) => error),
    );
    await time.advance(9_999);
    expect(puts()).toBe(16);

    // The pause is over, and the store refuses still: eight learn it, not forty.
    await time.advance(1);
    await vi.waitFor(() => expect(bucket.requests.throttled).toBe(24));
    expect(puts()).toBe(24);

    recover();
    await time.advance(10_000);
    await Promise.all(later);
    expect(bucket.requests).toMatchObject({ put: 16 + 40, throttled: 24, errors: 24 });
    expect(stub.keys(NAME)).toHaveLength(32);
  });

  test("for longer than a request can wait is not asked, and the caller learns at once how long", async () => {
    const time = new VirtualTime();
    const stub = await stubWith();
    const virtual = new VirtualWorld({ time, root: temporaryFolder() });
    const bucket = await startedS3Bucket(urlOf(stub), { world: virtual, settings: { BUCKET_TIMEOUT_MS: 5_000 } });
    stub.next("put", { status: 503, code: "SlowDown", headers: { "retry-after": "10" } });
    await expect(put(bucket, "a", "x")).rejects.toMatchObject({ retryAfterMs: 10_000 });
    await time.advance(4_000);
    await expect(put(bucket, "a", "x")).rejects.toMatchObject({ retryAfterMs: 6_000, details: { outcome: "refused" } });
    await expect(bucket.get("a")).rejects.toMatchObject({ retryAfterMs: 6_000, details: { outcome: "refused" } });
    expect(bucket.requests).toMatchObject({ put: 1, get: 0 });
  });

  test("by a status alone, as a proxy does, leaves a write in doubt and slows all down", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub));
    stub.next("put", { status: 429, applies: true });
    await expect(put(bucket, "a", "x")).rejects.toMatchObject({ details: { outcome: "unknown", throttled: true } });
    expect(await textAt(bucket, "a")).toBe("x");
  });
});

describe("a listing", () => {
  const pagesOf = async (bucket: S3Bucket): Promise<string[]> => {
    const keys: string[] = [];
    for (let after: string | undefined, pages = 0; pages < 9; pages++) {
      const page = await bucket.list("k/", { limit: 2, ...(after !== undefined && { after }) });
      keys.push(...page.keys);
      if (page.next === undefined) break;
      after = page.next;
    }
    return keys;
  };

  test("goes on although the store does not name where", async () => {
    const stub = await stubWith({ listing: "without_token" });
    const bucket = await startedS3Bucket(urlOf(stub));
    const keys = ["k/1", "k/2", "k/3", "k/4", "k/5"];
    for (const key of keys) await put(bucket, key, "x");
    expect(await pagesOf(bucket)).toEqual(keys);
  });

  test("that begins anew with each page is refused", async () => {
    const stub = await stubWith({ listing: "from_the_start" });
    const bucket = await startedS3Bucket(urlOf(stub));
    for (const key of ["k/1", "k/2", "k/3"]) await put(bucket, key, "x");
    await expect(pagesOf(bucket)).rejects.toMatchObject({
      message: expect.stringContaining("order"),
      details: { needsOperator: true },
    });
  });
});

test("a stream that is short enough for one request is in doubt as any other write is", async () => {
  const stub = await stubWith();
  const bucket = await startedS3Bucket(urlOf(stub));
  stub.always("put", { status: 500, applies: true });
  async function* short(): AsyncGenerator<Uint8Array> {
    yield new TextEncoder().encode("x");
  }
  await expect(bucket.writeStream("a", short())).rejects.toMatchObject({ details: { outcome: "unknown" } });
  expect(await textAt(bucket, "a")).toBe("x");
});

describe("an upload in parts", () => {
  const settings = { BUCKET_PART_BYTES: 5 * 1024 * 1024 };

  async function* megabytes(count: number): AsyncGenerator<Uint8Array> {
    for (let part = 0; part < count; part += 1) yield new Uint8Array(1024 * 1024);
  }

  test("whose completion answers 200 with an error in its body has failed, and is given up", async () => {
    const stub = await stubWith({ completesWithError: true });
    const bucket = await startedS3Bucket(urlOf(stub), { settings });
    await expect(bucket.writeStream("a", megabytes(6))).rejects.toMatchObject({ code: "bucket_failed" });
    expect(await bucket.get("a")).toBeUndefined();
    expect(stub.openUploads(NAME)).toEqual([]);
  });

  test("whose completion took effect unheard, and is not known any more, is recognised by what stands", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub), { settings });
    stub.next("complete_upload", { status: 500, applies: true });
    const version = await bucket.writeStream("a", megabytes(6));
    expect(await bucket.get("a")).toMatchObject({ version });
    expect(bucket.requests).toMatchObject({ complete_upload: 1, abort_upload: 0 });
  });

  test("has parts of one size, and takes from its source only what it can send", async () => {
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub), { settings });
    let aheadBytes = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      let givenBytes = 0;
      for await (const megabyte of megabytes(32)) {
        givenBytes += megabyte.length;
        const parts = stub.requests.filter(({ kind }) => kind === "part").length;
        aheadBytes = Math.max(aheadBytes, givenBytes - parts * settings.BUCKET_PART_BYTES);
        yield megabyte;
      }
    }
    await bucket.writeStream("a", source());
    const lengths = stub.requests.filter(({ kind }) => kind === "part").map(({ headers }) => headers["content-length"]);
    expect(lengths.toSorted()).toEqual(
      [...Array.from({ length: 6 }, () => "5242880"), String(2 * 1024 * 1024 + 20)].toSorted(),
    );
    expect(aheadBytes).toBeLessThanOrEqual(3 * settings.BUCKET_PART_BYTES);
    expect(bucket.requests).toMatchObject({ create_upload: 1, part: 7, complete_upload: 1, bytesSent: 33_554_452 });
  });

  test("that a dead node left is given up when it is stale, and one that may live is not", async () => {
    const stub = await stubWith();
    const { CreateMultipartUploadCommand, S3Client } = await import("@aws-sdk/client-s3");
    // The SDK's word on Node's version, which a bucket's own opening keeps from users.
    vi.stubEnv("AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED", "true");
    const client = new S3Client({ endpoint: stub.endpoint, forcePathStyle: true });
    onTestFinished(() => client.destroy());
    const begin = (Key: string) => client.send(new CreateMultipartUploadCommand({ Bucket: NAME, Key }));
    for (const key of ["ours/left", "ours/left too", "theirs/left"]) await begin(key);

    const url = `s3://${NAME}/ours?endpoint=${stub.endpoint}`;
    const time = new VirtualTime();
    const at = (epochWallMs: number) => new VirtualWorld({ time, root: temporaryFolder(), epochWallMs });
    const keys = () => stub.openUploads(NAME).map(({ key }) => key);
    const swept = async (agoMs: number, left: readonly string[]) => {
      // One request at a time, in the order they come: the sweep's are through when these are.
      const settings = { BUCKET_REQUESTS_MAX: 1 };
      const bucket = await startedS3Bucket(url, { world: at(world.clock.wallMs() + agoMs), settings });
      await time.advance(0);
      for (let look = 0; look < 5; look += 1) await bucket.get("x");
      expect(bucket.requests.list_uploads).toBe(1);
      await bucket.stop();
      expect(keys()).toEqual(left);
    };
    await swept(3_600_000, ["ours/left", "ours/left too", "theirs/left"]);
    // Another node that sweeps at the same time may be faster.
    stub.next("abort_upload", { status: 404, code: "NoSuchUpload", applies: true });
    await swept(2 * 86_400_000, ["theirs/left"]);
  });
});

test("many keys are deleted a thousand at a time, with a checksum that old stores ask for; keys that XML cannot carry alone", async () => {
  const stub = await stubWith();
  const bucket = await startedS3Bucket(urlOf(stub));
  const keys = Array.from({ length: 2_001 }, (_, index) => `k/${index}`);
  for (const key of ["k/0", "k/2000", "tab\t", "kept"]) await put(bucket, key, "x");
  await bucket.delete([...keys, "tab\t"]);
  expect(stub.keys(NAME)).toEqual(["kept"]);
  const many = stub.requests.filter(({ kind }) => kind === "delete_many");
  expect(many.map(({ headers }) => typeof headers["content-md5"])).toEqual(["string", "string"]);
  expect(bucket.requests.delete).toBe(4);
});

test("a store that lists keys in no order is refused, with a hint", async () => {
  const listing = (keys: readonly string[]) => {
    const contents = keys.map((key) => `<Contents><Key>${key}</Key></Contents>`).join("");
    return `<ListBucketResult>${contents}<IsTruncated>false</IsTruncated></ListBucketResult>`;
  };
  const server = http.createServer((_, response) => void response.end(listing(["b", "a"])));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const bucket = await startedS3Bucket(urlOf({ endpoint: `http://127.0.0.1:${port}` }));
  await expect(bucket.list("")).rejects.toMatchObject({
    hint: expect.stringContaining("directory buckets"),
    details: { outcome: "refused", needsOperator: true },
  });
});

describe("credentials", () => {
  test("that are nowhere make a bucket that does not start, with a hint", async () => {
    for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"]) vi.stubEnv(name, undefined);
    vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
    vi.stubEnv("AWS_CONFIG_FILE", "/nonexistent");
    vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    const stub = await stubWith();
    await expect(startedS3Bucket(urlOf(stub))).rejects.toMatchObject({
      code: "bucket_unusable",
      message: expect.stringContaining(`cannot open s3://${NAME}`),
      hint: expect.stringContaining("set AWS_ACCESS_KEY_ID"),
    });
    expect(stub.requests).toEqual([]);
  });

  test("that run out are asked for again", async () => {
    const folder = temporaryFolder();
    const giver = path.join(folder, "give.sh");
    const soon = new Date(world.clock.wallMs() + 60_000).toISOString();
    const given = `{"Version":1,"AccessKeyId":"key-$$","SecretAccessKey":"secret","Expiration":"${soon}"}`;
    fs.writeFileSync(giver, `cat <<END\n${given}\nEND\n`);
    fs.writeFileSync(path.join(folder, "config"), `[profile rotating]\ncredential_process = /bin/sh ${giver}\n`);
    for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) vi.stubEnv(name, undefined);
    vi.stubEnv("AWS_PROFILE", "rotating");
    vi.stubEnv("AWS_CONFIG_FILE", path.join(folder, "config"));
    vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    const stub = await stubWith();
    const bucket = await startedS3Bucket(urlOf(stub));
    const signedBy = () => /Credential=([^/]+)/.exec(String(stub.requests.at(-1)?.headers.authorization))?.[1];
    await put(bucket, "a", "x");
    const first = signedBy();
    expect(first).toMatch(/^key-\d+$/);
    // The old ones may serve while new ones are on their way.
    await vi.waitFor(async () => {
      await put(bucket, "a", "x");
      expect(signedBy()).not.toBe(first);
    });
  });

  test("may do without a region where there is an endpoint, and where there is none it is asked for", async () => {
    vi.stubEnv("AWS_REGION", undefined);
    vi.stubEnv("AWS_CONFIG_FILE", "/nonexistent");
    const bucket = await startedS3Bucket(urlOf(await stubWith()));
    expect((await put(bucket, "a", "x")).kind).toBe("landed");
    await expect(startedS3Bucket(`s3://${NAME}`)).rejects.toMatchObject({
      code: "bucket_unusable",
      hint: expect.stringContaining("region="),
    });
  });
});

test("a bucket that stops waits for what is under way, and refuses what has not left", async () => {
  const time = new VirtualTime();
  const proxied = await stubWith();
  const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: proxied.port } });
  onTestFinished(() => proxy.stop());
  const bucket = await startedS3Bucket(urlOf(proxy), {
    world: new VirtualWorld({ time, root: temporaryFolder() }),
    settings: { BUCKET_REQUESTS_MAX: 1, BUCKET_TIMEOUT_MS: 5_000 },
  });
  const hole = proxy.next("put", { kind: "black_hole", forwards: true });
  const sent = put(bucket, "a", "x").catch((error: unknown) => error);
  const waiting = put(bucket, "b", "x").catch((error: unknown) => error);
  await hole.struck;
  let stopped = false;
  const stopping = bucket.stop().then(() => {
    stopped = true;
  });
  expect(await waiting).toMatchObject({ details: { outcome: "refused" } });
  expect(stopped).toBe(false);
  await time.advance(5_000);
  expect(await sent).toMatchObject({ details: { outcome: "unknown" } });
  await stopping;
});

test("a stop while a bucket opens ends the opening", async () => {
  const bucket = new S3Bucket(world, resolveSettings(), parseS3Url(urlOf(await stubWith())));
  const opening = bucket.start().catch((error: unknown) => error);
  await bucket.stop();
  expect(await opening).toMatchObject({ code: "bucket_failed", details: { outcome: "refused" } });
});

test("what a bucket has asked is counted by kind, every try of it", async () => {
  const stub = await stubWith();
  const bucket = await startedS3Bucket(urlOf(stub));
  await vi.waitFor(() => expect(bucket.requests.list_uploads).toBe(1));
  await put(bucket, "a", "0123456789");
  await put(bucket, "a", "0123456789", { absent: true });
  await bucket.get("a");
  await bucket.get("b");
  await bucket.list("");
  stub.next("list", { status: 500 });
  await bucket.list("");
  await bucket.delete(["a"]);
  expect(bucket.requests).toEqual({
    put: 2,
    get: 2,
    list: 3,
    delete: 1,
    create_upload: 0,
    part: 0,
    complete_upload: 0,
    abort_upload: 0,
    list_uploads: 1,
    errors: 1,
    throttled: 0,
    bytesSent: 60,
    bytesReceived: 30,
  });
});
