import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../src/client/index.js";
import { type Authenticator, type Moonport, MoonportError } from "../../src/index.js";
import { cli } from "../cli/cli.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { embedded } from "./embedded.js";
import type { LedgerMethods } from "./ledger-class.js";

function addressOf(moonport: Moonport): string {
  if (moonport.url === undefined) throw new Error("it does not listen");
  return moonport.url;
}

describe("an embedded node that listens", () => {
  it("answers over HTTP and over a socket what it answers to the program", async () => {
    const moonport = await embedded({ listen: { port: 0 } });
    const url = addressOf(moonport);
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const posted = await fetch(`${url}/v1/default/Ledger/a/add`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '["over HTTP"]',
    });
    expect(await posted.json()).toEqual({ id: 1 });
    const client = connect(url);
    onTestFinished(() => client.close());
    const events = client.object<LedgerMethods>("Ledger", "a").subscribe();
    await events.ready;
    expect(await client.object<LedgerMethods>("Ledger", "a").add("over a socket")).toEqual({ id: 2 });
    await moonport.object<LedgerMethods>("Ledger", "a").add("inside");
    for await (const item of events) if (item.kind === "event" && item.number === 3) break;
    expect(events.after).toBe(3);
  });

  it("is found by the command in its folder, and named to whoever wants the folder", async () => {
    const dataDir = path.join(temporaryFolder(), "data");
    const moonport = await embedded({ dataDir, listen: { port: 0 } });
    await moonport.object<LedgerMethods>("Ledger", "a").add("one");
    const words = ["--dir", dataDir, "--data", dataDir];
    expect((await cli({ cwd: dataDir }, "call", "Ledger/a", "count", ...words)).stdout).toBe("1\n");
    await expect(embedded({ dataDir })).rejects.toMatchObject({
      code: "folder_locked",
      details: { pid: process.pid, command: "embedded", url: moonport.url },
    });
    await moonport.close();
    await expect(fetch(`${addressOf(moonport)}/healthz`)).rejects.toThrow();
    expect(fs.existsSync(path.join(dataDir, "node.json"))).toBe(false);
  });

  it("lets in whom a file of tokens names, or the program itself", async () => {
    const file = path.join(temporaryFolder(), "tokens.json");
    const token = "not-a-secret-of-anybody";
    fs.writeFileSync(file, JSON.stringify({ tokens: [{ id: "ada", token, allow: [{ rights: ["call", "read"] }] }] }));
    const ours: Authenticator = {
      isOpen: false,
      authenticate: (given) => {
        if (given !== "hunter2") throw MoonportError.of("unauthenticated", "who is there?");
        return { id: "grace", check: () => {} };
      },
    };
    const status = async (moonport: Moonport, bearer: string): Promise<unknown> => {
      const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
      const response = await fetch(`${addressOf(moonport)}/v1/default/Ledger/a/whoami`, { method: "POST", headers });
      return response.ok ? ((await response.json()) as { id?: string }).id : response.status;
    };
    const byFile = await embedded({ listen: { port: 0, auth: file } });
    expect([await status(byFile, token), await status(byFile, "hunter2")]).toEqual(["ada", 401]);
    const byProgram = await embedded({ listen: { port: 0, auth: ours } });
    expect([await status(byProgram, token), await status(byProgram, "hunter2")]).toEqual([401, "grace"]);
  });

  it("gives the folder back when it cannot listen", async () => {
    const dataDir = path.join(temporaryFolder(), "data");
    const taken = Number(new URL(addressOf(await embedded({ listen: { port: 0 } }))).port);
    await expect(embedded({ dataDir, listen: { port: taken } })).rejects.toMatchObject({ code: "address_in_use" });
    const missing = embedded({ dataDir, listen: { port: 0, auth: path.join(dataDir, "no-such-file") } });
    await expect(missing).rejects.toMatchObject({ code: "bad_option" });
    const moonport = await embedded({ dataDir });
    expect(moonport.url).toBeUndefined();
  });

  it("closes as soon as what runs has its answer, whoever stays connected", async () => {
    const moonport = await embedded({ listen: { port: 0 }, settings: { DRAIN_MS: 600_000, METHOD_BUDGET_MS: 60_000 } });
    const url = new URL(addressOf(moonport));
    const silent = net.connect(Number(url.port), url.hostname);
    const silentIsClosed = new Promise((resolve) => silent.once("close", resolve));
    await new Promise((resolve) => silent.once("connect", resolve));
    const answer = fetch(`${url.href}v1/default/Ledger/a/spin`, { method: "POST" });
    // Until the call has reached its object.
    while ((await moonport.status()).residents === 0) await new Promise((resolve) => setImmediate(resolve));
    await moonport.close();
    expect(await (await answer).json()).toBe(1e6);
    await silentIsClosed;
  });
});
