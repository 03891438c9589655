import { describe, expect, it } from "vitest";
import type { EntryMessage, PromiseAnswer } from "../../src/cluster/journal-rules.js";
import { MoonportError } from "../../src/errors.js";
import type { TailPart } from "../../src/journal/contract.js";
import { Journal } from "../../src/journal/journal.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { smallDisk } from "../support/small-disk.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { FOLDER, JournalLife } from "./journal-life.js";

const A = "app/Counter/a";
const B = "app/Counter/b";

function entry(epoch: number, covered: number, afterSeq: number, toSeq: number, bytes = 20): EntryMessage<Uint8Array> {
  return { epoch, covered, afterSeq, toSeq, payload: Buffer.alloc(bytes, toSeq) };
}

function tailOf(answer: PromiseAnswer<Uint8Array>) {
  if (answer.kind !== "promised") throw new Error(`it answered ${answer.kind}`);
  return answer.tail;
}

function begin(settings = {}, recordEpoch?: (object: string) => Promise<number>): Promise<JournalLife> {
  return JournalLife.begin(temporaryFolder(), settings, recordEpoch);
}

/** Every flush fails with what the system says when a disk is full. */
function fillDisk({ world }: JournalLife, operation: "write" | "flush"): void {
  world.folder.intercept = (one, path) => {
    if (one === operation) throw MoonportError.of("storage_full", `${operation} ${path}: no space left on device`);
  };
}

describe("what shares a sync", () => {
  it("everything that comes in one turn", async () => {
    const { journal, time } = await begin({ JOURNAL_FILE_BYTES: 64 * 1024 });
    const answers = Promise.all(
      Array.from({ length: 50 }, (_, index) => journal.append(A, entry(1, 0, index, index + 1))),
    );
    expect((await time.until(answers)).map((answer) => answer.kind)).toEqual(Array(50).fill("ack"));
    expect(journal.syncs).toBe(1);
  });

  it("what comes while one is under way waits for the next", async () => {
    const { journal, time } = await begin();
    const order: string[] = [];
    const ask = (seq: number) =>
      journal.append(A, entry(1, 0, seq, seq + 1)).then(() => void order.push(`seq ${seq + 1}`));
    await time.until(ask(0));
    const first = ask(1);
    await time.settleOnce();
    const others = [ask(2), ask(3)];
    await time.until(Promise.all([first, ...others]));
    expect(order).toEqual(["seq 1", "seq 2", "seq 3", "seq 4"]);
    expect(journal.syncs).toBe(3);
  });

  it("an answer that states an old state waits for the sync that makes it last", async () => {
    const life = await begin();
    const { journal, time } = life;
    await time.until(journal.append(A, entry(1, 0, 0, 1)));
    const told: string[] = [];
    for (const _ of ["the first", "its repetition"]) {
      journal.append(A, entry(1, 0, 1, 2)).then((answer) => void told.push(answer.kind));
    }
    journal.notice(A, { epoch: 1, covered: 0 }).then((answer) => void told.push(String(answer?.kind)));
    await time.settleOnce();
    expect(told).toEqual([]);
    await time.settle();
    expect(told).toEqual(["ack", "duplicate", "noted"]);
  });

  it("word of coverage that ends no epoch waits for nothing, and is recorded with what comes next", async () => {
    const life = await begin();
    const { journal, time } = life;
    await time.until(journal.append(A, entry(1, 0, 0, 1)));
    expect(await time.until(journal.notice(A, { epoch: 1, covered: 1 }))).toMatchObject({ kind: "noted", base: 1 });
    expect(journal.syncs).toBe(1);
    expect(journal.tails()).toEqual([]);
    await time.until(journal.append(B, entry(1, 0, 0, 1)));
    life.end("power cut");
    expect((await life.onDisk()).get(A)).toMatchObject({ base: 1, entries: [] });
  });
});

