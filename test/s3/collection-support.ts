/** A node process with a small class, its history on the real S3 server, and what the tests of collection ask of both. */
import fs from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { openBucketReader } from "../../src/bucket/open-bucket.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { Inspection } from "../../src/node-api.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import type { VerifyReport } from "../../src/verify/report.js";
import { verifyBucket } from "../../src/verify/verify-bucket.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { cliJson, RunningCli } from "../cli/cli.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { Note } from "../verify/support.js";

/** As long as a call may take at all. */
const CALL_MS = 600_000;

export interface NoteApp {
  readonly cwd: string;
  /** The server's keys. */
  readonly env: Readonly<Record<string, string>>;
}

export function noteApp(env: Readonly<Record<string, string>>): NoteApp {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  fs.writeFileSync(path.join(cwd, "classes", "Note.lua"), Note);
  return { cwd, env };
}

export class NoteNode {
  readonly pid: number;
  readonly #process: RunningCli;
  readonly #client: HttpNodeClient;

  private constructor(process: RunningCli, client: HttpNodeClient) {
    this.pid = process.pid;
    this.#process = process;
    this.#client = client;
  }

  /** On an empty data folder: what it has of its objects it has from the bucket. */
  static async start(app: NoteApp, bucketUrl: string, settings: Readonly<Record<string, number>>): Promise<NoteNode> {
    fs.rmSync(path.join(app.cwd, "data"), { recursive: true, force: true });
    const sets = Object.entries(settings).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
    const words = ["start", "--data", "data", "--port", "0", "--json", "--bucket", bucketUrl, ...sets];
    const process = new RunningCli(app, ...words);
    const url = String((await process.document("url")).url);
    return new NoteNode(process, new HttpNodeClient({ url, world: realWorld(app.cwd, silentLogger) }));
  }

  /** Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#process.signal("SIGKILL");
    await this.#process.exit;
    this.#client.close();
  }

  async stop(): Promise<void> {
    this.#process.signal("SIGTERM");
    expect(await this.#process.exit).toBe(0);
    this.#client.close();
  }

  async call(key: string, method: string, ...args: PlainValue[]): Promise<PlainValue> {
    const read = method === "count" || method === "all" ? ({ mustRead: true } as const) : {};
    const request = {
      object: noteOf(key),
      method,
      args,
      caller: { kind: "client" } as const,
      timeoutMs: CALL_MS,
      ...read,
    };
    return (await this.#client.call(request)).value;
  }

  inspect(key: string): Promise<Inspection> {
    return this.#client.inspect(noteOf(key));
  }

  /** Calls until a flight made the object's history shorter. */
  async untilCompacted(key: string): Promise<void> {
    for (let before = -1; ; ) {
      const { segments } = await this.inspect(key);
      if (segments <= before) return;
      before = segments;
      await this.call(key, "add", "more");
    }
  }
}

export function noteOf(key: string): ObjectIdentity {
  return identityOf("default", "Note", key);
}

/** As an operator asks it. */
export async function verifiedByCommand(app: NoteApp, bucketUrl: string): Promise<Record<string, unknown>> {
  const { document } = await cliJson(app, "verify", "--bucket", bucketUrl);
  return document;
}

/** In this process, which is faster. The server's keys are in its environment. */
export async function verifiedHere(bucketUrl: string): Promise<VerifyReport> {
  const world = realWorld(temporaryFolder(), silentLogger);
  const settings = resolveSettings();
  const bucket = openBucketReader(bucketUrl, world, settings);
  await bucket.start();
  try {
    return await verifyBucket({ bucket, world, settings, scope: { kind: "all" }, past: true, jobs: 4 });
  } finally {
    await bucket.stop();
  }
}
