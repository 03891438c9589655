import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Fault, type FaultProxy, startFaultProxy } from "./fault-proxy.js";
import { describeOnRealS3 } from "./real-s3.js";
import { s3Request } from "./s3-request.js";

const BODY = Buffer.alloc(200_000, "moonport ");

/** A server that keeps what is put, and answers a put with 201 and the path. */
class Target {
  readonly objects = new Map<string, Buffer>();
  readonly connections = new Set<unknown>();
  readonly #server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    this.#serve(request, response).catch(() => response.destroy());
  });
  port = 0;

  constructor() {
    this.#server.on("connection", (socket) => this.connections.add(socket));
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.port = (this.#server.address() as AddressInfo).port;
    onTestFinished(() => {
      this.#server.close();
      this.#server.closeAllConnections();
    });
    return this;
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const path = request.url ?? "";
    if (request.method === "PUT") {
      this.objects.set(path, await buffer(request));
      response.writeHead(201, { "x-host": request.headers.host }).end(path);
      return;
    }
    const bytes = this.objects.get(path);
    response.writeHead(bytes ? 200 : 404, { "content-length": bytes?.length ?? 0 }).end(bytes);
  }
}

interface Scene {
  readonly target: Target;
  readonly proxy: FaultProxy;
  put(path: string, body?: Buffer | string): ReturnType<typeof s3Request>;
  get(path: string): ReturnType<typeof s3Request>;
}

async function scene(): Promise<Scene> {
  const target = await new Target().start();
  const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: target.port } });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(async () => {
    agent.destroy();
    await proxy.stop();
  });
  return {
    target,
    proxy,
    put: (path, body = "x") => s3Request(proxy.endpoint, { method: "PUT", path, body, agent }),
    get: (path) => s3Request(proxy.endpoint, { method: "GET", path, agent }),
  };
}

