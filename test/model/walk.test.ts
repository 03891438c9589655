import { describe, expect, it } from "vitest";
import * as journals from "./broken-journals.js";
import * as owners from "./broken-owners.js";
import { WIDE } from "./configurations.js";
import { type Habits, modelOf, type Rules } from "./rules.js";
import { walk } from "./walk.js";

describe("random walks through worlds too large to explore", () => {
  it.each(Object.entries(WIDE))("lose nothing in %s", (_name, scope) => {
    expect(walk(modelOf(scope), { seed: 7, walks: 400 }).violation).toBeUndefined();
  });

  it("are the same again by their seed", () => {
    const model = modelOf(WIDE["4n-upto3-E5W5"]);
    const [one, again, other] = [3, 3, 4].map((seed) => walk(model, { seed, walks: 5 }).steps);
    expect(again).toBe(one);
    expect(other).not.toBe(one);
  });

  const broken: [string, Partial<Rules>, Habits][] = [
    ["W − 1 acknowledgements release", owners.releasingTooSoon, {}],
    ["no promise", { decidePromise: journals.promisingNothing }, { unfenced: true }],
    ["a lost disk answers as the old one", {}, { keepsIdentity: true }],
    ["the old set alone releases during a set change", owners.releasingByOld, {}],
    ["an attempt is taken for failed on an unchanged version", owners.givingUpEarly, {}],
    ["the tail of the last epoch is chosen", { chooseTail: journals.choosingLastEpoch }, {}],
  ];

  it.each(broken)("find it when %s", (_name, rules, habits) => {
    const found = walk(modelOf(WIDE["4n-upto3-E5W5"], rules, habits), { seed: 1, walks: 2_000 });
    expect(found.violation).toBeDefined();
  });
});
