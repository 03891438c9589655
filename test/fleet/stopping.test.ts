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
