/**
 * The node is killed at any point, several times over: between commit, listing, landing, registration, delivery and outcome.
 * What a call obliges to happens exactly once if the call is kept, and not at all if it is not. None happens early.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { PlainObject } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";
import { OWER } from "./classes.js";

const RUNS = Number(process.env.MOONPORT_CRASH_RUNS ?? 12);
const plan = fc.record({
  atomic: fc.boolean(),
  latencyMs: fc.constantFrom(0, 5),
  idleMs: fc.constantFrom(20, 60_000),
  crashes: fc.array(fc.record({ steps: fc.nat({ max: 250 }), downMs: fc.constantFrom(0, 1_500, 10_000) }), {
    minLength: 1,
    maxLength: 4,
  }),
});

it("what a call obliges to is done once, whenever the node dies", {
  timeout: Math.max(120_000, RUNS * 2_000),
}, async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ atomic, latencyMs, idleMs, crashes }) => {
      const virtual = await VirtualNode.start({
        classes: { Ower: OWER },
        bucket: { atomic, latencyMs },
        settings: { OBJECT_IDLE_MS: idleMs, DELAY_BACKOFF_MS: 100, CALL_TIMEOUT_MS: 5_000 },
      });
      const acknowledged = new Set<number>();
      let number = 0;
      for (const { steps, downMs } of crashes) {
        const world = virtual.world;
        virtual.time.afterSteps(steps, () => {
          if (!world.revoked) virtual.crash();
        });
        for (const sender of ["a", "b"]) {
          const call = ++number;
          virtual.start(`Ower/${sender}`, "work", [call, "c"]).then(
            () => acknowledged.add(call),
            () => {},
          );
        }
        for (let waited = 0; waited < 10 && !world.revoked; waited++) await virtual.time.advance(500);
        if (!world.revoked) virtual.crash();
        await virtual.time.advance(downMs);
        await virtual.open();
      }
      await virtual.time.advance(30_000);
      const all = (key: string) =>
        virtual.call(`Ower/${key}`, "all") as Promise<PlainObject & Record<string, unknown[]>>;
      const [a, b, c] = [await all("a"), await all("b"), await all("c")];
      const did = [...list(a.did), ...list(b.did)].map(Number);
      expect(did).toEqual(expect.arrayContaining([...acknowledged]));
      expect(sorted([...list(a.rang), ...list(b.rang)])).toEqual(sorted(did));
      expect(sorted(list(c.got))).toEqual(sorted(did.flatMap((one) => [`now ${one}`, `later ${one}`])));
      for (const { did: some, ticks } of [a, b]) {
        if (list(some).length > 0) expect(list(ticks).length).toBeGreaterThan(5);
      }
      // An object that owes nothing stays listed for a while: it may owe again soon.
      await virtual.time.advance(60_000);
      expect(await virtual.keys("owing/")).toEqual([]);
      await virtual.stop();
    }),
    { numRuns: RUNS, ...(process.env.MOONPORT_SEED && { seed: Number(process.env.MOONPORT_SEED) }) },
  );
});

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function sorted(values: readonly unknown[]): string[] {
  return values.map(String).sort();
}
