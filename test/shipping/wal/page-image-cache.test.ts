import { describe, expect, test } from "vitest";
import { PageImageCache } from "../../../src/shipping/wal/page-image-cache.js";

function images(...pgnos: number[]): Map<number, Uint8Array> {
  return new Map(pgnos.map((pgno) => [pgno, new Uint8Array(1024).fill(pgno)]));
}

const ONE_IMAGE_BYTES = 1024 + 160;

describe("the cache of page images", () => {
  test("gives back the last image shipped", () => {
    const object = new PageImageCache(1 << 20).imagesOf();
    object.shipped(images(1, 2), 2);
    object.shipped(new Map([[2, new Uint8Array(1024).fill(9)]]), 2);
    expect(object.get(1)?.[0]).toBe(1);
    expect(object.get(2)?.[0]).toBe(9);
    expect(object.get(3)).toBeUndefined();
  });

  test("keeps copies: what was shipped may be written over, the first time and every other", () => {
    const object = new PageImageCache(1 << 20).imagesOf();
    const image = new Uint8Array(1024);
    for (const byte of [1, 2, 3]) {
      object.shipped(new Map([[1, image.fill(byte)]]), 1);
      image.fill(99);
      expect(object.get(1)).toEqual(new Uint8Array(1024).fill(byte));
    }
    expect(object.bytes).toBe(ONE_IMAGE_BYTES);
  });

  test("forgets pages beyond the size of the database: they are no base when the file grows again", () => {
    const object = new PageImageCache(1 << 20).imagesOf();
    object.shipped(images(1, 2, 3, 4), 4);
    object.shipped(images(1), 2);
    expect(object.get(3)).toBeUndefined();
    object.shipped(images(1), 4);
    expect(object.get(3)).toBeUndefined();
    expect(object.bytes).toBe(2 * ONE_IMAGE_BYTES);
  });

  test("drops the object that has not shipped for longest", () => {
    const cache = new PageImageCache(5 * ONE_IMAGE_BYTES);
    const [first, second, third] = [cache.imagesOf(), cache.imagesOf(), cache.imagesOf()];
    first.shipped(images(1, 2), 2);
    second.shipped(images(1, 2), 2);
    first.shipped(images(2), 2);
    third.shipped(images(1, 2), 2);
    expect(second.get(1)).toBeUndefined();
    expect(first.get(1)).toBeDefined();
    expect(third.get(2)).toBeDefined();
    expect(cache.bytes).toBe(4 * ONE_IMAGE_BYTES);
  });

  test("keeps the newest images of an object that alone is too large", () => {
    const cache = new PageImageCache(2 * ONE_IMAGE_BYTES);
    const object = cache.imagesOf();
    object.shipped(images(1, 2, 3, 4), 4);
    expect([1, 2, 3, 4].map((pgno) => object.get(pgno) !== undefined)).toEqual([false, false, true, true]);
    expect(cache.bytes).toBe(2 * ONE_IMAGE_BYTES);
  });

  test("of no bytes keeps nothing", () => {
    const cache = new PageImageCache(0);
    const object = cache.imagesOf();
    object.shipped(images(1, 2), 2);
    expect(object.get(1)).toBeUndefined();
    expect(cache.bytes).toBe(0);
  });

  test("counts nothing for an object that was dropped", () => {
    const cache = new PageImageCache(1 << 20);
    const object = cache.imagesOf();
    object.shipped(images(1, 2), 2);
    object.drop();
    object.drop();
    expect(object.get(1)).toBeUndefined();
    expect(cache.bytes).toBe(0);
  });
});
