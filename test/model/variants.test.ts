import { describe, expect, it } from "vitest";
import { SMALL } from "./configurations.js";
import { explore } from "./explore.js";
import { modelOf } from "./rules.js";
import { HARMLESS, VARIANTS } from "./variants.js";

describe("a protocol with one fault is found out", () => {
  it.each(Object.entries(VARIANTS))("%s", (_name, variant) => {
    const { violation } = explore(modelOf(SMALL[variant.world], variant.rules, variant.habits));
    expect(violation?.kind).toBe(variant.finds);
    expect(violation?.trace.length).toBeGreaterThan(0);
  });
});

describe("a rule taken differently that loses nothing", () => {
  it.each(Object.entries(HARMLESS))("%s", (_name, { worlds, rules, habits }) => {
    for (const world of worlds) {
      const { violation, complete } = explore(modelOf(SMALL[world], rules, habits));
      expect(violation).toBeUndefined();
      expect(complete).toBe(true);
    }
  });
});
