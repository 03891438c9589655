import type http from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openAuthenticator } from "../../src/auth/open-auth.js";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { tokenDigest } from "../../src/auth/token-file.js";
import { MoonportError } from "../../src/errors.js";
import { HttpDoor } from "../../src/server/http-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { FakeNode } from "../support/fake-node.js";
import { ask, type OpenDoor, openDoor, rawExchange, world } from "./door.js";

const token = (name: string): string => `mp_${name}-0123456789abcdef`;
const as = (name: string): http.OutgoingHttpHeaders => ({ authorization: `Bearer ${token(name)}` });

const FILE = {
  tokens: [
    { id: "ada", token: token("ada"), claims: { role: "bidder" }, allow: [{ keys: ["lot-*"], rights: ["call"] }] },
    { id: "reader", token: token("reader"), allow: [{ rights: ["read"] }] },
    { id: "operator", sha256: tokenDigest(token("operator")).toString("hex"), allow: [{ rights: ["admin"] }] },
  ],
};

const tokens = (file: object = FILE): StaticTokens =>
  new StaticTokens(JSON.stringify(file), "auth.json", new Uint8Array(32));

let open: OpenDoor;
const call = "/v1/default/Echo/lot-1/say";
const head = `POST ${call} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n`;

beforeEach(async () => {
  open = await openDoor({ HTTP_BODY_BYTES_MAX: 10_000 }, { auth: tokens() });
});
afterEach(() => open.door.stop());

describe("a door with tokens", () => {
  it("asks for one", async () => {
    const reply = await ask(open.port, "POST", call, "[]");
    expect([reply.status, reply.json.code]).toEqual([401, "unauthenticated"]);
    expect(reply.headers["www-authenticate"]).toBe('Bearer realm="moonport"');
    expect(open.node.calls).toEqual([]);
  });

  it.each([
    "Bearer mp_nobody-0123456789abcdef",
    "Bearer",
    "Bearer a b",
    "Basic YWRhOmFkYQ==",
    token("ada"),
    "Bearer  ",
  ])("refuses %s", async (authorization) => {
    const reply = await ask(open.port, "POST", call, "[]", { authorization });
    expect([reply.status, reply.json.code]).toEqual([401, "unauthenticated"]);
    expect(reply.headers["www-authenticate"]).toBe('Bearer realm="moonport", error="invalid_token"');
    expect(reply.text).not.toContain("mp_nobody");
    expect(open.node.calls).toEqual([]);
  });

  it("tells the object who calls", async () => {
    expect((await ask(open.port, "POST", call, "[]", as("ada"))).status).toBe(200);
    expect(open.node.calls[0]).toMatchObject({
      caller: { kind: "client", id: "ada", claims: { role: "bidder" } },
      mustRead: false,
    });
  });

  it("takes the scheme in any case", async () => {
    const authorization = `bearer ${token("ada")}`;
    expect((await ask(open.port, "POST", call, "[]", { authorization })).status).toBe(200);
  });

  it("refuses what the token does not allow, naming it and not the token", async () => {
    const reply = await ask(open.port, "POST", "/v1/default/Echo/house-1/say", "[]", as("ada"));
    expect([reply.status, reply.json.code]).toEqual([403, "forbidden"]);
    expect(reply.json.detail).toBe("the token of ada does not allow: call default/Echo/house-1 say");
    expect(reply.headers["www-authenticate"]).toBeUndefined();
    expect(reply.text).not.toContain(token("ada"));
    expect(open.node.calls).toEqual([]);
  });

  it("refuses before it reads the body", async () => {
    const answer = await firstAnswer(open.port, `${head}\r\n[`);
    expect(answer).toContain("HTTP/1.1 401 Unauthorized");
  });

  it("asks for a body that waits to be asked for only when the head is let in", async () => {
    const asking = `${head}Expect: 100-continue\r\nConnection: close\r\n`;
    const refused = await rawExchange(open.port, `${asking}\r\n`);
    expect(refused).toMatch(/^HTTP\/1\.1 401 /);
    const admitted = await firstAnswer(open.port, `${asking}Authorization: Bearer ${token("ada")}\r\n\r\n`);
    expect(admitted).toBe("HTTP/1.1 100 Continue\r\n\r\n");
  });

  it("says whether it is well to anybody", async () => {
    expect((await ask(open.port, "GET", "/healthz")).status).toBe(200);
    expect((await ask(open.port, "GET", "/readyz")).status).toBe(200);
    expect((await ask(open.port, "GET", "/nowhere")).status).toBe(404);
  });

  it("does not ask by which name it was called", async () => {
    expect((await ask(open.port, "POST", call, "[]", { ...as("ada"), host: "moonport.example" })).status).toBe(200);
  });

  it("takes over new tokens with the next request", async () => {
    const auth = tokens();
    const changing = await openDoor({}, { auth });
    expect((await ask(changing.port, "POST", call, "[]", as("ada"))).status).toBe(200);
    auth.replace(JSON.stringify({ tokens: FILE.tokens.slice(1) }), "auth.json");
    expect((await ask(changing.port, "POST", call, "[]", as("ada"))).status).toBe(401);
    await changing.door.stop();
  });
});

