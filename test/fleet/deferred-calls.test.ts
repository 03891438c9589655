/** A unit's call to an object that leaves this node before it has run. */
import { expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { FleetCalls, type FleetCallsParts } from "../../src/fleet/fleet-calls.js";
import { identityOf } from "../../src/identity.js";
import type { CallRequest } from "../../src/node-api.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { sleep } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const object = identityOf("default", "Note", "a");
const request: CallRequest = { object, method: "add", args: [], caller: { kind: "client" }, timeoutMs: 10_000 };

/** The node has the object until it says otherwise, after 4 s. @param elsewhere what is answered there */
function start(here: MoonportError, elsewhere: () => Promise<unknown>) {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder() });
  const asked: number[] = [];
  const refuse = async (): Promise<never> => {
    await sleep(world, 4_000);
    throw here;
  };
  const parts = {
    world,
    settings: resolveSettings(),
    node: { holds: () => true, isReading: () => false, callDeferred: refuse, callInChain: refuse },
    routing: {
      ask: (ask: { expiresMs: number }) => {
        asked.push(Math.round(ask.expiresMs - world.clock.monotonicMs()));
        return elsewhere();
      },
    },
  };
  return { time, asked, calls: new FleetCalls(parts as unknown as FleetCallsParts) };
}

const moved = MoonportError.of("moved", "it is on another node");

it("goes on there, with the time that is left", async () => {
  const { time, asked, calls } = start(moved, async () => ({ value: 7, seq: 1 }));
  expect(await time.until(calls.deferred(request))).toMatchObject({ result: { kind: "returned", value: 7 } });
  expect(await time.until(calls.call(request))).toMatchObject({ value: 7 });
  expect(asked).toEqual([6_000, 6_000]);
});

it("is told there that it failed, or that it never ran", async () => {
  const refused = MoonportError.of("method_not_found", "no such method");
  const failing = start(moved, () => Promise.reject(refused));
  const { result } = await failing.time.until(failing.calls.deferred(request));
  expect(result).toEqual({ kind: "failed", error: refused });
  const nowhere = start(moved, () => Promise.reject(MoonportError.of("node_unreachable", "nobody is there")));
  await expect(nowhere.time.until(nowhere.calls.deferred(request))).rejects.toMatchObject({ code: "node_unreachable" });
});

it("is not made elsewhere where something else is wrong", async () => {
  const { time, asked, calls } = start(MoonportError.of("mailbox_full", "too many wait"), async () => ({ value: 7 }));
  await expect(time.until(calls.deferred(request))).rejects.toMatchObject({ code: "mailbox_full" });
  expect(asked).toEqual([]);
});
