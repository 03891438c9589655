import { expect, it } from "vitest";
import { VirtualNode } from "../support/virtual-node.js";
import { find, lotClass, rowsOf } from "./lots.js";

const started = (settings: Record<string, number> = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Lot: lotClass() }, settings });

it("a row is in the directory soon after its write has landed", async () => {
  const virtual = await started();
  await virtual.call("Lot/a", "put", 5, "open", true);
  await virtual.call("Lot/b", "put", 7, "closed", false);
  await virtual.time.advance(1_000);
  expect(await find(virtual, { where: "top > 5" })).toEqual({
    rows: [{ key: "b", row: { top: 7, status: "closed", featured: false } }],
  });
  expect(await rowsOf(virtual)).toEqual({
    a: { top: 5, status: "open", featured: true },
    b: { top: 7, status: "closed", featured: false },
  });
  expect(virtual.node.gauges().directory).toEqual({ waiting: 0, lagMs: 0 });
  await virtual.stop();
});
