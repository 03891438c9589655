/**
 * How many requests a bucket has been asked, by kind: what a store bills.
 *
 * S3 stores price them in classes: `put`, `list`, `create_upload`, `part`, `complete_upload` and `list_uploads` (class A), `get`
 * (class B, some ten times cheaper), `delete` and `abort_upload` (mostly free).
 */
export const REQUEST_KINDS = [
  "put",
  "get",
  "list",
  "delete",
  "create_upload",
  "part",
  "complete_upload",
  "abort_upload",
  "list_uploads",
] as const;

export type RequestKind = (typeof REQUEST_KINDS)[number];

/** Every try counts, as every try is billed. */
export interface RequestCounts extends Readonly<Record<RequestKind, number>> {
  /** Of all those, how many ended without what was asked for: refused, failed, lost. A lost condition and an absent key are answers. */
  readonly errors: number;
  /** Of those, how many because the store asks for fewer requests. */
  readonly throttled: number;
  /** Of bodies, either way. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

export type MutableRequestCounts = { -readonly [Field in keyof RequestCounts]: number };

export function noRequests(): MutableRequestCounts {
  const kinds = Object.fromEntries(REQUEST_KINDS.map((kind) => [kind, 0])) as Record<RequestKind, number>;
  return { ...kinds, errors: 0, throttled: 0, bytesSent: 0, bytesReceived: 0 };
}
