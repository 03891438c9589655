/** Deliveries to an object that the delivery destroys: what ran is done, also where only its receiver's tombstone knows of it. */
import { afterEach, expect, it } from "vitest";
import { type MessageParts, sendMessage } from "../../src/delay/outgoing-message.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { StoredMessage } from "../../src/store/outbox.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { VirtualNode } from "../support/virtual-node.js";

const GATE_MS = 500;

const HOST = `
local Host = class "Host"
function Host:ask(guest, delay)
  send(Guest(guest), { id = "leave", delay = delay, outcome = delay and "told" }):leave(self.key)
end
function Host:left(guest)
  local all = state.store.get("all") or {}
  all[#all + 1] = guest .. " left"
  state.store.set("all", all)
end
function Host:told(what)
  local all = state.store.get("all") or {}
  all[#all + 1] = what.outcome
  state.store.set("all", all)
end
function Host.read:all() return state.store.get("all") or array {} end
return Host`;

const GUEST = `
local Guest = class "Guest"
function Guest:come() state.store.set("here", true) end
function Guest:leave(host)
  Host(host):left(self.key)
  destroy()
end
return Guest`;

afterEach(() => watchFaultPoints(() => {}));

async function start(): Promise<VirtualNode> {
  const virtual = await VirtualNode.start({
    classes: { Host: HOST, Guest: GUEST },
    bucket: { latencyMs: 3 },
    settings: { OBJECT_ACK_GATE_MS: GATE_MS, DELAY_BACKOFF_MS: 1_000 },
  });
  await virtual.call("Guest/g", "come");
  return virtual;
}

/** The tombstone lands too late for whoever delivers to hear of it. */
function holdTombstone(virtual: VirtualNode): void {
  let hold: { release(): void } | undefined;
  watchFaultPoints((point, detail) => {
    if (point !== "burst.committed" || detail !== "default/Guest/g" || hold !== undefined) return;
    hold = virtual.bucket.gate();
    virtual.world.timers.after(2 * GATE_MS, () => hold?.release());
  });
}

it.each([
  ["at once", []],
  ["later", [5]],
])("what was sent %s is done once, though nobody heard that it was", async (_, delay) => {
  const virtual = await start();
  if (delay.length === 0) holdTombstone(virtual);
  await virtual.call("Host/h", "ask", "g", ...delay);
  if (delay.length > 0) holdTombstone(virtual);
  await virtual.time.advance(120_000);
  const { delay: counted } = virtual.node.counters;
  expect(await virtual.call("Host/h", "all")).toEqual(delay.length === 0 ? ["g left"] : ["g left", "done"]);
  expect(counted.dead).toBe(0);
});

it.each([
  [true, 0],
  [false, 1],
])("who calls once more after its shard was out of reach hears so too (it ran: %s)", async (hasRun, scheduled) => {
  let given = 0;
  const parts = {
    world: new VirtualWorld({ time: new VirtualTime(), root: temporaryFolder() }),
    settings: resolveSettings(),
    port: {
      call: async ({ callId }: { callId: string }) => {
        throw MoonportError.of("id_expired", "of a life before", { details: { callId, hasRun } });
      },
    },
    scheduler: { schedule: async () => void given++ },
  };
  const message = { id: "leave", className: "Guest", key: "g", method: "leave", args: [], number: 1, dueMs: 0 };
  const sender = identityOf("default", "Host", "h");
  await sendMessage(parts as unknown as MessageParts, sender, message as unknown as StoredMessage, false);
  expect(given).toBe(scheduled);
});
