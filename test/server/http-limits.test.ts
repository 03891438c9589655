import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply, CallWaiter } from "../../src/node-api.js";
import type { HttpAnswer, HttpHandler, UpgradeHandler } from "../../src/server/http-handler.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { deferred } from "../../src/world/deferred.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ask, type OpenDoor, openDoor, rawExchange, world } from "./door.js";
import { eventually } from "./sockets.js";

const call = "/v1/default/Echo/key/say";
const head = `POST ${call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;

const opened: OpenDoor[] = [];
async function door(...options: Parameters<typeof openDoor>): Promise<OpenDoor> {
  const one = await openDoor(...options);
  opened.push(one);
  return one;
}
afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.door.stop()));
});

describe("a deadline", () => {
  const NOW = Date.UTC(2026, 0, 31, 12, 0, 0);
  const clock = { ...world.clock, wallMs: () => NOW };
  const timeoutOf = async (headers: Record<string, string>): Promise<unknown> => {
    const { node, port } = opened.at(-1) ?? (await door({}, { world: { ...world, clock } }));
    const reply = await ask(port, "POST", call, "[]", headers);
    return reply.status === 200 ? node.calls.at(-1)?.timeoutMs : reply.json.code;
  };

  it("may be a moment, in words or as a number, or a length of time: the shorter counts", async () => {
    expect(await timeoutOf({ "x-request-deadline": "2026-01-31T12:00:02.5Z" })).toBe(2_500);
    expect(await timeoutOf({ "x-request-deadline": "2026-01-31T13:00:02+01:00" })).toBe(2_000);
    expect(await timeoutOf({ "x-request-deadline": String(NOW + 700) })).toBe(700);
    expect(await timeoutOf({ "x-request-deadline": String(NOW + 700), "x-request-timeout-ms": "800" })).toBe(700);
    expect(await timeoutOf({ "x-request-deadline": String(NOW + 900), "x-request-timeout-ms": "800" })).toBe(800);
    expect(await timeoutOf({ "x-request-deadline": "2030-01-01T00:00:00Z" })).toBe(600_000);
    expect(await timeoutOf({})).toBeUndefined();
  });

  it("that has passed lets nothing run", async () => {
    expect(await timeoutOf({ "x-request-deadline": "2026-01-31T12:00:00Z" })).toBe("deadline_exceeded");
    expect(await timeoutOf({ "x-request-deadline": "0" })).toBe("deadline_exceeded");
    expect(opened[0]?.node.calls).toEqual([]);
  });

  it("is a moment and nothing else", async () => {
    for (const text of [
      "",
      "soon",
      "2026-01-31",
      "2026-01-31T12:00:02",
      "-5",
      "1e12",
      "2026-13-31T12:00:00Z",
      "12:00",
    ]) {
      expect([text, await timeoutOf({ "x-request-deadline": text })]).toEqual([text, "bad_request"]);
    }
  });
});

describe("a call whose caller has gone", () => {
  const SPINNER = `local Spinner = class "Spinner"
