/**
 * The one real S3 server of a test run, as a test file sees it: a bucket of its own on it.
 *
 * The first file that asks starts the server; the end of the run stops it (real-s3-setup.ts). Where it is not installed its
 * groups are skipped, and the end of the run says which and how to get it; with REQUIRE_S3=1 the run fails instead.
 */
import type { Gateway, S3Keys } from "./radosgw.js";

export interface RealS3 {
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string;
  readonly host: string;
  readonly port: number;
  /** This file's own, made already, empty. */
  readonly bucket: string;
  readonly keys: S3Keys;
  /** For child processes, or `vi.stubEnv`: what the SDK's standard chain reads. */
  readonly env: {
    readonly AWS_ACCESS_KEY_ID: string;
    readonly AWS_SECRET_ACCESS_KEY: string;
    readonly AWS_REGION: string;
  };
  /** `s3://BUCKET/PREFIX?endpoint=…` with all that this server needs. `endpoint` may name a proxy before it, or a gateway. */
  bucketUrl(prefix?: string, options?: { readonly endpoint?: string }): string;
  /** A gateway of this file's own over the same buckets, for tests that kill, pause and restart it. */
  startGateway(): Promise<Gateway>;
}

/** A group of tests on the real server. `s3()` may be called in tests and hooks of the group, not while it is collected. */
export function describeOnRealS3(_name: string, _body: (s3: () => RealS3) => void): void {
  throw new Error("not built yet");
}
