import fc from "fast-check";
import { expect, it } from "vitest";
import { type ApplyRequest, shardObject, type TravellingRow } from "../../src/directory/shard-contract.js";
import type { PlainValue } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";
import { find, lotClass } from "./lots.js";

/** One line of an object's standings: seqs rise, epochs with them; some say that it is gone. */
const line = fc
  .array(fc.record({ takesOver: fc.boolean(), gone: fc.boolean() }), { minLength: 1, maxLength: 6 })
  .map((steps) => {
    let epoch = 1;
    return steps.map(({ takesOver, gone }, at): TravellingRow => {
      if (takesOver) epoch++;
      return ["k", epoch, at + 1, "shape", null, gone ? null : { top: at }];
    });
  });

it("whatever order rows of an object come in, and how often, the newest stands", async () => {
  const virtual = await VirtualNode.start({ classes: { Lot: lotClass() } });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      line.chain((rows) =>
        fc.tuple(fc.constant(rows), fc.shuffledSubarray([...rows, ...rows], { minLength: rows.length })),
      ),
      async ([rows, told]) => {
        const key = `k${run++}`;
        const all = [...told, ...rows.slice(-1), ...told];
        for (const [, ...rest] of all) await apply(virtual, [key, ...rest]);
        const last = rows.at(-1)?.[5];
        const page = await find(virtual, { where: "key = ?", params: [key] });
        expect(page.rows).toEqual(last == null ? [] : [{ key, row: last }]);
      },
    ),
    { numRuns: 40 },
  );
  await virtual.stop();
});

async function apply(virtual: VirtualNode, row: TravellingRow): Promise<void> {
  const shape: ApplyRequest["shape"] = ["shape", { top: "integer" }, []];
  const request: ApplyRequest = { shape, isFresh: true, nowMs: 0, rows: [row] };
  const object = shardObject("default", "Lot", 0, 4);
  const args = [request as unknown as PlainValue];
  await virtual.time.until(virtual.node.call({ object, method: "apply", args, caller: { kind: "system" } }));
}
