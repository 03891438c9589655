import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answersNeeded, quorumFor } from "../../src/cluster/quorum.js";

const DEFAULTS = { OBJECT_REPLICAS: 3, OBJECT_QUORUM: 2 };

describe("copies, acknowledgements and answers", () => {
  it.each([
    { activeNodes: 1, copies: 1, acksToLand: 0, answers: 0 },
    { activeNodes: 2, copies: 2, acksToLand: 2, answers: 1 },
    { activeNodes: 3, copies: 3, acksToLand: 2, answers: 2 },
    { activeNodes: 9, copies: 3, acksToLand: 2, answers: 2 },
  ])("with the defaults, $activeNodes nodes keep $copies copies", ({ activeNodes, copies, acksToLand, answers }) => {
    const quorum = quorumFor(DEFAULTS, activeNodes);
    expect(quorum).toEqual({ copies, acksToLand });
    expect(answersNeeded(quorum)).toBe(answers);
  });

  it("any journals that let a write land and any that answer a takeover have one in common", () => {
    fc.assert(
      fc.property(fc.nat(7), fc.nat(7), fc.integer({ min: 1, max: 9 }), (replicas, acks, activeNodes) => {
        const quorum = quorumFor({ OBJECT_REPLICAS: replicas, OBJECT_QUORUM: acks }, activeNodes);
        const { copies, acksToLand } = quorum;
        expect(copies).toBeLessThanOrEqual(activeNodes);
        expect(acksToLand).toBeLessThanOrEqual(copies);
        if (acksToLand === 0) {
          expect(answersNeeded(quorum)).toBe(0);
          expect(copies === 1 || acks === 0).toBe(true);
        } else {
          expect(acksToLand + answersNeeded(quorum)).toBe(copies + 1);
        }
      }),
    );
  });

  it("a fleet without an active node is a programming mistake", () => {
    expect(() => quorumFor(DEFAULTS, 0)).toThrow(/at least one active node/);
  });
});
