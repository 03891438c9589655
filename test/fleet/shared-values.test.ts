/** Values of remembered answers, which others are given too: whoever may change one has a copy of his own. */
import { beforeEach, expect, it } from "vitest";
import type { ObjectIdentity } from "../../src/identity.js";
import type { CallReply, CallRequest } from "../../src/node-api.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { append, listAt, startFleet } from "./watching.js";

let fleet: SimulatedFleet;
let object: ObjectIdentity;
beforeEach(async () => {
  fleet = await startFleet(2);
  object = listAt(fleet, "n1");
  await append(fleet, "n1", object, 1);
});

/** Asked so often that the answer is remembered, and the last time is of what was. */
async function repeated(ask: (request: CallRequest) => Promise<CallReply>): Promise<CallReply[]> {
  const replies: CallReply[] = [];
  for (let time = 0; time < 5; time++) {
    const request = { object, method: "all", args: [], caller: { kind: "client" as const } };
    replies.push(await fleet.time.until(ask(request)));
  }
  return replies;
}

it("are told as shared by the node that remembers them, and not by one that was told them over a link", async () => {
  const here = await repeated((request) => fleet.node("n1").ask((node) => node.call(request)));
  expect(here.at(-1)).toMatchObject({ value: [1], isShared: true });
  expect(here.at(-1)?.value).toBe(here.at(-2)?.value);
  const there = await repeated((request) => fleet.node("n0").ask((node) => node.call(request)));
  for (const reply of there) {
    expect(reply).toMatchObject({ value: [1], node: { name: "n1" } });
    expect(reply).not.toHaveProperty("isShared");
  }
});

it("are a simulated client's own, which may change them", async () => {
  const replies = await repeated(async (request) => {
    const reply = await fleet.node("n1").call(request);
    expect(reply.value).toEqual([1]);
    (reply.value as number[]).push(2);
    return reply;
  });
  expect(replies.at(-1)?.isShared).toBe(true);
});
