import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { BucketReader } from "../../src/bucket/bucket.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import type { Manifest } from "../../src/shipping/manifest.js";
import { bodyKeysOf } from "../../src/shipping/sweep.js";
import { PageLedger } from "../../src/shipping/wal/page-identity.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { Progress } from "../../src/verify/verify-bucket.js";
import { walk } from "../../src/verify/walk.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";
import { keysOf, Note, put, rewrite, standing, verified, verifying, wellWith } from "./support.js";

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note, Memo: Note.replaceAll("Note", "Memo") }, ...more });

/** Large enough that its snapshots are streamed, and read for so long that its segments are looked up anew. */
const LARGE_BYTES = 1_500_000;
const CALL_BYTES = 500_000;
const SMALL_BOUNDS = { COMPACT_SEGMENTS_MAX: 4, SNAPSHOT_INLINE_BYTES_MAX: 64 * 1024, SNAPSHOT_PART_BYTES: 64 * 1024 };

async function adds(node: VirtualNode, target: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await node.call(target, "add", `${n}`);
  await node.time.settle();
}

async function grows(node: VirtualNode, target: string): Promise<void> {
  for (let bytes = 0; bytes < LARGE_BYTES; bytes += CALL_BYTES) await node.call(target, "grow", CALL_BYTES);
}

function interrupted(
  bucket: BucketReader,
  times: number,
  isMeant: (key: string) => boolean,
  happen: () => Promise<unknown>,
): BucketReader {
  let left = times;
  const interrupt = async (key: string): Promise<void> => {
    if (left > 0 && isMeant(key)) {
      left--;
      await happen();
    }
  };
  return {
    name: bucket.name,
    start: async () => {},
    stop: async () => {},
    list: (prefix, options) => bucket.list(prefix, options),
    get: (key) => interrupt(key).then(() => bucket.get(key)),
    readStream: (key) => interrupt(key).then(() => bucket.readStream(key)),
  };
}

function flipMiddle(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const middle = copy.length >> 1;
  copy[middle] = (copy[middle] ?? 0) ^ 4;
  return copy;
}

describe.each([
  ["atomic", true],
  ["one write at a time", false],
] as const)("a bucket (%s)", (_kind, atomic) => {
  it("whose objects have every shape there is, is well; nothing in it changes", async () => {
    const node = await start({ bucket: { atomic }, settings: SMALL_BOUNDS });
    const named = ["Note/a", "Note/c/d", "Note/%2F.~é\u{1F600}", "Memo/a"];
    for (const [index, target] of named.entries()) await adds(node, target, 2 + 3 * index);
    await grows(node, "Note/large");
    await adds(node, "Note/large", 7);
    await adds(node, "Note/ended", 3);
    await node.call("Note/ended", "bye");
    await adds(node, "Note/reborn", 3);
    await node.call("Note/reborn", "bye");
    await adds(node, "Note/reborn", 2);
    await expect(node.call("Note/refused", "refuse")).rejects.toMatchObject({ code: "refused" });
    await node.time.settle();
    expect(node.bucket.counts().write_stream).toBeGreaterThan(0);
    const before = node.bucket.counts();
    const report = await verified(node);
    const { write, write_stream, delete: deletes } = node.bucket.counts();
    expect(report).toEqual(wellWith({ restorable: 6, destroyed: 1, unwritten: 1 }));
    expect(report.databaseBytes).toBeGreaterThan(LARGE_BYTES);
    expect({ write, write_stream, delete: deletes }).toEqual({
      write: before.write,
      write_stream: before.write_stream,
      delete: before.delete,
    });
  });

  it("that is empty is well", async () => {
    const node = await start({ bucket: { atomic } });
    expect(await verified(node)).toEqual(wellWith({}));
  });
});

