import { describe, expect, test } from "vitest";
import { ValueCache } from "../../src/store/value-cache.js";

/** So large that three values fit and a fourth does not. */
const VALUE_BYTES = 1_000;
const CACHE_BYTES = 3 * 1_200;

function cacheOf(...keys: string[]): ValueCache {
  const cache = new ValueCache(CACHE_BYTES);
  for (const key of keys) cache.set(key, key, VALUE_BYTES);
  return cache;
}

function keysIn(cache: ValueCache): string[] {
  return ["a", "b", "c", "d"].filter((key) => cache.get(key) !== undefined);
}

describe("the memory of values", () => {
  test("gives up the one that was neither read nor written again, however old it is", () => {
    const cache = cacheOf("a", "b", "c");
    cache.set("a", "new", VALUE_BYTES);
    cache.get("b");
    cache.set("d", "d", VALUE_BYTES);
    expect(keysIn(cache)).toEqual(["a", "b", "d"]);
    expect(cache.get("a")?.value).toBe("new");
  });

  test("counts a value that is written again once", () => {
    const cache = cacheOf("a", "b");
    for (let time = 0; time < 10; time++) cache.set("a", time, VALUE_BYTES);
    cache.set("c", "c", VALUE_BYTES);
    expect(keysIn(cache)).toEqual(["a", "b", "c"]);
  });

  test("forgets a value that has become too large to be kept", () => {
    const cache = cacheOf("a", "b");
    cache.set("a", "large", CACHE_BYTES);
    expect(keysIn(cache)).toEqual(["b"]);
  });
});
