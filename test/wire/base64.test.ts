import fc from "fast-check";
import { expect, it } from "vitest";
import { fromBase64, toBase64 } from "../../src/wire/base64.js";

it("writes base64 as everybody does", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString("base64"));
    }),
  );
});

it("reads back what it wrote", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(fromBase64(toBase64(bytes))).toEqual(bytes);
    }),
  );
});
