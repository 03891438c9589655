import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Authenticator } from "../../src/auth/contract.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { MoonportError } from "../../src/errors.js";
import type { UnitRequest } from "../../src/node-api.js";
import { type OpenDoor, openDoor, world } from "./door.js";

let open: OpenDoor;
beforeEach(async () => {
  open = await openDoor({ HTTP_BODY_BYTES_MAX: 4_096 });
});
afterEach(() => open.door.stop());

const post = (
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Response> => fetch(`${open.url}${path}`, { method: "POST", body, headers });

const heard = (): Partial<UnitRequest> => open.node.unitRequests.at(-1) ?? {};

describe("a request to a unit", () => {
  it("is what the unit is told: method, path below its name, query, headers, body", async () => {
    const headers = {
      "content-type": "application/json",
      authorization: "Bearer secret",
      "x-note": "hello",
      "idempotency-key": "k-1",
      "x-request-timeout-ms": "500",
    };
    const response = await post("/v1/shop/units/checkout/a%2Fb/c?q=1&tag=x&tag=y", '{"lot":"ä"}', headers);
    expect(response.status).toBe(200);
    expect(response.headers.get("moonport-unit")).toBe("checkout");
    expect(heard()).toMatchObject({
      app: "shop",
      unit: "checkout",
      method: "POST",
      path: "/a/b/c",
      query: { q: "1", tag: ["x", "y"] },
      body: { lot: "ä" },
      caller: { kind: "client" },
      callId: "k-1",
      timeoutMs: 500,
    });
    expect(heard().headers).toMatchObject({ "x-note": "hello", "content-type": "application/json" });
    expect(heard().headers).not.toHaveProperty("authorization");
  });

  it("may be of five methods, of an app of any name", async () => {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
      expect((await fetch(`${open.url}/v1/admin/units/echo`, { method })).status).toBe(200);
      expect(heard()).toMatchObject({ app: "admin", method, path: "/" });
      expect(heard()).not.toHaveProperty("body");
    }
    const refused = await fetch(`${open.url}/v1/default/units/echo`, { method: "OPTIONS" });
    expect(refused.status).not.toBe(200);
    for (const [path, code] of [
      ["/v1/default/units/", "bad_name"],
      ["/v1/default/units/No", "bad_name"],
      ["/v1/Default/units/echo", "bad_name"],
      ["/v1/default/units", "route_not_found"],
    ]) {
      expect(await (await fetch(`${open.url}${path}`)).json()).toMatchObject({ code });
    }
  });

  it("has a body that is JSON, text or bytes by its type", async () => {
    const body = async (content: string | Uint8Array<ArrayBuffer>, type: string): Promise<unknown> => {
      await post("/v1/default/units/echo", content, { "content-type": type });
      return heard().body;
    };
    expect(await body("[1]", "application/merge-patch+json; charset=utf-8")).toEqual([1]);
    expect(await body("a=1&b=2", "application/x-www-form-urlencoded")).toBe("a=1&b=2");
    expect(await body("<p>ü</p>", "text/html")).toBe("<p>ü</p>");
    const bytes = new Uint8Array([1, 255]);
    expect(await body(bytes, "image/png")).toEqual(bytes);
    expect(await body(bytes, "text/plain")).toEqual(bytes);
  });

  it("is refused before the unit hears of it when it is broken or too large", async () => {
    const code = async (content: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>): Promise<unknown> =>
      ((await (await post("/v1/default/units/echo", content, headers)).json()) as { code: string }).code;
    const json = { "content-type": "application/json" };
    expect(await code("{", json)).toBe("bad_json");
    expect(await code(`${"[".repeat(100)}${"]".repeat(100)}`, json)).toBe("too_deep");
    expect(await code(new Uint8Array([0x22, 0xff, 0x22]), json)).toBe("bad_json");
    expect(await code("x".repeat(5_000), {})).toBe("too_large");
    expect(await code("x", { "content-encoding": "gzip" })).toBe("bad_request");
    expect(await code("x", { "idempotency-key": "a b" })).toBe("bad_request");
    expect(open.node.unitRequests).toEqual([]);
  });

  it("gives keys such as __proto__ to the unit as keys", async () => {
    await post("/v1/default/units/echo?__proto__=1", '{"__proto__":{"a":1}}', { "content-type": "application/json" });
    expect(Object.keys(heard().query ?? {})).toEqual(["__proto__"]);
    expect(Object.keys(heard().body as object)).toEqual(["__proto__"]);
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });

  it("whose caller goes away is told so", async () => {
    let signal: AbortSignal | undefined;
    const aborted = new Promise<void>((resolve) => {
      open.node.unitAnswer = (request) => {
        signal = request.signal;
        signal?.addEventListener("abort", () => resolve());
        return new Promise(() => {});
      };
    });
    const gone = new AbortController();
    const response = fetch(`${open.url}/v1/default/units/echo`, { signal: gone.signal }).catch(() => {});
    while (signal === undefined) await new Promise((resolve) => setImmediate(resolve));
    gone.abort();
    await aborted;
    await response;
  });

  it("needs the right to run units, where there is auth", async () => {
    const asked: unknown[] = [];
    const auth: Authenticator = {
      ...(await import("../../src/auth/open-auth.js")).openAuthenticator,
      authenticate: () => ({
        id: "ada",
        claims: { role: "guest" },
        check(access) {
          asked.push(access);
          if (access.method === "closed") throw MoonportError.of("forbidden", "not this one");
        },
      }),
    };
    const door = await openDoor({}, { auth });
    try {
      expect((await fetch(`${door.url}/v1/shop/units/closed`)).status).toBe(403);
      expect(door.node.unitRequests).toEqual([]);
      expect((await fetch(`${door.url}/v1/shop/units/open/x`)).status).toBe(200);
      expect(door.node.unitRequests[0]?.caller).toEqual({ kind: "client", id: "ada", claims: { role: "guest" } });
      expect(asked).toContainEqual({ right: "unit", app: "shop", method: "open" });
    } finally {
      await door.door.stop();
    }
  });
});

