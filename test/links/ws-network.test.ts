/** The real network's own edges: what is no link is turned away, and errors name the address. */
import http from "node:http";
import net from "node:net";
import { afterEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Channel, ChannelEvents, Listening } from "../../src/links/contract.js";
import type { LinkTls } from "../../src/links/link-tls.js";
import { WsNetwork } from "../../src/links/ws-network.js";
import { deferred } from "../../src/world/deferred.js";
import { certificates } from "../support/certificates.js";
import { settingsWith } from "./stage.js";

const settings = settingsWith({ LINK_MESSAGE_BYTES_MAX: 2 ** 20, LINK_CONNECT_MS: 200 });
const network = new WsNetwork({ host: "127.0.0.1", port: 0, settings });
const SILENT: ChannelEvents = { message() {}, closed() {} };

let listening: Listening;
const accepted: Channel[] = [];
afterEach(async () => {
  for (const channel of accepted.splice(0)) channel.close("the test is over");
  await listening.close();
});

/** Accepts everybody; the promise is of the first that is told to the acceptor. */
async function listen(trusting = true): Promise<{ readonly heard: Promise<Uint8Array | string> }> {
  const heard = deferred<Uint8Array | string>();
  listening = await network.listen((channel) => {
    accepted.push(channel);
    if (trusting) channel.trust();
    return { message: (message) => heard.resolve(message), closed: (reason) => heard.resolve(reason) };
  });
  return { heard: heard.promise };
}

it("plain HTTP, other paths and other subprotocols are turned away", async () => {
  await listen();
  const origin = listening.address.replace("ws:", "http:");
  const status = await new Promise((resolve, reject) => {
    http.get(`${origin}/v1/link`, (response) => resolve(response.resume().statusCode)).on("error", reject);
  });
  expect(status).toBe(426);
  const refusal = (path: string, protocol: string): Promise<string> =>
    new Promise((resolve) => {
      const ws = new WebSocket(listening.address + path, protocol);
      ws.on("error", (error) => resolve(error.message));
      ws.on("open", () => resolve("open"));
    });
  expect(await refusal("/v1/socket", "moonport.link.v1")).toContain("400");
  expect(await refusal("/v1/link", "moonport.json.v1")).toContain("400");
  expect(accepted).toEqual([]);
});

it("a connection that says nothing is cut, and one that never ends what it says", async () => {
  await listen();
  const { port } = new URL(listening.address.replace("ws:", "http:"));
  const cut = (says: string): Promise<void> =>
    new Promise((resolve) => {
      const socket = net.connect(Number(port), "127.0.0.1");
      socket.write(says);
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.resume();
    });
  await Promise.all([cut(""), cut("GET /v1/link HTTP/1.1\r\nhost: x\r\n")]);
  expect(accepted).toEqual([]);
});

it("a text message, and one that is too large, break the channel", async () => {
  const first = await listen();
  const ws = new WebSocket(`${listening.address}/v1/link`, "moonport.link.v1");
  ws.on("open", () => ws.send("text"));
  expect(await first.heard).toBe("a text message came, where all are binary");
  await listening.close();
  const second = await listen();
  const channel = await network.connect(listening.address, SILENT, 1_000);
  channel.send(new Uint8Array(2 ** 20 + 1));
  expect(await second.heard).toMatch(/Max payload size exceeded/);
});

it("a stranger's bytes are counted over all its messages, and trusting ends the counting", async () => {
  const closed = deferred<string>();
  listening = await network.listen((channel) => {
    accepted.push(channel);
    return { message() {}, closed: (reason) => closed.resolve(reason) };
  });
  const channel = await network.connect(listening.address, SILENT, 1_000);
  for (let count = 0; count < 20; count++) channel.send(new Uint8Array(500));
  expect(await closed.promise).toBe("more than 8192 bytes came from a stranger");
  await listening.close();
  const trusting = await listen();
  const other = await network.connect(listening.address, SILENT, 1_000);
  other.send(new Uint8Array(500_000));
  expect(await trusting.heard).toHaveLength(500_000);
});

