/** The bound of a mailbox on another node, as a caller at either door of his own node meets it. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { identityOf } from "../../src/identity.js";
import type { TallyMethods } from "../client/support/tally.js";
import { RealFleet } from "./real-fleet.js";

const MAILBOX_MAX = 2;
const KEYS = Array.from({ length: 50 }, (_, index) => `${index}`);

let fleet: RealFleet;
/** Of an object on n2 whose calls wait in its mailbox until it is {@link open}. */
let key: string;
let open: () => void;
beforeEach(async () => {
  const settings = { OBJECT_MAILBOX_MAX: MAILBOX_MAX, NODE_TTL_MS: 5_000, BUCKET_TIMEOUT_MS: 30_000 };
  fleet = await RealFleet.start(["n1", "n2"], settings);
  const { node, bucket } = fleet.at("n2");
  key = KEYS.find((one) => node.isHome(identityOf("default", "Tally", one))) ?? "";
  const hold = bucket.faults.hold(["get"]);
  open = () => hold.release();
});
afterEach(async () => {
  open();
  await fleet.close();
});

/** Fills it by way of n1. */
async function fill(): Promise<() => Promise<number[]>> {
  const tally = fleet.client("n1").object<TallyMethods>("Tally", key);
  const waiting = Array.from({ length: MAILBOX_MAX }, (_, index) => tally.add(`${index}`));
  const { node } = fleet.at("n2");
  await expect.poll(() => node.gauges().mailboxCalls).toBe(MAILBOX_MAX);
  return () => Promise.all(waiting);
}

it("over HTTP it is a 503 with Retry-After, and the problem that the owner made of it", async () => {
  const filled = await fill();
  const headers = { "content-type": "application/json" };
  const url = `${fleet.at("n1").doors.url}/v1/default/Tally/${key}/add`;
  const refused = await fetch(url, { method: "POST", headers, body: '["one more"]' });
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(await refused.json()).toMatchObject({
    code: "mailbox_full",
    source: "moonport",
    retryable: true,
    retryAfterMs: 1_000,
    object: `default/Tally/${key}`,
  });
  open();
  expect(await filled()).toEqual([1, 2]);
});

it.each([false, true])(
  "a client hears of it when its time is up, and is answered before (learnNodes: %s)",
  async (learnNodes) => {
    const filled = await fill();
    const tally = fleet.client("n1", { learnNodes }).object<TallyMethods>("Tally", key);
    // What has to wait longer than it may is told at once.
    await expect(tally.call("add", ["late"], { timeoutMs: 900 })).rejects.toMatchObject({
      code: "mailbox_full",
      source: "moonport",
      retryAfterMs: 1_000,
    });
    const patient = tally.add("in time");
    const { calls } = fleet.at("n2").node.counters;
    const refusals = () => calls.apps.get("default")?.get("Tally")?.methods.get("add")?.failed.get("mailbox_full");
    await expect.poll(refusals).toBe(2);
    open();
    expect(await filled()).toEqual([1, 2]);
    expect(await patient).toBe(3);
  },
);
