/** A door that is used as it should not be goes on serving others, and keeps nothing of what it refused. */
import { IncomingMessage } from "node:http";
import { connect, Socket } from "node:net";
import { queryObjects } from "node:v8";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { ERROR_CODES, type ErrorCode } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import { ask, type OpenDoor, openDoor, rawExchange } from "./door.js";

const call = "/v1/default/Echo/key/say";
const head = `POST ${call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
const close = "Connection: close\r\n";

let open: OpenDoor;
beforeEach(async () => {
  open = await openDoor({
    HTTP_BODY_BYTES_MAX: 4_096,
    HTTP_HEADER_BYTES_MAX: 2_048,
    HTTP_HEADER_MS: 200,
    HTTP_REQUEST_MS: 400,
  });
});
afterEach(() => open.door.stop());

async function stillServes(): Promise<void> {
  const reply = await ask(open.port, "POST", call, '["still there"]');
  expect([reply.status, reply.text]).toEqual([200, '["still there"]']);
}

function body(bytes: Buffer | string): Buffer {
  const length = Buffer.byteLength(bytes);
  return Buffer.concat([Buffer.from(`${head}${close}Content-Length: ${length}\r\n\r\n`), Buffer.from(bytes)]);
}

function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
}

function codeOf(answer: string): string | undefined {
  return /"code":"([a-z_]+)"/.exec(answer)?.[1];
}

describe("a door refuses", () => {
  afterEach(async () => {
    expect(open.node.calls).toEqual([]);
    await stillServes();
  });

  it.each([
    ["a body over the limit", body(`["${"x".repeat(5_000)}"]`), 413, "too_large"],
    [
      "a chunked body over the limit",
      `${head}${close}Transfer-Encoding: chunked\r\n\r\n2000\r\n${"x".repeat(0x2000)}\r\n0\r\n\r\n`,
      413,
      "too_large",
    ],
    [
      "chunks that are none",
      `${head}${close}Transfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n`,
      400,
      "bad_request",
    ],
    [
      "a chunk longer than it says",
      `${head}${close}Transfer-Encoding: chunked\r\n\r\n1\r\n[]\r\n0\r\n\r\n`,
      400,
      "bad_request",
    ],
    ["two lengths", `${head}${close}Content-Length: 2\r\nContent-Length: 3\r\n\r\n[]`, 400, "bad_request"],
    [
      "a length and chunks",
      `${head}${close}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
      "bad_request",
    ],
    ["a negative length", `${head}${close}Content-Length: -1\r\n\r\n`, 400, "bad_request"],
    ["a length beyond all bounds", `${head}${close}Content-Length: 99999999999999999999\r\n\r\n[]`, 400, "bad_request"],
    ["a header without a colon", `${head}${close}nonsense\r\n\r\n`, 400, "bad_request"],
    ["another protocol", "\u0016\u0003\u0001\u0002\u0000", 400, "bad_request"],
    ["text that is not UTF-8", body(Buffer.from([0x5b, 0x22, 0xc3, 0x28, 0x22, 0x5d])), 400, "bad_json"],
    ["half a surrogate in UTF-8", body(Buffer.from([0x5b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x5d])), 400, "bad_json"],
    ["brackets without end", body("[".repeat(4_000)), 400, "bad_json"],
    ["brackets beyond the depth", body(`${"[".repeat(2_000)}${"]".repeat(2_000)}`), 400, "too_deep"],
    ["tables beyond the depth", body(`${'{"a":'.repeat(600)}1${"}".repeat(600)}`), 400, "too_deep"],
    ["half of it", body('["ada", 2'), 400, "bad_json"],
    ["a number that is none", body("[1e999]"), 400, "bad_value"],
    ["another type", body("null"), 400, "bad_request"],
  ] as const)("%s", async (_what, bytes, status, code) => {
    const answer = await rawExchange(open.port, bytes);
    expect([statusOf(answer), codeOf(answer)]).toEqual([status, code]);
  });
});