it("a channel that is closed tells the other side why, and itself nothing more", async () => {
  const { heard } = await listen();
  const told: string[] = [];
  const events: ChannelEvents = { message: () => told.push("message"), closed: () => told.push("closed") };
  const channel = await network.connect(listening.address, events, 1_000);
  channel.close(`because ${"ü".repeat(100)}`);
  channel.close("again");
  channel.send(new Uint8Array(1));
  expect(await heard).toMatch(/^1000 because ü{57}$/);
  expect(told).toEqual([]);
});

it("an address that is taken, or not this machine's, or where nobody listens, is named", async () => {
  await listen();
  const { port } = new URL(listening.address.replace("ws:", "http:"));
  const taken = new WsNetwork({ host: "127.0.0.1", port: Number(port), settings }).listen(() => SILENT);
  await expect(taken).rejects.toMatchObject({
    code: "address_in_use",
    message: `127.0.0.1:${port} is taken by another process`,
  });
  const foreign = new WsNetwork({ host: "192.0.2.1", port: 0, settings }).listen(() => SILENT);
  await expect(foreign).rejects.toMatchObject({ code: "bad_option" });
  for (const address of ["ws://127.0.0.1:1", "nonsense", "ws://127.0.0.1:99999"]) {
    const error = await network.connect(address, SILENT, 1_000).catch((thrown) => thrown);
    expect([error.code, error.message.startsWith(`${address} cannot be reached: `)]).toEqual([
      "node_unreachable",
      true,
    ]);
  }
});

it("a node that listens everywhere says by which host it is reached", async () => {
  const everywhere = new WsNetwork({ host: "127.0.0.1", port: 0, advertisedHost: "fd00::7", settings });
  listening = await everywhere.listen(() => SILENT);
  expect(listening.address).toMatch(/^ws:\/\/\[fd00::7\]:\d+$/);
});

/** What becomes of a connection from a node with one certificate, if any, to one with another. */
async function dialled(dials: LinkTls | undefined, listens: LinkTls | undefined): Promise<string> {
  const options = { host: "127.0.0.1", port: 0, settings: settingsWith() };
  const heard = deferred<string>();
  listening = await new WsNetwork({ ...options, ...(listens && { tls: listens }) }).listen((channel) => {
    accepted.push(channel);
    channel.trust();
    return { message: (message) => heard.resolve(Buffer.from(message).toString()), closed: () => {} };
  });
  const scheme = dials === undefined ? "ws" : "wss";
  const asDialled = new WsNetwork({ ...options, ...(dials && { tls: dials }) });
  try {
    const channel = await asDialled.connect(listening.address.replace(/^wss?/, scheme), SILENT, 5_000);
    channel.send(Buffer.from("hello"));
    const said = await heard.promise;
    channel.close("heard");
    return said;
  } catch (error) {
    return (error as Error).message;
  }
}

it("with certificates both sides show theirs, and take only those of the fleet's authority", async () => {
  const { node, foreign, elsewhere } = certificates;
  const outcomes: string[] = [];
  for (const [dials, listens] of [
    [node, node],
    [foreign, node],
    [node, foreign],
    [node, elsewhere],
    [undefined, node],
    [node, undefined],
  ] as const) {
    outcomes.push(await dialled(dials, listens));
    await listening.close();
  }
  expect(outcomes).toEqual([
    "hello",
    expect.stringMatching(/cannot be reached: .*unknown ca|ECONNRESET|certificate/i),
    expect.stringMatching(/cannot be reached: unable to verify the first certificate|self-signed/),
    expect.stringMatching(/cannot be reached: .*does not match certificate/),
    expect.stringMatching(/cannot be reached: .*(socket hang up|ECONNRESET)/),
    expect.stringMatching(/cannot be reached: /),
  ]);
  expect(accepted).toHaveLength(1);
});

it("a node does not fall back to links without certificates, nor try those of a fleet that has them", async () => {
  const withTls = new WsNetwork({ host: "127.0.0.1", port: 0, settings, tls: certificates.node });
  listening = await withTls.listen(() => SILENT);
  expect(listening.address).toMatch(/^wss:\/\/127\.0\.0\.1:\d+$/);
  const plain = "ws://127.0.0.1:7071";
  await expect(withTls.connect(plain, SILENT, 1_000)).rejects.toThrow("links are wss: and that one's are not");
  await expect(network.connect(listening.address, SILENT, 1_000)).rejects.toThrow("links are ws: and that one's are");
});
