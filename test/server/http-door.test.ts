import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CLASS_ERROR, ERROR_CODES, type ErrorCode, MoonportError } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import { HttpDoor } from "../../src/server/http-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { deferred } from "../../src/world/deferred.js";
import { FakeNode } from "../support/fake-node.js";
import { ask, type OpenDoor, openDoor, rawExchange, world } from "./door.js";

let open: OpenDoor;
const call = "/v1/default/Echo/key/say";

beforeEach(async () => {
  open = await openDoor({ HTTP_BODY_BYTES_MAX: 10_000, VALUE_DEPTH_MAX: 5 });
});
afterEach(() => open.door.stop());

async function codeOf(reply: Promise<{ json: Record<string, unknown> }>): Promise<unknown> {
  return (await reply).json.code;
}

describe("a call over HTTP", () => {
  it("takes an array as the arguments, a table as the only one, and nothing as none", async () => {
    for (const [body, args] of [
      ['["ada", 25]', ["ada", 25]],
      ['{"who":"ada"}', [{ who: "ada" }]],
      [undefined, []],
      ["[]", []],
      ["", []],
    ] as const) {
      const reply = await ask(open.port, "POST", call, body);
      expect(reply.status).toBe(200);
      expect(reply.json).toEqual(args);
    }
  });

  it("answers with the reply, the seq, and headers that forbid caching", async () => {
    open.node.answer = () => ({ value: { top: 25 }, seq: 7 });
    const reply = await ask(open.port, "POST", call, "[]");
    expect(reply.text).toBe('{"top":25}');
    expect(reply.headers["moonport-seq"]).toBe("7");
    expect(reply.headers["cache-control"]).toBe("no-store");
    expect(reply.headers["content-type"]).toBe("application/json; charset=utf-8");
  });

  it("carries bytes in both directions", async () => {
    const reply = await ask(open.port, "POST", call, '[{"$bytes":"AQID"}]');
    expect(open.node.calls[0]?.args).toEqual([new Uint8Array([1, 2, 3])]);
    expect(reply.json).toEqual([{ $bytes: "AQID" }]);
  });

  it("hands on who calls, the call id and the time to wait", async () => {
    await ask(open.port, "POST", call, "[]", { "idempotency-key": "order-17", "x-request-timeout-ms": "1500" });
    expect(open.node.calls[0]).toMatchObject({
      object: { id: "default/Echo/key" },
      method: "say",
      caller: { kind: "client" },
      callId: "order-17",
      timeoutMs: 1500,
      mustRead: false,
    });
  });

  it("hands on that a replica may answer, and says when one did", async () => {
    open.node.answer = () => ({ value: 25, seq: 7, from: "replica" });
    const reply = await ask(open.port, "GET", call, undefined, { "moonport-consistency": "replica" });
    expect(open.node.calls[0]).toMatchObject({ mustRead: true, consistency: "replica" });
    expect([reply.headers["moonport-from"], reply.headers["moonport-seq"]]).toEqual(["replica", "7"]);
    const other = await ask(open.port, "GET", call, undefined, { "moonport-consistency": "stale" });
    expect([other.status, other.json]).toMatchObject([400, { code: "bad_request" }]);
    open.node.answer = () => ({ value: 25 });
    expect((await ask(open.port, "GET", call)).headers["moonport-from"]).toBeUndefined();
    expect(open.node.calls[1]?.consistency).toBeUndefined();
  });

  it("asks for a reading method when it comes by GET, with arguments in the query", async () => {
    const args = encodeURIComponent('["a+b", {"ü": 1}]');
    expect((await ask(open.port, "GET", `${call}?args=${args}`)).json).toEqual(["a+b", { ü: 1 }]);
    expect(open.node.calls[0]?.mustRead).toBe(true);
    open.node.answer = () => Promise.reject(MoonportError.of("not_a_reading_method", "say writes"));
    const refused = await ask(open.port, "GET", call);
    expect([refused.status, refused.headers.allow]).toEqual([405, "POST"]);
  });

  it.each([
    ["a%2Fb", "a/b"],
    ["-", "-"],
    ["%2E%2E", ".."],
    ["..", ".."],
    ["__proto__", "__proto__"],
    ["%25", "%"],
    ["a%20b%3Fc%23d", "a b?c#d"],
    ["a;b:c@d&e=f+g", "a;b:c@d&e=f+g"],
    ["%F0%9F%8C%99", "🌙"],
    ["%C3%A4".repeat(128), "ä".repeat(128)],
  ])("reaches the key %s", async (encoded, key) => {
    expect((await ask(open.port, "POST", `/v1/default/Echo/${encoded}/say`)).status).toBe(200);
    expect(open.node.calls[0]?.object.key).toBe(key);
  });

  it("reaches an app called admin", async () => {
    await ask(open.port, "POST", "/v1/admin/Echo/key/say");
    expect(open.node.calls[0]?.object.id).toBe("admin/Echo/key");
  });

  it("tells of a caller that went away, and not of one that stayed", async () => {
    const begun = deferred<void>();
    const gone = deferred<void>();
    open.node.answer = ({ waiter }) => {
      waiter?.whenGone(() => gone.resolve());
      begun.resolve();
      return new Promise<CallReply>(() => {});
    };
    const socket = connect(open.port, "127.0.0.1", () => {
      socket.write(`POST ${call} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`);
    });
    await begun.promise;
    socket.destroy();
    await gone.promise;

    open.node.answer = () => ({ value: null });
    await ask(open.port, "POST", call);
    expect(open.node.calls.at(-1)?.waiter?.isGone()).toBe(false);
  });
});

