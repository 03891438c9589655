import { describe, expect, onTestFinished, test } from "vitest";
import {
  type Bucket,
  type BucketObject,
  type BucketWrite,
  bucketError,
  type ListPage,
  type WriteOutcome,
} from "../../src/bucket/bucket.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { probeBucket } from "../../src/bucket/probe.js";
import type { ProbeCheck } from "../../src/bucket/probe-check.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";

const world = realWorld("/nonexistent", silentLogger);

/** An honest bucket whose single methods a liar overrides. */
class Honest extends MemoryBucket {
  constructor(atomic = true) {
    super(world, { atomic });
  }
}

class IgnoresConditions extends Honest {
  override write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    return super.write(writes.map(({ key, bytes }) => ({ key, bytes })));
  }
}

class IgnoresVersions extends Honest {
  override write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    return super.write(
      writes.map(({ key, bytes, condition }) =>
        condition && "absent" in condition ? { key, bytes, condition } : { key, bytes },
      ),
    );
  }
}

class RefusesEveryUpdate extends Honest {
  override async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    const updated = writes.find((write) => write.condition && "version" in write.condition);
    return updated ? { kind: "lost", key: updated.key } : super.write(writes);
  }
}

class LetsTwoWin extends Honest {
  #racers = 0;

  override async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    const outcome = await super.write(writes);
    const races = writes[0]?.key.endsWith("/race");
    if (races && outcome.kind === "lost" && this.#racers++ === 0) return { kind: "landed", versions: ["999"] };
    return outcome;
  }
}

type RivalEnd = "serve" | "doubt" | "overwrite" | "refuse" | "forbid";

/** What happens to each of eight creates of one key, the first to come first. */
class RushesRivals extends Honest {
  readonly #ends: readonly RivalEnd[];
  #racers = 0;

  constructor(ends: readonly RivalEnd[]) {
    super();
    this.#ends = ends;
  }

  override async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    if (!writes[0]?.key.endsWith("/race")) return super.write(writes);
    const end = this.#ends[this.#racers++] ?? "serve";
    if (end === "serve") return super.write(writes);
    if (end === "overwrite") await super.write(writes.map(({ key, bytes }) => ({ key, bytes })));
    const outcome = end === "refuse" || end === "forbid" ? "refused" : "unknown";
    throw bucketError(outcome, "not now", { details: { needsOperator: end === "forbid" } });
  }
}

class LosesReads extends Honest {
  override async get(): Promise<BucketObject | undefined> {
    return undefined;
  }
}

class ReadsStale extends Honest {
  readonly #first = new Map<string, BucketObject>();

  override async get(key: string): Promise<BucketObject | undefined> {
    const found = this.#first.get(key) ?? (await super.get(key));
    if (found) this.#first.set(key, found);
    return found;
  }
}

class DamagesBytes extends Honest {
  override async get(key: string): Promise<BucketObject | undefined> {
    const found = await super.get(key);
    return found && { ...found, bytes: found.bytes.map((byte) => byte ^ 1) };
  }
}

class WritesHalves extends Honest {
  override async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    let last: WriteOutcome = { kind: "landed", versions: [] };
    for (const write of writes) last = await super.write([write]);
    return last;
  }
}

class ListsLate extends Honest {
  override async list(): Promise<ListPage> {
    return { keys: [] };
  }
}

class KeepsDeleted extends Honest {
  override async delete(): Promise<void> {}
}

class SaysEverythingExists extends Honest {
  override async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    return { kind: "lost", key: writes[0]?.key ?? "" };
  }
}

async function started<B extends Bucket>(bucket: B): Promise<B> {
  await bucket.start();
  onTestFinished(() => bucket.stop());
  return bucket;
}

describe("the start-up probe", () => {
  test.each([true, false])("passes an honest bucket (atomic: %s) and leaves nothing behind", async (atomic) => {
    const bucket = await started(new Honest(atomic));
    await probeBucket(bucket, world);
    expect((await bucket.list("")).keys).toEqual([]);
  });

  test("many nodes may probe one bucket at once", async () => {
    const bucket = await started(new Honest());
    await Promise.all(Array.from({ length: 5 }, () => probeBucket(bucket, world)));
  });

  const liars: readonly (readonly [string, ProbeCheck, () => Bucket])[] = [
    ["says that everything exists", "create", () => new SaysEverythingExists()],
    ["loses reads", "read", () => new LosesReads()],
    ["damages bytes", "read", () => new DamagesBytes()],
    ["ignores conditions", "reject_create", () => new IgnoresConditions()],
    ["refuses every update", "update", () => new RefusesEveryUpdate()],
    ["reads stale", "update", () => new ReadsStale()],
    ["ignores versions", "reject_stale", () => new IgnoresVersions()],
    ["lets two creators win", "one_winner", () => new LetsTwoWin()],
    ["writes half a batch", "atomic_batch", () => new WritesHalves()],
    ["lists late", "list", () => new ListsLate()],
    ["keeps what was deleted", "delete", () => new KeepsDeleted()],
  ];

  test.each(liars)("catches a bucket that %s at %s", async (_, check, liar) => {
    const bucket = await started(liar());
    const failure = await probeBucket(bucket, world).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "bucket_unusable", details: { check } });
    expect((failure as Error).message).toContain(`memory: failed the probe at ${check}`);
  });

  test("a bucket that cannot be reached fails with the cause, and not as a liar", async () => {
    const bucket = await started(new Honest());
    bucket.faults.failNext(100, { kind: "refused" });
    await expect(probeBucket(bucket, world)).rejects.toMatchObject({
      code: "bucket_failed",
      retryable: true,
      details: { check: "create" },
      cause: { code: "bucket_failed" },
    });
  });

  test("rivals that are refused or in doubt have not won, as long as one has and its bytes stand", async () => {
    await probeBucket(await started(new RushesRivals(["serve", "doubt", "refuse"])), world);
    await probeBucket(await started(new RushesRivals(["refuse", "doubt", "serve"])), world);
  });

  test("a rival in doubt whose bytes stand beside a winner's version is a second winner", async () => {
    const bucket = await started(new RushesRivals(["serve", "overwrite"]));
    await expect(probeBucket(bucket, world)).rejects.toMatchObject({
      code: "bucket_unusable",
      details: { check: "one_winner" },
    });
  });

  test("where no rival has won because the store was in trouble, it did not answer; a right that lacks is for an operator", async () => {
    const away = await started(new RushesRivals(Array.from({ length: 8 }, () => "refuse" as const)));
    await expect(probeBucket(away, world)).rejects.toMatchObject({
      code: "bucket_failed",
      details: { check: "one_winner" },
    });
    const forbidden = await started(new RushesRivals(["serve", "forbid"]));
    await expect(probeBucket(forbidden, world)).rejects.toMatchObject({ code: "bucket_unusable" });
  });

  test("after a failure it still removes its keys", async () => {
    const bucket = await started(new ListsLate());
    await expect(probeBucket(bucket, world)).rejects.toMatchObject({ details: { check: "list" } });
    expect(bucket.contents.list("", undefined, 10).keys).toEqual([]);
  });
});
