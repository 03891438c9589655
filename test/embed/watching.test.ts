import { describe, expect, it } from "vitest";
import type { Moonport, MoonportObject, PlainObject, SubscriptionItem } from "../../src/index.js";
import { embedded } from "./embedded.js";
import type { LedgerMethods } from "./ledger-class.js";

async function ledgerOf(moonport: Moonport): Promise<MoonportObject<LedgerMethods>> {
  return moonport.object<LedgerMethods>("Ledger", "a");
}

/** Reads as many items; the loop is left then. */
async function take(items: AsyncIterable<SubscriptionItem>, count: number): Promise<SubscriptionItem[]> {
  const taken: SubscriptionItem[] = [];
  for await (const item of items) if (taken.push(item) === count) break;
  return taken;
}

function textOf(item: SubscriptionItem): unknown {
  return item.kind === "event" ? (item.data as PlainObject).text : item.kind;
}

describe("an object's events", () => {
  it("come in order, from when the subscription is ready", async () => {
    const ledger = await ledgerOf(await embedded());
    await ledger.add("before");
    const events = ledger.subscribe();
    expect(await events.ready).toBe(1);
    await Promise.all([ledger.add("one"), ledger.add("two")]);
    const [first, second] = await take(events, 2);
    expect(first).toEqual({
      kind: "event",
      number: 2,
      name: "added",
      data: { id: 2, text: "one" },
      atMs: expect.any(Number),
    });
    expect(second).toMatchObject({ number: 3, data: { text: "two" } });
    expect(events.after).toBe(3);
  });

  it("come after a number, or after a snapshot, by name", async () => {
    const ledger = await ledgerOf(await embedded());
    for (const text of ["one", "two", "three"]) await ledger.add(text);
    expect((await take(ledger.subscribe({ from: { after: 1 } }), 2)).map(textOf)).toEqual(["two", "three"]);
    const events = ledger.subscribe({ from: { snapshot: "texts" }, names: ["added"] });
    await events.ready;
    await ledger.add("four");
    const [snapshot, event] = await take(events, 2);
    expect(snapshot).toEqual({ kind: "snapshot", value: ["one", "two", "three"], number: 3 });
    expect(event).toMatchObject({ number: 4, data: { text: "four" } });
    expect(
      await take(ledger.subscribe({ from: { after: 0 }, names: ["other"], signal: AbortSignal.timeout(1) }), 1),
    ).toEqual([]);
  });

  it("are each reader's own", async () => {
    const ledger = await ledgerOf(await embedded());
    const [mine, yours] = [ledger.subscribe(), ledger.subscribe()];
    await Promise.all([mine.ready, yours.ready]);
    await ledger.add("one", { by: "ada" });
    for await (const item of mine) {
      if (item.kind === "event") (item.data as PlainObject).text = "changed";
      break;
    }
    expect((await take(yours, 1)).map(textOf)).toEqual(["one"]);
    expect((await take(ledger.subscribe({ from: { after: 0 } }), 1)).map(textOf)).toEqual(["one"]);
  });

  it("wait for a reader that is slow, however many there are", async () => {
    const ledger = await ledgerOf(await embedded());
    const events = ledger.subscribe();
    await events.ready;
    const texts = Array.from({ length: 2_500 }, (_, index) => `${index}`);
    for (let from = 0; from < texts.length; from += 100) {
      await Promise.all(texts.slice(from, from + 100).map((text) => ledger.add(text)));
    }
    expect((await take(events, texts.length)).map(textOf)).toEqual(texts);
  });

  it("end with the object", async () => {
    const ledger = await ledgerOf(await embedded());
    const events = ledger.subscribe();
    await events.ready;
    await ledger.add("one");
    await ledger.destroy();
    expect((await take(events, 9)).map(({ kind }) => kind)).toEqual(["event", "destroyed"]);
  });

  it("end for a loop when the signal is aborted, or the node is closed", async () => {
    const moonport = await embedded();
    const ledger = await ledgerOf(moonport);
    const giveUp = new AbortController();
    const [aborted, closed] = [ledger.subscribe({ signal: giveUp.signal }), ledger.subscribe()];
    const loops = [take(aborted, 9), take(closed, 9)];
    await Promise.all([aborted.ready, closed.ready]);
    giveUp.abort();
    expect(await loops[0]).toEqual([]);
    expect((await moonport.status()).subscriptions).toBe(1);
    await moonport.close();
    expect(await loops[1]).toEqual([]);
  });

  it("are refused to the loop where they cannot be had", async () => {
    const moonport = await embedded();
    const strange = moonport.object("Strange", "a").subscribe();
    await expect(strange.ready).rejects.toMatchObject({ code: "class_not_found" });
    await expect(take(strange, 1)).rejects.toMatchObject({ code: "class_not_found" });
    const ledger = await ledgerOf(moonport);
    await expect(take(ledger.subscribe({ from: { snapshot: "fails" } }), 1)).rejects.toMatchObject({
      code: "no_such_luck",
    });
    const misspelled = { form: "now" } as object;
    expect(() => ledger.subscribe(misspelled)).toThrow(expect.objectContaining({ hint: "did you mean from?" }));
    expect((await moonport.status()).subscriptions).toBe(0);
  });
});

describe("a live view", () => {
  it("gives a reading method's value, and again when a write changed it", async () => {
    const moonport = await embedded();
    const ledger = await ledgerOf(moonport);
    const seen: number[] = [];
    for await (const count of ledger.view("count")) {
      seen.push(count);
      if (count === 2) break;
      void ledger.add("another");
    }
    expect(seen).toEqual([0, 1, 2]);
    expect((await moonport.status()).subscriptions).toBe(0);
  });

  it("throws what the class refused, or tells it and goes on", async () => {
    const ledger = await ledgerOf(await embedded());
    await expect(ledger.view("fails").next()).rejects.toMatchObject({ code: "no_such_luck" });
    const code = await new Promise<string>((resolve) => {
      const view = ledger.view("fails", [], { onError: (error) => resolve(error.code) });
      void view.next().catch(() => {});
    });
    expect(code).toBe("no_such_luck");
  });

  it("asks as the caller it is for", async () => {
    const moonport = await embedded({
      classes: { Me: `local Me = class "Me" function Me.read:id() return caller.id end return Me` },
    });
    const me = moonport.object<{ id(): string }>("Me", "a");
    const view = moonport.object("Me", "a").view("id", [], { as: { id: "ada" } });
    expect((await view.next()).value).toBe("ada");
    view.close();
    expect(await me.call("id", [], { as: { id: "grace" } })).toBe("grace");
  });
});
