/** The auction house in a real browser: what its README promises, and pictures of it in `artefacts/auction-house/`. */
import { exec } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { HISTORY_MAX } from "../../examples/auction-house/page/lot-state.js";
import { SALE } from "../../examples/auction-house/sale.js";
import { BROWSER_NOTE, SKIPS_BROWSER, TestBrowser } from "../support/browser.js";
import { HouseProcess } from "./support/house-process.js";

const PICTURES = path.join(packageRoot, "artefacts", "auction-house");
const DESK = { width: 1440, height: 1000 };
const PHONE = { width: 360, height: 780 };

interface Shown {
  readonly title: string;
  readonly amount: string;
  readonly leader: string;
  /** `ada €40`, the newest first. */
  readonly history: readonly string[];
}

const lotOn = (page: Page, title: string) => page.locator(".lot", { has: page.getByRole("heading", { name: title }) });

/** In one turn of the page, or a bid could come in between. */
function shown(page: Page, title: string): Promise<Shown> {
  return lotOn(page, title).evaluate((lot) => {
    const text = (within: typeof lot, selector: string): string => within.querySelector(selector)?.textContent ?? "";
    return {
      title: text(lot, "h2"),
      amount: text(lot, '[data-part="amount"]'),
      leader: text(lot, '[data-part="leader"]'),
      history: [...lot.querySelectorAll(".history li")].map((li) => `${text(li, ".who")} ${text(li, ".amount")}`),
    };
  });
}

/** Leaves the amount as it stands there, or types one, and presses the button. */
async function bid(page: Page, title: string, amount?: string): Promise<void> {
  await page.bringToFront();
  const lot = lotOn(page, title);
  if (amount !== undefined) await lot.getByRole("textbox").fill(amount);
  await lot.getByRole("button").click();
}

const errorOf = (page: Page, title: string): Promise<string | null> =>
  lotOn(page, title).getByRole("alert").textContent();

const connectionOf = (page: Page): Promise<string | null> => page.locator("#connection").textContent();

async function picture(page: Page, name: string): Promise<void> {
  await page.bringToFront();
  const fullPage = page.viewportSize()?.width !== PHONE.width;
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), fullPage });
}

const eventually = <Value>(look: () => Promise<Value>, about?: string) =>
  expect.poll(look, { timeout: 10_000, ...(about !== undefined && { message: about }) });

/** By how many pixels something sticks out of the window. */
const overflow = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

