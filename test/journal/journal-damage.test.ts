/** What a journal finds in its folder: torn ends, which were not acknowledged, and damage, which was. */
import fs from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { FRAME_HEAD_BYTES } from "../../src/journal/records.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { FOLDER, JournalLife } from "./journal-life.js";

const A = "app/Counter/a";
const FIRST = "0000000001.journal";

interface Written {
  readonly root: string;
  /** Where each acknowledged entry ends in the file. */
  readonly ends: readonly number[];
  readonly id: string;
}

/** A journal in which each entry has a sync of its own, as its machine's sudden end leaves it. */
async function written(entries: number): Promise<Written> {
  const life = await JournalLife.begin(temporaryFolder());
  const { journal, time } = life;
  const ends: number[] = [];
  for (let seq = 0; seq < entries; seq++) {
    const payload = Buffer.from(`what seq ${seq + 1} says`);
    await time.until(journal.append(A, { epoch: 1, covered: 0, afterSeq: seq, toSeq: seq + 1, payload }));
    ends.push(journal.bytes);
  }
  life.end("crash");
  return { root: life.world.folder.absolute("."), ends, id: journal.id };
}

/** The same folder with one file changed, each time. */
function opener({ root }: Written, name = FIRST) {
  const file = `${root}/${FOLDER}/${name}`;
  const original = fs.readFileSync(file);
  return async (bytes: Uint8Array): Promise<JournalLife> => {
    fs.writeFileSync(file, bytes);
    try {
      return await JournalLife.begin(root);
    } finally {
      fs.writeFileSync(file, original);
    }
  };
}

async function refusal(opening: Promise<unknown>): Promise<MoonportError> {
  const error = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof MoonportError)) throw new Error(`it opened, or failed as ${error}`);
  return error;
}

describe("an end that was never acknowledged", () => {
  it("is cut off wherever in the last record the write stopped, whatever stands there instead", async () => {
    const journal = await written(4);
    const open = opener(journal);
    const bytes = fs.readFileSync(`${journal.root}/${FOLDER}/${FIRST}`);
    const [before, end] = journal.ends.slice(-2) as [number, number];
    for (let at = before; at < end; at++) {
      const zeros = Buffer.from(bytes).fill(0, at, end);
      const garbage = Buffer.from(bytes).fill(0xa5, at, end + 100);
      for (const torn of [bytes.subarray(0, at), zeros, garbage]) {
        const life = await open(torn);
        const isWhole = torn.length >= end && torn.subarray(0, end).equals(bytes.subarray(0, end));
        expect(life.journal.tailOf(A), `torn at ${at}`).toMatchObject({ have: isWhole ? 4 : 3 });
        await life.close();
      }
    }
  });

  it("is overwritten by what comes next", async () => {
    const journal = await written(4);
    const bytes = fs.readFileSync(`${journal.root}/${FOLDER}/${FIRST}`);
    fs.writeFileSync(`${journal.root}/${FOLDER}/${FIRST}`, bytes.subarray(0, (journal.ends[3] as number) - 1));
    const life = await JournalLife.begin(journal.root);
    const payload = Buffer.from("another");
    await life.time.until(life.journal.append(A, { epoch: 1, covered: 0, afterSeq: 3, toSeq: 5, payload }));
    life.end("power cut");
    await life.open();
    const answer = await life.time.until(life.journal.promise(A, { epoch: 2, journal: journal.id }));
    if (answer.kind !== "promised") throw new Error("it promises");
    expect([...answer.tail.entries].map(({ payload: bytes }) => Buffer.from(bytes).toString())).toEqual([
      "what seq 1 says",
      "what seq 2 says",
      "what seq 3 says",
      "another",
    ]);
  });

  it("may be a file that was not begun yet", async () => {
    const journal = await written(2);
    const second = `${journal.root}/${FOLDER}/0000000002.journal`;
    for (const bytes of [Buffer.alloc(0), Buffer.from("MJNL"), Buffer.alloc(600, 1)]) {
      fs.writeFileSync(second, bytes);
      const life = await JournalLife.begin(journal.root);
      expect(fs.existsSync(second)).toBe(false);
      expect(life.journal.tailOf(A)).toMatchObject({ have: 2 });
      await life.close();
    }
  });
});

