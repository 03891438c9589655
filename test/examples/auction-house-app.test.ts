/** The auction house's classes and its unit, under virtual time; and the page's account of a lot against the lot's own. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { type CatchUp, fold, HISTORY_MAX, UNKNOWN_LOT } from "../../examples/auction-house/page/lot-state.js";
import { SALE } from "../../examples/auction-house/sale.js";
import type { Delivery } from "../../src/realtime/contract.js";
import type { PlainValue } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";

const APP = path.join(packageRoot, "examples", "auction-house");
const MINUTE_MS = 60_000;

function luaIn(folder: string): Record<string, string> {
  const names = fs.readdirSync(path.join(APP, folder));
  return Object.fromEntries(
    names.map((name) => [path.basename(name, ".lua"), fs.readFileSync(path.join(APP, folder, name), "utf8")]),
  );
}

const opened = (): Promise<VirtualNode> => VirtualNode.start({ classes: luaIn("classes"), units: luaIn("units") });

async function offered(offer: Record<string, PlainValue> = {}): Promise<VirtualNode> {
  const node = await opened();
  await node.call("Lot/globe", "open", { title: "Globe", start: 40, minutes: 10, ...offer });
  return node;
}

const refusal = (code: string, details: object = {}) => expect.objectContaining({ code, ...details });

describe("a lot", () => {
  it("takes bids that rise by the house's steps, and says what the least is", async () => {
    const node = await offered();
    await expect(node.call("Lot/globe", "bid", "ada", 39)).rejects.toEqual(
      refusal("too_low", { details: { least: 40 } }),
    );
    for (const [amount, least] of [
      [40, 45],
      [99, 104],
      [104, 114],
      [1_000, 1_050],
    ] as const) {
      expect(await node.call("Lot/globe", "bid", "ada", amount)).toEqual({ top: amount, least });
      const refused = node.call("Lot/globe", "bid", "grace", least - 1);
      await expect(refused).rejects.toEqual(refusal("too_low", { details: { least } }));
    }
    expect(await node.call("Lot/globe", "standing")).toMatchObject({
      top: 1_000,
      leader: "ada",
      least: 1_050,
      bids: 4,
    });
  });

  it.each<[string, readonly PlainValue[]]>([
    ["bad_name", ["", 50]],
    ["bad_name", [" ", 50]],
    ["bad_name", ["a".repeat(41), 50]],
    ["bad_name", [7, 50]],
    ["bad_amount", ["ada", 50.5]],
    ["bad_amount", ["ada", "50"]],
    ["bad_amount", ["ada", 1e12]],
    ["bad_amount", ["ada", -50]],
  ])("refuses with %s a bid of %j", async (code, args) => {
    const node = await offered();
    await expect(node.call("Lot/globe", "bid", ...args)).rejects.toEqual(refusal(code));
  });

  it.each<Record<string, PlainValue>>([
    { title: "" },
    { title: 7 },
    { about: {} },
    { start: 0 },
    { start: 1.5 },
    { minutes: 0 },
    { minutes: "10" },
  ])("is not offered as %j", async (offer) => {
    await expect(offered(offer)).rejects.toEqual(refusal("bad_offer"));
  });

  it("ends by the clock, which a late bid puts off, and may be offered again then", async () => {
    const node = await offered({ minutes: 10 });
    const endsAt = async (): Promise<number> =>
      ((await node.call("Lot/globe", "standing")) as { ends_at: number }).ends_at;
    const planned = await endsAt();
    await node.call("Lot/globe", "bid", "ada", 40);
    expect(await endsAt()).toBe(planned);
    await expect(node.call("Lot/globe", "open", { title: "Globe" })).rejects.toEqual(refusal("already_open"));

    await node.time.advance(9.75 * MINUTE_MS);
    await node.call("Lot/globe", "bid", "grace", 45);
    expect(await endsAt()).toBeGreaterThan(planned + 10);
    await node.time.advance(MINUTE_MS);
    await expect(node.call("Lot/globe", "bid", "ada", 50)).rejects.toEqual(refusal("closed"));

    await node.call("Lot/globe", "open", { title: "Globe", start: 20 });
    expect(await node.call("Lot/globe", "catch_up")).toMatchObject({ standing: { least: 20, bids: 0 }, history: [] });
    await node.call("Lot/globe", "bid", "ada", 20);
  });

  it("takes no bids before it was ever offered, and stands nowhere", async () => {
    const node = await opened();
    await expect(node.call("Lot/globe", "bid", "ada", 40)).rejects.toEqual(refusal("closed"));
    expect(await node.call("Lot/globe", "standing")).toBe(null);
    expect(await node.call("Lot/globe", "catch_up")).toEqual({ history: [], now: expect.any(Number) });
  });
});

describe("the unit", () => {
  it("offers the sale in one request, and leaves lots that run alone when asked again", async () => {
    const node = await opened();
    expect(await node.unit("lots", undefined, { method: "GET" })).toEqual([]);
    const sale = SALE.map((offer) => ({ ...offer }));
    expect(await node.unit("lots", sale)).toMatchObject(
      SALE.map(({ key, title, start }) => ({ key, title, least: start })),
    );
    await node.call("Lot/sextant", "bid", "ada", 150);
    const again = (await node.unit("lots", sale)) as unknown[];
    expect(again).toHaveLength(SALE.length);
    expect(again).toEqual(await node.unit("lots", undefined, { method: "GET" }));
    expect(again[1]).toMatchObject({ key: "sextant", top: 150, leader: "ada", bids: 1 });
  });

  it("passes over a lot that was destroyed", async () => {
    const node = await opened();
    await node.unit("lots", SALE.slice(0, 2) as unknown as PlainValue);
    await node.time.until(node.node.destroy(node.identity(`Lot/${SALE[0]?.key}`)));
    expect(await node.unit("lots", undefined, { method: "GET" })).toMatchObject([{ key: SALE[1]?.key }]);
  });

  it("refuses what is no list of offers, and other methods", async () => {
    const node = await opened();
    await expect(node.unit("lots")).rejects.toEqual(refusal("bad_offer"));
    await expect(node.unit("lots", [{ key: "globe" }])).rejects.toEqual(refusal("bad_offer"));
    expect(await node.unit("lots", undefined, { method: "GET" })).toEqual([]);
    const deleted = await node.time.until(node.startUnit("lots", { method: "DELETE" }));
    expect(deleted).toMatchObject({ status: 405, headers: { allow: "GET, POST" } });
  });
});

describe("what the page makes of a lot's subscription", () => {
  it("is what the lot says itself, at every step", async () => {
    const node = await offered({ minutes: 1 });
    const { time, world } = node;
    const readAll = async (): Promise<CatchUp> =>
      (await node.call("Lot/globe", "catch_up", HISTORY_MAX)) as unknown as CatchUp;
    let lot = UNKNOWN_LOT;
    const deliver = (delivery: Delivery): void => {
      const item = delivery.kind === "event" ? { kind: "event" as const, ...delivery.event } : delivery;
      if (item.kind === "event" || item.kind === "snapshot") lot = fold(lot, item, world.clock.wallMs());
    };
    const from = { kind: "snapshot" as const, reading: { method: "catch_up", args: [HISTORY_MAX] } };
    const request = { object: node.identity("Lot/globe"), from, caller: { kind: "client" as const } };
    await time.until(node.node.subscribe(request, { deliver, room: () => undefined, isFull: () => false }));

    const step = async (method: string, ...args: PlainValue[]): Promise<void> => {
      await node.call("Lot/globe", method, ...args);
      await time.settle();
      const { standing, history } = await readAll();
      expect(lot).toEqual({ standing, history, clockAheadMs: 0 });
    };
    for (const [index, who] of ["ada", "grace", "mae", "ada", "sally", "grace", "ada"].entries()) {
      await time.advance(9_000);
      await step("bid", who, 40 + 10 * index);
    }
    await time.advance(MINUTE_MS);
    await step("open", { title: "Globe", start: 10 });
    await step("bid", "mae", 10);
  });
});
