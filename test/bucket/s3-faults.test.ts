/** An S3 bucket whose requests and answers are lost on the way: what it concludes, and that a history stays right. */
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { writeResolved } from "../../src/bucket/ambiguous-write.js";
import type { Bucket, WriteCondition } from "../../src/bucket/bucket.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { deferred } from "../../src/world/deferred.js";
import type { Fault } from "../support/fault-proxy.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { bytesOf, put, textAt, textOf } from "./conformance.js";
import { bucketBehindProxy, startedS3Bucket, world } from "./s3-started.js";

const CUT: readonly (readonly [string, Fault, boolean])[] = [
  ["its answer is lost", { kind: "answer_lost" }, true],
  ["it is lost itself", { kind: "write_lost" }, false],
  ["its body breaks off", { kind: "reset_in_request_body", afterBytes: 5 }, false],
  ["only the status line of its answer arrives", { kind: "reset_after_status_line" }, true],
  ["a proxy says 500 after it was passed on", { kind: "replaced", forwards: true, status: 500 }, true],
  ["a proxy says 502 before it was passed on", { kind: "replaced", status: 502 }, false],
  ["a proxy says 503 after it was passed on", { kind: "replaced", forwards: true, status: 503 }, true],
  ["S3 says 500 and has done it", { kind: "replaced", forwards: true, status: 500, code: "InternalError" }, true],
];

function resolved(bucket: Bucket, text: string, condition: WriteCondition) {
  const bytes = bytesOf(text);
  return writeResolved(
    bucket,
    world,
    { key: "a", bytes, condition, recognise: (found) => textOf(found) === text },
    { firstPauseMs: 1, pauseMaxMs: 5 },
  );
}

