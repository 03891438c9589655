import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { readPage } from "../metrics/page-reader.js";
import { type ServeOptions, serveNode } from "../support/event-streams.js";
import { ask } from "./door.js";

const TILL = `
  local Till = class "Till"
  function Till:put(n) state.store.set("n", n) end
  return Till
`;

const token = (name: string): string => `mp_${name}-0123456789abcdef`;
const as = (name: string) => ({ authorization: `Bearer ${token(name)}` });
const FILE = {
  tokens: [
    { id: "ada", token: token("ada"), allow: [{ rights: ["read", "call", "subscribe"] }] },
    { id: "prometheus", token: token("prometheus"), allow: [{ rights: ["admin"] }] },
  ],
};

const serve = (more: Partial<ServeOptions> = {}) => serveNode({ classes: { Till: TILL }, ...more });

describe("GET /metrics", () => {
  it("shows on an open node what its calls and its doors do", async () => {
    const { port } = await serve();
    expect((await ask(port, "POST", "/v1/default/Till/a/put", "[1]")).status).toBe(200);
    const reply = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(reply.headers.get("cache-control")).toBe("no-store");
    const families = readPage(await reply.text());
    expect(families.get("moonport_calls_total")?.samples).toEqual([
      {
        name: "moonport_calls_total",
        labels: { app: "default", class: "Till", method: "put", outcome: "ok" },
        value: 1,
      },
    ]);
    expect(families.get("moonport_http_connections")?.samples[0]?.value).toBeGreaterThanOrEqual(1);
    expect(families.get("process_cpu_seconds_total")?.type).toBe("counter");
  });

  it("shows it to operators alone where tokens are asked for", async () => {
    const auth = new StaticTokens(JSON.stringify(FILE), "auth.json", new Uint8Array(32));
    const { port } = await serve({ auth });
    expect((await ask(port, "GET", "/metrics")).status).toBe(401);
    const refused = await ask(port, "GET", "/metrics", undefined, as("ada"));
    expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
    const reply = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: as("prometheus") });
    expect(readPage(await reply.text()).has("moonport_residents")).toBe(true);
  });

  it("takes no other method and no parameters", async () => {
    const { port } = await serve();
    expect((await ask(port, "POST", "/metrics")).headers.allow).toBe("GET");
    expect((await ask(port, "GET", "/metrics?x=1")).json.code).toBe("bad_option");
    expect((await ask(port, "GET", "/metrics/x")).json.code).toBe("route_not_found");
  });

  it("asks nothing of the bucket", async () => {
    const { port, bucket } = await serve({ settings: { HEALTH_INTERVAL_MS: 0 } });
    // A node that has just started asks for this and that by itself, and then rests: what the page asked for would be there each time.
    const asked = async () => {
      const before = bucket.counts();
      await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return isDeepStrictEqual(bucket.counts(), before) ? "nothing" : bucket.counts();
    };
    await expect.poll(asked).toBe("nothing");
  });
});