describe("a door takes", () => {
  it("__proto__ and its like for the names they are", async () => {
    const text = '[{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}]';
    const reply = await ask(open.port, "POST", call, text);
    expect(reply.text).toBe(text);
    const [argument] = open.node.calls[0]?.args ?? [];
    expect(Object.keys(argument as object)).toEqual(["__proto__", "constructor"]);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  it("requests in a row without waiting, and answers them in order, errors among them", async () => {
    const one = (text: string): string => `${head}Content-Length: ${text.length}\r\n\r\n${text}`;
    const last = `${head}${close}Content-Length: 3\r\n\r\n[4]`;
    const answer = await rawExchange(open.port, one("[1]") + one("[2") + one("[3]") + last);
    expect([...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1])).toEqual(["200", "400", "200", "200"]);
    expect(answer.indexOf("[1]")).toBeLessThan(answer.indexOf("bad_json"));
    expect(answer.indexOf("bad_json")).toBeLessThan(answer.indexOf("[3]"));
  });
});

describe("whatever is done to a door", () => {
  const pieces = fc.oneof(
    fc.constantFrom(
      head,
      `${head}Content-Length: 2\r\n\r\n[]`,
      `${head}Content-Length: 20\r\n\r\n[`,
      `${head}Transfer-Encoding: chunked\r\n\r\n`,
      "5\r\n[1,2]\r\n",
      "0\r\n\r\n",
      "fffffffffffffffff\r\n",
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
      `${head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`,
      `${head}Expect: miracles\r\n\r\n`,
      "GET / HTTP/1.0\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\r\n\r\n",
      "\u0000\u0000",
    ),
    fc.string({ maxLength: 30 }),
  );

  it("is answered with coded errors or not at all, and others are served", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 5 }), fc.boolean(), async (parts, isCut) => {
        const text = parts.join("");
        // Cut off in the middle, or left open until the door has had enough.
        const answer = isCut
          ? await cutOff(text)
          : await rawExchange(open.port, `${text}${text === "" ? "x" : ""}`, isOver);
        for (const [, code] of answer.matchAll(/"code":"([a-z_]+)"/g)) {
          expect(["refuse", "retry"]).toContain(ERROR_CODES[code as ErrorCode].group);
        }
      }),
      { numRuns: 100 },
    );
    await stillServes();
  });

  it("it keeps nothing of it", async () => {
    const rounds = 40;
    const abuse = async (): Promise<void> => {
      open.node.answer = () => new Promise<CallReply>(() => {});
      await Promise.all([
        cutOff(`${head}Content-Length: 2\r\n\r\n[]`),
        cutOff(`${head}Content-Length: 2000\r\n\r\n[${"1,".repeat(100)}`),
        cutOff(head),
        cutOff(""),
      ]);
      open.node.answer = ({ args }) => ({ value: [...args] });
      await rawExchange(open.port, body(`["${"x".repeat(5_000)}"]`));
      await rawExchange(open.port, body("[".repeat(4_000)));
      await rawExchange(open.port, "nonsense\r\n\r\n");
      await ask(open.port, "POST", "/v1/default/Echo/key/say?x=1", "[]");
      open.node.calls.length = 0;
    };
    const kept = async (): Promise<number> => {
      await expect.poll(() => open.door.connections).toBe(0);
      const counts = [IncomingMessage, Socket, AbortController].map((type) => queryObjects(type, { format: "count" }));
      return counts.reduce((sum, count) => sum + Number(count), 0);
    };
    await abuse();
    const before = await kept();
    for (let round = 0; round < rounds; round++) await abuse();
    // Ten connections a round: had it kept one object of each, there would be hundreds more.
    expect((await kept()) - before).toBeLessThan(rounds);
    await stillServes();
  });

  it("a hundred slow callers keep nobody else waiting", async () => {
    const slow = Array.from({ length: 100 }, () => rawExchange(open.port, `${head}Content-Length: 50\r\n\r\n[`));
    await expect.poll(() => open.door.connections).toBe(100);
    await stillServes();
    for (const answer of await Promise.all(slow)) expect(codeOf(answer)).toBe("request_timeout");
  });

  it("a thousand guesses at a token find none and leave nothing", async () => {
    const file = '{"tokens":[{"id":"ada","token":"mp_ada-0123456789abcdef","allow":[{"rights":["call"]}]}]}';
    const guarded = await openDoor({}, { auth: new StaticTokens(file, "auth.json", new Uint8Array(32)) });
    const guess = (n: number): string =>
      `${head}Authorization: Bearer mp_ada-${n}${n === 999 ? `\r\n${close.trim()}` : ""}\r\nContent-Length: 2\r\n\r\n[]`;
    const answer = await rawExchange(guarded.port, Array.from({ length: 1_000 }, (_, n) => guess(n)).join(""));
    expect([...answer.matchAll(/HTTP\/1\.1 401 /g)].length).toBe(1_000);
    expect(guarded.node.calls).toEqual([]);
    await guarded.door.stop();
  });
});

/** Sends and hangs up without waiting for an answer. */
function cutOff(text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(open.port, "127.0.0.1", () => {
      if (text === "") socket.destroy();
      else socket.write(text, () => socket.destroy());
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(""));
  });
}

/** An answer that leaves the connection open would be waited for in vain. */
function isOver(answer: string): boolean {
  return /^HTTP\/1\.1 \d/m.test(answer);
}
