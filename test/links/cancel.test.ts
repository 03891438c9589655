/** Whoever asked goes away before the answer is there. */
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Asker } from "../../src/links/contract.js";
import { deferred } from "../../src/world/deferred.js";
import { SimulatedStage, type StageNode, type StageNodeOptions } from "./stage.js";

class Someone implements Asker {
  #isGone = false;
  #tell = (): void => {};

  isGone(): boolean {
    return this.#isGone;
  }

  whenGone(tell: () => void): void {
    this.#tell = tell;
  }

  go(): void {
    this.#isGone = true;
    this.#tell();
  }
}

let stage: SimulatedStage;
/** As the handler sees them, in the order in which they asked. */
let askers: Asker[];
/** Those that it was told of. */
let told: Asker[];
beforeEach(() => {
  stage = new SimulatedStage();
  askers = [];
  told = [];
});
afterEach(() => stage.stop());

async function answering(options: StageNodeOptions = {}): Promise<{ two: StageNode; answer: () => void }> {
  const { promise, resolve } = deferred<string>();
  const two = await stage.node("two", {
    ...options,
    prepare: (links) =>
      links.handle("wait", (_body, _from, asker) => {
        askers.push(asker);
        asker.whenGone(() => told.push(asker));
        return promise;
      }),
  });
  return { two, answer: () => resolve("answered") };
}

it("the other side is told, of that request alone, and answers all the same", async () => {
  const one = await stage.node("one");
  const { two, answer } = await answering();
  const [leaving, staying] = [new Someone(), new Someone()];
  const asked = [leaving, staying].map((asker) => one.links.request(two, "wait", 0, { asker }));
  await stage.time.advance(100);
  leaving.go();
  await stage.time.advance(100);
  expect(told).toEqual([askers[0]]);
  expect(askers.map((asker) => asker.isGone())).toEqual([true, false]);
  answer();
  expect(await stage.until(Promise.all(asked))).toEqual(["answered", "answered"]);
});

it("what waits for the link is not sent", async () => {
  const one = await stage.node("one");
  const { two } = await answering();
  const leaving = new Someone();
  const asked = one.links.request(two, "wait", 0, { asker: leaving });
  leaving.go();
  await expect(stage.until(asked)).rejects.toMatchObject({ code: "caller_gone" });
  await stage.time.advance(1_000);
  expect([askers.length, one.links.underWay]).toEqual([0, 0]);
});

it("all who asked over a link have gone when it ends", async () => {
  const one = await stage.node("one");
  const { two } = await answering();
  const asked = one.links.request(two, "wait", 0).catch((error) => error.code);
  await stage.time.advance(100);
  await one.links.stop();
  await stage.time.advance(100);
  expect([await asked, told.length]).toEqual(["link_broken", 1]);
});

it("a node of the release before is not told, and goes on as it did", async () => {
  const one = await stage.node("one");
  const { two, answer } = await answering({ protocols: { min: 1, max: 1 } });
  const leaving = new Someone();
  const asked = one.links.request(two, "wait", 0, { asker: leaving });
  await stage.time.advance(100);
  leaving.go();
  await stage.time.advance(100);
  answer();
  expect([await stage.until(asked), told.length]).toEqual(["answered", 0]);
});
