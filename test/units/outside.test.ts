import http from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { NativeContext } from "../../src/units/native.js";
import type { FetchedResponse, Fetcher, FetchRequest } from "../../src/world/fetcher.js";
import { realFetcher } from "../../src/world/real-fetcher.js";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const Note = `
local Note = class "Note"
function Note:add(text) state.store.set("text", text) return text end
function Note:mail() return Mailer("x"):send("hi") end
function Note:later() send(Mailer("x")):send("hi") return "sent" end
function Note.read:text() return state.store.get("text") end
return Note
`;

const units = {
  fetch: `return function(request)
    local b = request.body
    local ok, r = pcall(fetch, b.url, b.options)
    if ok then return { status = 200, body = { status = r.status, headers = r.headers, text = tostring(r.body) } } end
    return { failed = r.code, message = r.message, hint = r.hint }
  end`,
  write_then_fetch: `return function(request) Note("a"):add("x") return fetch("https://api.test/a").status end`,
  mail: `return function(request)
    Note("a"):add("x")
    return Mailer("ada@example.com"):send("hello", { n = 1 })
  end`,
  native: `return function(request)
    local ok, r = pcall(function() return Mailer("x")[request.body](Mailer("x")) end)
    if ok then return { value = r } end
    return { failed = r.code, message = r.message, hint = r.hint }
  end`,
};

type Answers = Record<string, Partial<FetchedResponse> | Error | "never">;

class FakeNetwork implements Fetcher {
  readonly asked: FetchRequest[] = [];
  aborted = 0;
  constructor(readonly answers: Answers) {}

  async fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedResponse> {
    this.asked.push(request);
    signal.addEventListener("abort", () => this.aborted++);
    const answer = this.answers[request.url] ?? {};
    if (answer === "never") return new Promise(() => {});
    if (answer instanceof Error) throw answer;
    return { status: 200, headers: {}, body: new Uint8Array(), ...answer };
  }
}

const start = (more: VirtualNodeOptions = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, units, native: { Mailer: {} }, ...more });

async function online(answers: Answers, allowHosts = ["api.test", "other.test:8443"]) {
  const network = new FakeNetwork(answers);
  const node = await start({ outbound: { allowHosts, fetcher: network } });
  return { node, network, fetch: (url: string, options = {}) => node.unit("fetch", { url, options }) };
}

const text = (body: string): Uint8Array => new Uint8Array(Buffer.from(body));

