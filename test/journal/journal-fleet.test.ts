/**
 * Owners and claimers of objects over one journal that knows hardly more than one object at a time: messages late and twice,
 * crashes and power cuts between them. What an owner was told is in what every later one serves.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CoverageNotice, EntryAnswer, EntryMessage, PromiseRequest } from "../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../src/cluster/ownership.js";
import { chooseTail } from "../../src/cluster/tail-choice.js";
import { WorldRevoked } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { JournalLife } from "./journal-life.js";

type Step =
  | { readonly kind: "write"; readonly object: number; readonly seqs: number; readonly isStale: boolean }
  | { readonly kind: "cover"; readonly object: number; readonly less: number; readonly isTold: boolean }
  | { readonly kind: "claim"; readonly object: number }
  | { readonly kind: "again"; readonly which: number }
  | { readonly kind: "turns"; readonly count: number }
  | { readonly kind: "rest" }
  | { readonly kind: "end"; readonly how: "crash" | "power cut"; readonly seed: number };

const object = fc.nat(2);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant("write" as const),
      object,
      seqs: fc.integer({ min: 1, max: 3 }),
      isStale: fc.constantFrom(false, false, false, true),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("cover" as const),
      object,
      less: fc.constantFrom(0, 0, 1, 3),
      isTold: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("claim" as const), object }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("again" as const), which: fc.nat(1_000) }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("turns" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("rest" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      how: fc.constantFrom("crash" as const, "power cut" as const),
      seed: fc.nat(1_000_000),
    }),
  },
);

/** Values by seq; each was committed once, so two lines have different ones. */
type Line = readonly number[];

interface Owner {
  readonly epoch: number;
  line: number[];
  /** Seq through which its entries were sent. */
  sent: number;
  covered: number;
}

interface FleetObject {
  readonly name: string;
  record: OwnershipRecord;
  bucket: Line;
  owner: Owner;
  /** The one before, which may not know. */
  stale: Owner | undefined;
}

type Sent =
  | {
      readonly kind: "entry";
      readonly object: FleetObject;
      readonly owner: Owner;
      readonly message: EntryMessage<Uint8Array>;
    }
  | { readonly kind: "notice"; readonly object: FleetObject; readonly notice: CoverageNotice }
  | { readonly kind: "promise"; readonly object: FleetObject; readonly request: PromiseRequest };

class Fleet {
  readonly #life: JournalLife;
  readonly #objects: FleetObject[];
  readonly #sent: Sent[] = [];
  #lastValue = 0;
  #wrong: unknown;

  constructor(life: JournalLife, objects: FleetObject[]) {
    this.#life = life;
    this.#objects = objects;
  }

