import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MoonportError } from "../../../src/errors.js";
import { applyDelta, encodeDelta } from "../../../src/shipping/wal/page-delta.js";

const PAGE = 1024;

function patched(base: Uint8Array, patches: readonly (readonly [number, Uint8Array])[]): Uint8Array {
  const image = new Uint8Array(base);
  for (const [at, bytes] of patches) image.set(bytes.subarray(0, PAGE - at), at);
  return image;
}

const page = fc.uint8Array({ minLength: PAGE, maxLength: PAGE });
const patch = fc.tuple(fc.integer({ min: 0, max: PAGE - 1 }), fc.uint8Array({ minLength: 1, maxLength: 40 }));

describe("a page delta", () => {
  test("gives back the page, leaves its base alone, and is smaller than the page or not made", () => {
    fc.assert(
      fc.property(page, fc.array(patch, { maxLength: 60 }), (base, patches) => {
        const image = patched(base, patches);
        const before = new Uint8Array(base);
        const delta = encodeDelta(base, image);
        if (delta === undefined) return;
        expect(delta.length).toBeLessThan(PAGE);
        expect(applyDelta(base, delta)).toEqual(image);
        expect(applyDelta(Buffer.from(base), delta)).toEqual(image);
        expect(base).toEqual(before);
      }),
    );
  });

  test("of one changed byte is that byte and its place", () => {
    const base = new Uint8Array(PAGE);
    for (const at of [0, 1, 2, 3, 127, 128, 1023]) {
      const delta = encodeDelta(base, patched(base, [[at, Uint8Array.of(9)]]));
      expect(delta?.length).toBe(at < 128 ? 3 : 4);
    }
  });

  test("of an unchanged page is empty", () => {
    const base = new Uint8Array(PAGE).fill(3);
    expect(encodeDelta(base, new Uint8Array(base))).toEqual(new Uint8Array(0));
    expect(applyDelta(base, new Uint8Array(0))).toEqual(base);
  });

  test("is not made of a page that is wholly new", () => {
    expect(encodeDelta(new Uint8Array(PAGE), new Uint8Array(PAGE).fill(1))).toBeUndefined();
  });

  test("works on pages of 65536 bytes, changed at both ends", () => {
    const base = new Uint8Array(65_536);
    const image = new Uint8Array(base);
    image[0] = 1;
    image[65_535] = 1;
    const delta = encodeDelta(base, image);
    expect(delta?.length, "two ranges of one byte, the second three bytes of number away").toBe(3 + 5);
    expect(applyDelta(base, delta ?? new Uint8Array(0))).toEqual(image);
  });

  test("that is damaged gives a page of the same size or object_corrupt, nothing else", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 30 }), (delta) => {
        try {
          expect(applyDelta(new Uint8Array(PAGE), delta).length).toBe(PAGE);
        } catch (error) {
          expect(error).toBeInstanceOf(MoonportError);
          expect((error as MoonportError).code).toBe("object_corrupt");
        }
      }),
    );
    expect(() => applyDelta(new Uint8Array(PAGE), Uint8Array.of(0xff, 7, 2, 1, 1))).toThrow(/outside its page/);
  });
});
