/** How long a program waits for what it asked of its own node. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { EmbeddedObject } from "../../src/embed/object.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { CallReply, CallRequest } from "../../src/node-api.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { FakeNode } from "../support/fake-node.js";

const time = new VirtualTime();
const world = new VirtualWorld({ time, root: "/nowhere" });

/** A ledger whose node gives `answer` after so long. */
function ledger(answerMs: number, answer: () => CallReply): EmbeddedObject {
  const node = Object.assign(new FakeNode(), {
    call: (_request: CallRequest): Promise<CallReply> =>
      new Promise((resolve, reject) => {
        time.after(answerMs, () => {
          try {
            resolve(answer());
          } catch (error) {
            reject(error);
          }
        });
      }),
  });
  const context = { node, world, closing: new AbortController().signal };
  return new EmbeddedObject(context as never, identityOf("default", "Ledger", "a"));
}

const outcomeOf = (asked: Promise<unknown>): Promise<unknown> =>
  time.until(
    asked.then(
      (value) => value,
      ({ code, callId }) => ({ code, callId }),
    ),
  );

it("a call is waited for as long as its caller says, and nothing is said of one that has begun but that nobody knows", async () => {
  const waits = fc.tuple(fc.integer({ min: 1, max: 5_000 }), fc.integer({ min: 0, max: 10_000 }));
  await fc.assert(
    fc.asyncProperty(waits, async ([timeoutMs, answerMs]) => {
      const begunMs = time.nowMs;
      const outcome = await outcomeOf(
        ledger(answerMs, () => ({ value: "done" })).call("add", [], { timeoutMs, callId: "order-17" }),
      );
      if (answerMs <= timeoutMs) expect(outcome).toBe("done");
      else if (outcome !== "done") expect(outcome).toEqual({ code: "outcome_unknown", callId: "order-17" });
      expect(time.nowMs - begunMs).toBeLessThanOrEqual(timeoutMs + 100);
    }),
  );
});

it("one whose turn has not come hears from the node that it did not run", async () => {
  const late = (): never => {
    throw MoonportError.of("deadline_exceeded", "its turn has not come");
  };
  expect(await outcomeOf(ledger(510, late).call("add", [], { timeoutMs: 500 }))).toMatchObject({
    code: "deadline_exceeded",
  });
});

it("without a time it is waited for until it ends", async () => {
  expect(await outcomeOf(ledger(3_600_000, () => ({ value: "done" })).call("add"))).toBe("done");
});