const BODIES: Readonly<Record<string, string>> = {
  sql: '{"statement":"select 1"}',
  quarantine: '{"method":"say"}',
  releases: '{"files":[],"by":"ada"}',
  rollback: '{"by":"ada"}',
};

describe("each route asks for its right", () => {
  const object = "default/Echo/lot-1";
  const routes = [
    ["POST", call, ["ada", "reader"]],
    ["GET", call, ["ada", "reader"]],
    ["GET", `/v1/admin/store/${object}?key=k`, ["reader", "operator"]],
    ["GET", `/v1/admin/store/${object}?prefix=k`, ["reader", "operator"]],
    ["GET", `/v1/admin/inspect/${object}`, ["operator"]],
    ["POST", `/v1/admin/sql/${object}`, ["operator"]],
    ["POST", `/v1/admin/destroy/${object}`, ["operator"]],
    ["GET", "/v1/admin/status", ["operator"]],
    ["GET", "/v1/admin/classes", ["operator"]],
    ["GET", "/v1/admin/quarantine", ["operator"]],
    ["GET", "/v1/admin/releases/default", ["operator"]],
    ["POST", "/v1/admin/releases/default", ["operator"]],
    ["POST", "/v1/admin/rollback/default", ["operator"]],
    ["POST", `/v1/admin/quarantine/${object}`, ["operator"]],
  ] as const;

  it.each(routes)("%s %s", async (method, path, allowed) => {
    const body = method === "POST" ? BODIES[path.split("/")[3] ?? ""] : undefined;
    for (const name of ["ada", "reader", "operator"]) {
      const { status } = await ask(open.port, method, path, body, as(name));
      expect([name, status]).toEqual([name, allowed.some((one) => one === name) ? 200 : 403]);
    }
    expect((await ask(open.port, method, path, body)).status).toBe(401);
  });

  it("a token that may only read runs reading methods by POST, and no other", async () => {
    await ask(open.port, "POST", call, "[]", as("reader"));
    expect(open.node.calls[0]?.mustRead).toBe(true);
    open.node.answer = () => Promise.reject(MoonportError.of("not_a_reading_method", "say writes"));
    const reply = await ask(open.port, "POST", call, "[]", as("reader"));
    expect([reply.status, reply.json.code]).toEqual([403, "forbidden"]);
    open.node.answer = () => Promise.reject(MoonportError.byClass("not_a_reading_method", "read it yourself"));
    const thrown = await ask(open.port, "POST", call, "[]", as("reader"));
    expect([thrown.status, thrown.json.code]).toEqual([422, "not_a_reading_method"]);
  });

  it("what is open to everybody needs no token, and a wrong one does not help", async () => {
    const anonymous = { allow: [{ classes: ["Echo"], rights: ["read"] }] };
    const half = await openDoor({}, { auth: tokens({ ...FILE, anonymous }) });
    expect((await ask(half.port, "GET", call)).status).toBe(200);
    expect(half.node.calls[0]?.caller).toEqual({ kind: "client" });
    expect((await ask(half.port, "GET", "/v1/admin/status")).status).toBe(401);
    expect((await ask(half.port, "GET", call, undefined, as("nobody"))).status).toBe(401);
    await half.door.stop();
  });
});

describe("an address that other machines reach", () => {
  // RFC 5737: no machine has this address, so nothing is opened by asking for it.
  const doorAt = (auth: StaticTokens | typeof openAuthenticator): HttpDoor =>
    new HttpDoor({ node: new FakeNode(), settings: resolveSettings(), world, host: "203.0.113.7", port: 0, auth });

  it("is refused without auth and tried with it", async () => {
    await expect(doorAt(openAuthenticator).start()).rejects.toMatchObject({ code: "insecure_bind" });
    await expect(doorAt(tokens()).start()).rejects.toMatchObject({
      code: "bad_option",
      message: "cannot listen on 203.0.113.7:0 (EADDRNOTAVAIL)",
    });
  });
});