describe("a unit's response", () => {
  it("leaves with its status, headers and bytes", async () => {
    const body = new Uint8Array([137, 0, 255]);
    open.node.unitAnswer = () => ({ status: 418, headers: { "content-type": "image/png", "x-a": "b" }, body });
    const response = await fetch(`${open.url}/v1/default/units/echo`);
    expect(response.status).toBe(418);
    expect(response.headers.get("content-type")).toBe("image/png");
    expect(response.headers.get("x-a")).toBe("b");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(body);
    open.node.unitAnswer = () => ({ status: 204, headers: {}, body: "" });
    expect(await (await fetch(`${open.url}/v1/default/units/echo`)).text()).toBe("");
  });

  it("is a problem document when the unit failed, with the calls it made", async () => {
    const calls = [{ object: "default/Note/a", method: "add", callId: "1", fate: "unsettled" }];
    open.node.unitAnswer = () =>
      Promise.reject(MoonportError.of("outcome_unknown", "not known to last", { callId: "k", details: { calls } }));
    const response = await fetch(`${open.url}/v1/default/units/echo`);
    expect(response.status).toBe(504);
    expect(response.headers.get("moonport-unit")).toBeNull();
    expect(await response.json()).toMatchObject({ code: "outcome_unknown", callId: "k", details: { calls } });
  });
});

describe("the client of a node", () => {
  const request: UnitRequest = {
    app: "default",
    unit: "echo",
    method: "POST",
    path: "/a b/c",
    query: { q: "ä&b", list: ["1", "2"] },
    headers: { "x-a": "b" },
    body: { n: 1 },
    caller: { kind: "client" },
  };
  const withClient = async <T>(use: (client: HttpNodeClient) => Promise<T>): Promise<T> => {
    const client = new HttpNodeClient({ url: open.url, world });
    try {
      return await use(client);
    } finally {
      client.close();
    }
  };

  it("runs units as the node itself does", async () => {
    open.node.unitAnswer = ({ body }) => ({
      status: 400,
      headers: { "content-type": "application/json", "x-made": "1" },
      body: JSON.stringify(body),
    });
    const response = await withClient((client) => client.runUnit(request));
    expect(response).toMatchObject({ status: 400, headers: { "x-made": "1" }, body: '{"n":1}' });
    expect(heard()).toMatchObject({
      path: "/a b/c",
      query: { q: "ä&b", list: ["1", "2"] },
      headers: { "x-a": "b" },
      callId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    for (const body of ["text", new Uint8Array([0, 255]), [1, "x"], null]) {
      await withClient((client) => client.runUnit({ ...request, body }));
      expect(heard().body).toEqual(body);
    }
    const bytes = new Uint8Array([0, 255]);
    open.node.unitAnswer = () => ({ status: 200, headers: { "content-type": "image/png" }, body: bytes });
    expect((await withClient((client) => client.runUnit(request))).body).toEqual(bytes);
    expect(await withClient((client) => client.units())).toEqual(await open.node.units());
  });

  it("throws what the unit threw", async () => {
    open.node.unitAnswer = () => Promise.reject(MoonportError.byClass("too_low", "bid more", { details: { top: 25 } }));
    await expect(withClient((client) => client.runUnit(request))).rejects.toMatchObject({
      code: "too_low",
      source: "class",
      details: { top: 25 },
    });
  });
});