describe("what a door refuses by itself", () => {
  afterEach(() => expect(open.node.calls).toEqual([]));

  it("wrong JSON, naming the place", async () => {
    const reply = await ask(open.port, "POST", call, '["ada",\n 25,]');
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({
      code: "bad_json",
      detail: 'the body is not JSON: unexpected "]" at line 2, column 5',
      details: { position: 12, line: 2, column: 5 },
    });
    expect(await codeOf(ask(open.port, "POST", call, Buffer.from([0x22, 0xff, 0x22])))).toBe("bad_json");
    expect(await codeOf(ask(open.port, "GET", `${call}?args=[`))).toBe("bad_json");
  });

  it("arguments that are neither an array nor a table", async () => {
    for (const body of ["25", '"ada"', "null", "true"]) {
      expect(await codeOf(ask(open.port, "POST", call, body))).toBe("bad_request");
    }
  });

  it("a body that is too large, whether its length is announced or not", async () => {
    const large = `["${"x".repeat(10_000)}"]`;
    const reply = await ask(open.port, "POST", call, large);
    expect([reply.status, reply.json.code]).toEqual([413, "too_large"]);
    const chunk = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
    const head = `POST ${call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n`;
    const answer = await rawExchange(open.port, `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}`);
    expect(answer).toContain("HTTP/1.1 413");
    expect(answer).toContain('"code":"too_large"');
  });

  it("values that are nested too deep, counting each argument from itself", async () => {
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    expect(await codeOf(ask(open.port, "POST", call, `[${nested(6)}]`))).toBe("too_deep");
    expect(await codeOf(ask(open.port, "POST", call, `{"a":${nested(5)}}`))).toBe("too_deep");
    expect((await ask(open.port, "POST", call, `[${nested(5)}]`)).status).toBe(200);
    open.node.calls.length = 0;
  });

  it("a body of another type or encoding", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    expect((await ask(open.port, "POST", call, "a=1", form)).json).toMatchObject({
      code: "bad_request",
      hint: "send Content-Type: application/json",
    });
    expect(await codeOf(ask(open.port, "POST", call, "[]", { "content-encoding": "gzip" }))).toBe("bad_request");
  });

  it.each([
    ["/v1/default/Echo/%/say", "bad_request"],
    ["/v1/default/Echo/%zz/say", "bad_request"],
    ["/v1/default/Echo/%ff/say", "bad_request"],
    ["/v1/default/Echo/%ED%A0%80/say", "bad_request"],
    ["/v1/default/Echo//say", "bad_key"],
    ["/v1/default/Echo/a%00b/say", "bad_key"],
    [`/v1/default/Echo/${"k".repeat(257)}/say`, "bad_key"],
    [`/v1/default/Echo/${"%C3%A4".repeat(129)}/say`, "bad_key"],
    ["/v1/Default/Echo/key/say", "bad_name"],
    ["/v1/default/echo/key/say", "bad_name"],
    ["/v1/__proto__/Echo/key/say", "bad_name"],
    ["/v1/default/Echo/key/-", "bad_name"],
    ["/v1/default/Echo/key/Say", "bad_name"],
    ["/", "route_not_found"],
    ["/v1", "route_not_found"],
    ["/v1/default/Echo/key", "route_not_found"],
    ["/v1/default/Echo/key/say/", "route_not_found"],
    ["/v1/default/Echo/key/-/events", "route_not_found"],
    ["/v2/default/Echo/key/say", "route_not_found"],
    ["/v1/admin/nothing", "route_not_found"],
    [`${call}?arsg=[]`, "bad_option"],
  ])("POST %s with %s", async (path, code) => {
    const reply = await ask(open.port, "POST", path, "[]");
    expect(reply.json.code).toBe(code);
    expect(reply.status).toBe(ERROR_CODES[code as ErrorCode].status);
    expect(reply.headers["content-type"]).toMatch(/^application\/problem\+json/);
  });

  it("an operator's route that is misspelled, naming the right one", async () => {
    expect((await ask(open.port, "GET", "/v1/admin/inspct/default/Echo/key")).json.hint).toBe("did you mean inspect?");
    expect((await ask(open.port, "GET", `${call}?arg=[]`)).json.hint).toBe("did you mean args?");
  });

  it("HTTP methods that a route does not take, naming those it takes", async () => {
    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]) {
      const reply = await ask(open.port, method, call);
      expect([method, reply.status, reply.headers.allow]).toEqual([method, 405, "POST, GET"]);
    }
    expect((await ask(open.port, "GET", "/v1/admin/sql/default/Echo/key")).headers.allow).toBe("POST");
    expect((await ask(open.port, "POST", "/healthz")).status).toBe(405);
  });

  it("call ids and waits of the wrong form", async () => {
    for (const id of ["", "x".repeat(129), "two words", "ü"]) {
      expect(await codeOf(ask(open.port, "POST", call, "[]", { "idempotency-key": id }))).toBe("bad_request");
    }
    for (const wait of ["0", "-1", "1.5", "soon", "600001", "99999999999"]) {
      expect(await codeOf(ask(open.port, "POST", call, "[]", { "x-request-timeout-ms": wait }))).toBe("bad_request");
    }
  });

  it("requests by a foreign name or from a foreign page", async () => {
    expect((await ask(open.port, "POST", call, "[]", { host: "evil.example:7070" })).status).toBe(403);
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1.evil.example"]) {
      expect((await ask(open.port, "POST", call, "[]", { origin })).json.code).toBe("origin_refused");
    }
    expect((await ask(open.port, "POST", call, "[]", { origin: "http://localhost:5173" })).status).toBe(200);
    expect((await ask(open.port, "POST", call, "[]", { host: "localhost:7070" })).status).toBe(200);
    open.node.calls.length = 0;
  });

  it("bytes that are no HTTP", async () => {
    const answer = await rawExchange(open.port, "hello\r\n\r\n");
    expect(answer).toContain("HTTP/1.1 400 Bad Request");
    expect(answer).toContain('"code":"bad_request"');
    expect((await ask(open.port, "GET", "/healthz")).status).toBe(200);
  });
});