describe("damage is named with its key and its reason", () => {
  interface Damage {
    readonly what: string;
    /** @returns the key that is to be named */
    readonly harm: (node: VirtualNode, manifest: Manifest) => string;
    readonly reason: RegExp;
  }
  const manifestKey = (node: VirtualNode): string => keysOf(node, "Note/a").manifest;
  const snapshotKey = (node: VirtualNode, { snapshot }: Manifest): string => {
    if (snapshot === undefined) throw new Error("it has no snapshot");
    return keysOf(node, "Note/a").snapshot(snapshot);
  };
  const segmentKey = (node: VirtualNode, { segments }: Manifest, index: number): string => {
    const segment = segments.at(index);
    if (segment === undefined) throw new Error("it has no such segment");
    return keysOf(node, "Note/a").segment(segment);
  };
  const harms =
    (key: (node: VirtualNode, manifest: Manifest) => string, change: (bytes: Uint8Array) => Uint8Array) =>
    (node: VirtualNode, manifest: Manifest): string => {
      node.bucket.corrupt(key(node, manifest), change);
      return key(node, manifest);
    };
  const removes =
    (key: (node: VirtualNode, manifest: Manifest) => string) =>
    (node: VirtualNode, manifest: Manifest): string => {
      node.bucket.contents.delete([key(node, manifest)]);
      return key(node, manifest);
    };
  const says =
    (change: (manifest: Manifest) => Partial<Manifest>) =>
    (node: VirtualNode): string => {
      rewrite(node, "Note/a", (manifest) => ({ ...manifest, ...change(manifest) }));
      return manifestKey(node);
    };
  const cut = (bytes: Uint8Array): Uint8Array => bytes.subarray(0, bytes.length - 1);
  const first = (node: VirtualNode, manifest: Manifest): string => segmentKey(node, manifest, 0);
  const last = (node: VirtualNode, manifest: Manifest): string => segmentKey(node, manifest, -1);

  const damages: readonly Damage[] = [
    { what: "a manifest with one bit flipped", harm: harms(manifestKey, flipMiddle), reason: /checksum does not fit/ },
    { what: "a manifest that is gone", harm: removes(manifestKey), reason: /manifest is not in the bucket/ },
    {
      what: "another object's manifest",
      harm: (node) => {
        const other = node.bucket.contents.get(keysOf(node, "Note/b").manifest);
        put(node, manifestKey(node), other?.bytes ?? new Uint8Array());
        return manifestKey(node);
      },
      reason: /belongs to default\/Note\/b/,
    },
    {
      what: "a snapshot with one bit flipped",
      harm: harms(snapshotKey, flipMiddle),
      reason: /what follows was made over/,
    },
    { what: "a snapshot cut short", harm: harms(snapshotKey, cut), reason: /bytes instead of/ },
    { what: "a snapshot that is gone", harm: removes(snapshotKey), reason: /named by the manifest and not in/ },
    { what: "a segment with one bit flipped", harm: harms(last, flipMiddle), reason: /damaged/ },
    { what: "a segment cut short", harm: harms(first, cut), reason: /damaged/ },
    { what: "a segment that is gone", harm: removes(first), reason: /named by the manifest and not in/ },
    {
      what: "two segments in each other's place",
      harm: (node, manifest) => {
        const [one, two] = [first(node, manifest), last(node, manifest)].map(
          (key) => node.bucket.contents.get(key)?.bytes,
        );
        put(node, first(node, manifest), two ?? new Uint8Array());
        put(node, last(node, manifest), one ?? new Uint8Array());
        return first(node, manifest);
      },
      reason: /stands where \d+ is due/,
    },
    {
      what: "a manifest that says another content",
      harm: says(() => ({ identity: "0123456789abcdef" })),
      reason: /its content is [0-9a-f]{16} instead of 0123456789abcdef/,
    },
    {
      what: "a manifest that says another size",
      harm: says(({ pages }) => ({ pages: pages + 1 })),
      reason: /pages instead of/,
    },
    {
      what: "a manifest with an impossible page size",
      harm: says(() => ({ pageSize: 1_000 })),
      reason: /page size is 1000/,
    },
    { what: "a manifest that ends elsewhere", harm: says(({ seq }) => ({ seq: seq + 1 })), reason: /history ends at/ },
    {
      what: "a manifest that names nothing for its pages",
      harm: says(() => ({ snapshot: undefined, segments: [] })),
      reason: /no content for its \d+ pages/,
    },
    {
      what: "a database that SQLite finds unsound, whose checksums are all right",
      harm: (node, manifest) => {
        const bytes = node.bucket.contents.get(snapshotKey(node, manifest))?.bytes ?? new Uint8Array();
        // Not the first page, which holds the schema, but the tables'.
        bytes.set(randomBytes(200), 2 * 1_024);
        bytes.set(randomBytes(200), 3 * 1_024);
        put(node, snapshotKey(node, manifest), bytes);
        const identity = PageLedger.ofBytes(bytes, 1_024).identity();
        const { seq } = manifest.snapshot ?? manifest;
        return says(() => ({ seq, identity, pages: bytes.length / 1_024, segments: [] }))(node);
      },
      reason: /file is damaged|malformed/,
    },
  ];

  test.each(damages)("$what", async ({ harm, reason }) => {
    // The first history as long as it gets: a snapshot, and segments beside the manifest.
    const node = await start({ settings: { COMPACT_SEGMENTS_MAX: 4, COMPACT_BYTES_MIN: 1_000_000 } });
    for (const target of ["Note/a", "Note/b", "Memo/a"]) await adds(node, target, 8);
    expect(standing(node, "Note/a")).toMatchObject({ snapshot: { epoch: 1 }, segments: { length: 3 } });
    const key = harm(node, standing(node, "Note/a"));
    const report = await verified(node);
    expect(report).toMatchObject({
      complete: true,
      objects: 3,
      restorable: 2,
      damaged: { count: 1, first: [{ object: "default/Note/a", key, reason: expect.stringMatching(reason) }] },
      unread: { count: 0 },
    });
  });

  it("in what a manifest holds itself, too", async () => {
    const node = await start({ bucket: { atomic: false } });
    await adds(node, "Note/a", 3);
    rewrite(node, "Note/a", (manifest) => ({
      ...manifest,
      segments: manifest.segments.map((segment) => ({
        ...segment,
        body: flipMiddle(segment.body ?? new Uint8Array()),
      })),
    }));
    expect((await verified(node)).damaged.first).toMatchObject([{ key: keysOf(node, "Note/a").manifest }]);
  });

  it("in a snapshot that nothing follows", async () => {
    const node = await start({ settings: { COMPACT_SEGMENTS_MAX: 2 } });
    while ((await node.call("Note/a", "add", "x")) && standing(node, "Note/a").snapshot === undefined);
    const key = snapshotKey(node, standing(node, "Note/a"));
    node.bucket.corrupt(key);
    expect((await verified(node)).damaged.first).toMatchObject([
      { key, reason: expect.stringMatching(/its content is/) },
    ]);
  });

  it("and names no more than a bounded number of objects, counting all", async () => {
    const node = await start();
    for (let n = 0; n < 1_100; n++) put(node, keysOf(node, `Note/${n}`).manifest, randomBytes(9));
    const { damaged, objects } = await verified(node);
    expect({ objects, count: damaged.count, named: damaged.first.length }).toEqual({
      objects: 1_100,
      count: 1_100,
      named: 1_000,
    });
  });
});