describe("fetch", () => {
  it("asks a host on the list and gives status, headers and body", async () => {
    const answer = { status: 201, headers: { "x-a": "b" }, body: text("grüße") };
    const { network, fetch } = await online({ "https://api.test/a?b=c": answer });
    const asked = { method: "put", headers: { "X-Key": "k" }, json: { n: 1 } };
    expect(await fetch("https://api.test/a?b=c", asked)).toEqual({
      status: 201,
      headers: { "x-a": "b" },
      text: "grüße",
    });
    expect(network.asked).toEqual([
      {
        url: "https://api.test/a?b=c",
        method: "PUT",
        headers: { "x-key": "k", "content-type": "application/json" },
        body: '{"n":1}',
        bytesMax: 1024 * 1024,
      },
    ]);
  });

  it("reaches no host that is not on the list, nor other ports, schemes and tricks", async () => {
    const { network, fetch } = await online({});
    const refused = [
      "https://evil.test/",
      "https://api.test:444/",
      "https://other.test/",
      "https://api.test.evil.test/",
      "https://evil.test/?https://api.test",
      "https://api.test@evil.test/",
      "https://user:word@api.test/",
      "file:///etc/passwd",
      "ftp://api.test/",
      "data:text/plain,x",
      "//api.test/",
      "not an address",
      "https://sub.api.test/",
    ];
    for (const url of refused) expect(await fetch(url)).toMatchObject({ failed: "fetch_refused" });
    expect(network.asked).toEqual([]);
    expect(await fetch("https://evil.test/")).toMatchObject({ hint: "--allow-host evil.test lets units reach it" });
    for (const url of ["http://API.test/", "https://api.test:443/x", "https://other.test:8443/"]) {
      expect(await fetch(url)).toMatchObject({ status: 200 });
    }
  });

  it("sends no header that is the connection's, and none that breaks out of its line", async () => {
    const { network, fetch } = await online({});
    for (const headers of [
      { Host: "evil.test" },
      { "content-length": "3" },
      { "x-a": "b\r\nx-c: d" },
      { "x a": "b" },
    ]) {
      expect(await fetch("https://api.test/", { headers })).toMatchObject({ failed: "fetch_refused" });
    }
    expect(await fetch("https://api.test/", { method: "CONNECT" })).toMatchObject({ failed: "fetch_refused" });
    expect(await fetch("https://api.test/", { method: "GET", body: "x" })).toMatchObject({ failed: "fetch_refused" });
    expect(network.asked).toEqual([]);
  });

  it("follows redirects to hosts on the list only, and keeps secrets from other origins", async () => {
    const to = (location: string, status = 302): Partial<FetchedResponse> => ({ status, headers: { location } });
    const { network, fetch } = await online({
      "https://api.test/out": to("https://evil.test/"),
      "https://api.test/near": to("/there", 301),
      "https://api.test/far": to("https://other.test:8443/there", 307),
      "https://api.test/down": to("http://api.test/"),
      "https://api.test/loop": to("/loop"),
      "https://api.test/there": { body: text("near") },
      "https://other.test:8443/there": { body: text("far") },
    });
    const options = { method: "POST", body: "x", headers: { authorization: "secret", "content-type": "text/plain" } };
    expect(await fetch("https://api.test/out", options)).toMatchObject({ failed: "fetch_refused" });
    expect(await fetch("https://api.test/down")).toMatchObject({ failed: "fetch_refused" });
    expect(await fetch("https://api.test/loop")).toMatchObject({ failed: "fetch_refused" });
    expect(network.asked.every(({ url }) => url.startsWith("https://api.test/"))).toBe(true);
    network.asked.length = 0;
    expect(await fetch("https://api.test/near", options)).toMatchObject({ text: "near" });
    expect(network.asked[1]).toMatchObject({ method: "GET", headers: { authorization: "secret" }, body: undefined });
    expect(await fetch("https://api.test/far", options)).toMatchObject({ text: "far" });
    expect(network.asked[3]).toMatchObject({ method: "POST", headers: { "content-type": "text/plain" }, body: "x" });
    expect(network.asked[3]?.headers.authorization).toBeUndefined();
  });

  it("ends in time, and says what went wrong", async () => {
    const unreachable = MoonportError.of("fetch_failed", "api.test could not be reached: ECONNREFUSED");
    const { node, network, fetch } = await online({
      "https://api.test/never": "never",
      "https://api.test/down": unreachable,
    });
    const before = node.time.nowMs;
    expect(await fetch("https://api.test/never", { timeout: "2s" })).toMatchObject({ failed: "fetch_timeout" });
    expect(node.time.nowMs - before).toBe(2_000);
    expect(network.aborted).toBe(1);
    expect(await fetch("https://api.test/down")).toMatchObject({ failed: "fetch_failed" });
    // The request's own time is shorter.
    const late = node.startUnit("fetch", { body: { url: "https://api.test/never", options: {} }, timeoutMs: 500 });
    await expect(node.time.until(late)).rejects.toMatchObject({ code: "deadline_exceeded" });
    expect(network.aborted).toBe(2);
  });

  it("is waited for in vain after a write: the outcome is unknown, and the write told of", async () => {
    const { node } = await online({ "https://api.test/a": "never" });
    const late = node.startUnit("write_then_fetch", { timeoutMs: 500 });
    await expect(node.time.until(late)).rejects.toMatchObject({
      code: "outcome_unknown",
      details: { calls: [{ object: "default/Note/a", method: "add", fate: "durable" }] },
    });
  });

  it("learns of nothing that is not durable", async () => {
    const { node, network } = await online({});
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("write_then_fetch");
    await node.time.advance(100);
    expect(network.asked).toEqual([]);
    hold.release();
    await node.time.until(response);
    expect(network.asked).toHaveLength(1);
  });

  it("wants a list of hosts", async () => {
    for (const entry of ["https://api.test", "api.test/path", "*", "a b", ""]) {
      await expect(online({}, [entry])).rejects.toMatchObject({ code: "bad_option" });
    }
    const { fetch } = await online({}, ["[::1]:8080", "localhost"]);
    expect(await fetch("http://[::1]:8080/")).toMatchObject({ status: 200 });
    const nowhere = await start();
    expect(await nowhere.unit("fetch", { url: "https://api.test/", options: {} })).toMatchObject({
      failed: "fetch_refused",
    });
  });
});

