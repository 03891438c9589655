/**
 * A store that throttles every request while callers go on calling: the node asks it less and less, and less than it is
 * called. Counted at the proxy, where the requests arrive.
 *
 * The bound: as many requests as may be under way at once, half of that after the first pause, and so on down to one; from
 * then on one after each pause. A pause lasts at least half of 100 ms doubled each time, up to BUCKET_PAUSE_MAX_MS. How many
 * calls there are, and how fast the machine is, does not come into it.
 */
import { performance } from "node:perf_hooks";
import { beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { type Fault, type FaultProxy, startFaultProxy } from "../support/fault-proxy.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { NodeOnS3 } from "./node-on-s3.js";

const REQUESTS_MAX = 16;
const FIRST_PAUSE_MS = 100;
const PAUSE_MAX_MS = 1_600;
const SETTINGS = {
  BUCKET_REQUESTS_MAX: REQUESTS_MAX,
  BUCKET_PAUSE_MAX_MS: PAUSE_MAX_MS,
  OBJECT_ACK_GATE_MS: 100,
  // A few seconds of throttling, not more, make a node unready here.
  HEALTH_LANDED_MS: 500,
};
const KEYS = Array.from({ length: 24 }, (_, index) => `k${index}`);
const CALLS = 300;

const THROTTLED: readonly (readonly [string, Fault])[] = [
  ["as S3 does", { kind: "replaced", status: 503, code: "SlowDown" }],
  ["by a proxy that says no more than 503", { kind: "replaced", status: 503 }],
];

interface Counted {
  readonly requests: number;
  readonly elapsedMs: number;
  /** Codes of the calls that failed, each once. */
  readonly codes: readonly string[];
}

/** So many calls, one at a time on each object; how many requests they made. */
async function callAll(node: NodeOnS3, proxy: FaultProxy): Promise<Counted> {
  const codes = new Set<string>();
  const [requestsBefore, startMs] = [proxy.requests.length, performance.now()];
  let left = CALLS;
  const caller = async (key: string): Promise<void> => {
    while (left-- > 0) {
      const code = await node.call(key);
      if (code !== undefined) codes.add(code);
    }
  };
  await Promise.all(KEYS.map(caller));
  const requests = proxy.requests.length - requestsBefore;
  return { requests, elapsedMs: performance.now() - startMs, codes: [...codes] };
}

function boundOf(elapsedMs: number): number {
  const growingPauses = Math.ceil(Math.log2(PAUSE_MAX_MS / FIRST_PAUSE_MS)) + 1;
  return 2 * REQUESTS_MAX + growingPauses + Math.ceil(elapsedMs / (PAUSE_MAX_MS / 2));
}

describeOnRealS3("a store that throttles", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  it.each(THROTTLED)("%s is asked far less than before, and loses nothing", async (what, fault) => {
    const proxy = await startFaultProxy({ target: s3() });
    onTestFinished(() => proxy.stop());
    const bucketUrl = s3().bucketUrl(what.replaceAll(" ", "-"), { endpoint: proxy.endpoint });
    const node = await NodeOnS3.start(bucketUrl, SETTINGS);
    await Promise.all(KEYS.map((key) => node.settle(key)));
    const before = await callAll(node, proxy);

    const off = proxy.always("any", fault);
    const throttled = await callAll(node, proxy);
    expect(throttled.codes).toEqual(["outcome_unknown"]);
    expect(throttled.requests).toBeGreaterThan(0);
    expect(throttled.requests).toBeLessThanOrEqual(boundOf(throttled.elapsedMs));
    expect(throttled.requests).toBeLessThan(CALLS / 5);
    expect(throttled.requests / throttled.elapsedMs).toBeLessThan(before.requests / before.elapsedMs / 2);
    await vi.waitUntil(async () => (await node.health("readyz")).status === 503, { timeout: 30_000 });
    expect((await node.health("healthz")).status).toBe(200);

    off();
    await node.check();
    await vi.waitUntil(async () => (await node.health("readyz")).status === 200, { timeout: 30_000 });
    await node.node.stop();
    await (await NodeOnS3.start(bucketUrl, {}, node)).check();
  });
});