describe("beside a node at work", () => {
  /** Lets something happen before one kind of key is read, so often. */
  it.each([
    ["a body", /\.(seg|snap)$/],
    ["a snapshot", /\.snap$/],
  ])("an object that is compacted before %s is read is read again, and well", async (_what, pattern) => {
    const node = await start({ settings: { ...NO_PAST, COMPACT_BYTES_MIN: 0, COMPACT_SHARE_PERCENT: 20 } });
    await adds(node, "Note/a", 6);
    const { seq, snapshot } = standing(node, "Note/a");
    const compacted = async (): Promise<void> => {
      for (let n = 0; n < 8; n++) await node.start("Note/a", "add", ["more"]);
    };
    const bucket = interrupted(node.bucket, 2, (key) => pattern.test(key), compacted);
    expect(await verified(node, { bucket })).toEqual(wellWith({ restorable: 1 }));
    expect(standing(node, "Note/a").snapshot).not.toEqual(snapshot);
    expect(standing(node, "Note/a").seq).toBe(seq + 16);
  });

  it("a large object goes on merging while its snapshot is read, and needs no second reading", async () => {
    const settings = { ...NO_PAST, ...SMALL_BOUNDS, SNAPSHOT_INLINE_BYTES_MAX: 512 * 1024 };
    const node = await start({ settings });
    await grows(node, "Note/a");
    await adds(node, "Note/a", 6);
    const { snapshot, segments } = standing(node, "Note/a");
    let readings = 0;
    const merging = async (): Promise<void> => {
      readings++;
      for (let n = 0; n < 12; n++) await node.start("Note/a", "add", ["more"]);
    };
    const bucket = interrupted(node.bucket, 99, (key) => key.endsWith(".snap"), merging);
    expect(await verified(node, { bucket })).toEqual(wellWith({ restorable: 1 }));
    const after = standing(node, "Note/a");
    expect(after.snapshot).toEqual(snapshot);
    expect(after.segments).not.toEqual(segments);
    expect(readings).toBe(1);
  });

  it("an object that moves whenever it is read is called unread, not damaged", async () => {
    const node = await start({ settings: { ...NO_PAST, COMPACT_SEGMENTS_MAX: 3, COMPACT_BYTES_MIN: 1_000_000 } });
    await adds(node, "Note/a", 6);
    const compacted = async (): Promise<void> => {
      for (let n = 0; n < 8; n++) await node.start("Note/a", "add", ["more"]);
    };
    const bucket = interrupted(node.bucket, 99, (key) => /\.(seg|snap)$/.test(key), compacted);
    expect(await verified(node, { bucket })).toMatchObject({
      restorable: 0,
      damaged: { count: 0 },
      unread: { count: 1, first: [{ object: "default/Note/a", reason: expect.stringMatching(/moved whenever/) }] },
    });
  });

  it("what is superseded between the listing and the reading is no garbage", async () => {
    const node = await start({ settings: { ...NO_PAST, COMPACT_SEGMENTS_MAX: 3, COMPACT_BYTES_MIN: 1_000_000 } });
    await adds(node, "Note/a", 6);
    const bucket = interrupted(
      node.bucket,
      1,
      (key) => key.endsWith("manifest"),
      async () => {
        for (let n = 0; n < 8; n++) await node.start("Note/a", "add", ["more"]);
      },
    );
    expect(await verified(node, { bucket })).toEqual(wellWith({ restorable: 1 }));
  });
});

