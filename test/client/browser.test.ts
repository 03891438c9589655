import fs from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import * as forBrowsers from "../../src/client/browser.js";
import type * as Client from "../../src/client/index.js";
import * as forNode from "../../src/client/index.js";
import {
  BROWSER_NOTE,
  type Bundle,
  bundleForBrowsers,
  type PageServer,
  SKIPS_BROWSER,
  servePage,
  TestBrowser,
} from "../support/browser.js";
import { LiveNode } from "./support/live-node.js";
import type { TallyMethods } from "./support/tally.js";

/** What the page's script hands to the functions below; they run in the page. */
declare const moonport: typeof Client;
declare const kept: {
  client: Client.MoonportClient;
  tally: Client.RemoteObject<TallyMethods>;
  events: Client.Subscription;
};

const SCRIPT = 'import * as client from "moonport/client"; globalThis.moonport = client; globalThis.kept = {};';

let bundle: Bundle;
beforeAll(async () => {
  bundle = await bundleForBrowsers(SCRIPT);
});

describe("the client for browsers", () => {
  it("has what the one for Node has", () => {
    expect(Object.keys(forBrowsers).sort()).toEqual(Object.keys(forNode).sort());
  });

  it("bundles without anything of Node", () => {
    const strangers = bundle.modules.filter((id) => /^node:|__vite-browser-external|node_modules\/ws\//.test(id));
    expect(strangers).toEqual([]);
    expect(bundle.modules.some((id) => id.endsWith("dist/src/client/browser.js"))).toBe(true);
    expect(bundle.modules.some((id) => id.endsWith("dist/src/client/index.js"))).toBe(false);
    expect(bundle.code).not.toMatch(/\brequire\(|from\s*["']node:/);
  });

  it("has types that lead to no other package, which a page may not have", () => {
    const seen = new Set<string>();
    const visit = (file: string): void => {
      if (seen.has(file)) return;
      seen.add(file);
      const imports = fs.readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?"([^"]+)"/g);
      for (const [, name = ""] of imports) {
        expect(name, `${file} imports`).toMatch(/^\.{1,2}\//);
        visit(path.join(path.dirname(file), name.replace(/\.js$/, ".d.ts")));
      }
    };
    visit(path.join(packageRoot, "dist", "src", "client", "index.d.ts"));
    expect(seen.size).toBeGreaterThan(5);
  });

  it("is small enough for a page", () => {
    expect(bundle.code.length).toBeLessThan(100_000);
  });
});

describe.skipIf(SKIPS_BROWSER)(`a page in Chromium${BROWSER_NOTE}`, () => {
  let browser: TestBrowser;
  let server: PageServer;
  beforeAll(async () => {
    server = await servePage(bundle.code);
    browser = await TestBrowser.start();
  });
  afterAll(async () => {
    expect(browser.errors).toEqual([]);
    await browser.stop();
    server.stop();
  });

  /** A page with a client that speaks `codec` to the node, and a handle of the object `Tally/a`. */
  async function openPage(node: LiveNode, codec: "json" | "msgpack"): Promise<Page> {
    const page = await browser.open(server.url);
    await page.evaluate(
      ({ url, codec }) => {
        kept.client = moonport.connect(url, { codec, reconnectDelayMs: 20, reconnectDelayMaxMs: 200 });
        kept.tally = kept.client.object<TallyMethods>("Tally", "a");
      },
      { url: node.url, codec },
    );
    return page;
  }

  describe.each(["json", "msgpack"] as const)("over %s", (codec) => {
    it("calls methods, with bytes and every other value there and back", async () => {
      const node = await LiveNode.start();
      const page = await openPage(node, codec);
      const seen = await page.evaluate(async () => {
        const total = await kept.tally.add("one");
        await kept.tally.keep({ bytes: new Uint8Array([0, 1, 255]), text: "ünïcode 🌙", list: [1.5, -3, true, null] });
        const { bytes, ...others } = (await kept.tally.kept()) as { bytes: Uint8Array };
        return { total, isBytes: bytes instanceof Uint8Array, bytes: [...bytes], others };
      });
      expect(seen).toEqual({
        total: 1,
        isBytes: true,
        bytes: [0, 1, 255],
        others: { text: "ünïcode 🌙", list: [1.5, -3, true, null] },
      });
      await page.close();
    });

    it("gets errors with their type, code and fields", async () => {
      const node = await LiveNode.start();
      const page = await openPage(node, codec);
      const seen = await page.evaluate(async () => {
        const caught = async (call: Promise<unknown>): Promise<unknown> => {
          const error: unknown = await call.catch((thrown: unknown) => thrown);
          if (!(error instanceof moonport.MoonportError)) return String(error);
          const { code, source, message, details, hint, retryable } = error;
          return { code, source, message, details, hint, retryable };
        };
        return [
          await caught(kept.tally.refuse("too_low")),
          await caught(kept.client.object("Taly", "a").call("add")),
          await caught(kept.tally.call("keep", [Number.NaN])),
        ];
      });
      expect(seen).toMatchObject([
        { code: "too_low", source: "class", message: "no", details: { least: 26 }, retryable: false },
        { code: "class_not_found", source: "moonport", hint: "did you mean Tally?" },
        { code: "bad_value" },
      ]);
      await page.close();
    });

    it("sees every event once, also when the node is stopped and started again under it", async () => {
      const node = await LiveNode.start();
      const page = await openPage(node, codec);
      await page.evaluate(async () => {
        kept.events = kept.tally.subscribe({ from: { snapshot: "total" } });
        await kept.events.ready;
        await kept.tally.add("one");
      });
      await node.stop();
      expect(await page.evaluate(() => kept.client.state.kind)).not.toBe("open");
      // Begun while there is no node; it waits.
      const during = page.evaluate(() => kept.tally.add("two"));
      await node.open();
      expect(await during).toBe(2);
      const seen = await page.evaluate(async () => {
        await kept.tally.add("three");
        const items: unknown[] = [];
        for await (const item of kept.events) {
          items.push(item.kind === "event" ? item.number : item);
          if (items.length === 4) return items;
        }
        return items;
      });
      expect(seen).toEqual([{ kind: "snapshot", value: 0, number: 0 }, 1, 2, 3]);
      await page.close();
    });

    it("sees a reading method's value change by what another page does", async () => {
      const node = await LiveNode.start();
      const [watching, acting] = [await openPage(node, codec), await openPage(node, codec)];
      const seen = watching.evaluate(async () => {
        for await (const total of kept.tally.view("total")) if (total === 2) return total;
        return undefined;
      });
      await acting.evaluate(async () => {
        await kept.tally.add("one");
        await kept.tally.add("two");
      });
      expect(await seen).toBe(2);
      await watching.close();
      await acting.close();
    });

    it("aborts calls and loops", async () => {
      const node = await LiveNode.start();
      const page = await openPage(node, codec);
      const seen = await page.evaluate(async () => {
        await kept.tally.add("one");
        const abort = new AbortController();
        const call = kept.tally.call("add", ["two"], { signal: abort.signal }).catch((thrown: Error) => thrown.name);
        const events = kept.tally.subscribe({ signal: abort.signal });
        const next = events.next();
        abort.abort();
        return { call: await call, loop: (await next).done, later: await kept.tally.keep("later") };
      });
      expect(seen).toEqual({ call: "AbortError", loop: true, later: "later" });
      await page.close();
    });
  });
});
