import fc from "fast-check";
import { expect, test } from "vitest";
import { Publisher } from "../../src/directory/publisher.js";
import type { ApplyRequest } from "../../src/directory/shard-contract.js";
import { identityOf } from "../../src/identity.js";
import type { DirectoryDeclaration } from "../../src/lua/contract.js";
import { NodeCounters } from "../../src/metrics/node-counters.js";
import { shapeOf } from "../../src/object/directory-shape.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

/** What one object was, one state after the other: its row, or that it is gone. */
interface State {
  readonly epoch: number;
  readonly seq: number;
  readonly isGone: boolean;
}

const life = fc
  .array(fc.record({ takesOver: fc.boolean(), isGone: fc.boolean() }), { minLength: 2, maxLength: 8 })
  .map((states): State[] => {
    let epoch = 1;
    return states.map(({ takesOver, isGone }, at) => {
      if (takesOver) epoch++;
      return { epoch, seq: at + 1, isGone };
    });
  });

/** Each is offered at some time, late or twice too: whoever looked a moment ago offers what it saw. */
const offers = life.chain((states) =>
  fc.tuple(
    fc.constant(states),
    fc.array(fc.record({ at: fc.nat(states.length - 1), thenMs: fc.constantFrom(0, 0, 1, 60, 200) }), {
      maxLength: 12,
    }),
  ),
);

const DECLARED: DirectoryDeclaration = { columns: { top: "integer" }, index: [] };

/** A publisher whose shard takes the newest, as shards do, and answers after a while. */
class Told {
  readonly time = new VirtualTime();
  readonly world = new VirtualWorld({ time: this.time, root: temporaryFolder() });
  readonly object = identityOf("default", "Lot", "a");
  known: State | undefined;
  /** Classes of which rows of another shape were told, and what the shard knew by then. */
  readonly outdated: string[] = [];
  readonly publisher = new Publisher({
    world: this.world,
    settings: resolveSettings(),
    counters: new NodeCounters(),
    declarationOf: () => DECLARED,
    isFresh: () => true,
    outdated: (app, className) => void this.outdated.push(`${app}/${className}, told ${this.known?.seq}`),
    tellRow: async () => {},
    debts: { offered() {}, told() {} },
    callShard: (_shard, _method, [request]) => this.#apply(request as unknown as ApplyRequest),
  });

  offer({ epoch, seq, isGone }: State): void {
    if (isGone) this.publisher.gone(this.object, epoch, seq);
    else this.publisher.stands(this.object, epoch, { seq, row: { top: seq }, shape: "shape" }, true);
  }

  async #apply({ rows }: ApplyRequest): Promise<null> {
    await new Promise<void>((resolve) => void this.world.timers.after(20, resolve));
    for (const [, epoch, seq, , , row] of rows) {
      const { epoch: knownEpoch, seq: knownSeq } = this.known ?? { epoch: 0, seq: 0 };
      const isNews = epoch === knownEpoch ? seq > knownSeq : epoch > knownEpoch && seq !== knownSeq;
      if (isNews) this.known = { epoch, seq, isGone: row === null };
    }
    return null;
  }
}

test("what an object was a moment ago never takes the place of what it is", async () => {
  await fc.assert(
    fc.asyncProperty(offers, async ([states, others]) => {
      const told = new Told();
      const last = states.at(-1) as State;
      told.offer(last);
      for (const { at, thenMs } of others) {
        told.offer(states[at] as State);
        await told.time.advance(thenMs);
      }
      await told.time.advance(1_000);
      expect(told.known).toEqual(last);
      told.publisher.stop();
    }),
    { numRuns: 100 },
  );
});

test.each([
  ["of the columns that its class has", shapeOf(DECLARED), undefined, []],
  ["of other columns", "shape", undefined, ["default/Lot, told 1"]],
  ["of other columns because deriving it has failed since", "shape", 1, []],
])("once a row was told %s, its class is looked at again or not", async (_, shape, staleSinceMs, outdated) => {
  const told = new Told();
  const standing = { seq: 1, row: { top: 1 }, shape, ...(staleSinceMs !== undefined && { staleSinceMs }) };
  told.publisher.stands(told.object, 1, standing, true);
  await told.time.until(told.publisher.whenIdle());
  expect(told.outdated).toEqual(outdated);
  told.publisher.gone(told.object, 1, 2);
  await told.time.until(told.publisher.whenIdle());
  expect(told.outdated).toEqual(outdated);
});