describe("the fault proxy", () => {
  it("passes on what no fault meets, over connections that are kept, with the client's own host header", async () => {
    const { target, proxy, put, get } = await scene();
    for (let round = 0; round < 20; round += 1) {
      const { status, headers, body } = await put(`/b/k${round}`, BODY);
      expect([status, headers["x-host"], String(body)]).toEqual([201, `127.0.0.1:${proxy.port}`, `/b/k${round}`]);
      expect((await get(`/b/k${round}`)).body.equals(BODY)).toBe(true);
    }
    expect((await get("/b/none")).status).toBe(404);
    expect(target.connections.size).toBe(1);
    expect(proxy.requests.slice(0, 2)).toMatchObject([
      { method: "PUT", path: "/b/k0", kind: "put", bucket: "b", key: "k0" },
      { method: "GET", path: "/b/k0", kind: "get" },
    ]);
  });

  it("answer_lost: the write happened, its client finds the connection cut", async () => {
    const { target, proxy, put } = await scene();
    const { struck, over } = proxy.next("put", { kind: "answer_lost" });
    await expect(put("/b/k")).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(String(target.objects.get("/b/k"))).toBe("x");
    expect(await struck).toMatchObject({ key: "k", fault: "answer_lost" });
    expect(await over).toBe(201);
    expect((await put("/b/k")).status).toBe(201);
  });

  it("write_lost: the write did not happen", async () => {
    const { target, proxy, put } = await scene();
    const { over } = proxy.next("put", { kind: "write_lost" });
    await expect(put("/b/k", BODY)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await over).toBeUndefined();
    expect(target.objects.size).toBe(0);
  });

  it("reset_before_headers: the write happens while its client knows nothing", async () => {
    const { target, proxy, put } = await scene();
    const { over } = proxy.next("put", { kind: "reset_before_headers" });
    await expect(put("/b/k", BODY)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await over).toBe(201);
    expect(target.objects.get("/b/k")?.equals(BODY)).toBe(true);
  });

  it("lands_late: the write happens when the test says so, over what came meanwhile", async () => {
    const { target, proxy, put } = await scene();
    let land = () => {};
    const until = new Promise<void>((resolve) => {
      land = resolve;
    });
    const { over } = proxy.next("put", { kind: "lands_late", until });
    await expect(put("/b/k", "early")).rejects.toMatchObject({ code: "ECONNRESET" });
    await put("/b/k", "meanwhile");
    expect(String(target.objects.get("/b/k"))).toBe("meanwhile");
    land();
    expect(await over).toBe(201);
    expect(String(target.objects.get("/b/k"))).toBe("early");
  });

  it("reset_in_request_body: the server never has all of it, however late the cut", async () => {
    const { target, proxy, put } = await scene();
    for (const afterBytes of [0, 1, 70_000, BODY.length, BODY.length + 1]) {
      proxy.next("put", { kind: "reset_in_request_body", afterBytes });
      await expect(put("/b/k", BODY)).rejects.toMatchObject({ code: expect.stringMatching(/ECONNRESET|EPIPE/) });
    }
    expect((await put("/b/other")).status).toBe(201);
    expect([...target.objects.keys()]).toEqual(["/b/other"]);
  });

  it("reset_after_status_line and reset_in_response_body: so much of the answer arrives and no more", async () => {
    const { target, proxy } = await scene();
    target.objects.set("/b/k", BODY);
    const statusLine = await rawAnswer(proxy, { kind: "reset_after_status_line" });
    expect(String(statusLine)).toBe("HTTP/1.1 200 OK\r\n");
    for (const afterBytes of [0, 1, 150_000]) {
      const answer = await rawAnswer(proxy, { kind: "reset_in_response_body", afterBytes });
      const headersEnd = answer.indexOf("\r\n\r\n") + 4;
      expect(String(answer.subarray(0, headersEnd))).toContain(`content-length: ${BODY.length}`);
      expect(answer.subarray(headersEnd).equals(BODY.subarray(0, afterBytes))).toBe(true);
    }
  });

  it("replaced: the proxy answers in the server's stead, who may have been asked all the same", async () => {
    const { target, proxy, put } = await scene();
    proxy.next("put", { kind: "replaced", status: 503, code: "SlowDown", headers: { "retry-after": "7" } });
    proxy.next("put", { kind: "replaced", status: 502, forwards: true });
    const slowDown = await put("/b/a", BODY);
    expect([slowDown.status, slowDown.headers["retry-after"]]).toEqual([503, "7"]);
    expect(String(slowDown.body)).toContain("<Code>SlowDown</Code>");
    const badGateway = await put("/b/b");
    expect([badGateway.status, badGateway.body.length]).toEqual([502, 0]);
    expect([...target.objects.keys()]).toEqual(["/b/b"]);
  });

  it("slow_body and latency: late, but whole", async () => {
    const { target, proxy, get } = await scene();
    target.objects.set("/b/k", BODY);
    proxy.next("get", { kind: "slow_body", chunkBytes: 50_000, everyMs: 1 });
    proxy.next("get", { kind: "latency", ms: 5 });
    for (let round = 0; round < 3; round += 1) expect((await get("/b/k")).body.equals(BODY)).toBe(true);
    expect(proxy.requests.map(({ fault }) => fault)).toEqual(["slow_body", "latency", undefined]);
  });

  it("black_hole: nothing comes back, until the proxy stops", async () => {
    const { target, proxy, put } = await scene();
    const silent = proxy.next("put", { kind: "black_hole" });
    const lands = proxy.next((request) => request.key === "b", { kind: "black_hole", forwards: true });
    const unanswered = put("/b/a").then(
      () => "answered",
      () => "cut",
    );
    await silent.over;
    const other = s3Request(proxy.endpoint, { method: "PUT", path: "/b/b" }).catch(() => "cut");
    expect(await lands.over).toBe(201);
    expect([...target.objects.keys()]).toEqual(["/b/b"]);
    await proxy.stop();
    expect(await Promise.all([unanswered, other])).toEqual(["cut", "cut"]);
  });

  it("strikes with `next` once and in order, with `always` until it is taken back", async () => {
    const { proxy, put, get } = await scene();
    const off = proxy.always("any", { kind: "replaced", status: 500 });
    proxy.next("put", { kind: "replaced", status: 501 });
    proxy.next("put", { kind: "replaced", status: 502 });
    const statuses = [];
    for (const send of [get, put, put, put]) statuses.push((await send("/b/k")).status);
    off();
    statuses.push((await put("/b/k")).status);
    expect(statuses).toEqual([500, 501, 502, 500, 201]);
  });

  it("refuses connections, and takes them again on the same port", async () => {
    const { proxy, put } = await scene();
    await put("/b/k");
    const accept = await proxy.refuseConnections();
    await expect(put("/b/k")).rejects.toMatchObject({ code: expect.stringMatching(/ECONNREFUSED|ECONNRESET/) });
    await expect(put("/b/k")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await accept();
    expect((await put("/b/k")).status).toBe(201);
  });

  it("cuts the connection when its server has gone", async () => {
    const gone = await new Target().start();
    const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: await unusedPort() } });
    onTestFinished(() => proxy.stop());
    expect(gone.port).not.toBe(proxy.port);
    const request = s3Request(proxy.endpoint, { method: "PUT", path: "/b/k", body: BODY });
    await expect(request).rejects.toMatchObject({ code: expect.stringMatching(/ECONNRESET|EPIPE/) });
  });

  it("fails at its end when a fault met no request", async () => {
    const { port } = await new Target().start();
    const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port } });
    proxy.next("delete", { kind: "write_lost" }).disarm();
    proxy.next("list", { kind: "answer_lost" });
    await expect(proxy.stop()).rejects.toThrow("no request met these faults: answer_lost for list");
  });

  it("leaves `Expect: 100-continue` to the server", async () => {
    const { target, proxy } = await scene();
    const answer = await putExpecting(proxy, "/b/k");
    expect(answer).toEqual({ continued: true, status: 201 });
    expect(target.objects.get("/b/k")?.equals(BODY)).toBe(true);
    proxy.next("put", { kind: "replaced", status: 412, code: "PreconditionFailed" });
    expect((await putExpecting(proxy, "/b/other")).status).toBe(412);
    proxy.next("put", { kind: "reset_in_request_body", afterBytes: 100 });
    await expect(putExpecting(proxy, "/b/other")).rejects.toMatchObject({
      code: expect.stringMatching(/ECONNRESET|EPIPE/),
    });
    expect(target.objects.has("/b/other")).toBe(false);
  });
});