describe("promises that are asked for together", () => {
  const asked = (journal: Journal, epoch: number) => [A, B].map((object) => ({ object, epoch, journal: journal.id }));

  it("share a sync, and hand over the tails there are", async () => {
    const life = await begin();
    const { journal, time } = life;
    await time.until(journal.append(A, entry(1, 0, 0, 1)));
    await time.until(journal.append(B, entry(1, 0, 0, 1)));
    await time.until(journal.notice(B, { epoch: 1, covered: 1 }));
    const { syncs } = journal;
    const [ofA, ofB] = await time.until(journal.promiseMany(asked(journal, 2)));
    expect(journal.syncs).toBe(syncs + 1);
    expect([...tailOf(ofA as PromiseAnswer<Uint8Array>).entries]).toMatchObject([{ afterSeq: 0, toSeq: 1 }]);
    expect(tailOf(ofB as PromiseAnswer<Uint8Array>)).toMatchObject({ tailEpoch: 1, base: 1, have: 1 });
    life.end("power cut");
    for (const object of [A, B]) expect((await life.onDisk()).get(object)?.promised).toBe(2);
  });

  it("hand over a tail in parts to whoever takes it so: one entry at least, however large", async () => {
    const { journal, time } = await begin();
    for (const seq of [0, 1, 2, 3]) {
      await time.until(journal.append(A, entry(1, 0, seq, seq + 1, seq === 2 ? 5_000 : 500)));
    }
    const seqsOf = async (part: TailPart): Promise<number[]> => {
      const asked = [{ object: A, epoch: 2, journal: journal.id, part }];
      const [answer] = await time.until(journal.promiseMany(asked));
      const { have, entries } = tailOf(answer as PromiseAnswer<Uint8Array>);
      expect(have).toBe(4);
      return [...entries].map(({ toSeq }) => toSeq);
    };
    expect(await seqsOf({ afterSeq: 0, bytesMax: 2_000 })).toEqual([1, 2]);
    expect(await seqsOf({ afterSeq: 2, bytesMax: 2_000 })).toEqual([3]);
    expect(await seqsOf({ afterSeq: 3, bytesMax: 2_000 })).toEqual([4]);
    expect(await seqsOf({ afterSeq: 4, bytesMax: 2_000 })).toEqual([]);
  });

  it("are in force before they are told, also those given before and still on their way", async () => {
    const { journal, time } = await begin();
    await time.until(journal.append(B, entry(1, 0, 0, 1)));
    await time.until(journal.notice(B, { epoch: 1, covered: 1 }));
    const told: string[] = [];
    const first = journal.promiseMany(asked(journal, 2)).then(() => void told.push("first"));
    const again = journal.promiseMany(asked(journal, 2)).then(() => void told.push("again"));
    await time.settleOnce();
    expect(told).toEqual([]);
    await time.until(Promise.all([first, again]));
    const [refused] = await time.until(journal.promiseMany(asked(journal, 1)));
    expect(refused).toMatchObject({ kind: "refused", promised: 2 });
  });

  it("fail each for itself: of what is not known the record is read first (J6)", async () => {
    const unreadable = MoonportError.of("bucket_failed", "it cannot be read");
    const { journal, time } = await begin({}, (object) =>
      object === A ? Promise.reject(unreadable) : Promise.resolve(7),
    );
    expect(await time.until(journal.promiseMany(asked(journal, 6)))).toMatchObject([
      { code: "bucket_failed" },
      { kind: "refused", promised: 7 },
    ]);
  });

  it("fail all where the disk does", async () => {
    const life = await begin();
    const { journal, time } = life;
    for (const object of [A, B]) {
      await time.until(journal.append(object, entry(1, 0, 0, 1)));
      await time.until(journal.notice(object, { epoch: 1, covered: 1 }));
    }
    fillDisk(life, "flush");
    for (const _ of ["under way", "afterwards"]) {
      const answers = await time.until(journal.promiseMany(asked(journal, 2)));
      expect(answers).toMatchObject([{ code: "storage_full" }, { code: "storage_full" }]);
    }
  });
});

