/** What every bucket promises, as one suite that runs against each of them. */
import { createHash } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { writeResolved } from "../../src/bucket/ambiguous-write.js";
import type { Bucket, BucketWrite, Version, WriteOutcome } from "../../src/bucket/bucket.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";

const world = realWorld("/nonexistent", silentLogger);

export interface BucketSubject {
  readonly atomic: boolean;
  /** How many change one key at once; each round all but one of them have asked in vain. Default 64. */
  readonly rivals?: number;
  /** Called once a test: gives a function that opens buckets, not started, over one store that is empty at first. */
  prepare(): () => Bucket;
}

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes && new TextDecoder().decode(bytes);
}

function versionOf(outcome: WriteOutcome): Version {
  if (outcome.kind !== "landed") throw new Error(`the write of ${outcome.key} lost its condition`);
  return outcome.versions[0] as Version;
}

export async function put(bucket: Bucket, key: string, text: string, condition?: BucketWrite["condition"]) {
  return bucket.write([{ key, bytes: bytesOf(text), ...(condition ? { condition } : {}) }]);
}

export async function textAt(bucket: Bucket, key: string): Promise<string | undefined> {
  return textOf((await bucket.get(key))?.bytes);
}

async function allKeys(bucket: Bucket, prefix: string, limit?: number): Promise<string[]> {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await bucket.list(prefix, {
      ...(after === undefined ? {} : { after }),
      ...(limit === undefined ? {} : { limit }),
    });
    keys.push(...page.keys);
    after = page.next;
  } while (after !== undefined);
  return keys;
}

/** As a bucket's users do it: an answer in doubt is resolved before anything else, and a race that was lost is run again. */
async function appendLine(bucket: Bucket, key: string, line: string): Promise<void> {
  for (;;) {
    const found = await bucket.get(key);
    const text = textOf(found?.bytes) ?? "";
    // Superseded while in doubt: whether it had landed stands in what came after it.
    if (text.split("\n").includes(line)) return;
    const bytes = bytesOf(`${text}${line}\n`);
    const recognise = (now: Uint8Array) => Buffer.compare(now, bytes) === 0;
    const condition = { version: found?.version ?? "" };
    const outcome = await writeResolved(bucket, world, { key, bytes, condition, recognise });
    if (outcome.kind === "landed") return;
  }
}

/** Pseudo-random but fixed bytes, in parts of an awkward size. */
async function* partsOf(totalBytes: number, partBytes: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < totalBytes; start += partBytes) {
    const part = new Uint8Array(Math.min(partBytes, totalBytes - start));
    for (let index = 0; index < part.length; index += 1) part[index] = ((start + index) * 2_654_435_761) >>> 24;
    yield part;
  }
}

/** As long, and different everywhere. */
async function* otherBytes(totalBytes: number): AsyncGenerator<Uint8Array> {
  for await (const part of partsOf(totalBytes, 1_000_000)) yield part.map((byte) => byte ^ 0xff);
}

async function digestOf(parts: AsyncIterable<Uint8Array>): Promise<{ digest: string; largest: number }> {
  const hash = createHash("sha256");
  let largest = 0;
  for await (const part of parts) {
    largest = Math.max(largest, part.length);
    hash.update(part);
  }
  return { digest: hash.digest("hex"), largest };
}