function Spinner:spin() while true do end end
function Spinner:mark(who) state.store.set(who, true) end
function Spinner.read:marks() return state.store.list("") end
return Spinner`;

  it("is not executed when a long call before it ends", async () => {
    // The spinning method's budget is spent once the test lets the clock leap, so the mailbox is held exactly as long as it takes.
    let isLeaping = false;
    let aheadMs = 0;
    const real = realWorld(temporaryFolder(), silentLogger);
    const monotonicMs = (): number => {
      if (isLeaping) aheadMs = Math.min(aheadMs + 20_000, 400_000);
      return real.clock.monotonicMs() + aheadMs;
    };
    const clock = { wallMs: real.clock.wallMs, monotonicMs };
    const moving: World = { ...real, clock };
    const settings = resolveSettings({
      METHOD_BUDGET_MS: 60_000,
      METHOD_INSTRUCTIONS_MAX: 1e12,
      OBJECT_BURST_CALLS_MAX: 1,
    });
    const classes = [{ app: "default", name: "Spinner", file: "classes/Spinner.lua", text: SPINNER }];
    const node = await MoonportNode.open({
      world: moving,
      bucket: new MemoryBucket(real),
      apps: [{ app: "default", classes, units: [] }],
      settings,
      onClassError: "refuse",
    });
    const callers: CallWaiter[] = [];
    const submitted = [deferred(), deferred(), deferred()];
    const watched = Object.create(node) as MoonportNode;
    watched.call = (request) => {
      if (request.waiter !== undefined) callers.push(request.waiter);
      submitted[callers.length - 1]?.resolve();
      return node.call(request);
    };
    const { port } = await door({}, { node: watched, settings, world: moving });
    const path = "/v1/default/Spinner/a";
    const patient = { "x-request-timeout-ms": "600000" };

    const spinning = ask(port, "POST", `${path}/spin`, "[]", patient);
    await submitted[0]?.promise;
    const lost = connect(port, "127.0.0.1");
    lost.write(`POST ${path}/mark HTTP/1.1\r\nHost: localhost\r\nX-Request-Timeout-Ms: 600000\r\n`);
    lost.write('Content-Type: application/json\r\nContent-Length: 8\r\n\r\n["lost"]');
    await submitted[1]?.promise;
    const kept = ask(port, "POST", `${path}/mark`, '["kept"]', patient);
    await submitted[2]?.promise;
    lost.destroy();
    await eventually(() => callers[1]?.isGone() === true);
    isLeaping = true;
    expect((await spinning).json.code).toBe("budget_exceeded");
    expect((await kept).status).toBe(200);
    expect((await ask(port, "GET", `${path}/marks`)).json).toEqual({ kept: true });
    await opened.pop()?.door.stop();
    await node.stop();
  });
});

describe("bounds on what comes in", () => {
  it("headers over HTTP_HEADER_BYTES_MAX are refused, and so is a URL", async () => {
    const { port } = await door({ HTTP_HEADER_BYTES_MAX: 1_024 });
    for (const bytes of [
      `${head}X-Long: ${"x".repeat(2_000)}\r\n\r\n`,
      `${head}${"X: y\r\n".repeat(500)}\r\n`,
      `GET /${"x".repeat(2_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    ]) {
      const answer = await rawExchange(port, bytes);
      expect(answer).toContain("HTTP/1.1 413 Payload Too Large");
      expect(answer).toContain('"code":"too_large"');
      expect(answer).toContain("larger than 1024 bytes");
    }
    expect((await ask(port, "GET", "/healthz")).status).toBe(200);
  });

  it("no header is dropped for being one of many", async () => {
    const { port } = await door({ HTTP_HEADER_BYTES_MAX: 65_536 });
    const many = "X: y\r\n".repeat(3_000);
    const answer = await rawExchange(port, `${head}${many}Origin: https://evil.example\r\nConnection: close\r\n\r\n`);
    expect(answer).toContain('"code":"origin_refused"');
  });

  it("headers that trickle in are cut off with an answer", async () => {
    const { port } = await door({ HTTP_HEADER_MS: 50 });
    const answer = await rawExchange(port, head);
    expect(answer).toContain("HTTP/1.1 408 Request Timeout");
    expect(answer).toContain('"code":"request_timeout"');
  });

  it("a connection that says nothing is closed, and so is one that says no more", async () => {
    const { port } = await door({ HTTP_HEADER_MS: 50, HTTP_IDLE_MS: 50 });
    await rawExchange(port, "");
    expect(await rawExchange(port, `${head}Content-Length: 2\r\n\r\n[]`)).toContain("HTTP/1.1 200 OK");
  });

  it("a body that trickles in is cut off, and nothing runs", async () => {
    const { port, node } = await door({ HTTP_HEADER_MS: 50, HTTP_REQUEST_MS: 100 });
    const answer = await rawExchange(port, `${head}Content-Length: 10\r\n\r\n["ada`);
    expect(answer).toContain('"code":"request_timeout"');
    expect(node.calls).toEqual([]);
  });

  it("a late second request does not get its refusal taken for the first one's answer", async () => {
    const { port, node } = await door({ HTTP_HEADER_MS: 50, HTTP_REQUEST_MS: 100 });
    node.answer = () => new Promise<CallReply>(() => {});
    expect(await rawExchange(port, `${head}Content-Length: 2\r\n\r\n[]${head}`)).toBe("");
    expect(node.calls.length).toBe(1);
  });
});

describe("connections over HTTP_CONNECTIONS_MAX", () => {
  const opening = (port: number): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket));
    });

  it("are told to come again, and come in when there is room", async () => {
    const { port, node } = await door({ HTTP_CONNECTIONS_MAX: 2 });
    const held = [await opening(port), await opening(port)];
    const refused = await ask(port, "POST", call, "[]");
    expect([refused.status, refused.json.code, refused.headers["retry-after"]]).toEqual([503, "node_full", "1"]);
    expect(refused.headers.connection).toBe("close");
    expect(node.calls).toEqual([]);
    for (const socket of held) socket.destroy();
    await expect.poll(async () => (await ask(port, "POST", call, "[]")).status).toBe(200);
  });
});