describe("a reader beside the protocol", () => {
  const seqsOf = async (asked: ReturnType<Journal["entries"]>) =>
    (await asked)?.entries.map(({ toSeq, payload }) => [toSeq, payload[0]]);

  it("gets what is held beyond a seq and through another, on the disk or on its way there", async () => {
    const { journal, time } = await begin();
    for (const seq of [1, 2, 3]) await time.until(journal.append(A, entry(4, 0, seq - 1, seq)));
    const answers = [4, 5].map((seq) => journal.append(A, entry(4, 1, seq - 1, seq)));
    const range = { epoch: 4, afterSeq: 2, throughSeq: 4 };
    const read = journal.entries(A, range);
    expect(await time.until(seqsOf(read))).toEqual([
      [3, 3],
      [4, 4],
    ]);
    expect((await read)?.base).toBe(1);
    await time.until(Promise.all(answers));
    expect(await time.until(seqsOf(journal.entries(A, { ...range, afterSeq: 4, throughSeq: 9 })))).toEqual([[5, 5]]);
  });

  it("gets nothing of another line, nor of an object that is not known", async () => {
    const { journal, time } = await begin();
    await time.until(journal.append(A, entry(4, 0, 0, 1)));
    for (const epoch of [3, 5]) {
      expect(await journal.entries(A, { epoch, afterSeq: 0, throughSeq: 9 })).toBeUndefined();
    }
    expect(await journal.entries(B, { epoch: 4, afterSeq: 0, throughSeq: 9 })).toBeUndefined();
  });
});

