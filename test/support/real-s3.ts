/**
 * The one real S3 server of a test run, as a test file sees it: a bucket of its own on it.
 *
 * The first group that runs starts the server; the end of the run stops it (real-s3-setup.ts). Where it is not installed its
 * groups are skipped, and the end of the run says which and how to get it; with REQUIRE_S3=1 the run fails instead.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, inject, onTestFinished } from "vitest";
import {
  createBucket,
  type Gateway,
  INSTALL_COMMAND,
  type Radosgw,
  radosgwBucketUrl,
  type S3Access,
  startGateway,
} from "./radosgw.js";

export interface RealS3 extends S3Access {
  /** This file's own, made already; empty at first. */
  readonly bucket: string;
  /** `s3://BUCKET/PREFIX?endpoint=…` with all that this server needs. `endpoint` may name a proxy before it, or a gateway. */
  bucketUrl(prefix?: string, options?: { readonly endpoint?: string }): string;
  /** A gateway of this test's own over the same buckets, to kill, pause and restart; stopped when the test ends. */
  startGateway(): Promise<Gateway>;
}

/** What the run's setup tells the test files. */
export type RealS3Setup =
  /** Whoever connects to the port, on 127.0.0.1, is sent a {@link RealS3Answer}, once the server is up. */
  | { readonly kind: "installed"; readonly controlPort: number }
  /** Groups that are skipped are noted in the file, one a line. */
  | { readonly kind: "missing"; readonly skippedFile: string };

export type RealS3Answer =
  | { readonly kind: "up"; readonly server: S3Access & Pick<Radosgw, "configFile"> }
  | { readonly kind: "failed"; readonly message: string };

declare module "vitest" {
  export interface ProvidedContext {
    realS3: RealS3Setup;
  }
}

/** More than the server's own limit, so that its error is the one that is seen. */
const UP_MAX_MS = 90_000;

/** A group of tests on the real server. `s3()` may be called in its tests and hooks, not while the group is collected. */
export function describeOnRealS3(name: string, body: (s3: () => RealS3) => void): void {
  const setup = inject("realS3");
  if (setup.kind === "missing") {
    fs.appendFileSync(setup.skippedFile, `${expect.getState().testPath}: ${name}\n`);
    describe.skip(`${name} (SKIPPED: needs a real S3 server, ${INSTALL_COMMAND})`, () => body(notUp));
    return;
  }
  describe(name, () => {
    let up: RealS3 | undefined;
    beforeAll(async () => {
      up = await realS3(setup.controlPort);
    }, UP_MAX_MS);
    body(() => up ?? notUp());
  });
}

function notUp(): never {
  throw new Error("s3() may be called in tests and hooks only");
}

/** By test file: several may run in one process, one after the other. */
const ofFiles = new Map<string | undefined, Promise<RealS3>>();

function realS3(controlPort: number): Promise<RealS3> {
  const { testPath } = expect.getState();
  const known = ofFiles.get(testPath);
  if (known !== undefined) return known;
  const connected = connect(controlPort);
  ofFiles.set(testPath, connected);
  return connected;
}

async function connect(controlPort: number): Promise<RealS3> {
  const answer = JSON.parse(await text(net.connect(controlPort, "127.0.0.1"))) as RealS3Answer;
  if (answer.kind === "failed") throw new Error(answer.message);
  const { server } = answer;
  const bucket = `test-${randomBytes(8).toString("hex")}`;
  await createBucket(server, bucket);
  return {
    ...server,
    bucket,
    bucketUrl: (prefix, { endpoint = server.endpoint } = {}) => radosgwBucketUrl(endpoint, bucket, prefix),
    startGateway: async () => {
      const gateway = await startGateway(server);
      onTestFinished(() => gateway.stop());
      return gateway;
    },
  };
}
