/** Promises asked of one journal: what travels together is answered and counted each for itself. */
import { describe, expect, it } from "vitest";
import { EntryRun } from "../../src/cluster/entry-run.js";
import type { JournalEntry, PromiseAnswer } from "../../src/cluster/journal-rules.js";
import { asMoonportError, MoonportError } from "../../src/errors.js";
import {
  answerPromises,
  PromiseBatches,
  type PromiseBatchesParts,
  type PromisesAnswer,
  type PromisesBody,
  type PromisingJournal,
} from "../../src/fleet/promise-batches.js";
import { toWire } from "../../src/fleet/wired-promise.js";
import type { AskedPromise, JournalPort, Payload } from "../../src/journal/contract.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";

const JOURNAL = "j1";

function promised(epoch: number, payload?: Payload): PromiseAnswer<Payload> {
  const entries: EntryRun<JournalEntry<Payload>> =
    payload === undefined ? EntryRun.of() : EntryRun.of({ afterSeq: 0, toSeq: 1, payload });
  const tail = { tailEpoch: 1, base: 0, have: entries.length, entries };
  return { kind: "promised", journal: JOURNAL, epoch, tail };
}

const answering: JournalPort["promise"] = async (_, { epoch }) => promised(epoch);

class Stage {
  readonly time = new VirtualTime();
  readonly sent: PromisesBody[] = [];
  readonly sentAlone: string[] = [];
  readonly batches: PromiseBatches;

  constructor(
    answer: (body: PromisesBody) => Promise<PromisesAnswer>,
    part: PromiseBatchesParts["sendOne"] = (object, request) => answering(object, request),
  ) {
    this.batches = new PromiseBatches({
      world: { timers: this.time },
      send: (body) => {
        this.sent.push(body);
        return answer(body);
      },
      sendOne: (object, request, afterSeq) => {
        this.sentAlone.push(object);
        return part(object, request, afterSeq);
      },
      tailBytesMax: 100,
    });
  }

  ask(...objects: readonly string[]): Promise<PromiseSettledResult<PromiseAnswer<Payload>>[]> {
    const asked = objects.map((object, index) => this.batches.promise(object, { epoch: index + 1, journal: JOURNAL }));
    return this.time.until(Promise.allSettled(asked));
  }
}

function journalOf(promise: JournalPort["promise"], tailBytes: (object: string) => number = () => 0): PromisingJournal {
  const one = ({ object, ...request }: AskedPromise) => promise(object, request).catch(asMoonportError);
  return { promiseMany: (asked) => Promise.all(asked.map(one)), tailBytes };
}