describe("pages of other origins", () => {
  const page = "https://app.example";
  const preflight = { "access-control-request-method": "POST", "access-control-request-headers": "authorization" };
  let listing: OpenDoor;
  beforeEach(async () => {
    listing = await openDoor({}, { auth: tokens(), allowOrigins: [page, "http://localhost:5173"] });
  });
  afterEach(() => listing.door.stop());

  it("are refused unless they are listed, with a token too", async () => {
    for (const origin of ["https://evil.example", "http://app.example", "https://app.example:444", "null", ""]) {
      const reply = await ask(listing.port, "POST", call, "[]", { ...as("ada"), origin });
      expect([origin, reply.status, reply.json.code]).toEqual([origin, 403, "origin_refused"]);
      expect(reply.headers["access-control-allow-origin"]).toBeUndefined();
    }
    expect(listing.node.calls).toEqual([]);
  });

  it("of this machine are pages like others once there are tokens", async () => {
    const reply = await ask(open.port, "POST", call, "[]", { ...as("ada"), origin: "http://localhost:5173" });
    expect(reply.json.code).toBe("origin_refused");
  });

  it("may read answers and errors when they are listed", async () => {
    for (const headers of [as("ada"), as("nobody")]) {
      const reply = await ask(listing.port, "POST", call, "[]", { ...headers, origin: page });
      expect(reply.headers["access-control-allow-origin"]).toBe(page);
      expect(reply.headers["access-control-expose-headers"]).toBe("*");
      expect(reply.headers.vary).toBe("Origin");
    }
    expect(listing.node.calls.length).toBe(1);
    expect((await ask(listing.port, "POST", call, "[]", as("ada"))).headers["access-control-allow-origin"]).toBe(
      undefined,
    );
  });

  it("are told beforehand what they may send, when they are listed", async () => {
    const allowed = await ask(listing.port, "OPTIONS", call, undefined, { origin: page, ...preflight });
    expect([allowed.status, allowed.text]).toEqual([204, ""]);
    expect(allowed.headers).toMatchObject({
      "access-control-allow-origin": page,
      "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
      "access-control-allow-headers": "authorization",
      "access-control-max-age": "600",
    });
    const refused = await ask(listing.port, "OPTIONS", call, undefined, {
      origin: "https://evil.example",
      ...preflight,
    });
    expect([refused.status, refused.headers["access-control-allow-methods"]]).toEqual([403, undefined]);
    expect((await ask(listing.port, "OPTIONS", call, undefined, preflight)).status).toBe(405);
    expect(listing.node.calls).toEqual([]);
  });

  it("without tokens get nothing to read unless they are listed", async () => {
    const local = await openDoor({}, { allowOrigins: ["http://localhost:5173"] });
    const listed = await ask(local.port, "POST", call, "[]", { origin: "http://localhost:5173" });
    expect(listed.headers["access-control-allow-origin"]).toBe("http://localhost:5173");
    const other = await ask(local.port, "POST", call, "[]", { origin: "http://localhost:8080" });
    expect([other.status, other.headers["access-control-allow-origin"]]).toEqual([200, undefined]);
    await local.door.stop();
  });

  it.each(["app.example", "https://app.example/page", "ftp:", "null", "", "https://*.example"])(
    "%j is no origin to list, or is one that no browser sends",
    (origin) => {
      const listOne = (): HttpDoor =>
        new HttpDoor({
          node: new FakeNode(),
          settings: resolveSettings(),
          world,
          host: "127.0.0.1",
          port: 0,
          allowOrigins: [origin],
        });
      expect(listOne).toThrow(expect.objectContaining({ code: "bad_option" }));
    },
  );

  it("may all be let in with tokens, and not without", async () => {
    const any = await openDoor({}, { auth: tokens(), allowOrigins: ["*"] });
    const reply = await ask(any.port, "POST", call, "[]", { ...as("ada"), origin: "https://whoever.example" });
    expect([reply.status, reply.headers["access-control-allow-origin"]]).toEqual([200, "https://whoever.example"]);
    await any.door.stop();
    await expect(openDoor({}, { allowOrigins: ["*"] })).rejects.toMatchObject({ code: "bad_option" });
  });
});

/** What comes back before the rest of the request is sent. */
async function firstAnswer(port: number, bytes: string): Promise<string> {
  return await rawExchange(port, bytes, (answer) => answer.includes("\r\n\r\n"));
}
