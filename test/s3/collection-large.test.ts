/**
 * The snapshot of a large object goes to S3 in parts, and comes back, with memory that does not depend on its size: measured
 * as the peak of the process's resident set (Linux only) on a real server that keeps its objects on disk.
 *
 * A long run, only with MOONPORT_LARGE_MB=300 or the like; what it measured is printed.
 */
import fs from "node:fs";
import { expect, it, onTestFinished, vi } from "vitest";
import { openBucketReader } from "../../src/bucket/open-bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, type Manifest } from "../../src/shipping/manifest.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { RunningCli } from "../cli/cli.js";
import { createBucket, radosgwBucketUrl, startRadosgw } from "../support/radosgw.js";
import { NoteNode, noteApp, noteOf } from "./collection-support.js";

const LARGE_MB = Number(process.env.MOONPORT_LARGE_MB ?? 0);
const MIB = 1024 * 1024;
const CALL_BYTES = 900_000;
/**
 * What growing and snapshotting may take beyond a node that has just started, which has some 110 MiB: page images (32), three
 * parts of an upload (24), the one that is read (4), pages changed since the last snapshot and checksums of all, and what the
 * garbage collector has not come to yet. Some 210 are measured at 300 MB, 230 at 600.
 */
const WRITING_MIB_MAX = 256;
/** The same for restoring and verifying: two parts of a download (8) and eight segments ahead. Some 70 are measured. */
const READING_MIB_MAX = 128;
/** The call whose flight carries the snapshot waits until all of it has landed. */
const PATIENT = { OBJECT_ACK_GATE_MS: 600_000 };
const WATCH_MS = 20;

it.skipIf(LARGE_MB === 0)(
  `an object of ${LARGE_MB} MB is snapshotted, restored and verified with bounded memory (MOONPORT_LARGE_MB)`,
  async () => {
    const server = await startRadosgw({ store: "bluestore" });
    onTestFinished(() => server.stop());
    await createBucket(server, "large");
    for (const [name, value] of Object.entries(server.env)) vi.stubEnv(name, value);
    const url = radosgwBucketUrl(server.endpoint, "large");
    const app = noteApp(server.env);

    const node = await NoteNode.start(app, url, PATIENT);
    const idleMib = statusMib(node.pid, "VmRSS");
    const growing = new Watch("growing it", node.pid);
    let calls = 0;
    for (let bytes = 0; bytes < LARGE_MB * MIB; calls++) {
      await node.call("large", "grow", CALL_BYTES);
      bytes = (await node.inspect("large")).databaseBytes;
    }
    const grown = growing.end();

    // Its next snapshot is the first of the whole; small calls bring it about.
    const { seq } = await standing(url);
    const snapshotting = new Watch("its snapshot, in parts", node.pid);
    let longestMs = 0;
    for (; ((await standing(url)).snapshot?.seq ?? 0) < seq; calls++) {
      const calledMs = performance.now();
      await node.call("large", "grow", 10);
      longestMs = Math.max(longestMs, performance.now() - calledMs);
    }
    const snapshotted = snapshotting.end();
    console.log(`the call that came with the snapshot: ${(longestMs / 1_000).toFixed(1)} s`);
    const { snapshot } = await standing(url);
    expect(snapshot?.bytes).toBeGreaterThanOrEqual(LARGE_MB * MIB);
    await node.kill();

    const next = await NoteNode.start(app, url, PATIENT);
    const restoring = new Watch("restoring it on an empty disk", next.pid);
    expect(await next.call("large", "count")).toBe(calls);
    const restored = restoring.end();
    await next.stop();

    const command = new RunningCli(app, "verify", "--bucket", url, "--json");
    const verifying = new Watch("moonport verify", command.pid);
    expect(await command.exit).toBe(0);
    const verified = verifying.end();
    expect(JSON.parse(command.lines.join(""))).toMatchObject({ objects: 1, restorable: 1, garbage: { bodies: 0 } });

    console.log(
      `a node that has just started: ${Math.round(idleMib)} MiB; the server: ${JSON.stringify(server.memoryKib())} KiB`,
    );
    for (const peakMib of [grown, snapshotted]) expect(peakMib).toBeLessThan(idleMib + WRITING_MIB_MAX);
    for (const peakMib of [restored, verified]) expect(peakMib).toBeLessThan(idleMib + READING_MIB_MAX);
  },
  3_600_000,
);

async function standing(url: string): Promise<Manifest> {
  const bucket = openBucketReader(url, realWorld("/nonexistent", silentLogger), resolveSettings());
  await bucket.start();
  try {
    const { id } = noteOf("large");
    const found = await bucket.get(new ObjectKeys(noteOf("large")).manifest);
    return decodeManifest(id, found?.bytes ?? new Uint8Array());
  } finally {
    await bucket.stop();
  }
}

/** The peak of a process's memory over a time. */
class Watch {
  readonly #what: string;
  readonly #beganMs = performance.now();
  readonly #pid: number;
  readonly #timer: NodeJS.Timeout;
  #peakMib = 0;

  constructor(what: string, pid: number) {
    this.#what = what;
    this.#pid = pid;
    // The kernel's own mark of the highest: from now on.
    fs.writeFileSync(`/proc/${pid}/clear_refs`, "5");
    // A process that ends takes its mark with it.
    this.#timer = setInterval(() => this.#look(), WATCH_MS);
  }

  /** Prints it. @returns the peak, MiB */
  end(): number {
    this.#look();
    clearInterval(this.#timer);
    const seconds = ((performance.now() - this.#beganMs) / 1_000).toFixed(1);
    console.log(`${this.#what}: ${seconds} s, peak ${Math.round(this.#peakMib)} MiB`);
    return this.#peakMib;
  }

  #look(): void {
    this.#peakMib = Math.max(this.#peakMib, statusMib(this.#pid, "VmHWM"));
  }
}

function statusMib(pid: number, field: "VmRSS" | "VmHWM"): number {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}
