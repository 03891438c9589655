import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { EntryAnswer } from "../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../src/cluster/ownership.js";
import { noteAnswer, noteSetSent, noteWon, openBook } from "../../src/cluster/release-rule.js";

const EPOCH = 3;
const JOURNALS = ["a", "b", "c", "d", "e"];
const SEQS = 12;

function record(journals: readonly string[], acksToLand: number, covered: number): OwnershipRecord {
  return {
    rid: "r",
    epoch: EPOCH,
    owner: "s",
    tailEpoch: EPOCH,
    set: journals.map((journal) => ({ node: `node-${journal}`, journal })),
    quorum: { copies: journals.length, acksToLand },
    covered,
    clean: false,
  };
}

const anyRecord = fc
  .tuple(fc.subarray(JOURNALS, { minLength: 1 }), fc.nat(5), fc.nat(SEQS))
  .map(([journals, acks, covered]) => record(journals, Math.min(acks, journals.length), covered));

type Event =
  | { readonly kind: "answer"; readonly answer: EntryAnswer }
  | { readonly kind: "won"; readonly record: OwnershipRecord }
  | { readonly kind: "sent"; readonly record: OwnershipRecord };

const anyAnswer: fc.Arbitrary<EntryAnswer> = fc.record({
  kind: fc.constantFrom("ack" as const, "duplicate" as const, "gap" as const),
  journal: fc.constantFrom(...JOURNALS, "stranger"),
  epoch: fc.constantFrom(EPOCH, EPOCH, EPOCH, EPOCH - 1, EPOCH + 1),
  have: fc.nat(SEQS),
});

const anyEvent: fc.Arbitrary<Event> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("answer" as const), answer: anyAnswer }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("won" as const), record: anyRecord }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sent" as const), record: anyRecord }) },
);

/** O2 and O3 word by word: everything is kept, and every seq is asked about, every time. */
class Oracle {
  readonly #acks = new Map<string, number>();
  #known: OwnershipRecord;
  #sent: OwnershipRecord | undefined;
  covered: number;
  released: number;

  constructor(known: OwnershipRecord) {
    this.#known = known;
    this.covered = known.covered;
    this.released = known.covered;
  }

  get hasSent(): boolean {
    return this.#sent !== undefined;
  }

  note(event: Event): void {
    if (event.kind === "answer") this.#answer(event.answer);
    else if (event.kind === "sent") this.#sent = event.record;
    else this.#won(event.record);
    for (let seq = 1; seq <= SEQS; seq++) if (this.#mayRelease(seq)) this.released = Math.max(this.released, seq);
  }

  #answer(answer: EntryAnswer): void {
    if (answer.epoch !== EPOCH || answer.kind === "gap" || answer.kind === "refused") return;
    // Only who stands in a record that may be current is kept.
    const named = [...this.#known.set, ...(this.#sent?.set ?? [])].some(({ journal }) => journal === answer.journal);
    if (named) this.#acks.set(answer.journal, Math.max(answer.have, this.#acks.get(answer.journal) ?? 0));
  }

  #won(won: OwnershipRecord): void {
    this.#known = won;
    this.#sent = undefined;
    this.covered = Math.max(this.covered, won.covered);
    for (const journal of this.#acks.keys()) {
      if (!won.set.some((member) => member.journal === journal)) this.#acks.delete(journal);
    }
  }

  #mayRelease(seq: number): boolean {
    if (seq <= this.covered) return true;
    const sent = this.#sent;
    return this.#landedIn(this.#known, seq) && (sent === undefined || seq <= sent.covered || this.#landedIn(sent, seq));
  }

  #landedIn({ set, quorum }: OwnershipRecord, seq: number): boolean {
    const acks = set.filter(({ journal }) => (this.#acks.get(journal) ?? 0) >= seq).length;
    return quorum.acksToLand > 0 && acks >= quorum.acksToLand;
  }
}

const ack = (journal: string, have: number): EntryAnswer => ({ kind: "ack", journal, epoch: EPOCH, have });

describe("what an owner may release", () => {
  it("is what the rule says word by word, after every event (O2, O3)", () => {
    fc.assert(
      fc.property(anyRecord, fc.array(anyEvent, { maxLength: 60 }), (first, events) => {
        const book = openBook(first);
        const oracle = new Oracle(first);
        for (const event of events) {
          if (event.kind === "sent" && oracle.hasSent) continue;
          oracle.note(event);
          if (event.kind === "answer") expect(noteAnswer(book, event.answer)).toBe(oracle.released);
          else if (event.kind === "won") expect(noteWon(book, event.record)).toBe(oracle.released);
          else noteSetSent(book, event.record);
          expect(book.released).toBe(oracle.released);
          expect(book.covered).toBe(oracle.covered);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("is nothing beyond the bucket when the record has W = 0", () => {
    const book = openBook(record(["a"], 0, 4));
    expect(noteAnswer(book, ack("a", 9))).toBe(4);
    expect(noteWon(book, record(["a"], 0, 7))).toBe(7);
  });

  it("needs both sets while a change of the set is unresolved, whichever way it goes (O3)", () => {
    const book = openBook(record(["a", "b", "c"], 2, 0));
    noteSetSent(book, record(["c", "d", "e"], 2, 5));
    noteAnswer(book, ack("a", 8));
    expect(noteAnswer(book, ack("b", 8))).toBe(5);
    noteAnswer(book, ack("d", 7));
    expect(noteAnswer(book, ack("c", 8))).toBe(7);
    expect(noteWon(book, record(["c", "d", "e"], 2, 5))).toBe(7);
    expect(noteAnswer(book, ack("a", 9))).toBe(7);
    expect(noteAnswer(book, ack("d", 9))).toBe(8);
  });

  it("noting an acknowledgement changes one number in place", () => {
    const book = openBook(record(["a", "b", "c"], 2, 0));
    const { voters } = book;
    const kept = [...voters];
    for (let seq = 1; seq <= 100; seq++) for (const journal of ["a", "b", "c"]) noteAnswer(book, ack(journal, seq));
    expect(book.released).toBe(100);
    expect(book.voters).toBe(voters);
    expect(voters.every((voter, index) => voter === kept[index])).toBe(true);
  });

  it("only a completed claim releases (O1)", () => {
    expect(() => openBook({ ...record(["a"], 1, 0), tailEpoch: EPOCH - 1 })).toThrow(/completed claim/);
    expect(() => openBook({ ...record(["a"], 1, 0), clean: true })).toThrow(/completed claim/);
  });

  it("one set change at a time, and none of another epoch", () => {
    const book = openBook(record(["a"], 1, 0));
    noteSetSent(book, record(["b"], 1, 0));
    expect(() => noteSetSent(book, record(["c"], 1, 0))).toThrow(/one set change/);
    expect(() => noteWon(book, { ...record(["a"], 1, 0), epoch: EPOCH + 1 })).toThrow(/one epoch/);
  });
});
