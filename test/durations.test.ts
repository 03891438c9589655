import { describe, expect, it } from "vitest";
import { momentMs } from "../src/durations.js";

describe("a moment as people write it", () => {
  it("is a time with a zone, or seconds since 1970", () => {
    expect(momentMs("2026-12-24T18:00:00Z")).toBe(Date.UTC(2026, 11, 24, 18));
    expect(momentMs("2028-02-29T18:00+01:00")).toBe(Date.UTC(2028, 1, 29, 17));
    expect(momentMs("1.5")).toBe(1_500);
  });

  it.each(["2026-02-30T10:00:00Z", "2026-02-29T10:00:00Z", "2026-04-31T10:00:00Z", "2026-00-10T10:00:00Z", "soon"])(
    "is not %s, which is no other day either",
    (text) => expect(momentMs(text)).toBeUndefined(),
  );
});
