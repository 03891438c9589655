/** A node that stops while what it was asked for waits for another node: it waits no longer, and leaves nothing behind. */
import { expect, it } from "vitest";
import { call, listAt, startFleet } from "./watching.js";

it.each([
  ["was there from the start", true],
  ["has never been reached", false],
])("a call that is tried again, whose owner %s, ends with the node", async (_, isKnown) => {
  const fleet = await startFleet(2, { NODE_TTL_MS: 20_000, CALL_TIMEOUT_MS: 30_000 });
  const object = listAt(fleet, "n1");
  if (isKnown) await call(fleet, "n0", object, "append", [1]);
  fleet.node("n1").crash();
  const { node } = fleet.node("n0");
  const asked = node.call({ object, method: "append", args: [2], caller: { kind: "client" }, callId: "again" });
  const outcome = asked.then(
    () => "answered",
    (error: { readonly code: string; readonly retryable: boolean }) => error,
  );
  // It is in one of its pauses.
  await fleet.time.advance(2_000);
  expect(await fleet.time.until(fleet.node("n0").stop())).toBe(0);
  expect(await outcome).toMatchObject({ retryable: true });
});

it("a node that stops while a claim waits for a journal ends its session before that", async () => {
  const settings = { NODE_TTL_MS: 3_000, CLAIM_MS: 20_000, DRAIN_MS: 500 };
  const fleet = await startFleet(3, settings);
  const owned = [0, 1, 2, 3].map((number) => listAt(fleet, "n2", `${number}-`));
  for (const object of owned) await call(fleet, "n2", object, "append", [1]);
  // Nothing of it is in the bucket, and one journal alone may not say what it was.
  fleet.node("n2").bucket.gate();
  for (const object of owned) await call(fleet, "n2", object, "append", [2]);
  fleet.network.cut("n0", "n1");
  fleet.node("n2").crash();
  await fleet.time.advance(6_000);
  const { fleet: stopped } = fleet.node("n0").node;
  expect(stopped.counters.takeovers).toEqual({ begun: 1, ended: 0 });
  const stopping = fleet.node("n0").stop();
  await fleet.time.advance(3_000);
  expect(stopped.counters.takeovers.ended).toBe(0);
  expect(fleet.node("n1").node.fleet.members.map(({ node }) => node)).toEqual(["n1"]);
  await fleet.time.until(stopping);
});
