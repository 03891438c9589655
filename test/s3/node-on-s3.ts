/**
 * A node in this process with its history on the real S3 server, the fault proxy between, and the Ledger class to call: all
 * in real time, because sockets know no other. Ended with its test.
 */
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { readAppSource } from "../../src/app-source.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import type { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import type { Observation } from "../../src/observation.js";
import { openDoors } from "../../src/server/doors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { ledgerApp } from "../drill/ledger-app.js";
import { argumentsOf, type LedgerCall, LedgerHistory } from "../drill/ledger-model.js";
import { callOf, type Draft } from "../drill/ledger-plans.js";

/** Short enough for a test, long enough for a machine that does much else. */
const HURRIED = {
  OBJECT_ACK_GATE_MS: 1_500,
  BUCKET_TIMEOUT_MS: 2_000,
  BUCKET_CONNECT_MS: 2_000,
  OBJECT_SHIP_BACKOFF_MAX_MS: 100,
  HEALTH_INTERVAL_MS: 50,
  HEALTH_LANDED_MS: 1_000,
  OBJECT_IDLE_MS: 500,
  DRAIN_MS: 20_000,
};

const SMALL: Draft = { method: "add", rows: 1, units: 5 };

export class NodeOnS3 {
  readonly node: MoonportNode;
  /** Where its doors are. */
  readonly url: string;
  readonly observations: readonly Observation[];
  readonly #histories: Map<string, LedgerHistory>;

  private constructor(
    node: MoonportNode,
    url: string,
    observations: readonly Observation[],
    histories: Map<string, LedgerHistory>,
  ) {
    this.node = node;
    this.url = url;
    this.observations = observations;
    this.#histories = histories;
  }

  /** @param before a node on the same bucket: what its callers know holds for this one's too */
  static async start(bucketUrl: string, settings: Record<string, number> = {}, before?: NodeOnS3): Promise<NodeOnS3> {
    const resolved = resolveSettings({ ...HURRIED, ...settings });
    const app = ledgerApp();
    const world = realWorld(path.join(app, "data"), silentLogger);
    const observations: Observation[] = [];
    const node = await MoonportNode.open({
      world,
      bucket: openBucket(bucketUrl, world, resolved),
      apps: [readAppSource("default", new RealFolder(app))],
      settings: resolved,
      onClassError: "refuse",
      observer: (observation) => void observations.push(observation),
    });
    const { session } = node;
    const doors = await openDoors({ node, session, settings: resolved, world, host: "127.0.0.1", port: 0 });
    onTestFinished(async () => {
      await doors.stop();
      await node.stop();
    });
    return new NodeOnS3(node, doors.url, observations, before === undefined ? new Map() : before.#histories);
  }

  history(key: string): LedgerHistory {
    const known = this.#histories.get(key) ?? new LedgerHistory(`Ledger/${key}`);
    this.#histories.set(key, known);
    return known;
  }

  /** A call that is not made yet. */
  next(key: string, draft: Draft = SMALL): LedgerCall {
    const tag = this.history(key).calls.length + 1;
    return callOf(tag, draft, `${key}-${tag}`);
  }

  /** What came of it, for the model as well. @returns the code of its failure */
  async call(key: string, call = this.next(key)): Promise<string | undefined> {
    const asked = this.history(key).asked(call);
    try {
      asked.acknowledged(await this.#request(key, call.operation.method, argumentsOf(call), call.callId));
      return undefined;
    } catch (error) {
      asked.failed(error);
      return (error as MoonportError).code;
    }
  }

  /** Asks, with the same id, until there is an answer. */
  async settle(key: string, call = this.next(key)): Promise<void> {
    // What is refused at once must not keep the answers of others from being heard.
    while ((await this.call(key, call)) !== undefined) await setImmediate();
  }

  async everything(key: string): Promise<PlainValue> {
    return (await this.#request(key, "everything", [])).value;
  }

  /** Every object against the model, and every call that was left in doubt asked again. */
  async check(): Promise<void> {
    for (const [key, history] of this.#histories) {
      for (const call of history.open) if (call.callId !== undefined) await this.settle(key, call);
      history.check(await this.everything(key));
    }
  }

  /** The last seq of the object that is known to have landed. */
  landedSeq(key: string): number {
    const landed = this.observations.filter((one) => one.kind === "landed");
    return Math.max(0, ...landed.filter(({ object }) => object === `default/Ledger/${key}`).map(({ seq }) => seq));
  }

  async health(route: "healthz" | "readyz"): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(`${this.url}/${route}`);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  #request(key: string, method: string, args: readonly PlainValue[], callId?: string): Promise<CallReply> {
    const object = identityOf("default", "Ledger", key);
    return this.node.call({ object, method, args, caller: { kind: "client" }, ...(callId && { callId }) });
  }
}
