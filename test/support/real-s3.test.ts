import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { startRadosgw } from "./radosgw.js";
import { describeOnRealS3 } from "./real-s3.js";
import { type S3Keys, s3Request } from "./s3-request.js";
import { temporaryFolder } from "./temporary-folder.js";

afterEach(() => void vi.unstubAllEnvs());

async function statusOf(endpoint: string, path: string, keys?: S3Keys, signal?: AbortSignal): Promise<number> {
  const request = { method: "GET", path, ...(keys ? { keys } : {}), ...(signal ? { signal } : {}) };
  return (await s3Request(endpoint, request)).status;
}

describeOnRealS3("the real S3 server", (s3) => {
  it("gives this file a bucket of its own, empty at first", async () => {
    const { endpoint, bucket, keys } = s3();
    const { status, body } = await s3Request(endpoint, { method: "GET", path: `/${bucket}?list-type=2`, keys });
    expect(status).toBe(200);
    expect(String(body)).toContain("<KeyCount>0</KeyCount>");
  });

  it("checks signatures", async () => {
    const { endpoint, bucket, keys } = s3();
    expect(await statusOf(endpoint, `/${bucket}`)).toBe(403);
    expect(await statusOf(endpoint, `/${bucket}`, { ...keys, secretAccessKey: "another" })).toBe(403);
    expect(await statusOf(endpoint, `/${bucket}`, keys)).toBe(200);
  });

  it("keeps the conditions of writes, with a bare etag", async () => {
    const { endpoint, bucket, keys } = s3();
    const put = async (headers: Record<string, string>) =>
      s3Request(endpoint, { method: "PUT", path: `/${bucket}/cas`, headers, body: "one", keys });
    const created = await put({ "if-none-match": "*" });
    expect(created.status).toBe(200);
    expect((await put({ "if-none-match": "*" })).status).toBe(412);
    expect((await put({ "if-match": "0123" })).status).toBe(412);
    expect((await put({ "if-match": created.headers.etag?.replaceAll('"', "") ?? "" })).status).toBe(200);
  });

  it("loses nothing that was acknowledged when a gateway is killed, and answers nothing while one is paused", async () => {
    const { bucket, keys, startGateway } = s3();
    const gateway = await startGateway();
    const path = `/${bucket}/kept`;
    expect((await s3Request(gateway.endpoint, { method: "PUT", path, body: "x", keys })).status).toBe(200);

    await gateway.kill();
    await expect(statusOf(gateway.endpoint, path, keys)).rejects.toThrow("ECONNREFUSED");
    await gateway.restart();
    expect(await statusOf(gateway.endpoint, path, keys)).toBe(200);

    await gateway.pause();
    await expect(statusOf(gateway.endpoint, path, keys, AbortSignal.timeout(200))).rejects.toThrow("aborted");
    await gateway.resume();
    expect(await statusOf(gateway.endpoint, path, keys)).toBe(200);
  });

  it.each([
    ["is too slow", "exec sleep 1000", 1, /did not start: not within 1 ms/],
    ["ends", "echo no luck; exit 1", 30_000, /did not start: gateway ended at once\n.*--- gateway.out\nno luck/s],
  ])(
    "that %s at its start says so, with what its processes said, and leaves nothing",
    async (_, body, startMaxMs, message) => {
      const folder = inFolderOfItsOwn("radosgw", body);
      await expect(startRadosgw({ startMaxMs })).rejects.toThrow(message);
      expect(fs.readdirSync(folder)).toEqual(["bin"]);
    },
  );

  it("starts on other ports when one was taken meanwhile", async () => {
    const first = `[ "$1" = -f ] && mkdir "$TMPDIR/taken" && echo Address already in use && exit 1`;
    const folder = inFolderOfItsOwn("ceph-mon", `{ ${first}; } 2>/dev/null\nexec ${programPath("ceph-mon")} "$@"`);
    const server = await startRadosgw();
    await server.stop();
    expect(fs.readdirSync(folder)).toEqual(["bin", "taken"]);
  });
});

/** From here on in this test, that program is this script, and what is temporary stands in the folder. */
function inFolderOfItsOwn(program: string, script: string): string {
  const folder = temporaryFolder();
  const programs = path.join(folder, "bin");
  fs.mkdirSync(programs);
  fs.writeFileSync(path.join(programs, program), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  vi.stubEnv("PATH", `${programs}:${process.env.PATH}`);
  vi.stubEnv("TMPDIR", folder);
  return folder;
}

function programPath(name: string): string {
  return execFileSync("bash", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
}

describe("without the server's programs", () => {
  it("says how to get them", async () => {
    vi.stubEnv("PATH", temporaryFolder());
    await expect(startRadosgw()).rejects.toThrow(
      /no ceph-mon, .*: apt-get install -y --no-install-recommends ceph-mon/,
    );
  });
});