describe("promises that are asked for in one turn", () => {
  it("travel as one message, and each request gets the answer about its object", async () => {
    const stage = new Stage((body) => answerPromises(journalOf(answering), body, 100));
    const answers = await stage.ask("x", "y", "z");
    expect(stage.sent).toEqual([
      [
        ["x", 1, JOURNAL, 100],
        ["y", 2, JOURNAL, 100],
        ["z", 3, JOURNAL, 100],
      ],
    ]);
    expect(answers).toMatchObject([1, 2, 3].map((epoch) => ({ value: { kind: "promised", epoch } })));
  });

  it("are not counted for an object that the answer does not name", async () => {
    const stage = new Stage(async (body) => body.map(() => ["x", { kind: "other_journal", journal: "j2", epoch: 1 }]));
    const answers = await stage.ask("x", "y");
    expect(answers).toMatchObject([{ status: "fulfilled" }, { status: "rejected", reason: { code: "internal" } }]);
  });

  it("bring a tail of as many entries as a journal holds", async () => {
    const payload = new Uint8Array(8);
    const count = 200_000;
    const entries = EntryRun.from(Array.from({ length: count }, (_, n) => ({ afterSeq: n, toSeq: n + 1, payload })));
    const tail = { tailEpoch: 1, base: 0, have: count, entries };
    const long = async (): Promise<PromiseAnswer<Payload>> => ({ kind: "promised", journal: JOURNAL, epoch: 1, tail });
    const stage = new Stage((body) => answerPromises(journalOf(long), body, 100));
    const [answer] = await stage.ask("x");
    const told =
      answer?.status === "fulfilled" && answer.value.kind === "promised" ? answer.value.tail.entries : undefined;
    expect(told?.length).toBe(count);
  });

  it("fail for the object whose tail has a hole, and for no other", async () => {
    const holed = [1, 5].map((toSeq) => ({ afterSeq: toSeq - 1, toSeq, payload: new Uint8Array(1) }));
    const stage = new Stage(async (body) =>
      body.map(([object, epoch]) => {
        const [entries, have] = object === "y" ? [holed, 5] : [[], 0];
        return [object, { kind: "promised", journal: JOURNAL, epoch, tailEpoch: 1, base: 0, have, entries }];
      }),
    );
    expect(await stage.ask("x", "y", "z")).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { code: "internal" } },
      { status: "fulfilled" },
    ]);
  });

  it("all fail where what came is no answer, and the next are asked all the same", async () => {
    let asked = 0;
    const stage = new Stage(async (body) => {
      if (++asked === 1) return 7 as unknown as PromisesAnswer;
      return answerPromises(journalOf(answering), body, 100);
    });
    expect(await stage.ask("x", "y")).toMatchObject([{ status: "rejected" }, { status: "rejected" }]);
    expect(await stage.ask("x")).toMatchObject([{ status: "fulfilled" }]);
  });

  it("fail one by one where the journal fails for one", async () => {
    const failing: JournalPort["promise"] = async (object, request) => {
      if (object === "y") throw MoonportError.of("bucket_failed", "its record cannot be read");
      return answering(object, request);
    };
    const stage = new Stage((body) => answerPromises(journalOf(failing), body, 100));
    expect(await stage.ask("x", "y", "z")).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { code: "bucket_failed", message: "its record cannot be read" } },
      { status: "fulfilled" },
    ]);
  });

  it("fail all where the message does", async () => {
    const stage = new Stage(() => Promise.reject(MoonportError.of("node_unreachable", "it is gone")));
    expect(await stage.ask("x", "y")).toMatchObject([
      { reason: { code: "node_unreachable" } },
      { reason: { code: "node_unreachable" } },
    ]);
  });

  it("come in several answers where the tails are large, a tail of any size in one of its own", async () => {
    const journal = journalOf(answering, (object) => (object === "huge" ? 1_000 : 60));
    const stage = new Stage((body) => answerPromises(journal, body, 100));
    const answers = await stage.ask("a", "huge", "b", "c");
    expect(answers.every(({ status }) => status === "fulfilled")).toBe(true);
    expect(stage.sent.map((body) => body.map(([object]) => object))).toEqual([
      ["a", "huge", "b", "c"],
      ["huge", "b", "c"],
      ["b", "c"],
      ["c"],
    ]);
  });

  it("are asked for one by one of a release that knows no batches", async () => {
    const stage = new Stage(() => Promise.reject(MoonportError.of("bad_request", "it does not know that")));
    expect(await stage.ask("x", "y")).toMatchObject([{ status: "fulfilled" }, { status: "fulfilled" }]);
    await stage.ask("z");
    expect(stage.sent).toHaveLength(1);
    expect(stage.sentAlone).toEqual(["x", "y", "z"]);
  });

  it("bring the tail along", async () => {
    const payload = new Uint8Array([1, 2, 3]);
    const stage = new Stage((body) =>
      answerPromises(
        journalOf(async (_, { epoch }) => promised(epoch, payload)),
        body,
        100,
      ),
    );
    const [answer] = await stage.ask("x");
    const value = answer?.status === "fulfilled" ? answer.value : undefined;
    const tail = value?.kind === "promised" ? [...value.tail.entries] : [];
    expect(tail).toEqual([{ afterSeq: 0, toSeq: 1, payload }]);
  });
});

/** Of entries of one byte each, as many as the answer is asked for. */
function partOf(epoch: number, have: number, afterSeq: number, count: number): PromiseAnswer<Payload> {
  let entries = EntryRun.of<JournalEntry<Payload>>();
  for (let seq = afterSeq; seq < Math.min(have, afterSeq + count); seq++) {
    entries = entries.appended({ afterSeq: seq, toSeq: seq + 1, payload: new Uint8Array([seq]) });
  }
  return { kind: "promised", journal: JOURNAL, epoch, tail: { tailEpoch: 1, base: 0, have, entries } };
}