describe("an object that is not known (J6)", () => {
  it("is begun by one reading of its record, for which all that is asked meanwhile waits in order", async () => {
    const readings: Deferred<number>[] = [];
    const { journal, time } = await begin({}, () => {
      readings.push(deferred<number>());
      return (readings.at(-1) as Deferred<number>).promise;
    });
    const asked = Promise.all([
      journal.append(A, entry(3, 0, 0, 1)),
      journal.append(A, entry(2, 0, 0, 1)),
      journal.notice(A, { epoch: 3, covered: 1 }),
      journal.promise(A, { epoch: 4, journal: journal.id }),
      journal.append(A, entry(3, 0, 1, 2)),
    ]);
    await time.settle();
    expect(readings.length).toBe(1);
    readings[0]?.resolve(3);
    const answers = await time.until(asked);
    expect(answers.map((answer) => answer?.kind)).toEqual(["ack", "refused", "noted", "promised", "refused"]);
    expect(readings.length).toBe(1);
  });

  it("stays known while those who waited for its record are answered: what a reading brings is used once", async () => {
    const readings: Deferred<number>[] = [];
    const { journal, time } = await begin({ JOURNAL_OBJECTS_MAX: 1 }, async (object) => {
      if (object === B) return 0;
      readings.push(deferred<number>());
      return (readings.at(-1) as Deferred<number>).promise;
    });
    await time.until(journal.append(B, entry(1, 0, 0, 1)));
    const asked = Promise.all([
      journal.promise(A, { epoch: 3, journal: journal.id }),
      journal.promise(A, { epoch: 5, journal: journal.id }),
      journal.append(A, entry(4, 0, 0, 1)),
    ]);
    await time.settle();
    readings[0]?.resolve(3);
    expect((await time.until(asked)).map(({ kind }) => kind)).toEqual(["promised", "promised", "refused"]);
  });

  it("word of its coverage is passed over", async () => {
    const { journal, time } = await begin();
    expect(await time.until(journal.notice(A, { epoch: 1, covered: 5 }))).toBeUndefined();
    expect(journal.syncs).toBe(0);
  });

  it("a reading that fails refuses those who waited for it, and the next request reads again", async () => {
    let readings = 0;
    const { journal, time } = await begin({}, async () => {
      if (++readings === 1) throw MoonportError.of("bucket_failed", "the bucket is away");
      return 0;
    });
    const asked = Promise.allSettled([journal.append(A, entry(1, 0, 0, 1)), journal.append(A, entry(1, 0, 0, 1))]);
    expect((await time.until(asked)).map((one) => one.status === "rejected" && one.reason.code)).toEqual([
      "bucket_failed",
      "bucket_failed",
    ]);
    expect(await time.until(journal.append(A, entry(1, 0, 0, 1)))).toMatchObject({ kind: "ack" });
    expect(readings).toBe(2);
  });

  it("what waits for readings is bounded", async () => {
    const { journal, time } = await begin({ JOURNAL_QUEUE_BYTES_MAX: 100 }, () => new Promise(() => {}));
    void journal.append(A, entry(1, 0, 0, 1, 60));
    await expect(time.until(journal.append(B, entry(1, 0, 0, 1, 60)))).rejects.toMatchObject({ code: "journal_full" });
    void journal.append(B, entry(1, 0, 0, 1, 30));
  });

  it("is one whose entries are covered, when more are known than may be; a promise given before binds after it is forgotten", async () => {
    const epochs = new Map([[A, 1]]);
    let readings = 0;
    const life = await begin({ JOURNAL_OBJECTS_MAX: 2 }, async (object) => {
      readings++;
      return epochs.get(object) ?? 0;
    });
    const { journal, time } = life;
    await time.until(journal.append(A, entry(1, 0, 0, 1)));
    epochs.set(A, 2);
    await time.until(journal.promise(A, { epoch: 2, journal: journal.id }));
    // Its entry keeps it known.
    for (const object of [B, "app/Counter/c"]) {
      await time.until(journal.promise(object, { epoch: 1, journal: journal.id }));
    }
    expect(readings).toBe(3);
    expect(await time.until(journal.append(A, entry(1, 0, 1, 2)))).toMatchObject({ kind: "refused" });
    expect(readings).toBe(3);
    await time.until(journal.append(A, entry(2, 1, 1, 2)));
    await time.until(journal.notice(A, { epoch: 2, covered: 2 }));
    for (const object of ["app/Counter/d", "app/Counter/e"]) {
      await time.until(journal.promise(object, { epoch: 1, journal: journal.id }));
    }
    expect(readings).toBe(5);
    expect(await time.until(journal.append(A, entry(1, 0, 1, 2)))).toMatchObject({ kind: "refused", promised: 2 });
    expect(readings).toBe(6);
  });

  it("leaves no hole behind when it is forgotten and the first of its files is deleted", async () => {
    const life = await begin({ JOURNAL_OBJECTS_MAX: 1 });
    const { journal, time } = life;
    await time.until(journal.append(A, entry(1, 0, 0, 1, 700)));
    await time.until(journal.append(B, entry(1, 0, 0, 1, 700)));
    await time.until(journal.append(A, entry(1, 0, 1, 2, 700)));
    const { syncs } = journal;
    await time.until(journal.notice(A, { epoch: 1, covered: 2 }));
    expect(journal.syncs).toBe(syncs);
    // It is forgotten for others before a sync records what is covered.
    for (let index = 0; life.fileNames().includes("0000000001.journal"); index++) {
      await time.until(journal.append(`app/Counter/${index}`, entry(1, 0, 0, 1, 400)));
      await time.until(journal.notice(`app/Counter/${index}`, { epoch: 1, covered: 1 }));
    }
    expect(life.fileNames()).toContain("0000000002.journal");
    life.end("power cut");
    await life.open();
  });
});

describe("coverage that no answer waited for", () => {
  it("is recorded before the first of an object's files is deleted, however much of it there is", async () => {
    const life = await begin({
      JOURNAL_FILE_BYTES: 500_000,
      JOURNAL_BYTES_MAX: 10_000_000,
      JOURNAL_OBJECTS_MAX: 10_000,
    });
    const { journal, time } = life;
    const others = Array.from({ length: 5_000 }, (_, index) => `app/Counter/${index}`);
    await time.until(Promise.all([...others, A].map((object) => journal.append(object, entry(1, 0, 0, 1, 40)))));
    await time.until(journal.append(A, entry(1, 0, 1, 2, 480_000)));
    expect(life.fileNames().length).toBe(2);
    for (const object of [...others, A]) void journal.notice(object, { epoch: 1, covered: object === A ? 2 : 1 });
    while (life.fileNames().includes("0000000001.journal")) await time.settleOnce();
    life.end("power cut");
    await life.open();
    expect(life.journal.tails()).toEqual([]);
  });
});

