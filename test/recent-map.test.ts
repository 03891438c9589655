/** Against a list in order of use. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { RecentMap } from "../src/recent-map.js";

const key = fc.constantFrom("a", "b", "c", "d", "e", "f");
const step = fc.oneof(
  fc.record({ kind: fc.constant("set" as const), key, value: fc.nat(9) }),
  fc.record({ kind: fc.constantFrom("get" as const, "peek" as const, "delete" as const), key }),
);

it("keeps what was used last, and no more than it may", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), (max, steps) => {
      const map = new RecentMap<string, number>(max);
      let model: (readonly [string, number])[] = [];
      const used = (entry: readonly [string, number]): void => {
        model = [...model.filter(([other]) => other !== entry[0]), entry].slice(-max);
      };
      for (const one of steps) {
        const known = model.find(([other]) => other === one.key);
        if (one.kind === "set") {
          map.set(one.key, one.value);
          used([one.key, one.value]);
        } else if (one.kind === "delete") {
          map.delete(one.key);
          model = model.filter((entry) => entry !== known);
        } else {
          expect(map[one.kind](one.key)).toBe(known?.[1]);
          if (one.kind === "get" && known !== undefined) used(known);
        }
        expect(map.size).toBe(model.length);
      }
      for (const [name, value] of model) expect(map.peek(name)).toBe(value);
      map.clear();
      expect(map.size).toBe(0);
    }),
  );
});
