import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  changeSet,
  claim,
  cover,
  firstRecord,
  type OwnershipRecord,
  type RefusalCode,
  type ReplicaSet,
  releaseClean,
  resolve,
  standing,
  takeOver,
} from "../../src/cluster/ownership.js";

function replicas(...journals: string[]): ReplicaSet {
  const set = journals.map((journal) => ({ node: `node-${journal}`, journal }));
  return { set, quorum: { copies: set.length, acksToLand: Math.min(2, set.length) } };
}

const OLD = replicas("a", "b", "c");
const NEW = replicas("c", "d", "e");
const me = { session: "mine", epoch: 4 };

/** As its owner `mine` left it in epoch 4: serving, unless the fields say otherwise. */
function record(fields: Partial<OwnershipRecord> = {}): OwnershipRecord {
  return { rid: "r", epoch: 4, owner: "mine", tailEpoch: 4, ...OLD, covered: 10, clean: false, ...fields };
}

const serving = record();
const claiming = record({ tailEpoch: 2 });
const released = record({ clean: true });
const overtaken = record({ epoch: 5, owner: "other" });
const sameEpoch = record({ owner: "other" });

const free = { ownerLives: false, holds: false };
const refusal = (code: RefusalCode) => ({ kind: "refused", code });

describe("a claim (C1)", () => {
  it("of a record that is not clean raises the epoch, names the claimer, and leaves everything else", () => {
    const claimed = claim(record({ owner: "dead", tailEpoch: 2 }), "mine", "fresh", NEW, free);
    expect(claimed).toEqual({
      kind: "next",
      afterwards: "ask_promises",
      record: record({ rid: "fresh", epoch: 5, tailEpoch: 2 }),
    });
  });

  it("of a clean record is complete in one CAS: the new set, and no tail that could count", () => {
    const claimed = claim(released, "other", "fresh", NEW, { ownerLives: true, holds: false });
    const next = record({ rid: "fresh", epoch: 5, owner: "other", tailEpoch: 5, ...NEW });
    expect(claimed).toEqual({ kind: "next", afterwards: "serve", record: next });
  });

  it("does not take an object from a session that lives, nor from itself", () => {
    expect(claim(serving, "other", "fresh", NEW, { ownerLives: true, holds: false })).toEqual(refusal("owner_lives"));
    expect(claim(serving, "mine", "fresh", NEW, { ownerLives: true, holds: true })).toEqual(refusal("already_held"));
  });

  it("by the session that the record names without its knowing claims over its own late CAS1 (C5)", () => {
    const claimed = claim(claiming, "mine", "fresh", NEW, { ownerLives: true, holds: false });
    expect(claimed).toMatchObject({ kind: "next", afterwards: "ask_promises", record: { epoch: 5, owner: "mine" } });
  });

  it("of a key without a record is complete at once", () => {
    const first = firstRecord("mine", "fresh", OLD);
    expect(first).toEqual(record({ rid: "fresh", epoch: 1, tailEpoch: 1, covered: 0 }));
    expect(standing(first, { session: "mine", epoch: 1 })).toBe("serving");
  });
});