describe("what is left over", () => {
  it("is told: bodies that no manifest will name with their bytes, those that one may, and keys of nothing", async () => {
    const node = await start();
    await adds(node, "Note/a", 3);
    node.crash();
    await node.open();
    await adds(node, "Note/a", 1);
    const keys = keysOf(node, "Note/a");
    put(node, keys.segment({ epoch: 1, fromSeq: 90, toSeq: 99 }), new Uint8Array(100));
    put(node, keys.snapshot({ epoch: 2, seq: 2 }), new Uint8Array(1_000));
    put(node, keys.segment({ epoch: 2, fromSeq: 5, toSeq: 5 }), new Uint8Array(10));
    put(node, keys.snapshot({ epoch: 3, seq: 1 }), new Uint8Array(10));
    const other = new ObjectKeys(identityOf("default", "Note", "b"));
    const strays = [
      "aside",
      `${keys.prefix}e01/3-3.seg`,
      `${keys.prefix}e1/3.seg`,
      `${keys.prefix}manifest.old`,
      other.manifest.replace(/\/[0-9a-f]{2}\//, "/zz/"),
      other.manifest.replace(/\/[0-9a-f]{2}\//, (part) => (part === "/00/" ? "/01/" : "/00/")),
      "objects/default/note/00/a/manifest",
      "objects/default/Note/00/%/manifest",
      "objects/x",
      "zzz",
    ];
    for (const key of strays) put(node, key, new Uint8Array(1));
    for (const key of ["poison/default/Note/a/add", "probe/x/cas", "nodes/a/0a1b2c"]) put(node, key, new Uint8Array(1));
    const report = await verified(node);
    expect(report).toMatchObject({
      objects: 1,
      restorable: 1,
      garbage: {
        bodies: 2,
        bytes: 1_100,
        objects: { count: 1, first: [{ object: "default/Note/a", bodies: 2, bytes: 1_100 }] },
      },
      underWay: 2,
      strays: { count: strays.length },
    });
    expect([...report.strays.first].sort()).toEqual([...strays].sort());
  });

  it("is counted however much there is of one object", async () => {
    const node = await start();
    await adds(node, "Note/a", 1);
    const keys = keysOf(node, "Note/a");
    for (let n = 0; n < 6_000; n++) put(node, keys.segment({ epoch: 0, fromSeq: n, toSeq: n }), new Uint8Array(2));
    const report = await verified(node, { jobs: 3 });
    expect(report).toMatchObject({ objects: 1, restorable: 1, garbage: { bodies: 6_000, bytes: 12_000 } });
    const lots = await node.time.until(all(walk(node.bucket, { kind: "all" })));
    const sizes = lots.map((seen) => (seen.kind === "object" ? [seen.bodies.length, seen.isLast] : []));
    // One body is the manifest's own.
    expect(sizes).toEqual([
      [2_500, false],
      [2_500, false],
      [1_001, true],
    ]);
  });
});

describe("a bucket that does not answer", () => {
  it("is asked again", async () => {
    const node = await start();
    await adds(node, "Note/a", 3);
    node.bucket.faults.failNext(3, { kind: "refused" }, ["get", "read_stream"]);
    expect(await verified(node)).toEqual(wellWith({ restorable: 1 }));
  });

  it("for one object again and again leaves it unread, not damaged", async () => {
    const node = await start();
    for (const target of ["Note/a", "Note/b"]) await adds(node, target, 3);
    const bucket: BucketReader = {
      ...readerOf(node.bucket),
      get: (key) => (key.includes("/a/e") ? Promise.reject(refusal()) : node.bucket.get(key)),
    };
    expect(await verified(node, { bucket })).toMatchObject({
      restorable: 1,
      damaged: { count: 0 },
      unread: { count: 1, first: [{ object: "default/Note/a", reason: "the store is away" }] },
    });
  });

  it("because its own file is damaged is damage", async () => {
    const node = await start();
    await adds(node, "Note/a", 3);
    const corrupt = MoonportError.of("bucket_failed", "database disk image is malformed", {
      details: { outcome: "refused", storage: "corrupt" },
    });
    const get = (key: string) => (key.endsWith(".seg") ? Promise.reject(corrupt) : node.bucket.get(key));
    const { damaged } = await verified(node, { bucket: { ...readerOf(node.bucket), get } });
    expect(damaged.first).toMatchObject([{ object: "default/Note/a", reason: expect.stringMatching(/malformed/) }]);
  });

  it("with a listing ends the verifying", async () => {
    const node = await start();
    await adds(node, "Note/a", 1);
    const bucket: BucketReader = { ...readerOf(node.bucket), list: () => Promise.reject(refusal()) };
    await expect(verified(node, { bucket })).rejects.toMatchObject({ code: "bucket_failed" });
  });

  function refusal(): MoonportError {
    return MoonportError.of("bucket_failed", "the store is away", { details: { outcome: "refused" } });
  }
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

function readerOf(bucket: MemoryBucket): BucketReader {
  return {
    name: bucket.name,
    start: async () => {},
    stop: async () => {},
    get: (key) => bucket.get(key),
    readStream: (key) => bucket.readStream(key),
    list: (prefix, options) => bucket.list(prefix, options),
  };
}

describe("verifying", () => {
  it("ends with the disk's own error when its folder takes no more, and calls nothing damaged", async () => {
    const node = await start();
    await adds(node, "Note/a", 3);
    const world = new VirtualWorld({ time: node.time, root: temporaryFolder() });
    world.folder.intercept = (operation) => {
      if (operation === "write") throw MoonportError.of("storage_full", "no space left");
    };
    await expect(node.time.until(verifying(node, world))).rejects.toMatchObject({ code: "storage_full" });
    world.folder.intercept = undefined;
    expect(world.folder.list(".")).toEqual([]);
  });

  it("looks only at what it is asked for", async () => {
    const node = await start();
    for (const target of ["Note/a", "Note/aa", "Note/a/b", "Memo/a"]) await adds(node, target, 2);
    put(node, "aside", new Uint8Array(1));
    const object = node.identity("Note/a");
    const scopes = [
      [{ kind: "all" }, 4, 1],
      [{ kind: "app", app: "default" }, 4, 0],
      [{ kind: "app", app: "other" }, 0, 0],
      [{ kind: "class", app: "default", className: "Note" }, 3, 0],
      [{ kind: "class", app: "default", className: "Not" }, 0, 0],
      [{ kind: "object", object }, 1, 0],
    ] as const;
    for (const [scope, objects, strays] of scopes) {
      expect(await verified(node, { scope })).toMatchObject({
        objects,
        restorable: objects,
        strays: { count: strays },
      });
    }
  });

  it("has no more objects in hand than it has jobs, and tells how far it is", async () => {
    const node = await start({ bucket: { latencyMs: 5 } });
    for (let n = 0; n < 20; n++) await adds(node, `${n % 2 ? "Note" : "Memo"}/${n}`, 1);
    let inHand = 0;
    let most = 0;
    const told: Progress[] = [];
    const get = (key: string) => {
      if (key.endsWith("/manifest")) most = Math.max(most, ++inHand);
      return node.bucket.get(key);
    };
    const onProgress = (progress: Progress): void => {
      inHand--;
      told.push(progress);
    };
    await verified(node, { bucket: { ...readerOf(node.bucket), get }, jobs: 3, onProgress });
    expect(most).toBe(3);
    expect(told.map(({ objects }) => objects)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    const shares = told.map(({ share }) => share ?? -1);
    expect(shares.every((share) => share >= 0 && share < 1)).toBe(true);
    // Of two classes: the second begins half way.
    expect(shares.filter((share) => share < 0.5)).toHaveLength(10);
  });

  it("ends early when it is told to, with what it has", async () => {
    const node = await start({ bucket: { latencyMs: 5 } });
    for (let n = 0; n < 20; n++) await adds(node, `Note/${n}`, 1);
    const stopping = new AbortController();
    const onProgress = ({ objects }: Progress): void => {
      if (objects === 5) stopping.abort();
    };
    const report = await verified(node, { jobs: 2, onProgress, signal: stopping.signal });
    expect(report).toMatchObject({ complete: false, damaged: { count: 0 }, unread: { count: 0 } });
    expect(report.objects).toBeLessThanOrEqual(7);
  });
});

test("a walk meets every object once with all its bodies, and every other key as a stray, in pages of any size", async () => {
  const key = fc.string({ unit: fc.constantFrom("a", "b", "/", "%", ".", "é", "0"), minLength: 1, maxLength: 4 });
  const object = fc.record({ app: fc.constantFrom("a", "a-b"), className: fc.constantFrom("A", "AB"), key });
  const body = fc.record({ epoch: fc.nat(20), fromSeq: fc.nat(99), toSeq: fc.nat(99), isSnapshot: fc.boolean() });
  const entry = fc.record({ object, bodies: fc.array(body, { maxLength: 8 }) });
  const stray = fc.constantFrom(
    "a",
    "objects/a",
    "objects/a/A/00/manifest",
    "objects/a/A/zz/a/manifest",
    "z/objects/a/A",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { maxLength: 12 }),
      fc.uniqueArray(stray),
      fc.integer({ min: 1, max: 5 }),
      async (entries, strays, limit) => {
        const time = new VirtualTime();
        const bucket = new MemoryBucket(new VirtualWorld({ time, root: "/nonexistent" }));
        await bucket.start();
        const expected = new Map<string, string[]>();
        for (const one of entries) {
          const identity = identityOf(one.object.app, one.object.className, one.object.key);
          const keys = new ObjectKeys(identity);
          const bodies = one.bodies.map((name) =>
            name.isSnapshot ? keys.snapshot({ epoch: name.epoch, seq: name.toSeq }) : keys.segment(name),
          );
          const all = new Set([...(expected.get(identity.id) ?? []), ...bodies]);
          expected.set(identity.id, [...all].sort());
          for (const name of [keys.manifest, ...bodies])
            bucket.contents.apply([{ key: name, bytes: new Uint8Array(1) }]);
        }
        for (const name of strays) bucket.contents.apply([{ key: name, bytes: new Uint8Array(1) }]);
        const paged: BucketReader = {
          ...readerOf(bucket),
          list: (prefix, options) => bucket.list(prefix, { ...options, limit }),
        };
        const found = new Map<string, string[]>();
        const foundStrays: string[] = [];
        const walking = (async () => {
          for await (const seen of walk(paged, { kind: "all" })) {
            if (seen.kind === "stray") foundStrays.push(seen.key);
            else {
              expect(found.has(seen.object.id)).toBe(false);
              found.set(seen.object.id, [...seen.bodies].sort());
            }
          }
        })();
        await time.until(walking);
        expect(found).toEqual(expected);
        expect(foundStrays.sort()).toEqual([...strays].sort());
      },
    ),
    { numRuns: 60 },
  );
});

describe("what objects were", () => {
  const KEEPING = { COMPACT_SEGMENTS_MAX: 3, SEGMENT_INLINE_BYTES_MAX: 0, PITR_RETENTION_MS: 3_600_000 };
  const pastOf = (node: VirtualNode): Promise<readonly string[]> => node.keys(keysOf(node, "Note/a").past);

  it("is proved, too, unless nobody asks for it", async () => {
    const node = await start({ settings: KEEPING });
    await adds(node, "Note/a", 10);
    await adds(node, "Note/ended", 5);
    await node.call("Note/ended", "bye");
    await node.time.settle();
    const count = (await node.keys("")).filter((key) => key.includes("/past/")).length;
    expect(count).toBeGreaterThan(3);
    const report = await verified(node);
    expect(report).toEqual(wellWith({ restorable: 1, destroyed: 1 }));
    expect(report.past.restorable).toBe(count);
    expect((await verified(node, { past: false })).past.restorable).toBe(0);
  });

  it("is named where it cannot be restored, though what stands is well", async () => {
    const node = await start({ settings: KEEPING });
    await adds(node, "Note/a", 10);
    const past = await pastOf(node);
    const named = new Set(bodyKeysOf(keysOf(node, "Note/a"), standing(node, "Note/a")));
    const bodies = (await node.keys(keysOf(node, "Note/a").bodies)).filter((key) => !named.has(key));
    const damaged = bodies.find((key) => key.endsWith(".seg")) ?? "";
    put(node, damaged, flipMiddle(node.bucket.contents.get(damaged)?.bytes ?? new Uint8Array()));
    const lost = past.at(-1) ?? "";
    put(node, lost, flipMiddle(node.bucket.contents.get(lost)?.bytes ?? new Uint8Array()));
    const report = await verified(node);
    expect(report).toMatchObject({ objects: 1, restorable: 1, damaged: { count: 0 } });
    expect(report.past.damaged.count).toBeGreaterThanOrEqual(2);
    expect(report.past.damaged.first.map(({ key }) => key)).toEqual(expect.arrayContaining([damaged, lost]));
    expect(report.past.restorable + report.past.damaged.count).toBe(past.length);
  });

  it("that is deleted while it is read was too old, and is nothing to tell of", async () => {
    const node = await start({ settings: KEEPING });
    await adds(node, "Note/a", 10);
    const collected = async (): Promise<void> => {
      const keys = [...(await node.bucket.list(keysOf(node, "Note/a").past)).keys];
      const named = new Set(bodyKeysOf(keysOf(node, "Note/a"), standing(node, "Note/a")));
      const { keys: bodies } = await node.bucket.list(keysOf(node, "Note/a").bodies);
      await node.bucket.delete([...keys, ...bodies.filter((key) => !named.has(key))]);
    };
    const isLater = (key: string): boolean => /\/[1-9]-[1-9]\.seg$/.test(key);
    const bucket = interrupted(node.bucket, 1, isLater, collected);
    const report = await verified(node, { bucket, jobs: 1 });
    expect(report).toEqual(wellWith({ restorable: 1 }));
    expect(await pastOf(node)).toEqual([]);
  });
});