describeOnRealS3("an S3 bucket behind a network that fails", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  describe("a conditional write", () => {
    test.each(CUT)("is in doubt when %s, is sent once, and what stands says the truth", async (_, fault, lands) => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3());
      const armed = proxy.next("put", fault);
      await expect(put(bucket, "a", "one", { absent: true })).rejects.toMatchObject({
        code: "bucket_failed",
        details: { outcome: "unknown" },
      });
      await armed.over;
      expect(asked()).toEqual(["put"]);
      expect(await textAt(bucket, "a")).toBe(lands ? "one" : undefined);
    });

    test.each(CUT)(
      "is resolved to its own success when %s, and the version is the one that stands",
      async (_, fault) => {
        const { bucket, proxy } = await bucketBehindProxy(s3());
        proxy.next("put", fault);
        const first = await resolved(bucket, "one", { absent: true });
        expect(first.kind).toBe("landed");
        const version = first.kind === "landed" ? first.version : "";
        expect((await bucket.get("a"))?.version).toBe(version);
        proxy.next("put", fault);
        const second = await resolved(bucket, "two", { version });
        expect(second.kind).toBe("landed");
        expect(await textAt(bucket, "a")).toBe("two");
      },
    );

    test("that lands late, after its repeat has landed, changes nothing any more", async () => {
      const { bucket, proxy } = await bucketBehindProxy(s3());
      const until = deferred();
      const late = proxy.next("put", { kind: "lands_late", until: until.promise });
      const result = await resolved(bucket, "one", { absent: true });
      until.resolve();
      expect(await late.over).toBe(412);
      expect(result.kind).toBe("landed");
      expect(await bucket.get("a")).toMatchObject({ version: result.kind === "landed" && result.version });
    });

    test("that lands late, before its repeat, is recognised as its own", async () => {
      const { bucket, proxy } = await bucketBehindProxy(s3());
      const until = deferred();
      const late = proxy.next("put", { kind: "lands_late", until: until.promise });
      await expect(put(bucket, "a", "one", { absent: true })).rejects.toMatchObject({
        details: { outcome: "unknown" },
      });
      until.resolve();
      expect(await late.over).toBe(200);
      const bytes = bytesOf("one");
      const write = { key: "a", bytes, condition: { absent: true as const }, recognise: () => true };
      expect(await writeResolved(bucket, world, write, { inDoubt: true })).toMatchObject({ kind: "landed" });
    });

    test("that raced another (409) is sent again, and lands", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3());
      proxy.next("put", { kind: "replaced", status: 409, code: "ConditionalRequestConflict" });
      expect((await put(bucket, "a", "one", { absent: true })).kind).toBe("landed");
      expect(asked()).toEqual(["put", "put"]);
    });

    test("that races again and again is refused, for nothing happened", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings: { BUCKET_TRIES_MAX: 4 } });
      proxy.always("put", { kind: "replaced", status: 409, code: "ConditionalRequestConflict" });
      await expect(put(bucket, "a", "one", { absent: true })).rejects.toMatchObject({
        details: { outcome: "refused", code: "ConditionalRequestConflict" },
      });
      expect(asked()).toEqual(["put", "put", "put", "put"]);
    });

    test("that S3 itself throttles is refused, with the time to wait", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3());
      proxy.next("put", { kind: "replaced", status: 503, code: "SlowDown", headers: { "retry-after": "1" } });
      await expect(put(bucket, "a", "one", { absent: true })).rejects.toMatchObject({
        retryAfterMs: 1_000,
        details: { outcome: "refused", throttled: true },
      });
      expect(asked()).toEqual(["put"]);
      expect(bucket.requests).toMatchObject({ put: 1, errors: 1, throttled: 1 });
    });

    test("of many bytes that is refused, cut or given up on its way leaves no error that nobody catches", async () => {
      const time = new VirtualTime();
      const virtual = new VirtualWorld({ time, root: temporaryFolder() });
      const { bucket, proxy } = await bucketBehindProxy(s3(), { world: virtual });
      const bytes = new Uint8Array(8 * 1024 * 1024);
      const condition = { absent: true as const };
      await put(bucket, "a", "one");
      // Vitest fails on whatever reaches the process as an uncaught error.
      const direct = await startedS3Bucket(s3().bucketUrl("large"));
      await put(direct, "a", "one");
      for (let round = 0; round < 4; round += 1) {
        expect(await direct.write([{ key: "a", bytes, condition }])).toEqual({ kind: "lost", key: "a" });
        expect(await bucket.write([{ key: "a", bytes, condition }])).toEqual({ kind: "lost", key: "a" });
        proxy.next("put", { kind: "reset_in_request_body", afterBytes: 2_000_000 * round });
        await expect(bucket.write([{ key: "b", bytes }])).rejects.toMatchObject({ details: { outcome: "unknown" } });
        const early = proxy.next("put", { kind: "reset_before_headers" });
        await expect(bucket.write([{ key: "b", bytes }])).rejects.toMatchObject({ details: { outcome: "unknown" } });
        await early.over;
        const hole = proxy.next("put", { kind: "black_hole" });
        const given = bucket.write([{ key: "b", bytes }]).catch((error: unknown) => error);
        await hole.struck;
        await time.advance(60_000);
        expect(await given).toMatchObject({ details: { outcome: "unknown" } });
      }
    });

    test("to a port where nobody listens is refused", async () => {
      const { bucket, proxy } = await bucketBehindProxy(s3());
      const end = await proxy.refuseConnections();
      await expect(put(bucket, "a", "one", { absent: true })).rejects.toMatchObject({
        details: { outcome: "refused" },
      });
      await end();
      expect((await put(bucket, "a", "one", { absent: true })).kind).toBe("landed");
    });

    test("without an answer is in doubt when its time is up; one that still waits to be sent is refused", async () => {
      const time = new VirtualTime();
      const virtual = new VirtualWorld({ time, root: temporaryFolder() });
      const settings = { BUCKET_TIMEOUT_MS: 5_000, BUCKET_REQUESTS_MAX: 1 };
      const { bucket, proxy } = await bucketBehindProxy(s3(), { settings, world: virtual });
      const hole = proxy.next("put", { kind: "black_hole" });
      const sent = put(bucket, "a", "one").catch((error: unknown) => error);
      const waiting = put(bucket, "b", "one").catch((error: unknown) => error);
      await hole.struck;
      await time.advance(5_000);
      expect(await sent).toMatchObject({
        message: expect.stringContaining("no answer within 5000 ms"),
        details: { outcome: "unknown" },
      });
      expect(await waiting).toMatchObject({ details: { outcome: "refused" } });
    });
  });

  describe("what may be repeated", () => {
    test("is: a read whose answer breaks off is read again", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3());
      await put(bucket, "a", "one");
      asked();
      proxy.next("get", { kind: "reset_in_response_body", afterBytes: 2 });
      proxy.next("get", { kind: "replaced", status: 500, code: "InternalError" });
      expect(await textAt(bucket, "a")).toBe("one");
      expect(asked()).toEqual(["get", "get", "get"]);
      expect(bucket.requests).toMatchObject({ put: 1, get: 3, errors: 2, bytesReceived: 23 });
    });

    test("is, a bounded number of times; a read without an answer did nothing, so it is refused", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings: { BUCKET_TRIES_MAX: 2 } });
      proxy.always("any", { kind: "answer_lost" });
      const refused = { code: "bucket_failed", details: { outcome: "refused" } };
      await expect(bucket.get("a")).rejects.toMatchObject(refused);
      await expect(bucket.list("")).rejects.toMatchObject(refused);
      await expect(bucket.readStream("a")).rejects.toMatchObject(refused);
      await expect(bucket.delete(["a", "b"])).rejects.toMatchObject({ details: { outcome: "unknown" } });
      expect(asked()).toEqual(["get", "get", "list", "list", "get", "get", "delete_many", "delete_many"]);
    });

    test("is: a listing, and deletions one by one and many at once", async () => {
      const { bucket, proxy } = await bucketBehindProxy(s3());
      for (const key of ["a", "b", "c"]) await put(bucket, key, "x");
      proxy.next("list", { kind: "answer_lost" });
      expect((await bucket.list("")).keys).toEqual(["a", "b", "c"]);
      proxy.next("delete", { kind: "answer_lost" });
      proxy.next("delete_many", { kind: "answer_lost" });
      await bucket.delete(["a"]);
      await bucket.delete(["b", "c"]);
      expect((await bucket.list("")).keys).toEqual([]);
    });

    test("is not what only an operator can mend", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3());
      proxy.next("get", { kind: "replaced", status: 403, code: "AccessDenied" });
      await expect(bucket.get("a")).rejects.toMatchObject({ hint: expect.stringContaining("s3:GetObject") });
      expect(asked()).toEqual(["get"]);
    });
  });

  describe("a stream", () => {
    const PART_BYTES = 5 * 1024 * 1024;
    const settings = { BUCKET_PART_BYTES: PART_BYTES };
    const bytes = Buffer.from(
      Uint32Array.from({ length: 3_000_000 }, (_, index) => Math.imul(index, 2_654_435_761)).buffer,
    );
    const digest = createHash("sha256").update(bytes).digest("hex");

    async function* source(): AsyncGenerator<Uint8Array> {
      for (let start = 0; start < bytes.length; start += 1_000_000) yield bytes.subarray(start, start + 1_000_000);
    }

    async function digestAt(bucket: Bucket, key: string): Promise<string> {
      const hash = createHash("sha256");
      for await (const part of (await bucket.readStream(key)) ?? []) hash.update(part);
      return hash.digest("hex");
    }

    test("is written past parts that are lost, and nothing of it is seen before its end", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings });
      proxy.next("create_upload", { kind: "answer_lost" });
      proxy.next("part", { kind: "answer_lost" });
      proxy.next("part", { kind: "reset_in_request_body", afterBytes: 100_000 });
      const version = await bucket.writeStream("s", source());
      // A gateway that does not name the version of what it completed is asked for it.
      const writes = asked().filter((kind) => kind !== "get");
      expect(writes.toSorted()).toEqual([
        "complete_upload",
        ...["create_upload", "create_upload"],
        ...["part", "part", "part", "part", "part"],
      ]);
      expect(await digestAt(bucket, "s")).toBe(digest);
      expect((await bucket.get("s"))?.version).toBe(version);
    });

    test.each<readonly [string, Fault]>([
      ["its answer is lost", { kind: "answer_lost" }],
      ["it is lost itself", { kind: "write_lost" }],
      ["S3 says 500 and has done it", { kind: "replaced", forwards: true, status: 500, code: "InternalError" }],
    ])("whose completion is in doubt because %s is found out about", async (_, fault) => {
      const { bucket, proxy } = await bucketBehindProxy(s3(), { settings });
      proxy.next("complete_upload", fault);
      const version = await bucket.writeStream("s", source());
      expect(await bucket.get("s")).toMatchObject({ version });
      expect(await digestAt(bucket, "s")).toBe(digest);
    });

    test("that cannot be completed is in doubt and is given up, and what it would have replaced stays", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings });
      await put(bucket, "s", "old");
      proxy.always("complete_upload", { kind: "write_lost" });
      await expect(bucket.writeStream("s", source())).rejects.toMatchObject({ details: { outcome: "unknown" } });
      expect(asked().at(-1)).toBe("abort_upload");
      expect(await textAt(bucket, "s")).toBe("old");
    });

    test("whose parts cannot be written is refused, for nobody saw anything of it, and is given up", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings });
      proxy.always("part", { kind: "answer_lost" });
      await expect(bucket.writeStream("s", source())).rejects.toMatchObject({ details: { outcome: "refused" } });
      expect(asked().at(-1)).toBe("abort_upload");
      expect(await bucket.get("s")).toBeUndefined();
    });

    test("is read past answers that break off: only the range that broke is read again", async () => {
      const { bucket, proxy, asked } = await bucketBehindProxy(s3(), { settings });
      await bucket.writeStream("s", source());
      asked();
      proxy.next(({ headers }) => headers.range === "bytes=4194304-8388607", {
        kind: "reset_in_response_body",
        afterBytes: 1_000_000,
      });
      expect(await digestAt(bucket, "s")).toBe(digest);
      expect(asked()).toEqual(["get", "get", "get", "get"]);
    });
  });

  test.each([1, 2, 3])(
    "a chain of writes over a network that loses a third of all is unbroken (seed %i)",
    async (seed) => {
      const { bucket, proxy } = await bucketBehindProxy(s3());
      const random = new SeededRandom(seed);
      const faults: Fault[] = CUT.map(([, fault]) => fault);
      let version: string | undefined;
      for (let link = 0; link < 25; link += 1) {
        const fault = faults[Math.floor(random.fraction() * faults.length * 3)];
        if (fault !== undefined) proxy.next("put", fault);
        const condition = version === undefined ? { absent: true as const } : { version };
        const result = await resolved(bucket, `link ${link}`, condition);
        expect(result.kind).toBe("landed");
        version = result.kind === "landed" ? result.version : undefined;
        expect(await bucket.get("a")).toMatchObject({ version });
        expect(await textAt(bucket, "a")).toBe(`link ${link}`);
      }
    },
  );
});