  async take(one: Step): Promise<void> {
    if (one.kind === "turns") for (let turn = 0; turn < one.count; turn++) await this.#life.time.settleOnce();
    if (one.kind === "rest") await this.#life.time.settle();
    if (one.kind === "end") {
      this.#life.end(one.how, one.seed);
      await this.#life.open();
    }
    if (one.kind === "again" && this.#sent.length > 0) this.#send(this.#sent[one.which % this.#sent.length] as Sent);
    if (one.kind === "write") this.#write(this.#objects[one.object] as FleetObject, one);
    if (one.kind === "cover") this.#cover(this.#objects[one.object] as FleetObject, one);
    if (one.kind === "claim") this.#claim(this.#objects[one.object] as FleetObject);
    if (this.#wrong !== undefined) throw this.#wrong;
  }

  /** All claims are made once more, and find everything. */
  async finish(): Promise<void> {
    await this.take({ kind: "rest" });
    for (const one of this.#objects) this.#claim(one);
    await this.take({ kind: "rest" });
    for (const { owner, record } of this.#objects) expect(owner.epoch).toBe(record.epoch);
    await this.#life.close();
  }

  #write(one: FleetObject, { seqs, isStale }: Extract<Step, { kind: "write" }>): void {
    const owner = (isStale && one.stale) || one.owner;
    for (let count = 0; count < seqs; count++) owner.line.push(++this.#lastValue);
    const afterSeq = Math.max(owner.sent, owner.covered);
    const toSeq = owner.line.length;
    const payload = Buffer.from(JSON.stringify(owner.line.slice(afterSeq)));
    owner.sent = toSeq;
    const message = { epoch: owner.epoch, covered: owner.covered, afterSeq, toSeq, payload };
    this.#ask({ kind: "entry", object: one, owner, message });
  }

  /** By a CAS of the owner, which wins while the record names its epoch. */
  #cover(one: FleetObject, { less, isTold }: Extract<Step, { kind: "cover" }>): void {
    const { owner, record } = one;
    const covered = owner.line.length - less;
    if (record.epoch !== owner.epoch || covered <= owner.covered) return;
    owner.covered = covered;
    one.bucket = owner.line.slice(0, covered);
    one.record = { ...record, covered };
    if (isTold) this.#ask({ kind: "notice", object: one, notice: { epoch: owner.epoch, covered } });
  }

  #claim(one: FleetObject): void {
    one.record = { ...one.record, epoch: one.record.epoch + 1 };
    const request = { epoch: one.record.epoch, journal: this.#life.journal.id };
    this.#ask({ kind: "promise", object: one, request });
  }

  #ask(sent: Sent): void {
    this.#sent.push(sent);
    this.#send(sent);
  }

  #send(sent: Sent): void {
    this.#asked(sent).catch((error: unknown) => {
      if (!(error instanceof WorldRevoked)) this.#wrong ??= error;
    });
  }

  async #asked(sent: Sent): Promise<void> {
    const { journal } = this.#life;
    const { object: one } = sent;
    if (sent.kind === "entry") this.#heard(one, sent.owner, await journal.append(one.name, sent.message));
    if (sent.kind === "notice") await journal.notice(one.name, sent.notice);
    if (sent.kind !== "promise") return;
    const answer = await journal.promise(one.name, sent.request);
    const { record, owner } = one;
    // A claim that another has overtaken, or that is complete already, has no use for it.
    if (answer.epoch !== record.epoch || owner.epoch === record.epoch) return;
    expect(answer.kind).toBe("promised");
    const choice = chooseTail(record, [answer]);
    if (choice.kind !== "tail" && choice.kind !== "bucket") throw new Error(`the claim ends as ${choice.kind}`);
    const line = [...one.bucket];
    for (const { afterSeq, payload } of choice.kind === "tail" ? choice.entries : []) {
      expect(afterSeq).toBeLessThanOrEqual(line.length);
      for (const [index, value] of (JSON.parse(Buffer.from(payload).toString()) as Line).entries()) {
        const seq = afterSeq + index + 1;
        if (seq <= line.length) expect(line[seq - 1]).toBe(value);
        else line.push(value);
      }
    }
    expect(line.length).toBe(choice.throughSeq);
    one.record = { ...record, tailEpoch: record.epoch, covered: line.length };
    one.bucket = line;
    one.stale = owner;
    one.owner = { epoch: record.epoch, line: [...line], sent: line.length, covered: line.length };
    this.#checkReleased(one);
  }

  readonly #released = new Map<FleetObject, Map<number, number>>();

  /** The owner is told: what an acknowledgement releases must be in what is served from now on. */
  #heard(one: FleetObject, owner: Owner, answer: EntryAnswer): void {
    if (answer.kind === "gap") owner.sent = Math.min(owner.sent, Math.max(answer.have, owner.covered));
    if (answer.kind !== "ack" && answer.kind !== "duplicate") return;
    const released = this.#released.get(one) ?? new Map<number, number>();
    this.#released.set(one, released);
    for (let seq = 1; seq <= answer.have; seq++) released.set(seq, owner.line[seq - 1] as number);
    this.#checkReleased(one);
  }

  #checkReleased(one: FleetObject): void {
    for (const [seq, value] of this.#released.get(one) ?? []) {
      expect(one.owner.line[seq - 1], `seq ${seq} of ${one.name}`).toBe(value);
    }
  }
}

describe("a journal among owners and claimers", () => {
  it("loses nothing that was acknowledged, whatever it forgets and whenever it ends", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120 }), fc.nat(1_000_000), async (steps, seed) => {
        const objects: FleetObject[] = [];
        const recordEpoch = async (name: string) => objects.find((one) => one.name === name)?.record.epoch ?? 0;
        const life = await JournalLife.begin(
          temporaryFolder(),
          { JOURNAL_OBJECTS_MAX: 1, JOURNAL_FILE_BYTES: 300 },
          recordEpoch,
          seed,
        );
        for (const name of ["app/Counter/a", "app/Counter/b", "app/Counter/c"]) objects.push(newObject(name, life));
        const fleet = new Fleet(life, objects);
        for (const one of steps) await fleet.take(one);
        await fleet.finish();
      }),
      { numRuns: Number(process.env.MOONPORT_JOURNAL_RUNS ?? 150) },
    );
  });
});

function newObject(name: string, life: JournalLife): FleetObject {
  return {
    name,
    record: {
      rid: "",
      epoch: 1,
      owner: "",
      tailEpoch: 1,
      set: [{ node: "one", journal: life.journal.id }],
      quorum: { copies: 1, acksToLand: 1 },
      covered: 0,
      clean: false,
    },
    bucket: [],
    owner: { epoch: 1, line: [], sent: 0, covered: 0 },
    stale: undefined,
  };
}