/** All bytes that come back for one GET whose connection the proxy ends. */
async function rawAnswer(proxy: FaultProxy, fault: Fault): Promise<Buffer> {
  proxy.next("get", fault);
  const socket = net.connect(proxy.port, "127.0.0.1");
  socket.write("GET /b/k HTTP/1.1\r\nhost: raw\r\n\r\n");
  return buffer(socket);
}

/** Sends the body only when told to. */
async function putExpecting(proxy: FaultProxy, path: string): Promise<{ continued: boolean; status: number }> {
  const headers = { expect: "100-continue", "content-length": BODY.length };
  const request = http.request(proxy.endpoint, { method: "PUT", path, headers });
  request.flushHeaders();
  return new Promise((resolve, reject) => {
    let continued = false;
    request.on("error", reject);
    request.on("continue", () => {
      continued = true;
      request.end(BODY);
    });
    request.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve({ continued, status: response.statusCode ?? 0 }));
    });
  });
}

async function unusedPort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describeOnRealS3("the fault proxy before a real server", (s3) => {
  it("keeps signatures valid, and a write whose answer was lost stands", async () => {
    const { bucket, keys, host, port } = s3();
    const proxy = await startFaultProxy({ target: { host, port } });
    onTestFinished(() => proxy.stop());
    const send = (method: string, path: string, body?: Buffer) =>
      s3Request(proxy.endpoint, { method, path: `/${bucket}${path}`, keys, ...(body ? { body } : {}) });

    expect((await send("PUT", "/a%20b", BODY)).status).toBe(200);
    expect((await send("GET", "/a%20b")).body.equals(BODY)).toBe(true);
    proxy.next("put", { kind: "answer_lost" });
    await expect(send("PUT", "/lost", BODY)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect((await send("GET", "/lost")).body.equals(BODY)).toBe(true);
    proxy.next("put", { kind: "reset_in_request_body", afterBytes: 100_000 });
    await expect(send("PUT", "/half", BODY)).rejects.toThrow();
    expect((await send("GET", "/half")).status).toBe(404);
  });
});