describe("a promise", () => {
  it("hands over the entries with their bytes, which are in memory no more", async () => {
    const life = await begin();
    await life.time.until(life.journal.append(A, entry(1, 0, 0, 2, 700)));
    await life.time.until(life.journal.append(A, entry(1, 0, 1, 4, 0)));
    const tail = tailOf(await life.time.until(life.journal.promise(A, { epoch: 2, journal: life.journal.id })));
    expect(tail).toMatchObject({ tailEpoch: 1, base: 0, have: 4 });
    expect([...tail.entries]).toEqual([
      { afterSeq: 0, toSeq: 2, payload: new Uint8Array(700).fill(2) },
      { afterSeq: 1, toSeq: 4, payload: new Uint8Array(0) },
    ]);
  });

  it("of a long tail gives way to others, and still hands it over whole when it is covered and deleted meanwhile", async () => {
    const life = await begin({
      JOURNAL_FILE_BYTES: 3_000_000,
      JOURNAL_BYTES_MAX: 100_000_000,
      JOURNAL_QUEUE_BYTES_MAX: 100_000_000,
    });
    const { journal, time } = life;
    const entries = 250;
    await time.until(
      Promise.all(Array.from({ length: entries }, (_, seq) => journal.append(A, entry(1, 0, seq, seq + 1, 100_000)))),
    );
    const asked = journal.promise(A, { epoch: 2, journal: journal.id });
    // Its sync, and the first step of reading.
    for (let turn = 0; turn < 3; turn++) await time.settleOnce();
    const before = life.fileNames().length;
    let isAnswered = false;
    void asked.then(() => {
      isAnswered = true;
    });
    const covered = journal.notice(A, { epoch: 2, covered: entries });
    // Deleting outruns reading by now.
    for (let turn = 0; turn < 14; turn++) await time.settleOnce();
    expect(life.fileNames().length).toBeLessThan(before - 4);
    expect(isAnswered).toBe(false);
    await time.until(covered);
    const tail = tailOf(await time.until(asked));
    expect([...tail.entries].map(({ payload }) => [payload.length, payload[0], payload[99_999]])).toEqual(
      Array.from({ length: entries }, (_, index) => [100_000, (index + 1) % 256, (index + 1) % 256]),
    );
  });

  it("for another journal's identity is not this one's to give", async () => {
    const { journal, time } = await begin();
    expect(await time.until(journal.promise(A, { epoch: 1, journal: "its-old-disk" }))).toMatchObject({
      kind: "other_journal",
      journal: journal.id,
    });
  });
});

