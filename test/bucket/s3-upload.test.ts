/** The bounds of an upload in parts, on requests that cost nothing. */
import { expect, onTestFinished, test } from "vitest";
import type { S3Api } from "../../src/bucket/s3/s3-api.js";
import { parseS3Url } from "../../src/bucket/s3/s3-location.js";
import { S3Requests } from "../../src/bucket/s3/s3-requests.js";
import { upload } from "../../src/bucket/s3/s3-upload.js";
import { MARK_BYTES, newMark } from "../../src/bucket/s3/write-mark.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { world } from "./s3-started.js";

const PARTS_MAX = 10_000;
const PART_BYTES = 10;

/** What an upload asks of the store, written down instead. */
class Recorder {
  readonly parts: number[] = [];
  readonly ends: string[] = [];

  async createUpload(): Promise<string> {
    return "u";
  }

  async uploadPart(_key: string, _id: string, number: number): Promise<string> {
    this.parts.push(number);
    return `etag-${number}`;
  }

  async completeUpload(_key: string, _id: string, parts: readonly { number: number }[]): Promise<string> {
    this.ends.push("complete");
    expect(parts.map(({ number }) => number)).toEqual(Array.from(parts, (_, index) => index + 1));
    return "whole";
  }

  async abortUpload(): Promise<void> {
    this.ends.push("abort");
  }
}

function uploading(recorder: Recorder, bytes: number): Promise<string> {
  const location = parseS3Url("s3://bucket");
  const requests = new S3Requests(world, resolveSettings(), location, "s3://bucket");
  onTestFinished(() => requests.stop());
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < bytes; sent += PART_BYTES) yield new Uint8Array(Math.min(PART_BYTES, bytes - sent));
  }
  const options = { key: "k", parts: source(), mark: newMark(world.random), partBytes: PART_BYTES };
  return upload(recorder as unknown as S3Api, requests, options);
}

test("as many parts as S3 takes make an upload, named in their order", async () => {
  const recorder = new Recorder();
  expect(await uploading(recorder, PARTS_MAX * PART_BYTES - MARK_BYTES)).toBe("whole");
  expect(recorder.parts).toHaveLength(PARTS_MAX);
  expect(recorder.ends).toEqual(["complete"]);
});

test("one byte more is refused with the setting that helps, and the upload is given up", async () => {
  const recorder = new Recorder();
  await expect(uploading(recorder, PARTS_MAX * PART_BYTES - MARK_BYTES + 1)).rejects.toMatchObject({
    code: "too_large",
    hint: expect.stringContaining("BUCKET_PART_BYTES"),
  });
  expect(recorder.ends).toEqual(["abort"]);
});
