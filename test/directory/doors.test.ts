/** The directory through each door of one real node: HTTP, WebSocket, the embedding program; and what a token may ask. */
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { connect } from "../../src/client/index.js";
import { Moonport } from "../../src/moonport.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { lotClass } from "./lots.js";

const TOKENS = {
  all: { rights: ["query", "call", "admin"] },
  lots: { rights: ["query"], classes: ["Lot"] },
  keys: { rights: ["query"], keys: ["k1"] },
  calls: { rights: ["call"] },
};

let moonport: Moonport;
let url: string;

beforeEach(async () => {
  const dataDir = temporaryFolder();
  moonport = await Moonport.open({
    dataDir,
    bucket: "memory:",
    classes: { Lot: lotClass(), Other: lotClass().replaceAll("Lot", "Other") },
    settings: { DIRECTORY_PUBLISH_MS: 0 },
    listen: { port: 0, auth: authenticator() },
  });
  url = moonport.url as string;
  for (const [n, status] of ["open", "it's", "open"].entries()) {
    await moonport.object("Lot", `k${n}`).call("put", [n * 10, status]);
  }
  await expect.poll(async () => (await moonport.find("Lot", { count: true })).count).toBe(3);
});
afterEach(() => moonport.close());

function authenticator(): StaticTokens {
  const tokens = Object.entries(TOKENS).map(([id, allow]) => {
    return { id, sha256: createHash("sha256").update(`${id}-token-of-enough-length`).digest("hex"), allow: [allow] };
  });
  return new StaticTokens(JSON.stringify({ tokens }), "auth.json", new Uint8Array(32));
}

const tokenOf = (id: keyof typeof TOKENS): string => `${id}-token-of-enough-length`;

const EXPECTED = {
  rows: [
    { key: "k2", row: { top: 20, status: "open" } },
    { key: "k0", row: { top: 0, status: "open" } },
  ],
  count: 2,
};
const QUERY = { where: "status = ?", params: ["open"], order: "-top", count: true };

async function get(
  path: string,
  id: keyof typeof TOKENS = "all",
  method = "GET",
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${url}${path}`, { method, headers: { authorization: `Bearer ${tokenOf(id)}` } });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("a query", () => {
  it("gets the same page through each door", async () => {
    expect(await moonport.find("Lot", QUERY)).toEqual(EXPECTED);
    const path = `/v1/default/Lot?where=${encodeURIComponent("status = ?")}&params=${encodeURIComponent('["open"]')}&order=-top&count=true`;
    expect(await get(path)).toEqual({ status: 200, body: EXPECTED });
    const client = connect(url.replace("http", "ws"), { token: tokenOf("all") });
    expect(await client.find("Lot", QUERY)).toEqual(EXPECTED);
    await client.close();
    const http = new HttpNodeClient({ url, token: tokenOf("all"), world: realWorld(temporaryFolder(), silentLogger) });
    expect(await http.find({ app: "default", className: "Lot", query: QUERY })).toEqual(EXPECTED);
    expect(await http.directory("default", "Lot")).toMatchObject({ rows: 3, stale: 0 });
    expect(await http.rebuildDirectory("default", "Lot")).toMatchObject({ walk: { why: "rebuild" } });
    http.close();
  });

  it("pages on by its cursor, over HTTP and a socket in turn", async () => {
    const first = await get("/v1/default/Lot?limit=2");
    const after = first.body.after as string;
    expect(first.body.rows).toHaveLength(2);
    const client = connect(url.replace("http", "ws"), { token: tokenOf("all") });
    expect(await client.find("Lot", { after, limit: 2 })).toEqual({
      rows: [{ key: "k2", row: { top: 20, status: "open" } }],
    });
    await client.close();
  });

  it("that is wrong gets the same coded error through each door", async () => {
    const refused = { code: "bad_filter", hint: "did you mean top?" };
    await expect(moonport.find("Lot", { where: "tpo > 1" })).rejects.toMatchObject(refused);
    expect(await get("/v1/default/Lot?where=tpo%3E1")).toMatchObject({
      status: 400,
      body: { ...refused, details: { position: 1 } },
    });
    const client = connect(url.replace("http", "ws"), { token: tokenOf("all") });
    await expect(client.find("Lot", { where: "tpo > 1" })).rejects.toMatchObject({
      ...refused,
      details: { position: 1 },
    });
    await expect(client.find("Lot", { wehre: "" } as object)).rejects.toMatchObject({ code: "bad_option" });
    await expect(client.find("lot")).rejects.toMatchObject({ code: "bad_name" });
    await client.close();
    expect(await get("/v1/default/Lot?limit=ten")).toMatchObject({ status: 400, body: { code: "bad_option" } });
    expect(await get("/v1/default/Lot?wehre=x")).toMatchObject({ status: 400 });
    expect(await get("/v1/default/Lot?params=5")).toMatchObject({ status: 400, body: { code: "bad_request" } });
    expect(await get("/v1/default/Lott")).toMatchObject({ status: 404, body: { code: "class_not_found" } });
    expect(await get("/v1/default/Lot", "all", "DELETE")).toMatchObject({ status: 405 });
    expect(await get("/v1/system/Directory")).toMatchObject({ status: 404 });
  });

  it("needs the right to query, for the class, and for all of its keys", async () => {
    expect((await get("/v1/default/Lot", "lots")).status).toBe(200);
    for (const [path, id] of [
      ["/v1/default/Other", "lots"],
      ["/v1/default/Lot", "keys"],
      ["/v1/default/Lot", "calls"],
      ["/v1/admin/directory/default/Lot", "lots"],
    ] as const) {
      expect((await get(path, id)).status).toBe(403);
    }
    const client = connect(url.replace("http", "ws"), { token: tokenOf("calls") });
    await expect(client.find("Lot")).rejects.toMatchObject({ code: "forbidden" });
    await client.close();
  });
});
