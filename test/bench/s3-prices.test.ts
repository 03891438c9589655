import { describe, expect, it } from "vitest";
import { dollarsFor, kindsText, requestsBetween, requestsSum } from "../../bench/support/s3-prices.js";
import { noRequests } from "../../src/bucket/request-counts.js";

describe("the price of requests", () => {
  it("is S3's: reads cost a twelfth of writes and listings, deletions nothing", () => {
    expect(dollarsFor({ ...noRequests(), put: 1_000_000 })).toBeCloseTo(5, 9);
    expect(dollarsFor({ ...noRequests(), list: 500_000, part: 500_000 })).toBeCloseTo(5, 9);
    expect(dollarsFor({ ...noRequests(), get: 1_000_000 })).toBeCloseTo(0.4, 9);
    expect(dollarsFor({ ...noRequests(), delete: 1_000_000, abort_upload: 1_000_000, errors: 9 })).toBe(0);
  });

  it("is taken of what came in between", () => {
    const before = { ...noRequests(), put: 10, bytesSent: 100 };
    const after = { ...noRequests(), put: 12, get: 1, bytesSent: 150 };
    const between = requestsBetween(before, after);
    expect(between).toEqual({ ...noRequests(), put: 2, get: 1, bytesSent: 50 });
    expect(requestsSum(before, between)).toEqual(after);
    expect(kindsText(between, (count) => count * 10)).toBe("put 20.0, get 10.0");
    expect(kindsText(noRequests(), (count) => count)).toBe("none");
  });
});
