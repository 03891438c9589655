/** A bucket that is away for a while: what callers hear, what the health routes say, and that all is well when it is back. */
import { beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.js";
import { describeOnRealS3, type RealS3 } from "../support/real-s3.js";
import { NodeOnS3 } from "./node-on-s3.js";

/** Begins an outage; what it gives back ends it. */
type Outage = (s3: RealS3) => Promise<{ readonly endpoint: string; begin(): Promise<() => unknown> }>;

async function proxied(s3: RealS3): Promise<FaultProxy> {
  const proxy = await startFaultProxy({ target: s3 });
  onTestFinished(() => proxy.stop());
  return proxy;
}

const OUTAGES: readonly (readonly [string, Outage])[] = [
  [
    "takes every request and answers none",
    async (s3) => {
      const proxy = await proxied(s3);
      return { endpoint: proxy.endpoint, begin: async () => proxy.always("any", { kind: "black_hole" }) };
    },
  ],
  [
    "takes every write and loses the answers",
    async (s3) => {
      const proxy = await proxied(s3);
      return { endpoint: proxy.endpoint, begin: async () => proxy.always("any", { kind: "answer_lost" }) };
    },
  ],
  [
    "has been killed",
    async (s3) => {
      const gateway = await s3.startGateway();
      const begin = async () => {
        await gateway.kill();
        return () => gateway.restart();
      };
      return { endpoint: gateway.endpoint, begin };
    },
  ],
  [
    "is frozen",
    async (s3) => {
      const gateway = await s3.startGateway();
      const begin = async () => {
        await gateway.pause();
        return () => gateway.resume();
      };
      return { endpoint: gateway.endpoint, begin };
    },
  ],
];

const PATIENT = { timeout: 30_000, interval: 20 };

describeOnRealS3("a node whose bucket is away for a while", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  it.each(OUTAGES)("because its server %s, waits, says so, and goes on by itself", async (what, outage) => {
    const { endpoint, begin } = await outage(s3());
    const bucketUrl = s3().bucketUrl(what.replaceAll(" ", "-"), { endpoint });
    const node = await NodeOnS3.start(bucketUrl);
    for (const key of ["a", "b"]) for (let calls = 0; calls < 3; calls++) await node.settle(key);
    await vi.waitUntil(async () => (await node.health("readyz")).status === 200, PATIENT);

    const end = await begin();
    const again = node.next("a");
    expect(await Promise.all([node.call("a", again), node.call("a")])).toEqual(["outcome_unknown", "outcome_unknown"]);
    // What is durable is served all the same; what needs the bucket may be asked again.
    node.history("b").check(await node.everything("b"));
    expect(await node.call("new")).toBe("bucket_failed");
    await vi.waitUntil(async () => (await node.health("readyz")).status === 503, PATIENT);
    expect((await node.health("readyz")).body).toMatchObject({ reason: expect.stringContaining("writes do not land") });
    expect(await node.health("healthz")).toMatchObject({ status: 200 });

    await end();
    await vi.waitUntil(() => node.landedSeq("a") === 5, PATIENT);
    await vi.waitUntil(async () => (await node.health("readyz")).status === 200, PATIENT);
    expect(await node.call("a", again)).toBeUndefined();
    await node.check();

    await node.node.stop();
    const other = await NodeOnS3.start(bucketUrl, {}, node);
    await other.check();
  });
});
