/** Timers that a restore brings back, and that nobody but the restored content knows of (W1). */
import { afterEach, expect, it } from "vitest";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { VirtualNode } from "../support/virtual-node.js";

const ALARM = `
local Alarm = class "Alarm"
function Alarm:set(ms) schedule.after(ms, { name = "ring" }):_ring() return true end
function Alarm:unset() schedule.cancel("ring") return true end
function Alarm:_ring() state.store.set("rang", (state.store.get("rang") or 0) + 1) end
function Alarm.read:rang() return state.store.get("rang") or 0 end
return Alarm
`;

afterEach(() => watchFaultPoints(() => {}));

it.each([false, true])(
  "ring after a crash right after the restore; others are listed meanwhile: %s",
  async (isBusy) => {
    const classes = { Alarm: ALARM };
    const node = await VirtualNode.start({ classes, settings: { OBJECT_IDLE_MS: 1_000 }, bucket: { latencyMs: 3 } });
    await node.call("Alarm/a", "set", "10m");
    await node.time.advance(1_000);
    await node.call("Alarm/a", "unset");
    // Its file is closed: the restore opens it, and it says that it owes nothing.
    await node.time.advance(1_200_000);
    const crashed = new Promise<void>((resolve) => {
      watchFaultPoints((point) => {
        if (point === "restore.made" && isBusy) {
          // The other one is listed in a part that is written before the restored content is.
          const hold = node.bucket.faults.hold(["write"]);
          node.start("Alarm/b", "set", ["50m"]).catch(() => {});
          node.world.timers.after(200, () => hold.release());
        }
        if (point !== "restore.landed") return;
        watchFaultPoints(() => {});
        node.crash();
        resolve();
      });
    });
    node.node.restore(node.identity("Alarm/a"), { at: { seq: 1 } }).catch(() => {});
    await node.time.until(crashed);
    await node.open();
    await node.time.advance(7_200_000);
    expect(await node.call("Alarm/a", "rang")).toBe(1);
    await node.stop();
  },
);

it("of a restore that certainly did nothing nobody is listed, or woken", async () => {
  const node = await VirtualNode.start({ classes: { Alarm: ALARM } });
  const restored = node.node.restore(node.identity("Alarm/a"), { at: { seq: 1 } });
  await expect(node.time.until(restored)).rejects.toMatchObject({ code: "object_not_found" });
  await node.time.advance(1_000);
  expect((await node.time.until(node.bucket.list("owing/"))).keys).toEqual([]);
  await node.stop();
});
