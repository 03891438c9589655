import { describe, expect, test } from "vitest";
import { ChangedPages } from "../../../src/shipping/wal/changed-pages.js";

/** Transactions in order, each the pages it wrote and the size it left; a frame's offset is its running number. */
function changedBy(
  pages: number,
  transactions: readonly (readonly [written: readonly number[], pages: number])[],
  { pageSize = 1024, pagesMax = 100 } = {},
): ChangedPages {
  const changed = new ChangedPages(pageSize, pages, pagesMax);
  let offset = 0;
  for (const [written, size] of transactions) {
    for (const pgno of written) changed.frame(pgno, offset++);
    changed.commit(size);
  }
  return changed;
}

describe("the changed pages of a stretch of WAL", () => {
  test("are the last images, in file order", () => {
    const changed = changedBy(3, [
      [[1, 2], 3],
      [[3, 1], 3],
    ]);
    expect([...changed.lastImages()]).toEqual([
      [2, 1],
      [3, 2],
      [1, 3],
    ]);
    expect(changed.commits).toBe(2);
  });

  test("do not include what was never committed", () => {
    const changed = changedBy(3, [[[1], 3]]);
    changed.frame(2, 99);
    expect([...changed.lastImages()]).toEqual([[1, 0]]);
    expect(changed.finalPages).toBe(3);
  });

  test("miss a page by which the file grew and that nobody wrote", () => {
    expect(changedBy(3, [[[1, 4, 5], 5]]).missingPage()).toBeUndefined();
    expect(changedBy(3, [[[1, 5], 5]]).missingPage()).toBe(4);
  });

  test("miss a page that was cut off and not written when the file grew again", () => {
    const cutAndGrown = changedBy(5, [
      [[1, 4], 5],
      [[1], 3],
      [[1, 5], 5],
    ]);
    expect(cutAndGrown.missingPage()).toBe(4);
    expect([...cutAndGrown.lastImages()].map(([pgno]) => pgno)).toEqual([1, 5]);
  });

  test("miss a page that was spilled beyond the end its transaction left", () => {
    const changed = changedBy(3, [
      [[1, 4], 3],
      [[1], 4],
    ]);
    expect(changed.missingPage()).toBe(4);
  });

  test("never hold nor miss the lock page", () => {
    const changed = changedBy(16_384, [[[1, 16_385, 16_386], 16_386]], { pageSize: 65_536 });
    expect([...changed.lastImages()].map(([pgno]) => pgno)).toEqual([1, 16_386]);
    expect(changed.missingPage()).toBeUndefined();
  });

  test("are too many only once committed, and sizes are still followed", () => {
    const changed = changedBy(3, [[[1, 2], 3]], { pagesMax: 2 });
    expect(changed.tooMany).toBe(false);
    for (let pgno = 1; pgno <= 5; pgno++) changed.frame(pgno, 10 + pgno);
    expect(changed.tooMany).toBe(false);
    changed.commit(5);
    expect(changed.tooMany).toBe(true);
    changed.frame(1, 20);
    changed.commit(4);
    expect(changed).toMatchObject({ finalPages: 4, commits: 3 });
  });
});
