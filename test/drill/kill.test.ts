/**
 * A node process is killed at random moments and started again on the same folder, over and over: what was acknowledged is
 * there, what was not is there whole or not at all, and no call ran twice. The same with the history on a real S3 server,
 * where the node's folder is lost too now and then.
 *
 * MOONPORT_KILL_ROUNDS makes it longer, MOONPORT_SEED repeats what a failure printed (as far as a race can be repeated).
 */
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { ledgerApp } from "./ledger-app.js";
import { argumentsOf, eventsAfter, type LedgerCall, LedgerHistory } from "./ledger-model.js";
import { LedgerNode, type LedgerNodeOptions, type RemoteBucket } from "./ledger-node.js";
import { callOf, type Draft, draft } from "./ledger-plans.js";

const ROUNDS = Number(process.env.MOONPORT_KILL_ROUNDS ?? 6);
const S3_ROUNDS = Number(process.env.MOONPORT_KILL_ROUNDS ?? 3);
const SEED = Number(process.env.MOONPORT_SEED ?? Math.floor(Math.random() * 2 ** 31));
const KEYS = ["a", "b", "c/d"];
const CALLERS = 6;

/** Small bounds, so that idle objects leave, WALs are checkpointed and history is compacted while the kills go on. */
function drawSettings(random: SeededRandom): Record<string, number> {
  const pick = (...values: number[]): number => values[random.below(values.length)] as number;
  return {
    OBJECT_IDLE_MS: pick(10, 60_000),
    OBJECT_FILES_OPEN_MAX: pick(1, 1_000),
    OBJECT_WAL_BYTES_MAX: pick(16_384, 262_144),
    OBJECT_BURST_CALLS_MAX: pick(1, 64),
    COMPACT_SEGMENTS_MAX: pick(2, 64),
    COMPACT_BYTES_MIN: pick(0, 65_536),
    SNAPSHOT_INLINE_BYTES_MAX: pick(65_536, 4_194_304),
    DELTA_CACHE_BYTES: pick(0, 33_554_432),
    NODE_CLAIMS_MAX: pick(1, 100_000),
  };
}

/** Where segments stand beside the manifest, in it, or in it until they are merged; and flights leave at once or are held. */
function drawRemoteSettings(random: SeededRandom): Record<string, number> {
  const pick = (...values: number[]): number => values[random.below(values.length)] as number;
  return {
    ...drawSettings(random),
    SEGMENT_INLINE_BYTES_MAX: pick(0, 2_048, 8_192),
    MANIFEST_INLINE_BYTES_MAX: pick(4_096, 32_768),
    NODE_CLAIMS_BYTES_MAX: pick(0, 67_108_864),
    BUCKET_FLUSH_MS: pick(0, 20),
  };
}

class Drill {
  readonly #app = ledgerApp();
  readonly #random: SeededRandom;
  readonly #drafts: Draft[];
  readonly #histories = new Map(KEYS.map((key) => [key, new LedgerHistory(`Ledger/${key}`)]));
  readonly #bucket: RemoteBucket | undefined;
  #answers = 0;

  /** @param bucket where the history is; without one in the data folder */
  constructor(seed: number, bucket?: RemoteBucket) {
    this.#random = new SeededRandom(seed);
    this.#bucket = bucket;
    this.#drafts = fc.sample(draft, { seed, numRuns: 2_000 });
  }

