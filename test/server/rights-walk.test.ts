/** The walk over what goes on, under virtual time: everything once for each change, in steps that let other work through. */
import { describe, expect, it } from "vitest";
import type { Authenticator } from "../../src/auth/contract.js";
import { RightsWalk } from "../../src/server/rights-walk.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";

class Watched implements Authenticator {
  readonly isOpen = false;
  readonly watchers = new Set<() => void>();

  authenticate(): never {
    throw new Error("nobody is let in here");
  }

  watch(changed: () => void): () => void {
    this.watchers.add(changed);
    return () => void this.watchers.delete(changed);
  }

  change(): void {
    for (const changed of this.watchers) changed();
  }
}

function walkOver(count: number, atEach: (index: number) => void = () => {}) {
  const time = new VirtualTime();
  const auth = new Watched();
  const looks: number[] = [];
  const walk = new RightsWalk(auth, { timers: time }, function* () {
    for (let index = 0; index < count; index++) {
      looks.push(index);
      atEach(index);
      yield;
    }
  });
  return { time, auth, looks, walk };
}

describe("a walk over what rests on rights", () => {
  it("looks at ten thousand things once after a change, a few in a turn", async () => {
    const { time, auth, looks } = walkOver(10_000);
    await time.settle();
    expect(looks).toEqual([]);
    auth.change();
    let before = 0;
    while (looks.length < 10_000) {
      await time.settleOnce();
      expect(looks.length - before).toBeGreaterThan(0);
      expect(looks.length - before).toBeLessThanOrEqual(100);
      before = looks.length;
    }
    await time.settle();
    expect(looks).toEqual(Array.from({ length: 10_000 }, (_, index) => index));
  });

  it("goes once more, and no more than once, after changes that come while it walks", async () => {
    const { time, auth, looks } = walkOver(1_000);
    auth.change();
    await time.settleOnce();
    for (let n = 0; n < 50; n++) auth.change();
    await time.settle();
    expect(looks).toHaveLength(2_000);
    auth.change();
    await time.settle();
    expect(looks).toHaveLength(3_000);
  });

  it("ends with its door, also in the middle and by what it looks at, and watches no longer", async () => {
    const { time, auth, looks, walk } = walkOver(1_000, (index) => {
      if (index === 10) walk.stop();
    });
    auth.change();
    await time.settle();
    expect(looks).toHaveLength(11);
    expect(auth.watchers.size).toBe(0);
    const other = walkOver(1_000);
    other.auth.change();
    await other.time.settleOnce();
    const soFar = other.looks.length;
    other.walk.stop();
    await other.time.settle();
    expect(other.looks).toHaveLength(soFar);
  });
});