describe("the real network", () => {
  const serve = async (answer: http.RequestListener): Promise<string> => {
    const server = http.createServer(answer);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  };
  const get = (url: string, bytesMax = 1_000, signal = new AbortController().signal): Promise<FetchedResponse> =>
    realFetcher.fetch({ url, method: "GET", headers: {}, body: undefined, bytesMax }, signal);

  it("is asked once: body and headers go out, a redirect comes back as it is", async () => {
    const url = await serve((request, response) => {
      let body = "";
      request.on("data", (part) => {
        body += part;
      });
      request.on("end", () => {
        response.writeHead(302, { location: "/elsewhere", "x-asked": `${request.method} ${request.headers["x-a"]}` });
        response.end(`got ${body}`);
      });
    });
    const signal = new AbortController().signal;
    const request = { url, method: "POST", headers: { "x-a": "b" }, body: "hello", bytesMax: 1_000 };
    const { status, headers, body } = await realFetcher.fetch(request, signal);
    expect(status).toBe(302);
    expect(headers).toMatchObject({ location: "/elsewhere", "x-asked": "POST b" });
    expect(Buffer.from(body).toString()).toBe("got hello");
  });

  it("gives no more than it may, and names what failed", async () => {
    const url = await serve((_request, response) => void response.end("x".repeat(2_000)));
    await expect(get(url)).rejects.toMatchObject({ code: "too_large" });
    expect((await get(url, 2_000)).body).toHaveLength(2_000);
    const silent = await serve((_request, response) => void response.destroy());
    await expect(get(silent)).rejects.toMatchObject({ code: "fetch_failed" });
    const stop = new AbortController();
    const hanging = await serve(() => stop.abort());
    await expect(get(hanging, 1_000, stop.signal)).rejects.toMatchObject({ code: "fetch_failed" });
  });
});

describe("a native class", () => {
  it("is called like an object, once what came before is durable", async () => {
    const calls: [readonly unknown[], NativeContext][] = [];
    const Mailer = {
      async send(args: readonly unknown[], context: NativeContext) {
        calls.push([args, context]);
        return { sent: true, skipped: undefined };
      },
    };
    const node = await start({ native: { Mailer } });
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("mail", { callId: "m-1", caller: { kind: "client", claims: { role: "admin" } } });
    await node.time.advance(100);
    expect(calls).toEqual([]);
    hold.release();
    expect(JSON.parse(String((await node.time.until(response)).body))).toEqual({ sent: true });
    const [args, context] = calls[0] ?? [];
    expect(args).toEqual(["hello", { n: 1 }]);
    expect(context).toMatchObject({
      app: "default",
      key: "ada@example.com",
      caller: { kind: "unit", id: "mail", claims: { role: "admin" } },
    });
    await node.unit("mail", undefined, { callId: "m-1" });
    expect(calls[1]?.[1].callId).toBe(context?.callId);
  });

  it("is host code: what it throws or returns is checked", async () => {
    class Base {
      inherited() {
        return "from the base";
      }
    }
    class Mailer extends Base {
      fails() {
        throw new Error("the server is down");
      }
      refuses() {
        throw MoonportError.byClass("no_such_address", "nobody there");
      }
      odd() {
        return new Date(0);
      }
      nothing() {}
    }
    const node = await start({ native: { Mailer: new Mailer() } });
    expect(await node.unit("native", "inherited")).toEqual({ value: "from the base" });
    expect(await node.unit("native", "nothing")).toEqual({});
    expect(await node.unit("native", "fails")).toMatchObject({
      failed: "native_failed",
      message: "Mailer:fails: the server is down",
    });
    expect(await node.unit("native", "refuses")).toMatchObject({ failed: "no_such_address" });
    expect(await node.unit("native", "odd")).toMatchObject({ failed: "bad_value" });
    expect(await node.unit("native", "fail")).toMatchObject({
      failed: "method_not_found",
      hint: "did you mean fails?",
    });
    for (const name of ["toString", "constructor", "hasOwnProperty"]) {
      expect(await node.unit("native", name)).toMatchObject({ failed: "method_not_found" });
    }
  });

  it("is not called for somebody who has gone", async () => {
    let calls = 0;
    const node = await start({ native: { Mailer: { say: () => ++calls } } });
    const response = node.startUnit("native", { body: "say", signal: AbortSignal.abort() });
    await expect(node.time.until(response)).rejects.toMatchObject({ code: "caller_gone" });
    expect(calls).toBe(0);
  });

  it("that never answers ends with the request, told by its signal", async () => {
    let signal: AbortSignal | undefined;
    const Mailer = {
      send: (_args: unknown, context: NativeContext) => {
        ({ signal } = context);
        return new Promise(() => {});
      },
    };
    const node = await start({ native: { Mailer } });
    const response = node.startUnit("mail", { timeoutMs: 300 });
    await expect(node.time.until(response)).rejects.toMatchObject({
      code: "outcome_unknown",
      details: { calls: [{ fate: "durable" }, { object: "default/Mailer/ada@example.com", fate: "unknown" }] },
    });
    expect(signal?.aborted).toBe(true);
  });

  it("is not called inside a transaction, is reached by send, and has its name to itself", async () => {
    const node = await start();
    await expect(node.call("Note/a", "mail")).rejects.toMatchObject({ hint: expect.stringContaining("send(") });
    expect(await node.call("Note/a", "later")).toBe("sent");
    await expect(start({ native: { Note: {} } })).rejects.toMatchObject({
      code: "class_invalid",
      message: expect.stringContaining("a native class is called Note"),
    });
    await expect(node.call("Mailer/x", "send")).rejects.toMatchObject({ code: "class_not_found" });
  });
});
