import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ERROR_CODES, MoonportError } from "../../src/errors.js";
import { requestLineOf } from "../../src/server/request-line.js";
import { routeOf } from "../../src/server/routes.js";
import { ask, type OpenDoor, openDoor, rawExchange } from "./door.js";

let open: OpenDoor;
beforeAll(async () => {
  open = await openDoor({ HTTP_BODY_BYTES_MAX: 1_024 });
});
afterAll(() => open.door.stop());

const pathPieces = fc.constantFrom(
  "/",
  "v1",
  "default",
  "Echo",
  "k",
  "say",
  "admin",
  "units",
  "echo",
  "sql",
  "?",
  "&",
  "=",
  "%2F",
  "%",
  "%C3",
  "-",
  "args",
  ".",
  ";",
  "#",
  "//",
);

describe("whatever comes in", () => {
  it("as a request line names a route or gets a coded error", () => {
    fc.assert(
      fc.property(fc.constantFrom("GET", "POST", "PUT"), fc.array(pathPieces, { maxLength: 14 }), (method, pieces) => {
        try {
          expect(routeOf(requestLineOf(method, `/${pieces.join("")}`)).kind).toBeTypeOf("string");
        } catch (error) {
          expect(error).toBeInstanceOf(MoonportError);
          expect((error as MoonportError).entry.group).toBe("refuse");
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("as a path or a body is answered with a reply or a problem, and is no fault of ours", async () => {
    const path = fc.array(pathPieces, { maxLength: 12 }).map((pieces) => `/${pieces.join("")}`);
    const unit = path.map((below) => `/v1/default/units/echo${below}`);
    const target = fc.oneof(fc.constant("/v1/default/Echo/k/say"), unit, path);
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.json().map((text) => Buffer.from(text)),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom("GET", "POST", "DELETE"), target, body, async (method, url, bytes) => {
        const reply = await ask(open.port, method, url, bytes);
        if (reply.status === 200) return;
        const code = reply.json.code as keyof typeof ERROR_CODES;
        expect(ERROR_CODES[code]).toMatchObject({ group: "refuse", status: reply.status });
      }),
      { numRuns: 200 },
    );
  });

  it("as bytes leaves the door open for the next", async () => {
    const noise = fc.oneof(
      fc.string(),
      fc.constantFrom("POST / HTTP/1.1\r\nContent-Length: -1", "GET / HTTP/9.9", "\r\n"),
    );
    await fc.assert(
      fc.asyncProperty(noise, async (text) => {
        await rawExchange(open.port, `${text}\r\nConnection: close\r\n\r\n`);
      }),
      { numRuns: 30 },
    );
    expect((await ask(open.port, "GET", "/healthz")).status).toBe(200);
  });
});