export function bucketConformance(name: string, subject: BucketSubject): void {
  async function started(open = subject.prepare()): Promise<Bucket> {
    const bucket = open();
    onTestFinished(() => bucket.stop());
    await bucket.start();
    return bucket;
  }

  describe(`${name} keeps a bucket's promises`, () => {
    test("what was written is read back, with the version the write gave", async () => {
      const bucket = await started();
      expect(await bucket.get("a")).toBeUndefined();
      const version = versionOf(await put(bucket, "a", "one"));
      const found = await bucket.get("a");
      expect(textOf(found?.bytes)).toBe("one");
      expect(found?.version).toBe(version);
    });

    test("a write without a condition replaces, and the version changes with every write of the same bytes", async () => {
      const bucket = await started();
      const versions = [];
      for (let round = 0; round < 3; round += 1) versions.push(versionOf(await put(bucket, "a", "same")));
      expect(new Set(versions).size).toBe(3);
    });

    test("create succeeds once; an existing key loses and stays", async () => {
      const bucket = await started();
      expect((await put(bucket, "a", "one", { absent: true })).kind).toBe("landed");
      expect(await put(bucket, "a", "two", { absent: true })).toEqual({ kind: "lost", key: "a" });
      expect(await textAt(bucket, "a")).toBe("one");
    });

    test("an update against the current version lands, against a stale one or a missing key it loses", async () => {
      const bucket = await started();
      const first = versionOf(await put(bucket, "a", "one"));
      const second = versionOf(await put(bucket, "a", "two", { version: first }));
      expect(await put(bucket, "a", "three", { version: first })).toEqual({ kind: "lost", key: "a" });
      expect(await put(bucket, "b", "three", { version: second })).toEqual({ kind: "lost", key: "b" });
      expect(await textAt(bucket, "a")).toBe("two");
      expect(await textAt(bucket, "b")).toBeUndefined();
    });

    test("a version does not recur when a key is deleted and made again", async () => {
      const bucket = await started();
      const first = versionOf(await put(bucket, "a", "one"));
      await bucket.delete(["a"]);
      await put(bucket, "a", "one");
      expect((await put(bucket, "a", "two", { version: first })).kind).toBe("lost");
    });

    test("of many concurrent changes by compare-and-swap none is lost and none counts twice", async () => {
      const open = subject.prepare();
      const buckets = [await started(open), await started(open)];
      await put(buckets[0] as Bucket, "list", "");
      const names = Array.from({ length: subject.rivals ?? 64 }, (_, index) => `change-${index}`);
      await Promise.all(names.map((name, index) => appendLine(buckets[index % 2] as Bucket, "list", name)));
      const lines = (await textAt(buckets[1] as Bucket, "list"))?.split("\n").slice(0, -1);
      expect(lines?.toSorted()).toEqual(names.toSorted());
    });

    test("of many concurrent creators of one key exactly one wins, and its bytes stand", async () => {
      const open = subject.prepare();
      const buckets = [await started(open), await started(open)];
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          put(buckets[index % 2] as Bucket, "a", String(index), { absent: true }),
        ),
      );
      const winners = outcomes.flatMap((outcome, index) => (outcome.kind === "landed" ? [String(index)] : []));
      expect(winners).toHaveLength(1);
      expect(await textAt(buckets[0] as Bucket, "a")).toBe(winners[0]);
    });

    test("a second bucket over the same store sees a landed write at once", async () => {
      const open = subject.prepare();
      const [one, other] = [await started(open), await started(open)];
      for (let round = 0; round < 50; round += 1) {
        await put(one, "a", String(round));
        expect(await textAt(other, "a")).toBe(String(round));
      }
    });

    test("everything is still there after a stop and a new start, and versions go on", async () => {
      const open = subject.prepare();
      const before = await started(open);
      const version = versionOf(await put(before, "a", "one"));
      await before.stop();
      const after = await started(open);
      expect((await after.get("a"))?.version).toBe(version);
      expect((await put(after, "a", "two", { version })).kind).toBe("landed");
      expect((await put(after, "a", "three", { version })).kind).toBe("lost");
    });

    test("empty bytes are a value, not an absence", async () => {
      const bucket = await started();
      await put(bucket, "a", "");
      expect((await bucket.get("a"))?.bytes).toHaveLength(0);
      const parts = await bucket.readStream("a");
      expect((await digestOf(parts ?? partsOf(1, 1))).digest).toBe(createHash("sha256").digest("hex"));
      expect((await put(bucket, "a", "x", { absent: true })).kind).toBe("lost");
    });

    test("every byte value and every size around the inner limits come back as they were", async () => {
      const bucket = await started();
      for (const size of [1, 899, 900, 901, 4_096, 65_536, 1_048_575, 1_048_576, 1_048_577, 3_000_000]) {
        const bytes = Uint8Array.from({ length: size }, (_, index) => (index * 31 + size) % 256);
        await bucket.write([{ key: `size/${size}`, bytes }]);
        const found = await bucket.get(`size/${size}`);
        expect(Buffer.compare(found?.bytes ?? new Uint8Array(0), bytes)).toBe(0);
      }
    });

    test("a slice of a larger buffer is stored as the slice", async () => {
      const bucket = await started();
      await bucket.write([{ key: "a", bytes: bytesOf("0123456789").subarray(3, 6) }]);
      expect(await textAt(bucket, "a")).toBe("345");
    });

    test("keys with wildcards, quotes, control characters, accents and emoji are plain keys", async () => {
      const bucket = await started();
      const keys = [
        "%",
        "_",
        "a%",
        "a_b",
        "ab",
        `"'\`;--`,
        "line\nbreak",
        "nul\0in",
        "tab\t",
        "é",
        "e\u0301",
        "😀",
        "￿",
        "日本",
      ];
      for (const key of keys) await put(bucket, key, key);
      for (const key of keys) expect(await textAt(bucket, key)).toBe(key);
      expect(await allKeys(bucket, "a_")).toEqual(["a_b"]);
      expect(await allKeys(bucket, "%")).toEqual(["%"]);
      await bucket.delete(["_"]);
      expect(await allKeys(bucket, "")).toHaveLength(keys.length - 1);
    });

    test.each([
      ["empty", ""],
      ["longer than 1,024 bytes", "é".repeat(513)],
      ["not well-formed", "a\ud800"],
    ])("a key that is %s is refused with bad_key", async (_, key) => {
      const bucket = await started();
      await expect(put(bucket, key, "x")).rejects.toMatchObject({ code: "bad_key" });
      await expect(bucket.get(key)).rejects.toMatchObject({ code: "bad_key" });
      await expect(bucket.delete([key])).rejects.toMatchObject({ code: "bad_key" });
    });

    test("a listing is in the order of UTF-8 bytes, also where UTF-16 would differ", async () => {
      const bucket = await started();
      const keys = ["p/z", "p/", "p/\u{1F600}", "p/\uFFFD", "p/a", "p/B", "p/a/b", "p/é"];
      for (const key of [...keys, "o", "q"]) await put(bucket, key, "x");
      const sorted = keys.toSorted((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
      expect(await allKeys(bucket, "p/")).toEqual(sorted);
      expect(sorted.at(-1)).toBe("p/\u{1F600}");
    });

    test("a listing of more than a thousand keys comes in pages that miss and repeat nothing", async () => {
      const bucket = await started();
      const keys = Array.from({ length: 1_203 }, (_, index) => `n/${String(index).padStart(5, "0")}`);
      await Promise.all(keys.toReversed().map((key) => put(bucket, key, "x")));
      await put(bucket, "n0", "outside");
      const first = await bucket.list("n/");
      expect(first.keys).toHaveLength(1_000);
      expect(first.next).toBeDefined();
      expect(await allKeys(bucket, "n/")).toEqual(keys);
      expect(await allKeys(bucket, "n/", 7)).toEqual(keys);
      expect((await bucket.list("n/", { limit: 1_203 })).keys).toHaveLength(1_000);
      expect((await bucket.list("n/01", { limit: 203 })).next).toBeUndefined();
      expect((await bucket.list("n/", { after: "a" })).keys[0]).toBe("n/00000");
      expect(await bucket.list("n/", { after: "z" })).toEqual({ keys: [] });
    });

    test("delete removes what is there, and what is not there is no error", async () => {
      const bucket = await started();
      await put(bucket, "a", "one");
      await put(bucket, "b", "two");
      await bucket.delete(["a", "missing"]);
      await bucket.delete([]);
      expect(await bucket.get("a")).toBeUndefined();
      expect(await textAt(bucket, "b")).toBe("two");
      expect((await put(bucket, "a", "again", { absent: true })).kind).toBe("landed");
    });

    test("a large stream comes back the same, in bounded parts, by either way of reading", async () => {
      const bucket = await started();
      const total = 9_000_001;
      const { digest } = await digestOf(partsOf(total, 700_001));
      const version = await bucket.writeStream("big", partsOf(total, 700_001));
      const parts = await bucket.readStream("big");
      const read = await digestOf(parts ?? partsOf(1, 1));
      expect(read.digest).toBe(digest);
      expect(read.largest).toBeLessThanOrEqual(4 * 1024 * 1024);
      const whole = await bucket.get("big");
      expect(whole?.version).toBe(version);
      expect(
        createHash("sha256")
          .update(whole?.bytes ?? "")
          .digest("hex"),
      ).toBe(digest);
      expect((await put(bucket, "big", "small again", { version })).kind).toBe("landed");
    });

    test("small and empty streams are objects like any other", async () => {
      const bucket = await started();
      const version = await bucket.writeStream("small", partsOf(10, 3));
      expect((await bucket.get("small"))?.version).toBe(version);
      await bucket.writeStream("empty", partsOf(0, 1));
      expect((await bucket.get("empty"))?.bytes).toHaveLength(0);
      expect(await bucket.readStream("missing")).toBeUndefined();
    });

    test("a stream is seen by nobody before its end, and what it replaces stays until then", async () => {
      const bucket = await started();
      await put(bucket, "big", "old");
      async function* watched(): AsyncGenerator<Uint8Array> {
        for await (const part of partsOf(5_000_000, 1_000_000)) {
          expect(await textAt(bucket, "big")).toBe("old");
          yield part;
        }
      }
      await bucket.writeStream("big", watched());
      expect((await bucket.get("big"))?.bytes).toHaveLength(5_000_000);
      expect(await allKeys(bucket, "")).toEqual(["big"]);
    });

    test("a stream whose source fails leaves nothing behind", async () => {
      const bucket = await started();
      await put(bucket, "big", "old");
      async function* failing(): AsyncGenerator<Uint8Array> {
        yield* partsOf(3_000_000, 1_000_000);
        throw new Error("the source broke");
      }
      await expect(bucket.writeStream("big", failing())).rejects.toThrow("the source broke");
      await expect(bucket.writeStream("other", failing())).rejects.toThrow("the source broke");
      expect(await textAt(bucket, "big")).toBe("old");
      expect(await allKeys(bucket, "")).toEqual(["big"]);
    });

    test("a stream that is read while its object is replaced gives the old bytes whole or fails, never a mixture", async () => {
      const bucket = await started();
      await bucket.writeStream("big", partsOf(9_000_000, 1_000_000));
      const { digest } = await digestOf(partsOf(9_000_000, 1_000_000));
      const parts = await bucket.readStream("big");
      async function* replacing(): AsyncGenerator<Uint8Array> {
        let replaced = false;
        for await (const part of parts ?? partsOf(1, 1)) {
          yield part;
          if (!replaced) await bucket.writeStream("big", otherBytes(9_000_000));
          replaced = true;
        }
      }
      const outcome = await digestOf(replacing()).catch((error: unknown) => error);
      if (outcome instanceof Error)
        expect(outcome).toMatchObject({ code: "bucket_failed", details: { outcome: "refused" } });
      else expect(outcome).toMatchObject({ digest });
    });

    test("after its stop a bucket refuses, and a second stop is no error", async () => {
      const bucket = await started();
      await bucket.stop();
      await bucket.stop();
      await expect(put(bucket, "a", "x")).rejects.toMatchObject({
        code: "bucket_failed",
        details: { outcome: "refused" },
      });
      await expect(bucket.get("a")).rejects.toMatchObject({ code: "bucket_failed", details: { outcome: "refused" } });
    });

    test("says truly whether it is atomic", async () => {
      const bucket = await started();
      expect(bucket.atomic).toBe(subject.atomic);
    });

    if (subject.atomic) atomicConformance(started);
    else {
      test("takes one write at a time, and says so to a program that gives two", async () => {
        const bucket = await started();
        const two = ["a", "b"].map((key) => ({ key, bytes: bytesOf("x") }));
        await expect(bucket.write(two)).rejects.toMatchObject({ code: "internal" });
        expect(bucket.bulk).toBeUndefined();
      });
    }
  });
}