describe("errors over HTTP", () => {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];

  it.each(codes)("%s has the status of the table", async (code) => {
    const entry = ERROR_CODES[code];
    open.node.answer = () => Promise.reject(MoonportError.of(code, "what happened", { hint: "do this" }));
    const reply = await ask(open.port, "POST", call, "[]", { "idempotency-key": "id-1" });
    expect(reply.status).toBe(entry.status);
    expect(reply.headers["content-type"]).toMatch(/^application\/problem\+json/);
    expect(reply.headers["cache-control"]).toBe("no-store");
    expect(reply.json).toEqual({
      type: `urn:moonport:error:${code}`,
      title: entry.meaning,
      status: entry.status,
      detail: "what happened",
      code,
      retryable: entry.retryable,
      source: "moonport",
      hint: "do this",
      callId: "id-1",
      object: "default/Echo/key",
    });
    expect(reply.headers["retry-after"] !== undefined).toBe(entry.status === 503 && entry.retryable);
  });

  it("keep the code and the fields that a class threw", async () => {
    const thrown = MoonportError.byClass("too_low", "bid more than 25", {
      details: { top: 25, seal: new Uint8Array([255]), allow: ["GET\r\nX-Forged: 1"] },
    });
    open.node.answer = () => Promise.reject(thrown);
    const reply = await ask(open.port, "POST", call, "[]");
    expect(reply.status).toBe(CLASS_ERROR.status);
    expect(reply.json).toMatchObject({
      type: "urn:moonport:class-error:too_low",
      source: "class",
      code: "too_low",
      details: { top: 25, seal: { $bytes: "/w==" } },
    });
    expect(reply.headers.allow).toBeUndefined();
  });

  it("are like any other of a class when it threw a code of ours", async () => {
    for (const code of codes) {
      const details = { allow: ["GET\r\nX-Forged: 1"] };
      open.node.answer = () => Promise.reject(MoonportError.byClass(code, "it may not", { details }));
      const { status, json, headers } = await ask(open.port, "POST", call, "[]");
      expect([json.code, json.source, status]).toEqual([code, "class", CLASS_ERROR.status]);
      expect(headers).not.toHaveProperty("allow");
      expect(headers).not.toHaveProperty("www-authenticate");
    }
  });

  it("say in whole seconds when to come again", async () => {
    const full = MoonportError.of("mailbox_full", "128 calls wait", { retryAfterMs: 1_200 });
    open.node.answer = () => Promise.reject(full);
    const reply = await ask(open.port, "POST", call, "[]");
    expect([reply.headers["retry-after"], reply.json.retryAfterMs]).toEqual(["2", 1_200]);
  });

  it("that are no errors of ours are a fault of ours", async () => {
    open.node.answer = () => Promise.reject(new TypeError("x is undefined"));
    expect((await ask(open.port, "POST", call, "[]")).json).toMatchObject({ code: "internal", status: 500 });
  });
});

