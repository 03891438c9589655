import { describe, expect, it } from "vitest";
import { Journal } from "../../src/journal/journal.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const settings = {
  JOURNAL_BYTES_MAX: 1024 * 1024,
  JOURNAL_FILE_BYTES: 64 * 1024,
  JOURNAL_QUEUE_BYTES_MAX: 1024 * 1024,
  JOURNAL_OBJECTS_MAX: 1000,
};

describe("a journal", () => {
  it("holds after a power cut what it acknowledged, and has let go of what was covered", async () => {
    const time = new VirtualTime();
    let world = new VirtualWorld({ time, root: temporaryFolder() });
    const open = () => time.until(Journal.open({ world, settings, folder: "journal", recordEpoch: async () => 1 }));
    let journal = await open();
    const { id } = journal;
    for (let seq = 0; seq < 200; seq++) {
      const payload = Buffer.alloc(3000, seq);
      const covered = Math.max(0, seq - 10);
      const answer = await time.until(
        journal.append("a/B/c", { epoch: 1, covered, afterSeq: seq, toSeq: seq + 1, payload }),
      );
      expect(answer).toMatchObject({ kind: "ack", have: seq + 1 });
    }
    expect(world.folder.list("journal").length).toBeLessThan(5);
    world = world.powerCut();
    journal = await open();
    expect(journal.id).toBe(id);
    const answer = await time.until(journal.promise("a/B/c", { epoch: 2, journal: id }));
    if (answer.kind !== "promised") throw new Error("it promises");
    expect([...answer.tail.entries].map(({ toSeq, payload }) => [toSeq, payload[0], payload.length])).toEqual(
      Array.from({ length: 11 }, (_, index) => [190 + index, 189 + index, 3000]),
    );
  });
});
