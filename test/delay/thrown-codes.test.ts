/** A class may throw any code. One that Moonport has too decides nothing about how often a delivery is tried. */
import { expect, it } from "vitest";
import { CODES, eachRan, THROWER, ThrowLog } from "../support/thrower-class.js";
import { VirtualNode } from "../support/virtual-node.js";

const ATTEMPTS_MAX = 2;

async function start(): Promise<{ virtual: VirtualNode; log: ThrowLog }> {
  const log = new ThrowLog();
  const settings = { DELAY_ATTEMPTS_MAX: ATTEMPTS_MAX };
  return { virtual: await VirtualNode.start({ classes: { Thrower: THROWER }, settings, log }), log };
}

it("a delayed command whose method throws is a dead letter after DELAY_ATTEMPTS_MAX runs, whatever the code", async () => {
  const { virtual, log } = await start();
  const target = { app: "default", className: "Thrower", key: "a", method: "throw" };
  const { delay } = virtual.node;
  await virtual.time.until(
    Promise.all(CODES.map((code) => delay.send({ ...target, args: [code], id: code, delayMs: 0 }))),
  );
  await virtual.time.advance(60_000);
  expect(log.threw()).toEqual(eachRan(ATTEMPTS_MAX));
  for (const code of CODES) {
    const found = await virtual.time.until(delay.get(code));
    expect(found?.command).toMatchObject({ state: "dead", error: { code } });
  }
});

it("so is a message from object to object", async () => {
  const { virtual, log } = await start();
  for (const code of CODES) await virtual.call("Thrower/sender", "send_throw", code, "a");
  await virtual.time.advance(60_000);
  // Once when it is sent, and then from its delay shard.
  expect(log.threw()).toEqual(eachRan(1 + ATTEMPTS_MAX));
});

it("and a timer is given up after as many", async () => {
  const { virtual, log } = await start();
  for (const code of CODES) await virtual.call("Thrower/a", "throw_later", code);
  await virtual.time.advance(60_000);
  expect(log.threw()).toEqual(eachRan(ATTEMPTS_MAX));
});