describe("the operator's routes", () => {
  const object = "default/Echo/a%2Fb";

  it("tell of the node", async () => {
    expect((await ask(open.port, "GET", "/v1/admin/status")).json).toEqual(await open.node.status());
    expect((await ask(open.port, "GET", "/v1/admin/classes")).json).toEqual({
      classes: await open.node.classes(),
      units: await open.node.units(),
    });
    expect((await ask(open.port, "GET", `/v1/admin/inspect/${object}`)).json.object).toBe("default/Echo/a/b");
  });

  it("read what an object stored, and tell absent from null", async () => {
    open.node.stores.set(
      "default/Echo/a/b",
      new Map([
        ["top", null],
        ["seal", new Uint8Array([1])],
      ]),
    );
    const store = `/v1/admin/store/${object}`;
    expect((await ask(open.port, "GET", `${store}?key=top`)).json).toEqual({ found: true, value: null });
    expect((await ask(open.port, "GET", `${store}?key=nothing`)).json).toEqual({ found: false });
    expect((await ask(open.port, "GET", `${store}?prefix=se`)).json).toEqual({
      entries: [["seal", { $bytes: "AQ==" }]],
    });
    expect(await codeOf(ask(open.port, "GET", `${store}?key=a&prefix=b`))).toBe("bad_request");
    expect(await codeOf(ask(open.port, "GET", `${store}?key=a&key=b`))).toBe("bad_request");
  });

  it("list the quarantine and clear a method of it", async () => {
    const say = {
      object: "default/Echo/a/b",
      method: "say",
      quarantined: true,
      stalls: 2,
      lastAtMs: 1,
      lastSilentMs: 2,
    };
    const row = { ...say, method: "directory.row" };
    open.node.quarantined = [say, row];
    const list = "/v1/admin/quarantine";
    expect((await ask(open.port, "GET", list)).json).toEqual({ methods: [say, row] });
    const clear = `${list}/${object}`;
    expect((await ask(open.port, "POST", clear, '{"method":"say"}')).json).toEqual({ cleared: true });
    expect((await ask(open.port, "POST", clear, '{"method":"say"}')).json).toEqual({ cleared: false });
    expect((await ask(open.port, "POST", clear, '{"method":"directory.row"}')).json).toEqual({ cleared: true });
    expect(open.node.quarantined).toEqual([]);
    for (const wrong of ["[]", "{}", '{"method":1}']) {
      expect(await codeOf(ask(open.port, "POST", clear, wrong))).toBe("bad_request");
    }
    expect(await codeOf(ask(open.port, "POST", clear, '{"method":"../x"}'))).toBe("bad_name");
    expect(await codeOf(ask(open.port, "POST", list, "{}"))).toBe("method_not_allowed");
    expect(await codeOf(ask(open.port, "GET", clear))).toBe("method_not_allowed");
  });

  it("run a statement with parameters", async () => {
    const body = JSON.stringify({ statement: "select ?", parameters: [1, null, "x", { $bytes: "AQ==" }] });
    expect((await ask(open.port, "POST", `/v1/admin/sql/${object}`, body)).json.rows).toEqual([
      ["select ?", 1],
      ["select ?", null],
      ["select ?", "x"],
      ["select ?", { $bytes: "AQ==" }],
    ]);
    for (const wrong of ["[]", "{}", '{"statement":1}', '{"statement":"select 1","parameters":5}']) {
      expect(await codeOf(ask(open.port, "POST", `/v1/admin/sql/${object}`, wrong))).toBe("bad_request");
    }
    const boolean = '{"statement":"select ?","parameters":[true]}';
    expect(await codeOf(ask(open.port, "POST", `/v1/admin/sql/${object}`, boolean))).toBe("bad_value");
  });

  it("list the nodes of the fleet, none of a node that is alone", async () => {
    expect((await ask(open.port, "GET", "/v1/admin/nodes")).json).toEqual({ nodes: [] });
    open.node.fleet.push({
      node: "n1",
      session: "s",
      address: "ws://127.0.0.1:1",
      zone: "z",
      weight: 1,
      version: "0.0.0",
      journal: "j",
      standing: "live",
      own: true,
    });
    expect((await ask(open.port, "GET", "/v1/admin/nodes")).json).toEqual({ nodes: open.node.fleet });
  });

  it("show the ring, and drain a node", async () => {
    expect((await ask(open.port, "GET", "/v1/admin/ring")).json).toEqual({ partitions: [expect.anything()] });
    const place = (await ask(open.port, "GET", `/v1/admin/ring/${object}`)).json;
    expect(place).toMatchObject({ owner: "n2", partitions: [{ homes: ["n1", "n2"] }] });
    expect((await ask(open.port, "POST", "/v1/admin/drain")).json).toEqual({ node: "n1", left: 0 });
    expect((await ask(open.port, "POST", "/v1/admin/drain", '{"node":"n2","undo":true}')).json.node).toBe("n2");
    expect(open.node.drains).toEqual([{}, { node: "n2", undo: true }]);
    for (const body of ['{"node":7}', '{"nodes":"n2"}', "[]", '{"undo":"yes"}']) {
      expect(await codeOf(ask(open.port, "POST", "/v1/admin/drain", body))).toBe("bad_request");
    }
  });

  it("takes for a state of the past a seq or a time and nothing else", async () => {
    const restore = `/v1/admin/restore/${object}`;
    const fork = `/v1/admin/fork/${object}`;
    expect((await ask(open.port, "POST", restore, '{"at":{"seq":3},"timers":"drop"}')).json.seq).toBe(5);
    expect((await ask(open.port, "POST", fork, '{"to":"c/d"}')).json.object).toBe("default/Echo/c/d");
    expect(open.node.restorations).toEqual([
      { object: "default/Echo/a/b", restoration: { at: { seq: 3 }, timers: "drop" } },
      { object: "default/Echo/a/b", restoration: {}, key: "c/d" },
    ]);
    const wrong = [
      "[]",
      "{}",
      '{"at":3}',
      '{"at":{}}',
      '{"at":{"seq":-1}}',
      '{"at":{"seq":1.5}}',
      '{"at":{"seq":"3"}}',
      '{"at":{"seq":3,"atMs":4}}',
      '{"at":{"when":3}}',
      '{"at":{"seq":3},"timers":"maybe"}',
    ];
    for (const body of wrong) expect(await codeOf(ask(open.port, "POST", restore, body))).toBe("bad_request");
    expect(await codeOf(ask(open.port, "POST", restore, '{"at":{"seq":3},"tiemrs":"drop"}'))).toBe("bad_option");
    expect(await codeOf(ask(open.port, "POST", restore, '{"at":{"seq":3},"to":"x"}'))).toBe("bad_option");
    expect(await codeOf(ask(open.port, "POST", fork, '{"at":{"seq":3}}'))).toBe("bad_request");
    expect(await codeOf(ask(open.port, "GET", restore))).toBe("method_not_allowed");
    const queries = ["?seq=1&atMs=2", "?seq=x", "?atMs=-1"];
    for (const query of queries) {
      expect(await codeOf(ask(open.port, "GET", `/v1/admin/export/${object}${query}`))).toBe("bad_request");
    }
    expect(await codeOf(ask(open.port, "GET", `/v1/admin/history/${object}?limit=few`))).toBe("bad_request");
    expect(await codeOf(ask(open.port, "GET", `/v1/admin/history/${object}?seq=1`))).toBe("bad_option");
  });

  it("destroy an object once", async () => {
    const path = `/v1/admin/destroy/${object}`;
    expect((await ask(open.port, "POST", path)).json).toEqual({ destroyed: "default/Echo/a/b" });
    expect((await ask(open.port, "POST", path)).status).toBe(404);
  });

  it("say whether the node is ready, and why not", async () => {
    expect((await ask(open.port, "GET", "/readyz")).json).toMatchObject({ ready: true });
    open.node.ready = false;
    const reply = await ask(open.port, "GET", "/readyz");
    expect([reply.status, reply.json.reason]).toEqual([503, "the node is starting"]);
    open.node.ready = true;
    const part = { node: "n1", session: "s", address: "ws://127.0.0.1:1", nodes: 3, isLeaving: false };
    open.node.fleetStatus = { ...part, valid: false, whyInvalid: "no renewal was known to land in time" };
    const fenced = await ask(open.port, "GET", "/readyz");
    expect([fenced.status, fenced.json.reason]).toEqual([503, expect.stringMatching(/^node_fenced: .*no renewal/)]);
    open.node.fleetStatus = { ...part, valid: true, isLeaving: true };
    const leaving = await ask(open.port, "GET", "/readyz");
    expect([leaving.status, leaving.json.reason]).toEqual([503, "the node gives its objects to the others"]);
    open.node.fleetStatus = { ...part, valid: true };
    expect((await ask(open.port, "GET", "/readyz")).status).toBe(200);
    expect((await ask(open.port, "GET", "/healthz")).status).toBe(200);
  });
});