describe("a tail that is larger than an answer", () => {
  const first = async (body: PromisesBody): Promise<PromisesAnswer> =>
    body.map(([object, epoch]) => [object, toWire(partOf(epoch, object === "huge" ? 10 : 2, 0, 4))]);

  it("comes in parts, and nobody waits for another's", async () => {
    const stage = new Stage(first, async (_, { epoch }, afterSeq) => partOf(epoch, 10, afterSeq, 4));
    const asked = await stage.ask("a", "huge", "b");
    const together = await stage.time.until(
      stage.batches.promiseMany(["huge", "a"].map((object) => ({ object, epoch: 7, journal: JOURNAL }))),
    );
    const answers = [...asked.map((one) => (one.status === "fulfilled" ? one.value : undefined)), ...together];
    const seqs = answers.map((one) => one && "tail" in one && [...one.tail.entries].map(({ payload }) => payload[0]));
    const ten = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    expect(seqs).toEqual([[0, 1], ten, [0, 1], ten, [0, 1]]);
    expect(stage.sentAlone).toEqual(["huge", "huge", "huge", "huge"]);
  });

  it("is refused as a whole where a later claim comes meanwhile", async () => {
    const stage = new Stage(first, async () => ({ kind: "refused", journal: JOURNAL, epoch: 1, promised: 9 }));
    expect(await stage.ask("huge")).toMatchObject([{ value: { kind: "refused", promised: 9 } }]);
  });

  it("fails where its parts do not continue each other, or end before it does", async () => {
    for (const part of [partOf(1, 10, 5, 4), partOf(1, 10, 2, 4), partOf(1, 11, 4, 4), partOf(1, 10, 10, 4)]) {
      const stage = new Stage(first, async () => part);
      expect(await stage.ask("huge")).toMatchObject([{ status: "rejected", reason: { code: "internal" } }]);
    }
  });

  it("of a release that knows no parts, and whose answer is too large, fails alone", async () => {
    const stage = new Stage(async (body) => {
      if (body[0]?.[0] === "huge" || body.length > 2) throw MoonportError.of("too_large", "the answer is too large");
      return first(body);
    });
    expect(await stage.ask("a", "huge", "b", "c")).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { code: "too_large" } },
      { status: "fulfilled" },
      { status: "fulfilled" },
    ]);
  });
});

describe("promises that are asked for together", () => {
  const many = (count: number): AskedPromise[] =>
    Array.from({ length: count }, (_, index) => ({ object: `o${index}`, epoch: index + 1, journal: JOURNAL }));

  it("travel at once, as many in a message as one holds, each answered in its place", async () => {
    const stage = new Stage((body) => answerPromises(journalOf(answering), body, 100));
    const answers = await stage.time.until(stage.batches.promiseMany(many(2_500)));
    expect(stage.sent.map(({ length }) => length)).toEqual([1_024, 1_024, 452]);
    expect(answers.map((answer) => "epoch" in answer && answer.epoch)).toEqual(many(2_500).map(({ epoch }) => epoch));
  });

  it("are asked for again as far as an answer left them out", async () => {
    const stage = new Stage((body) =>
      answerPromises(
        journalOf(answering, () => 60),
        body,
        100,
      ),
    );
    const answers = await stage.time.until(stage.batches.promiseMany(many(3)));
    expect(answers).toMatchObject([1, 2, 3].map((epoch) => ({ kind: "promised", epoch })));
    expect(stage.sent.map(({ length }) => length)).toEqual([3, 2, 1]);
  });

  it("fail with what their message failed with, and are asked for apart of a release that knows no batches", async () => {
    const dead = new Stage(() => Promise.reject(MoonportError.of("node_unreachable", "it is gone")));
    const failed = await dead.time.until(dead.batches.promiseMany(many(2)));
    expect(failed).toMatchObject([{ code: "node_unreachable" }, { code: "node_unreachable" }]);
    const old = new Stage(() => Promise.reject(MoonportError.of("bad_request", "it does not know that")));
    for (const _ of ["first", "later"]) {
      expect(await old.time.until(old.batches.promiseMany(many(2)))).toMatchObject([{ epoch: 1 }, { epoch: 2 }]);
    }
    expect(old.sent).toHaveLength(1);
    expect(old.sentAlone).toEqual(["o0", "o1", "o0", "o1"]);
  });
});