describe("files", () => {
  it("go on in new ones of bounded size, and go when what they hold is covered", async () => {
    const life = await begin();
    const { journal, time } = life;
    for (let seq = 0; seq < 200; seq++) {
      await time.until(journal.append(A, entry(1, Math.max(0, seq - 3), seq, seq + 1, 300)));
      for (const name of life.fileNames()) {
        expect(life.world.folder.stat(`${FOLDER}/${name}`)?.sizeBytes).toBeLessThanOrEqual(2_000);
      }
      expect(journal.bytes).toBeLessThan(8_000);
    }
    expect(life.fileNames().length).toBeLessThan(5);
    expect(life.fileNames()[0]).not.toBe("0000000001.journal");
  });

  it("an object that nobody covers any more is carried along and holds up none", async () => {
    const life = await begin();
    const { journal, time } = life;
    await time.until(journal.append(A, entry(4, 0, 0, 1, 100)));
    await time.until(journal.promise(A, { epoch: 7, journal: journal.id }));
    for (let seq = 0; seq < 100; seq++) await time.until(journal.append(B, entry(1, seq, seq, seq + 1, 300)));
    expect(life.fileNames().length).toBeLessThan(5);
    life.end("power cut");
    await life.open();
    expect(life.journal.tailOf(A)).toEqual({ object: A, tailEpoch: 4, have: 1 });
    expect(await life.time.until(life.journal.append(A, entry(6, 0, 0, 1)))).toMatchObject({ promised: 7 });
    const tail = tailOf(await life.time.until(life.journal.promise(A, { epoch: 8, journal: life.journal.id })));
    expect([...tail.entries].map(({ payload }) => payload.length)).toEqual([100]);
  });

  it("a journal that is full refuses entries; promises, coverage and what that makes room for go through", async () => {
    const life = await begin({ JOURNAL_BYTES_MAX: 8_000 });
    const { journal, time } = life;
    let seq = 0;
    const next = () => time.until(journal.append(A, entry(1, 0, seq, seq + 1, 500))).then(() => seq++);
    await expect(
      (async () => {
        for (;;) await next();
      })(),
    ).rejects.toMatchObject({ code: "journal_full", retryable: true });
    expect(seq).toBeGreaterThan(10);
    expect(journal.bytes).toBeLessThanOrEqual(8_000);
    expect(await time.until(journal.append(A, entry(1, 0, 0, 1)))).toMatchObject({ kind: "duplicate" });
    expect(await time.until(journal.promise(B, { epoch: 1, journal: journal.id }))).toMatchObject({ kind: "promised" });
    // The entry is refused, its word of coverage counts.
    await expect(time.until(journal.append(A, entry(1, seq - 2, seq, seq + 1, 500)))).rejects.toMatchObject({
      code: "journal_full",
    });
    expect(journal.tailOf(A)).toMatchObject({ have: seq });
    await time.settle();
    await next();
    expect(journal.bytes).toBeLessThan(4_000);
  });

  it("are so small against all of it that one can go before the journal is full", () => {
    expect(() => resolveSettings({ JOURNAL_FILE_BYTES: 1024 * 1024, JOURNAL_BYTES_MAX: 2 * 1024 * 1024 })).toThrow(
      /at most a quarter/,
    );
  });

  it("more than may wait for the disk is refused", async () => {
    const { journal, time } = await begin({ JOURNAL_QUEUE_BYTES_MAX: 1_000 });
    await time.until(journal.promise(A, { epoch: 1, journal: journal.id }));
    const asked = Array.from({ length: 4 }, (_, seq) => journal.append(A, entry(1, 0, seq, seq + 1, 300)));
    const settled = await time.until(Promise.allSettled(asked));
    expect(settled.map((one) => (one.status === "rejected" ? one.reason.code : one.value.kind))).toEqual([
      "ack",
      "ack",
      "ack",
      "journal_full",
    ]);
    expect(await time.until(journal.append(A, entry(1, 0, 3, 4, 300)))).toMatchObject({ kind: "ack" });
  });
});

describe("a disk that fails", () => {
  it.each(["write", "flush"] as const)(
    "in a %s ends the journal: everything is refused with its error from then on",
    async (operation) => {
      const life = await begin();
      const { journal, time } = life;
      await time.until(journal.append(A, entry(1, 0, 0, 1)));
      fillDisk(life, operation);
      const asked = [journal.append(A, entry(1, 0, 1, 2)), journal.promise(A, { epoch: 2, journal: journal.id })];
      for (const one of await time.until(Promise.allSettled<unknown>(asked))) {
        expect(one).toMatchObject({ status: "rejected", reason: { code: "storage_full" } });
      }
      life.world.folder.intercept = undefined;
      const later = [
        journal.append(B, entry(1, 0, 0, 1)),
        journal.notice(A, { epoch: 1, covered: 1 }),
        journal.promise(A, { epoch: 2, journal: journal.id }),
      ];
      for (const one of await time.until(Promise.allSettled<unknown>(later))) {
        expect(one).toMatchObject({ status: "rejected", reason: { code: "storage_full" } });
      }
      await life.close();
      life.end("power cut");
      await life.open();
      expect(life.journal.tailOf(A)).toMatchObject({ have: expect.any(Number) });
      expect(await life.time.until(life.journal.append(A, entry(2, 1, 1, 2)))).toMatchObject({ kind: "ack" });
    },
  );

  it("a failed sync is not made good by the next one: a start writes again what may be missing", async () => {
    const life = await begin();
    await life.time.until(life.journal.append(A, entry(1, 0, 0, 1)));
    fillDisk(life, "flush");
    await expect(life.time.until(life.journal.append(A, entry(1, 0, 1, 2)))).rejects.toThrow();
    // The process ends, the machine does not: the file still reads as if all were well.
    life.end("crash");
    await life.open();
    expect(await life.time.until(life.journal.append(A, entry(1, 0, 1, 2)))).toMatchObject({ kind: "duplicate" });
    for (let seed = 1; seed < 20; seed++) {
      life.end("power cut", seed);
      await life.open();
      expect(life.journal.tailOf(A)).toMatchObject({ have: 2 });
    }
  });

  it("that is really full refuses with storage_full and keeps what was acknowledged", async (context) => {
    const disk = smallDisk(context, 256);
    const settings = resolveSettings({ JOURNAL_FILE_BYTES: 64 * 1024 });
    const open = () =>
      Journal.open({
        world: realWorld(disk.folder, silentLogger),
        settings,
        folder: FOLDER,
        recordEpoch: async () => 0,
      });
    const journal = await open();
    let acknowledged = 0;
    await expect(
      (async () => {
        for (;;) {
          await journal.append(A, entry(1, 0, acknowledged, acknowledged + 1, 5_000));
          acknowledged++;
        }
      })(),
    ).rejects.toMatchObject({ code: "storage_full" });
    await journal.close();
    expect(acknowledged).toBeGreaterThan(20);
    const again = await open();
    expect(again.tailOf(A)?.have).toBeGreaterThanOrEqual(acknowledged);
    await again.close();
  });
});

