/** What a node on S3 costs that nobody calls: the requests of a few of its probes' intervals, for a month. */
import { setTimeout as sleep } from "node:timers/promises";
import { BenchNode, removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { dollarsFor, kindsText, requestsBetween } from "../support/s3-prices.js";
import type { S3Server } from "../support/s3-server.js";
import { requestsOf } from "./s3-cost.js";

export const S3_IDLE_ROW = { name: "s3 idle node" };

const PROBES = 3;
const MONTH_MS = 730 * 3_600_000;
const LOOK_MS = 20;

/** Counted from one probe to a later one, so that a part of an interval makes no difference. */
export async function measureS3Idle(parent: string, server: S3Server): Promise<Amount> {
  const folder = scratchFolder(parent);
  const node = await BenchNode.open(folder, {}, await server.bucketUrl("idle"));
  try {
    await untilPuts(node, requestsOf(node).put + 1);
    const [before, startedMs] = [requestsOf(node), performance.now()];
    await untilPuts(node, before.put + PROBES);
    const elapsedMs = performance.now() - startedMs;
    const requests = requestsBetween(before, requestsOf(node));
    return {
      name: `${S3_IDLE_ROW.name}: a month`,
      value: (dollarsFor(requests) / elapsedMs) * MONTH_MS,
      digits: 3,
      unit: "dollars",
      note: `a minute: ${kindsText(requests, (count) => (count / elapsedMs) * 60_000)}; and one list_uploads an hour`,
    };
  } finally {
    await node.close();
    removeFolder(folder);
  }
}

async function untilPuts(node: BenchNode, puts: number): Promise<void> {
  while (requestsOf(node).put < puts) await sleep(LOOK_MS);
}