describe("damage to what was acknowledged", () => {
  it("is found at every byte before the last batch, and refused with the file and the place", async () => {
    const journal = await written(4);
    const open = opener(journal);
    const bytes = fs.readFileSync(`${journal.root}/${FOLDER}/${FIRST}`);
    const begins = [8, ...journal.ends];
    // The first frame begins the file.
    const header = 8 + FRAME_HEAD_BYTES + bytes.readUInt32LE(16);
    const starts = [0, header, ...begins.slice(1, -2)];
    for (let at = 0; at < (journal.ends[2] as number); at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ (1 << ((at * 5) % 8));
      const error = await refusal(open(flipped));
      const place = starts.findLast((start) => start <= at);
      expect(error.code, `byte ${at}`).toBe("journal_corrupt");
      if (at >= 8) expect(error.message, `byte ${at}`).toContain(`${FIRST} is damaged at byte ${place}:`);
    }
  });

  it("is found in the last batch too when the journal was closed in order, also while that was under way", async () => {
    const life = await JournalLife.begin(temporaryFolder());
    const append = (seq: number) => {
      const payload = Buffer.from(`what seq ${seq} says`);
      return life.journal.append(A, { epoch: 1, covered: 0, afterSeq: seq - 1, toSeq: seq, payload });
    };
    await life.time.until(append(1));
    const start = life.journal.bytes;
    void append(2);
    await life.close();
    life.end("crash");
    const root = life.world.folder.absolute(".");
    const open = opener({ root, ends: [], id: "" });
    const bytes = fs.readFileSync(`${root}/${FOLDER}/${FIRST}`);
    const end = start + FRAME_HEAD_BYTES + bytes.readUInt32LE(start + 8);
    for (let at = start; at < end; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ 0x10;
      expect((await refusal(open(flipped))).message).toContain(`${FIRST} is damaged at byte ${start}:`);
    }
  });

  it("is found in a file that others follow, to its last byte", async () => {
    const life = await JournalLife.begin(temporaryFolder(), { JOURNAL_FILE_BYTES: 400 });
    for (let seq = 0; seq < 12; seq++) {
      const message = { epoch: 1, covered: 0, afterSeq: seq, toSeq: seq + 1, payload: Buffer.alloc(60, seq) };
      await life.time.until(life.journal.append(A, message));
    }
    const names = life.fileNames();
    expect(names.length).toBeGreaterThan(3);
    life.end("crash");
    const root = life.world.folder.absolute(".");
    const name = names[1] as string;
    const open = opener({ root, ends: [], id: "" }, name);
    const bytes = fs.readFileSync(`${root}/${FOLDER}/${name}`);
    const end = bytes.findLastIndex((byte) => byte !== 0);
    for (const at of [20, 100, end - 30, end]) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ 1;
      const error = await refusal(open(flipped));
      expect(error.code).toBe("journal_corrupt");
      expect(error.message).toContain(`${name} is damaged at byte`);
    }
    expect((await refusal(open(bytes.subarray(0, 200)))).message).toContain(`${name} is damaged`);
    fs.rmSync(`${root}/${FOLDER}/${name}`);
    expect((await refusal(JournalLife.begin(root))).message).toContain(`${name} is missing`);
  });

  it("of an entry while the journal is open is found when it is handed over", async () => {
    const life = await JournalLife.begin(temporaryFolder());
    const { journal, time } = life;
    const message = { epoch: 1, covered: 0, afterSeq: 0, toSeq: 1, payload: Buffer.alloc(50, 7) };
    await time.until(journal.append(A, message));
    const file = life.world.folder.absolute(`${FOLDER}/${FIRST}`);
    const bytes = fs.readFileSync(file);
    bytes[journal.bytes - 10] = 0;
    fs.writeFileSync(file, bytes);
    const error = await refusal(time.until(journal.promise(A, { epoch: 2, journal: journal.id })));
    expect(error.code).toBe("journal_corrupt");
    expect(error.message).toContain(`${FIRST} is damaged at byte`);
  });

  it("is not made up by frames that were stored as a value, nor by those of another journal", async () => {
    const other = await written(3);
    const foreign = fs.readFileSync(`${other.root}/${FOLDER}/${FIRST}`).subarray(0, other.ends[2]);
    const life = await JournalLife.begin(temporaryFolder(), { JOURNAL_FILE_BYTES: 64 * 1024 });
    const { journal, time } = life;
    const append = (seq: number, payload: Uint8Array) =>
      time.until(journal.append(A, { epoch: 1, covered: 0, afterSeq: seq, toSeq: seq + 1, payload }));
    await append(0, Buffer.from("first"));
    const before = journal.bytes;
    const own = fs.readFileSync(life.world.folder.absolute(`${FOLDER}/${FIRST}`)).subarray(0, before);
    await append(1, Buffer.concat([foreign, own]));
    const end = journal.bytes;
    life.end("crash");
    const root = life.world.folder.absolute(".");
    const file = `${root}/${FOLDER}/${FIRST}`;
    const torn = fs.readFileSync(file).subarray(0, end - 1);
    fs.writeFileSync(file, torn);
    const again = await JournalLife.begin(root);
    expect(again.journal.tailOf(A)).toMatchObject({ have: 1 });
  });
});

describe("its identity", () => {
  it("stays while the folder does, and is new when that was wiped", async () => {
    const life = await JournalLife.begin(temporaryFolder());
    const { id } = life.journal;
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    await life.close();
    expect((await life.open()).id).toBe(id);
    await life.close();
    fs.rmSync(life.world.folder.absolute(FOLDER), { recursive: true });
    const wiped = await life.open();
    expect(wiped.id).not.toBe(id);
    expect(await life.time.until(wiped.promise(A, { epoch: 1, journal: id }))).toMatchObject({ kind: "other_journal" });
  });

  it("without files, files without it, and a damaged one are refused", async () => {
    const { root } = await written(2);
    const identity = `${root}/${FOLDER}/identity`;
    const original = fs.readFileSync(identity);
    fs.writeFileSync(identity, original.fill(0x30, 3, 4));
    expect((await refusal(JournalLife.begin(root))).message).toContain("identity is damaged");
    fs.rmSync(identity);
    expect((await refusal(JournalLife.begin(root))).message).toContain("identity is missing");
    const other = await written(2);
    fs.rmSync(`${other.root}/${FOLDER}/${FIRST}`);
    expect((await refusal(JournalLife.begin(other.root))).message).toContain("no files");
  });

  it("is made by one start or the next, wherever the machine ends while it is", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(12), fc.nat(1_000), async (turns, seed) => {
        const time = new VirtualTime();
        const world = new VirtualWorld({ time, root: temporaryFolder() });
        const life = JournalLife.over(world, time);
        void life.opening().catch(() => {});
        for (let turn = 0; turn < turns; turn++) await time.settleOnce();
        life.end("power cut", seed);
        const { id } = await life.open();
        life.end("power cut", seed + 1);
        expect((await life.open()).id).toBe(id);
      }),
      { numRuns: 100 },
    );
  });
});