describe("its end", () => {
  it("waits for what is under way, then refuses", async () => {
    const life = await begin();
    const { journal, time } = life;
    await time.until(journal.promise(A, { epoch: 1, journal: journal.id }));
    const asked = journal.append(A, entry(1, 0, 0, 1));
    await life.close();
    expect(await asked).toMatchObject({ kind: "ack" });
    await expect(time.until(journal.append(A, entry(1, 0, 1, 2)))).rejects.toMatchObject({ code: "node_stopping" });
    await expect(time.until(journal.notice(A, { epoch: 1, covered: 1 }))).rejects.toMatchObject({
      code: "node_stopping",
    });
    await life.close();
  });

  it("refuses what no record can say before it decides on it", async () => {
    const { journal, time } = await begin();
    await expect(time.until(journal.append(A, entry(1.5, 0, 0, 1)))).rejects.toMatchObject({ code: "internal" });
    await expect(time.until(journal.notice(A, { epoch: -1, covered: 0 }))).rejects.toMatchObject({ code: "internal" });
    expect(await time.until(journal.append(A, entry(1, 0, 0, 1)))).toMatchObject({ kind: "ack" });
  });
});

it("works on a real disk as on a virtual one", async () => {
  const root = temporaryFolder();
  const settings = resolveSettings({ JOURNAL_FILE_BYTES: 64 * 1024, JOURNAL_BYTES_MAX: 1024 * 1024 });
  const open = () =>
    Journal.open({ world: realWorld(root, silentLogger), settings, folder: FOLDER, recordEpoch: async () => 0 });
  const journal = await open();
  const owners = Array.from({ length: 16 }, async (_, index) => {
    for (let seq = 0; seq < 40; seq++) {
      const message = entry(1, Math.max(0, seq - 5), seq, seq + 1, 1_000);
      expect(await journal.append(`app/Counter/${index}`, message)).toMatchObject({ kind: "ack", have: seq + 1 });
    }
  });
  await Promise.all(owners);
  expect(journal.syncs).toBeLessThan(16 * 40);
  expect(journal.bytes).toBeLessThan(512 * 1024);
  await journal.close();
  const again = await open();
  expect(again.id).toBe(journal.id);
  expect(again.tails().map(({ have }) => have)).toEqual(Array(16).fill(40));
  const tail = tailOf(await again.promise("app/Counter/3", { epoch: 2, journal: again.id }));
  expect([...tail.entries].map(({ toSeq, payload }) => [toSeq, payload.length])).toEqual(
    [35, 36, 37, 38, 39, 40].map((seq) => [seq, 1_000]),
  );
  await again.close();
});