describe.skipIf(SKIPS_BROWSER)(`the auction house in Chromium${BROWSER_NOTE}`, () => {
  let house: HouseProcess;
  let browser: TestBrowser;
  let ada: Page;
  let grace: Page;

  async function enter(name: string): Promise<Page> {
    const page = await browser.open(house.url);
    await page.setViewportSize(DESK);
    await page.getByLabel("Bidding as").fill(name);
    await page.getByRole("heading", { name: "Moon globe" }).waitFor();
    return page;
  }

  /** What a client without a page sees. */
  async function read(key: string, method: string): Promise<unknown> {
    return (await fetch(`${house.node}/v1/default/Lot/${key}/${method}`)).json();
  }

  const offer = (lots: unknown): Promise<Response> =>
    fetch(`${house.node}/v1/default/units/lots`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(lots),
    });

  beforeAll(async () => {
    fs.rmSync(PICTURES, { recursive: true, force: true });
    house = new HouseProcess();
    [browser] = await Promise.all([TestBrowser.start(), house.start()]);
    ada = await enter("Ada");
    grace = await enter("Grace");
  });

  afterAll(async () => {
    await browser?.stop();
    await house.end();
    house.removeData();
  });

  it("shows every lot of the sale, with what it starts at", async () => {
    for (const { title, start } of SALE) {
      expect(await shown(ada, title)).toEqual({ title, amount: `€${start}`, leader: "Starting price", history: [] });
    }
    expect(await connectionOf(ada)).toBe("Live");
    await picture(ada, "1-before-a-bid");
  });

  it("fits into a narrow window, also in the dark", async () => {
    await ada.setViewportSize(PHONE);
    await ada.emulateMedia({ colorScheme: "dark" });
    expect(await overflow(ada)).toBe(0);
    await picture(ada, "1-before-a-bid-360-dark");
    await ada.emulateMedia({ colorScheme: "light" });
    await ada.setViewportSize(DESK);
    expect(await overflow(ada)).toBe(0);
  });

  it("shows the bids of each tab in the other, and the same to one that comes later", async () => {
    const title = "Moon globe, 1961";
    await bid(ada, title);
    await eventually(() => shown(grace, title)).toMatchObject({ amount: "€40", leader: "Ada leads" });
    await bid(grace, title, "60");
    await eventually(() => shown(ada, title)).toMatchObject({ amount: "€60", leader: "Grace leads" });
    await bid(ada, title);
    const history = ["Ada €65", "Grace €60", "Ada €40"];
    await eventually(() => shown(grace, title)).toMatchObject({ amount: "€65", leader: "Ada leads", history });
    await eventually(() => shown(ada, title)).toMatchObject({ amount: "€65", leader: "You lead", history });
    await bid(grace, "Brass sextant", "150");
    const late = await enter("Mae");
    await eventually(() => shown(late, title)).toEqual(await shown(grace, title));
    await late.close();
    await picture(ada, "2-after-bids-from-two-tabs");
  });

  it("says what the lot says of a bid that it does not take", async () => {
    const title = "Star atlas, second edition";
    await bid(ada, title, "299");
    await eventually(() => errorOf(ada, title)).toBe("Too low: bid at least €300.");
    await picture(ada, "2-a-bid-too-low");
    for (const nonsense of ["", "many", "310.5"]) {
      await bid(ada, title, nonsense);
      await eventually(() => errorOf(ada, title), nonsense).toBe("Bid a whole number of euros.");
    }
    await bid(ada, title, "300");
    await eventually(() => shown(ada, title)).toMatchObject({ amount: "€300", history: ["Ada €300"] });
    expect(await errorOf(ada, title)).toBe("");
    await ada.getByLabel("Bidding as").fill("");
    await bid(ada, title);
    await eventually(() => errorOf(ada, title)).toBe("Say at the top of the page who is bidding.");
    await ada.getByLabel("Bidding as").fill("Ada");
  });

  it("leaves an amount alone that somebody is typing, when others bid", async () => {
    const title = "Telegraph key";
    await lotOn(ada, title).getByRole("textbox").fill("70");
    await bid(grace, title);
    await eventually(() => shown(ada, title)).toMatchObject({ amount: "€35", leader: "Grace leads" });
    expect(await lotOn(ada, title).getByRole("textbox").inputValue()).toBe("70");
    expect(await lotOn(grace, title).getByRole("textbox").inputValue()).toBe("40");
  });

  it("shows a lot that the unit offers meanwhile, and takes it as text, whatever it is called", async () => {
    const title = "<b>Slide rule</b>";
    const brief = { key: "slide-rule", title, about: "x".repeat(200), minutes: 0.02 };
    const lasting = { key: "ruler", title: "Ruler", about: "Of ivory, they say." };
    expect((await offer([brief, lasting])).status).toBe(201);
    await ada.getByRole("heading", { name: title }).waitFor();
    await ada.setViewportSize(PHONE);
    expect(await overflow(ada)).toBe(0);
    await ada.setViewportSize(DESK);
    await eventually(() => lotOn(ada, title).locator(".time").textContent()).toBe("Over");
    expect(await shown(ada, title)).toMatchObject({ leader: "Nobody bid" });
    expect(await lotOn(ada, title).getByRole("button").isVisible()).toBe(false);
    const top = async (lot: string) => (await lotOn(ada, lot).locator(".history").boundingBox())?.y;
    expect(await top(title)).toBe(await top("Ruler"));
    await picture(ada, "2-a-lot-that-is-over");
    await offer([{ key: "slide-rule", title, about: "Offered once more.", minutes: 60 }]);
    await eventually(() => shown(ada, title)).toMatchObject({ amount: "€1", leader: "Starting price" });
    expect(await lotOn(ada, title).getByRole("button").isVisible()).toBe(true);
  });

  it("shows what the command of the README offers", async () => {
    const readme = fs.readFileSync(path.join(packageRoot, "examples", "auction-house", "README.md"), "utf8");
    const command = /^ {4}npx moonport (unit .*)$/m.exec(readme)?.[1];
    const main = path.join(packageRoot, "dist", "cli", "main.js");
    await promisify(exec)(`"${process.execPath}" "${main}" ${command} --data "${house.data}"`, { cwd: packageRoot });
    await grace.getByRole("heading", { name: "Astrolabe" }).waitFor();
    expect(await shown(grace, "Astrolabe")).toMatchObject({ amount: "€80", leader: "Starting price" });
  });

  it("takes a lot away that is destroyed", async () => {
    await fetch(`${house.node}/v1/admin/destroy/default/Lot/slide-rule`, { method: "POST" });
    await eventually(() => lotOn(ada, "<b>Slide rule</b>").isVisible()).toBe(false);
    const late = await enter("Mae");
    const there = await ada.locator(".lot:visible").count();
    await eventually(() => late.locator(".lot:visible").count()).toBe(there);
    await late.close();
  });

  it("comes back by itself when the node was killed under it, with every bid once, and one that waited", async () => {
    const title = "Moon globe, 1961";
    const before = await shown(ada, title);
    // Under way when the node dies: nobody knows whether it was taken, and it is asked about again under its own id.
    await bid(ada, "Brass sextant", "170");
    await house.end("SIGKILL");
    await eventually(() => connectionOf(ada)).toBe("Reconnecting");
    await bid(grace, title, "80");
    await eventually(() => lotOn(grace, title).getByRole("button").textContent()).toBe("Bidding");
    await picture(grace, "3-while-the-node-is-away");
    expect(await shown(ada, title)).toEqual(before);

    await house.start();
    for (const page of [ada, grace]) await eventually(() => connectionOf(page)).toBe("Live");
    const all = ["Ada €85", "Grace €80", ...before.history];
    const waited = all.slice(1, 1 + HISTORY_MAX);
    await eventually(() => shown(grace, title)).toMatchObject({ leader: "You lead", history: waited });
    await bid(ada, title);
    const history = all.slice(0, HISTORY_MAX);
    for (const page of [ada, grace]) {
      await eventually(() => shown(page, title)).toMatchObject({ amount: "€85", history });
    }
    const sextant = { amount: "€170", history: ["Ada €170", "Grace €150"] };
    for (const page of [ada, grace]) await eventually(() => shown(page, "Brass sextant")).toMatchObject(sextant);
    expect(await read("moon-globe", "standing")).toMatchObject({ top: 85, leader: "Ada", bids: all.length });
    await picture(ada, "3-after-the-node-was-restarted");
    await ada.setViewportSize(PHONE);
    expect(await overflow(ada)).toBe(0);
    await picture(ada, "3-after-the-node-was-restarted-360");
    await ada.setViewportSize(DESK);
  });

  it("throws nothing that nobody catches, and ends when it is asked to", async () => {
    expect(browser.errors).toEqual([]);
    expect(await house.end("SIGTERM")).toBe(0);
  });
});