  get acknowledged(): number {
    return [...this.#histories.values()].reduce((sum, history) => sum + history.acknowledged, 0);
  }

  /** One life of the node: what the last one left is checked, then calls run until the kill. */
  async round(): Promise<void> {
    if (this.#random.below(3) === 0) this.#loseFiles();
    if (this.#random.below(4) === 0) await this.#killWhileStarting();
    const node = await this.#start();
    await this.#checkAll(node);
    await this.#repeatOpenCalls(node);
    await this.#runUntilKilled(node);
  }

  async last(): Promise<void> {
    const node = await this.#start();
    await this.#checkAll(node);
    await this.#repeatOpenCalls(node);
    await this.#checkAll(node);
    await node.stop();
  }

  /** Only the bucket is believed: with it elsewhere, the whole data folder may go. */
  #loseFiles(): void {
    const lost = this.#bucket === undefined ? ["data", "objects"] : ["data"];
    fs.rmSync(path.join(this.#app, ...lost), { recursive: true, force: true });
  }

  async #start(): Promise<LedgerNode> {
    const node = await LedgerNode.start(this.#app, this.#drawOptions());
    if (node === undefined) throw new Error("nobody killed it");
    return node;
  }

  #drawOptions(): LedgerNodeOptions {
    const bucket = this.#bucket;
    return { bucket, settings: bucket ? drawRemoteSettings(this.#random) : drawSettings(this.#random) };
  }

  async #killWhileStarting(): Promise<void> {
    const afterMs = this.#random.below(700);
    const killed = (kill: () => void): void => void setTimeout(kill, afterMs);
    const node = await LedgerNode.start(this.#app, { ...this.#drawOptions(), killed });
    await node?.kill();
  }

  async #checkAll(node: LedgerNode): Promise<void> {
    for (const [key, history] of this.#histories) {
      const calls = history.check(await node.everything(key));
      if (calls.length === 0) continue;
      const { events, directoryRow, timers, outbox } = await node.inspect(key);
      const emitted = eventsAfter(calls);
      expect({ events, timers, outbox }).toEqual({ events: { count: emitted, last: emitted }, timers: 0, outbox: 0 });
      expect(directoryRow?.row).toMatchObject({ calls: calls.length });
    }
  }

  /** Calls whose answer was lost are sent again with their id, and some acknowledged ones too: no call may run twice. */
  async #repeatOpenCalls(node: LedgerNode): Promise<void> {
    for (const [key, history] of this.#histories) {
      const acknowledged = history.calls.filter(({ callId }) => callId !== undefined);
      const again = [...history.open, ...acknowledged.slice(-2)].filter(({ callId }) => callId !== undefined);
      await Promise.all(again.map((call) => this.#call(node, key, call)));
      const open = history.open.filter(({ callId }) => callId !== undefined);
      expect(open.map((call) => [call.tag, call.operation.method, argumentsOf(call)])).toEqual([]);
      history.check(await node.everything(key));
    }
  }

  async #runUntilKilled(node: LedgerNode): Promise<void> {
    const lastAnswer = this.#answers + 1 + this.#random.below(60);
    const afterMs = this.#random.below(12);
    let isOver = false;
    const caller = async (): Promise<void> => {
      while (!isOver) {
        await this.#act(node);
        if (this.#answers >= lastAnswer && !isOver) {
          isOver = true;
          await new Promise((resolve) => setTimeout(resolve, afterMs));
          await node.kill();
        }
      }
    };
    const others = async (): Promise<void> => {
      // They go on until their answer does not come, so that the kill finds calls everywhere on their way.
      for (let isLeft = true; isLeft; ) isLeft = await this.#act(node);
    };
    await Promise.all([caller(), ...Array.from({ length: CALLERS - 1 }, others)]);
  }

  /** Returns whether the node answered. */
  async #act(node: LedgerNode): Promise<boolean> {
    const key = KEYS[this.#random.below(KEYS.length)] as string;
    const history = this.#histories.get(key) as LedgerHistory;
    if (this.#random.below(8) === 0) return await this.#read(node, key, history);
    const tag = history.calls.length + 1;
    const wanted = this.#drafts[this.#random.below(this.#drafts.length)] as Draft;
    const callId = this.#random.below(3) === 0 ? undefined : `${key}-${tag}`;
    return await this.#call(node, key, callOf(tag, wanted, callId));
  }

  async #read(node: LedgerNode, key: string, history: LedgerHistory): Promise<boolean> {
    const heard = history.reading();
    try {
      heard(await node.everything(key));
    } catch (error) {
      if (error instanceof MoonportError) return error.code !== "node_unreachable";
      throw error;
    }
    return true;
  }

  async #call(node: LedgerNode, key: string, call: LedgerCall): Promise<boolean> {
    const asked = (this.#histories.get(key) as LedgerHistory).asked(call);
    try {
      asked.acknowledged(await node.call(key, call));
    } catch (error) {
      asked.failed(error);
      if (error instanceof MoonportError && error.code === "node_unreachable") return false;
    }
    this.#answers++;
    return true;
  }
}

async function holds(rounds: number, bucket?: RemoteBucket): Promise<void> {
  const drill = new Drill(SEED, bucket);
  try {
    for (let round = 0; round < rounds; round++) await drill.round();
    await drill.last();
  } catch (error) {
    throw new Error(`MOONPORT_SEED=${SEED} MOONPORT_KILL_ROUNDS=${rounds}`, { cause: error });
  }
  expect(drill.acknowledged).toBeGreaterThan(0);
}

/** A round takes two seconds, and many times that where much else runs. */
const longMs = (rounds: number): number => Math.max(120_000, rounds * 40_000);

test(
  "a node killed at random moments keeps every acknowledged call and no half of any other",
  () => holds(ROUNDS),
  longMs(ROUNDS),
);

describeOnRealS3("on S3", (s3) => {
  test(
    "a node killed at random moments, its disk lost with it or not, keeps the same",
    () => holds(S3_ROUNDS, { url: s3().bucketUrl("kill"), env: s3().env }),
    longMs(S3_ROUNDS),
  );
});
