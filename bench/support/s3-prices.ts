/** What requests to S3 cost at its list prices, from how many there were of each kind. */
import { noRequests, REQUEST_KINDS, type RequestCounts } from "../../src/bucket/request-counts.js";

const CLASS_A = 0.005;
const CLASS_B = 0.0004;

export const S3_PRICES = {
  name: "S3 Standard in us-east-1, November 2026",
  dollarsPerThousand: {
    put: CLASS_A,
    list: CLASS_A,
    create_upload: CLASS_A,
    part: CLASS_A,
    complete_upload: CLASS_A,
    list_uploads: CLASS_A,
    get: CLASS_B,
    delete: 0,
    abort_upload: 0,
  },
} as const;

export function dollarsFor(counts: RequestCounts): number {
  return REQUEST_KINDS.reduce((sum, kind) => sum + (counts[kind] / 1_000) * S3_PRICES.dollarsPerThousand[kind], 0);
}

/** What came to `before` until `after`. */
export function requestsBetween(before: RequestCounts, after: RequestCounts): RequestCounts {
  return fieldByField(before, after, (one, other) => other - one);
}

export function requestsSum(one: RequestCounts, other: RequestCounts): RequestCounts {
  return fieldByField(one, other, (a, b) => a + b);
}

function fieldByField(one: RequestCounts, other: RequestCounts, of: (a: number, b: number) => number): RequestCounts {
  const counts = noRequests();
  for (const field of Object.keys(counts) as (keyof RequestCounts)[]) counts[field] = of(one[field], other[field]);
  return counts;
}

/** `put 15.6, delete 0.2`: those that there were. */
export function kindsText(counts: RequestCounts, each: (count: number) => number): string {
  const shown = REQUEST_KINDS.filter((kind) => counts[kind] > 0).map(
    (kind) => `${kind} ${each(counts[kind]).toFixed(1)}`,
  );
  return shown.length === 0 ? "none" : shown.join(", ");
}