function atomicConformance(started: () => Promise<Bucket>): void {
  test("a batch lands whole, with a version for each write in order", async () => {
    const bucket = await started();
    const outcome = await bucket.write(["c", "a", "b"].map((key) => ({ key, bytes: bytesOf(key) })));
    expect(outcome.kind).toBe("landed");
    for (const [index, key] of ["c", "a", "b"].entries()) {
      const found = await bucket.get(key);
      expect(textOf(found?.bytes)).toBe(key);
      expect(outcome.kind === "landed" && outcome.versions[index]).toBe(found?.version);
    }
  });

  test("a batch in which any condition fails writes nothing, and names the first that failed", async () => {
    const bucket = await started();
    await put(bucket, "b", "old");
    const outcome = await bucket.write([
      { key: "a", bytes: bytesOf("new"), condition: { absent: true } },
      { key: "big", bytes: new Uint8Array(2_000_000) },
      { key: "b", bytes: bytesOf("new"), condition: { absent: true } },
      { key: "c", bytes: bytesOf("new"), condition: { version: "7" } },
    ]);
    expect(outcome).toEqual({ kind: "lost", key: "b" });
    expect((await bucket.list("")).keys).toEqual(["b"]);
    expect(await textAt(bucket, "b")).toBe("old");
  });

  test("a batch that loses leaves those that came with it untouched", async () => {
    const bucket = await started();
    await put(bucket, "taken", "old");
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        bucket.write([
          { key: `seg/${index}`, bytes: bytesOf(String(index)) },
          { key: index % 3 === 0 ? "taken" : `free/${index}`, bytes: bytesOf("x"), condition: { absent: true } },
        ]),
      ),
    );
    const landed = outcomes.flatMap((outcome, index) => (outcome.kind === "landed" ? [`seg/${index}`] : []));
    expect(landed).toHaveLength(20);
    expect((await bucket.list("seg/")).keys.toSorted()).toEqual(landed.toSorted());
  });

  test("many batches in one request each land or lose for themselves, in their order", async () => {
    const bucket = await started();
    const version = versionOf(await put(bucket, "old", "before"));
    const outcomes = await bucket.bulk?.write([
      [{ key: "old", bytes: bytesOf("after"), condition: { version } }],
      [
        { key: "body", bytes: bytesOf("never seen") },
        { key: "old", bytes: bytesOf("late"), condition: { version } },
      ],
      [{ key: "old", bytes: bytesOf("later"), condition: { absent: true } }],
      [
        { key: "large", bytes: new Uint8Array(2_000_000) },
        { key: "new", bytes: bytesOf("new"), condition: { absent: true } },
      ],
      [{ key: "free", bytes: bytesOf("free") }],
    ]);
    const kinds = outcomes?.map((outcome) => (outcome.kind === "lost" ? outcome.key : outcome.versions.length));
    expect(kinds).toEqual([1, "old", "old", 2, 1]);
    expect((await bucket.list("")).keys).toEqual(["free", "large", "new", "old"]);
    expect(await textAt(bucket, "old")).toBe("after");
    const [first] = outcomes ?? [];
    expect((await bucket.get("old"))?.version).toBe(first?.kind === "landed" && first.versions[0]);
  });

  test("many keys are read in one request, in their order, whatever they hold", async () => {
    const bucket = await started();
    const sizes = [0, 10, 5_000_000, 5_000_000, 3];
    for (const [index, size] of sizes.entries()) await bucket.write([{ key: `${index}`, bytes: new Uint8Array(size) }]);
    const found = await bucket.bulk?.get(["4", "nothing", "2", "3", "1", "0", "nothing either"]);
    expect(found?.map((one) => one?.bytes.length)).toEqual([3, undefined, 5_000_000, 5_000_000, 10, 0, undefined]);
    expect(found?.[2]?.version).toBe((await bucket.get("2"))?.version);
    expect(await bucket.bulk?.get([])).toEqual([]);
    expect(await bucket.bulk?.write([])).toEqual([]);
  });

  test("a batch that names a key twice is a program's mistake", async () => {
    const bucket = await started();
    const twice = ["a", "a"].map((key) => ({ key, bytes: bytesOf("x") }));
    await expect(bucket.write(twice)).rejects.toMatchObject({ code: "internal" });
  });
}
