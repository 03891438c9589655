/** Which requests of browsers are let in, over all that they may say of where they come from. */
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { Origins } from "../../src/server/origins.js";
import { ask, openDoor, rawExchange } from "./door.js";
import { openSockets } from "./sockets.js";

const LISTED = "https://app.example";
const method = fc.constantFrom("GET", "HEAD", "POST", "DELETE");
const site = fc.constantFrom(undefined, "none", "same-origin", "same-site", "cross-site");
const mode = fc.constantFrom(undefined, "navigate", "no-cors", "cors", "websocket");
const dest = fc.constantFrom(undefined, "document", "iframe", "image", "empty", "object");

function letsIn(origins: Origins, verb: string, headers: Record<string, string | undefined>): boolean {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined);
  try {
    origins.check(verb, { host: "127.0.0.1:7070", ...Object.fromEntries(given) });
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: "origin_refused" });
    return false;
  }
}

it("without an Origin, another site is let in by no request but a visit, and by none where there is no auth", () => {
  fc.assert(
    fc.property(fc.boolean(), method, site, mode, dest, (isOpen, verb, from, how, what) => {
      const origins = new Origins(isOpen, [LISTED]);
      const headers = { "sec-fetch-site": from, "sec-fetch-mode": how, "sec-fetch-dest": what };
      const isForeign = from === "cross-site" || (from === "same-site" && !isOpen);
      const isVisit = ["GET", "HEAD"].includes(verb) && how === "navigate" && what === "document";
      expect(letsIn(origins, verb, headers)).toBe(!isForeign || (!isOpen && isVisit));
    }),
  );
});

it("an Origin that is allowed is let in from wherever it says, and one that is not from nowhere", () => {
  fc.assert(
    fc.property(fc.boolean(), method, site, mode, dest, (isOpen, verb, from, how, what) => {
      const headers = { "sec-fetch-site": from, "sec-fetch-mode": how, "sec-fetch-dest": what };
      const origins = new Origins(isOpen, [LISTED]);
      expect(letsIn(origins, verb, { ...headers, origin: LISTED })).toBe(true);
      expect(letsIn(origins, verb, { ...headers, origin: "https://evil.example" })).toBe(false);
      expect(letsIn(origins, verb, { ...headers, origin: "http://localhost:5173" })).toBe(isOpen);
      expect(letsIn(new Origins(false, ["*"]), verb, headers)).toBe(true);
    }),
  );
});

const IMAGE = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" };

it("an image on a foreign page runs no unit, reads nothing and opens no stream or socket", async () => {
  const open = await openSockets();
  onTestFinished(() => open.stop());
  for (const path of [
    "/v1/default/units/pay?to=x",
    "/v1/default/Echo/a/say",
    "/v1/default/Echo/a/-/events",
    "/metrics",
  ]) {
    const { status, json } = await ask(open.port, "GET", path, undefined, IMAGE);
    expect([path, status, json.code]).toEqual([path, 403, "origin_refused"]);
  }
  const upgrade = "GET /v1/socket HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
  const isWhole = (answer: string): boolean => answer.includes("origin_refused");
  const refused = await rawExchange(open.port, `${upgrade}Sec-Fetch-Site: cross-site\r\n\r\n`, isWhole);
  expect(refused).toContain("origin_refused");
  expect(open.node.calls).toEqual([]);
  expect((await ask(open.port, "GET", "/healthz", undefined, { "sec-fetch-site": "none" })).status).toBe(200);
});

it("with auth a link is followed as by anybody, with the rights of anybody", async () => {
  const file = JSON.stringify({
    tokens: [{ id: "ada", token: "mp_ada-0123456789abcdef", allow: [{ rights: ["call"] }] }],
    anonymous: { allow: [{ rights: ["read"], methods: ["page"] }] },
  });
  const open = await openDoor({}, { auth: new StaticTokens(file, "auth.json", new Uint8Array(32)) });
  onTestFinished(() => open.door.stop());
  const visit = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
  const statusOf = async (path: string, headers: Record<string, string>): Promise<number> =>
    (await ask(open.port, "GET", path, undefined, headers)).status;
  expect(await statusOf("/v1/default/Echo/a/page", visit)).toBe(200);
  expect(await statusOf("/v1/default/Echo/a/other", visit)).toBe(401);
  expect(await statusOf("/v1/default/Echo/a/page", IMAGE)).toBe(403);
});
