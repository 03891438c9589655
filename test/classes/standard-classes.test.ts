import { describe, expect, it } from "vitest";
import type { PlainObject } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );

const row = async (node: VirtualNode, target: string): Promise<unknown> =>
  (await node.time.until(node.node.inspect(node.identity(target)))).directoryRow?.row;

const events = (node: VirtualNode): string[] =>
  node.observations.filter((one) => one.kind === "event").map((one) => one.name);

describe("Counter", () => {
  it("counts, starts again, and keeps keys apart", async () => {
    const node = await VirtualNode.start();
    expect(await node.call("Counter/a", "value")).toBe(0);
    expect(await node.call("Counter/a", "increment")).toBe(1);
    expect(await node.call("Counter/a", "increment", 4)).toBe(5);
    expect(await node.call("Counter/b", "value")).toBe(0);
    expect(await node.call("Counter/a", "reset")).toBe(5);
    expect(await node.call("Counter/a", "value")).toBe(0);
    expect(await codeOf(node.call("Counter/a", "increment", "many"))).toBe("not_a_number");
  });
});

describe("Auction", () => {
  it("is opened by its first bid, takes bids that rise, and refuses the others by code", async () => {
    const node = await VirtualNode.start();
    expect(await node.call("Auction/lot-42", "bid", "ada", 25)).toEqual({ top: 25 });
    await expect(node.call("Auction/lot-42", "bid", "bob", 25)).rejects.toMatchObject({
      code: "too_low",
      details: { least: 26 },
    });
    expect(await codeOf(node.call("Auction/lot-42", "bid", "bob", 25.5))).toBe("bad_bid");
    expect(await codeOf(node.call("Auction/lot-42", "bid"))).toBe("bad_bid");
    expect(await node.call("Auction/lot-42", "bid", "bob", 30)).toEqual({ top: 30 });
    expect(await node.call("Auction/lot-42", "top")).toEqual({ status: "open", top: 30, leader: "bob" });
    expect(await node.call("Auction/lot-42", "history")).toMatchObject([
      { who: "bob", amount: 30 },
      { who: "ada", amount: 25 },
    ]);
    expect(await codeOf(node.call("Auction/lot-42", "open"))).toBe("already_open");
  });

  it("opens with a title, a least bid and an end, and closes once", async () => {
    const node = await VirtualNode.start();
    const lot = (await node.call("Auction/lot", "open", {
      title: "Moon globe",
      start: 10,
      seconds: 60,
    })) as PlainObject;
    expect(lot).toMatchObject({ title: "Moon globe", status: "open", start: 10 });
    expect(await node.time.until(node.node.inspect(node.identity("Auction/lot")))).toMatchObject({ timers: 1 });
    expect(await codeOf(node.call("Auction/lot", "bid", "ada", 9))).toBe("too_low");
    await node.call("Auction/lot", "bid", "ada", 10);
    expect(await row(node, "Auction/lot")).toMatchObject({ title: "Moon globe", status: "open", top: 10, bids: 1 });
    expect(await node.call("Auction/lot", "close")).toEqual({ winner: "ada", amount: 10 });
    expect(await node.time.until(node.node.inspect(node.identity("Auction/lot")))).toMatchObject({ timers: 0 });
    expect(await row(node, "Auction/lot")).toMatchObject({ status: "closed" });
    expect(await codeOf(node.call("Auction/lot", "bid", "bob", 99))).toBe("closed");
    expect(await codeOf(node.call("Auction/lot", "close"))).toBe("closed");
    expect(events(node)).toEqual(["opened", "bid", "closed"]);
  });

  it("takes no terms, and no bid, that later bids could not be measured by", async () => {
    const node = await VirtualNode.start();
    for (const terms of [{ start: "5" }, { start: 1.5 }, { start: 2 ** 60 }, { title: ["x"] }, { seconds: "10" }]) {
      expect(await codeOf(node.call("Auction/lot", "open", terms))).toBe("bad_lot");
    }
    await node.call("Auction/lot", "open", { title: "Moon globe", start: 10 });
    expect(await codeOf(node.call("Auction/lot", "bid", "ada", 1e300))).toBe("bad_bid");
    expect(await node.call("Auction/lot", "bid", "ada", 10)).toEqual({ top: 10 });
  });

  it("answers readers of a lot that nobody touched", async () => {
    const node = await VirtualNode.start();
    expect(await node.call("Auction/none", "top")).toEqual({ status: "open" });
    expect(await node.call("Auction/none", "history")).toEqual([]);
  });
});

describe("Chat", () => {
  it("lets members speak, in order, and nobody else", async () => {
    const node = await VirtualNode.start();
    expect(await codeOf(node.call("Chat/lobby", "say", "ada", "hello"))).toBe("not_a_member");
    expect(await node.call("Chat/lobby", "join", "ada")).toEqual({ members: ["ada"] });
    expect(await node.call("Chat/lobby", "join", "ada")).toEqual({ members: ["ada"] });
    await node.call("Chat/lobby", "join", "bob");
    for (let n = 1; n <= 5; n++)
      expect(await node.call("Chat/lobby", "say", n % 2 ? "ada" : "bob", `${n}`)).toEqual({ id: n });
    expect(await node.call("Chat/lobby", "history", 2)).toMatchObject([
      { id: 4, text: "4" },
      { id: 5, text: "5" },
    ]);
    expect(await node.call("Chat/lobby", "history", 2, 4)).toMatchObject([{ id: 2 }, { id: 3 }]);
    expect(await node.call("Chat/lobby", "leave", "bob")).toEqual({ members: ["ada"] });
    expect(await codeOf(node.call("Chat/lobby", "say", "bob", "still here?"))).toBe("not_a_member");
    expect(await codeOf(node.call("Chat/lobby", "say", "ada", ""))).toBe("bad_text");
    expect(await codeOf(node.call("Chat/lobby", "join", ""))).toBe("bad_name");
    expect(await row(node, "Chat/lobby")).toMatchObject({ members: 1, messages: 5 });
    expect(events(node)).toEqual(["joined", "joined", "said", "said", "said", "said", "said", "left"]);
  });

  it("keeps the last thousand messages", async () => {
    const node = await VirtualNode.start();
    await node.call("Chat/lobby", "join", "ada");
    const said = Array.from({ length: 1_010 }, (_, n) => n);
    for (let at = 0; at < said.length; at += 100) {
      const part = said.slice(at, at + 100);
      await node.time.until(Promise.all(part.map((n) => node.start("Chat/lobby", "say", ["ada", `${n}`]))));
    }
    expect(await node.call("Chat/lobby", "history", 2_000)).toHaveLength(1_000);
  });
});
