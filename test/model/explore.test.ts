import { describe, expect, it } from "vitest";
import { SMALL, type SmallName } from "./configurations.js";
import { explore } from "./explore.js";
import { modelOf } from "./rules.js";

/**
 * How many states each world has. A change of these is a change of the protocol or of the model: fewer states, and
 * something can no longer happen.
 */
const STATES: Record<SmallName, number> = {
  "3n-E2W2": 5_470,
  "3n-E3W1": 5_092,
  "2n-E3W2": 11_495,
  "3n-E2W3": 32_959,
  "3n-E3W2": 48_082,
  "3n-W1-E2W2": 3_469,
  "3n-W3-E2W2": 7_060,
  "4n-E2W1-set": 57_295,
  "2n-upto2-E2W2-set": 48_466,
  "2n-upto2-E2W1-set2-from1": 41_068,
  "3n-E2W2-disk": 15_049,
  "2n-E3W2-disk": 34_788,
  "3n-E2W1-disk2": 3_936,
  "3n-E2W2-release": 15_747,
  "4n-E2W1-release": 8_002,
  "2n-E2W2-release2-thaw": 17_819,
  "3n-E2W2-forgetful": 24_370,
  "2n-E4W1-forgetful-late": 27_959,
  "3n-E3W1-late": 9_417,
  "3n-E2W2-answers": 7_821,
  "2n-upto2-E2W1-set-answers": 7_811,
  "3n-E2W2-flights": 11_850,
  "2n-E2W3-flights": 40_085,
  "2n-E3W2-files": 26_349,
};

describe("the ownership protocol, explored whole", () => {
  it.each(Object.entries(STATES) as [SmallName, number][])("loses nothing in any state of %s", (name, states) => {
    const found = explore(modelOf(SMALL[name]));
    expect(found.violation).toBeUndefined();
    expect(found).toMatchObject({ complete: true, states });
  });

  it("is unavailable, and wrong in nothing, where more disks are lost than it stands", () => {
    const { unavailable, violation } = explore(modelOf(SMALL["3n-E2W1-disk2"]));
    expect(violation).toBeUndefined();
    expect(unavailable).toBeGreaterThan(0);
  });
});