describe("starting and stopping a door", () => {
  const doorAt = (host: string, port: number): HttpDoor =>
    new HttpDoor({ node: new FakeNode(), settings: resolveSettings(), world, host, port });

  it.each(["0.0.0.0", "::", "10.1.2.3", "node.example", "localhost.evil.example"])(
    "refuses to bind %s",
    async (host) => {
      await expect(doorAt(host, 0).start()).rejects.toMatchObject({ code: "insecure_bind" });
    },
  );

  it("binds the address that localhost means here", async () => {
    const door = doorAt("localhost", 0);
    expect((await door.start()).url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await door.stop();
  });

  it("names an address that is taken", async () => {
    await expect(doorAt("127.0.0.1", open.port).start()).rejects.toMatchObject({ code: "address_in_use" });
  });

  it("finishes what runs, refuses what comes, and closes kept connections", async () => {
    const begun = deferred<void>();
    const finish = deferred<CallReply>();
    open.node.answer = () => {
      begun.resolve();
      return finish.promise;
    };
    const running = ask(open.port, "POST", call, "[]");
    await begun.promise;
    // Two requests on one connection: the second comes while the door is stopping.
    const pipelined = `POST ${call} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`;
    let text = "";
    const socket = connect(open.port, "127.0.0.1");
    socket.on("data", (part) => {
      text += part;
    });
    const closed = new Promise((resolve) => socket.on("close", resolve));
    socket.write(pipelined);
    await expect.poll(() => open.node.calls.length).toBe(2);
    const stopped = open.door.stop();
    socket.write(pipelined);
    finish.resolve({ value: "done" });
    await stopped;
    await closed;
    expect((await running).text).toBe('"done"');
    expect(text).toContain('"done"');
    expect(open.node.calls.length).toBe(2);
    await expect(ask(open.port, "GET", "/healthz")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});
