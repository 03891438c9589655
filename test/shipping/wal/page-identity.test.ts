import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PageLedger } from "../../../src/shipping/wal/page-identity.js";
import { lockPage } from "../../../src/shipping/wal/words.js";
import { RealFolder } from "../../../src/world/real-folder.js";
import { temporaryFolder } from "../../support/temporary-folder.js";

const PAGE = 512;

function page(fill: number): Uint8Array {
  return new Uint8Array(PAGE).fill(fill);
}

function whole(pages: readonly Uint8Array[]): string {
  return PageLedger.ofBytes(Buffer.concat(pages), PAGE).identity();
}

describe("identity", () => {
  test("of nothing is all zeros", () => {
    expect(new PageLedger(PAGE).identity()).toBe("0000000000000000");
  });

  test("is fixed for all time: manifests hold it", () => {
    expect(whole([page(1), page(2)])).toBe("a60b50c7cb3dca32");
    expect(PageLedger.ofBytes(new Uint8Array(4096), 4096).identity()).toBe("31b8032b9996d9b0");
  });

  test("depends on the place of a page, on every bit of it, and on the number of empty pages", () => {
    expect(whole([page(1), page(2)])).not.toBe(whole([page(2), page(1)]));
    expect(whole([page(0)])).not.toBe(whole([page(0), page(0)]));
    const seen = new Set<string>();
    for (let bit = 0; bit < PAGE * 8; bit++) {
      const changed = page(7);
      changed[bit >> 3] = 7 ^ (1 << (bit & 7));
      seen.add(whole([changed]));
    }
    expect(seen.size).toBe(PAGE * 8);
  });

  test("two flipped bits never cancel out", () => {
    const seen = new Set<string>();
    let count = 0;
    for (let first = 0; first < 512; first += 1) {
      for (const distance of [1, 31, 32, 33, 64, 96, 2048]) {
        const changed = page(0);
        for (const bit of [first, first + distance]) changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        seen.add(whole([changed]));
        count += 1;
      }
    }
    expect(seen.size).toBe(count);
  });

  test("is the same kept up page by page as computed from the whole, through growth and shrinking", () => {
    const change = fc.record({
      finalPages: fc.integer({ min: 0, max: 40 }),
      writes: fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.nat(255)), { maxLength: 10 }),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const ledger = new PageLedger(PAGE);
        let model: Uint8Array[] = [];
        for (const { finalPages, writes } of changes) {
          const images = new Map(writes.map(([pgno, fill]) => [pgno, page(fill)]));
          for (let pgno = model.length + 1; pgno <= finalPages; pgno++) {
            if (!images.has(pgno)) images.set(pgno, page(pgno));
          }
          model = Array.from({ length: finalPages }, (_, index) => images.get(index + 1) ?? model[index] ?? page(0));
          ledger.apply(images, finalPages);
          expect(ledger.pages).toBe(finalPages);
          expect(ledger.identity()).toBe(whole(model));
        }
      }),
    );
  });

  test("does not see the lock page, which has no content", () => {
    const pageSize = 65_536;
    const lock = lockPage(pageSize);
    const ledger = new PageLedger(pageSize);
    ledger.apply(new Map([[lock, new Uint8Array(pageSize).fill(1)]]), lock);
    expect(ledger.identity()).toBe("0000000000000000");
    expect(lockPage(1024)).toBe(1_048_577);
  });
});

describe("the ledger of a file", () => {
  test("is that of its bytes, read in steps", () => {
    const root = temporaryFolder();
    const bytes = Buffer.alloc(700 * 1024, "moonport");
    fs.writeFileSync(path.join(root, "file"), bytes);
    const file = new RealFolder(root).open("file", "read");
    const steps = PageLedger.ofFile(file, 1024);
    let count = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) count += 1;
    file.close();
    expect(count).toBe(3);
    expect(step.value?.identity()).toBe(PageLedger.ofBytes(bytes, 1024).identity());
    expect(step.value?.pages).toBe(700);
  });

  test("is none when the file ends inside a page", () => {
    const root = temporaryFolder();
    fs.writeFileSync(path.join(root, "file"), Buffer.alloc(1500));
    const file = new RealFolder(root).open("file", "read");
    expect(PageLedger.ofFile(file, 1024).next()).toEqual({ done: true, value: undefined });
    file.close();
  });
});