describe("a client that never closes its half of a connection", () => {
  const upgrading: UpgradeHandler = { path: "/v1/socket", upgrade: () => {}, stop: async () => {} };
  const upgrade = (path: string, more = ""): string =>
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${more}\r\n`;

  it.each([
    ["an upgrade at no handler's path", upgrade("/v1/nowhere"), "HTTP/1.1 404 Not Found"],
    [
      "an upgrade from a page that may not",
      upgrade("/v1/socket", "Origin: https://evil.example\r\n"),
      "origin_refused",
    ],
    ["no HTTP", "nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request"],
  ])("is let go once it was answered, having sent %s", async (_, bytes, wanted) => {
    const one = await door({ DRAIN_MS: 100 }, { upgrades: [upgrading] });
    const socket = connect({ port: one.port, host: "127.0.0.1", allowHalfOpen: true }, () => socket.write(bytes));
    let answer = "";
    socket.on("data", (part) => {
      answer += part.toString();
    });
    await new Promise((resolve) => socket.once("end", resolve));
    expect(answer).toContain(wanted);
    try {
      await expect.poll(() => one.door.connections).toBe(0);
      await one.door.stop();
    } finally {
      socket.destroy();
    }
  });
});

describe("handlers beside the door's own", () => {
  const streaming: HttpHandler = {
    operation: ({ segments }) =>
      segments[0] !== "stream"
        ? undefined
        : {
            check: undefined,
            answer: async () => ({
              kind: "open",
              take: (response) => {
                response.writeHead(200, { "content-type": "text/event-stream" });
                response.end("data: 1\n\n");
              },
            }),
          },
  };
  const upgrading: UpgradeHandler = {
    path: "/v1/socket",
    upgrade: (_request, socket) => void socket.end("HTTP/1.1 101 Switching Protocols\r\n\r\nhello"),
    stop: async () => {},
  };
  const upgrade = (path: string, more = ""): string =>
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${more}\r\n`;

  it.each<[string, HttpAnswer]>([
    [
      "a header that HTTP does not know",
      { kind: "whole", status: 200, headers: { "x-broken": "two\nlines" }, body: "" },
    ],
    [
      "a fault as they begin to write",
      {
        kind: "open",
        take: () => {
          throw new Error("a fault");
        },
      },
    ],
    [
      "a fault in the middle of writing",
      {
        kind: "open",
        take: (response) => {
          response.writeHead(200);
          response.write("half");
          throw new Error("a fault");
        },
      },
    ],
  ])("that answer with %s lose their own connection at most", async (_, answer) => {
    const broken: HttpHandler = {
      operation: ({ segments }) =>
        segments[0] === "broken" ? { check: undefined, answer: async () => answer } : undefined,
    };
    const { port } = await door({}, { handlers: [broken] });
    const [, right] = await Promise.allSettled([
      ask(port, "GET", "/broken").then(({ status }) => expect(status).toBe(500)),
      ask(port, "POST", call, "[1]"),
    ]);
    expect(right).toMatchObject({ status: "fulfilled", value: { status: 200 } });
    expect((await ask(port, "POST", call, "[2]")).status).toBe(200);
  });

  it("answer at their paths, under the door's standing headers, and the door at all others", async () => {
    const { port } = await door({}, { handlers: [streaming], allowOrigins: ["https://app.example"] });
    const answer = await rawExchange(
      port,
      "GET /stream HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nConnection: close\r\n\r\n",
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(answer.toLowerCase()).toContain("cache-control: no-store");
    expect(answer.toLowerCase()).toContain("access-control-allow-origin: https://app.example");
    expect(answer).toContain("data: 1\n\n");
    expect((await ask(port, "POST", call, "[]")).status).toBe(200);
  });

  it("take over connections at their path, from pages that may", async () => {
    const { port } = await door({}, { upgrades: [upgrading] });
    expect(await rawExchange(port, upgrade("/v1/socket?x=1"))).toContain("hello");
    expect(await rawExchange(port, upgrade("/v1/sockets"))).toContain("HTTP/1.1 404 Not Found");
    expect(await rawExchange(port, upgrade("/v1/socket", "Origin: https://evil.example\r\n"))).toContain(
      '"code":"origin_refused"',
    );
  });

  it("do not keep out a client that would rather speak HTTP/2", async () => {
    const { port, node } = await door({}, { upgrades: [upgrading] });
    const offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    const answer = await rawExchange(port, `${head}${offer}Content-Length: 7\r\n\r\n["ada"]`, (text) =>
      text.endsWith('["ada"]'),
    );
    expect(answer).toContain("HTTP/1.1 200 OK");
    expect(node.calls[0]?.args).toEqual(["ada"]);
  });
});

describe("health", () => {
  it("takes a node whose writes do not land out of service, and lets it live", async () => {
    const { port, node } = await door();
    const well = { status: "ok", session: "session-of-the-fake" };
    expect((await ask(port, "GET", "/healthz")).json).toEqual({ ...well, writesLand: true });
    node.writesLand = false;
    const health = await ask(port, "GET", "/healthz");
    expect([health.status, health.json]).toEqual([200, { ...well, writesLand: false }]);
    const ready = await ask(port, "GET", "/readyz");
    expect([ready.status, ready.json]).toEqual([
      503,
      { ready: false, reason: "writes do not land: none has for 34000 ms" },
    ]);
    node.writesLand = true;
    expect((await ask(port, "GET", "/readyz")).status).toBe(200);
  });
});