describe("the record's next", () => {
  const progress = { covered: 12, committed: 12 };
  const all = [
    { name: "cover", next: (from: OwnershipRecord) => cover(from, me, "fresh", 12) },
    { name: "changeSet", next: (from: OwnershipRecord) => changeSet(from, me, "fresh", NEW, progress) },
    { name: "releaseClean", next: (from: OwnershipRecord) => releaseClean(from, me, "fresh", progress) },
  ];

  it.each(all)("$name is only for who serves under the record", ({ next }) => {
    expect(next(serving).kind).toBe("next");
    expect(next(claiming)).toEqual(refusal("not_taken_over"));
    expect(next(released)).toEqual(refusal("released"));
    expect(next(overtaken)).toEqual(refusal("not_mine"));
    expect(next(sameEpoch)).toEqual(refusal("not_mine"));
    expect(next(record({ covered: 13 }))).toEqual(refusal("covers_less"));
  });

  it("takeOver is only for who has claimed and not completed it (C4)", () => {
    const next = (from: OwnershipRecord) => takeOver(from, me, "fresh", NEW, 12);
    expect(next(claiming)).toEqual({ kind: "next", record: record({ rid: "fresh", covered: 12, ...NEW }) });
    expect(next(serving)).toEqual(refusal("taken_over"));
    expect(next(released)).toEqual(refusal("released"));
    expect(next(overtaken)).toEqual(refusal("not_mine"));
    expect(next(record({ tailEpoch: 2, covered: 13 }))).toEqual(refusal("covers_less"));
  });

  it("cover changes what is covered and nothing else", () => {
    expect(cover(serving, me, "fresh", 12)).toEqual({ kind: "next", record: record({ rid: "fresh", covered: 12 }) });
  });

  it("a change of the set covers all that is committed, in the same CAS (O3)", () => {
    const next = record({ rid: "fresh", covered: 12, ...NEW });
    expect(changeSet(serving, me, "fresh", NEW, progress)).toEqual({ kind: "next", record: next });
    const less = { covered: 11, committed: 12 };
    expect(changeSet(serving, me, "fresh", NEW, less)).toEqual(refusal("leaves_uncovered"));
  });

  it("a clean release covers all that is committed, and names nobody new (O4)", () => {
    const next = record({ rid: "fresh", covered: 12, clean: true });
    expect(releaseClean(serving, me, "fresh", progress)).toEqual({ kind: "next", record: next });
    const less = { covered: 11, committed: 12 };
    expect(releaseClean(serving, me, "fresh", less)).toEqual(refusal("leaves_uncovered"));
  });

  it("a set has as many members as copies, each of them once", () => {
    const short = { ...NEW, quorum: { copies: 4, acksToLand: 2 } };
    const twice = { set: [OLD.set[0], OLD.set[0]], quorum: { copies: 2, acksToLand: 2 } } as ReplicaSet;
    const tooMany = { ...NEW, quorum: { copies: 3, acksToLand: 4 } };
    for (const wrong of [short, twice, tooMany]) {
      expect(() => changeSet(serving, me, "fresh", wrong, progress)).toThrow(/assertion failed/);
      expect(() => takeOver(claiming, me, "fresh", wrong, 12)).toThrow(/assertion failed/);
      expect(() => claim(claiming, "other", "fresh", wrong, free)).toThrow(/assertion failed/);
      expect(() => firstRecord("mine", "fresh", wrong)).toThrow(/assertion failed/);
    }
  });

  it("never has a lower epoch, tailEpoch or coverage than the one before, whoever does whatever in whatever order", () => {
    const seq = fc.nat(20);
    const doing = fc.oneof(
      fc.record({ kind: fc.constant("claim"), session: fc.constantFrom("s1", "s2"), seq }),
      fc.record({
        kind: fc.constantFrom("takeOver", "cover", "changeSet", "releaseClean"),
        session: fc.constant(""),
        seq,
      }),
    );
    fc.assert(
      fc.property(fc.array(doing, { maxLength: 30 }), (doings) => {
        let now = firstRecord("s1", "r0", OLD);
        doings.forEach(({ kind, session, seq: covered }, index) => {
          const rid = `r${index + 1}`;
          const owner = { session: now.owner, epoch: now.epoch };
          const next =
            kind === "claim"
              ? claim(now, session, rid, NEW, free)
              : kind === "takeOver"
                ? takeOver(now, owner, rid, NEW, covered)
                : kind === "cover"
                  ? cover(now, owner, rid, covered)
                  : kind === "changeSet"
                    ? changeSet(now, owner, rid, NEW, { covered, committed: covered })
                    : releaseClean(now, owner, rid, { covered, committed: covered });
          if (next.kind === "refused") return;
          const { record: after } = next;
          expect(after.rid).toBe(rid);
          expect(after.epoch).toBe(now.epoch + (kind === "claim" ? 1 : 0));
          expect(after.covered).toBeGreaterThanOrEqual(now.covered);
          expect(after.tailEpoch).toBeGreaterThanOrEqual(now.tailEpoch);
          expect(after.tailEpoch).toBeLessThanOrEqual(after.epoch);
          // A set that may hold released writes is named until a claim is completed, or all is covered.
          if (kind === "claim" && !now.clean) expect(after.set).toEqual(now.set);
          now = after;
        });
      }),
    );
  });
});

describe("standing (O1)", () => {
  it("is what the record says of one session in one epoch", () => {
    expect(standing(serving, me)).toBe("serving");
    expect(standing(claiming, me)).toBe("claiming");
    expect(standing(released, me)).toBe("released");
    expect(standing(overtaken, me)).toBe("over");
    expect(standing(sameEpoch, me)).toBe("over");
    expect(standing(record({ epoch: 5, tailEpoch: 5 }), me)).toBe("over");
  });
});

describe("a CAS whose answer was lost (O5)", () => {
  const attempt = { on: "v7", record: serving };

  it("is not resolved by the old version, also when that looks like the attempt", () => {
    expect(resolve(attempt, { version: "v7", record: record({ rid: "before" }) })).toBe("unresolved");
    expect(resolve(attempt, { version: "v7", record: serving })).toBe("unresolved");
    expect(resolve({ on: undefined, record: serving }, undefined)).toBe("unresolved");
  });

  it("has landed when what stands there has its rid, epoch and session", () => {
    expect(resolve(attempt, { version: "v8", record: { ...serving } })).toBe("landed");
    expect(resolve({ on: undefined, record: serving }, { version: "v1", record: serving })).toBe("landed");
  });

  it("is superseded by anything else at another version, its session's own later write included", () => {
    for (const fields of [{ rid: "later" }, { epoch: 5 }, { owner: "other" }]) {
      expect(resolve(attempt, { version: "v8", record: record(fields) })).toBe("superseded");
    }
    expect(resolve(attempt, undefined)).toBe("superseded");
  });
});
