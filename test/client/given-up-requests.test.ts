/** The client of a node's HTTP door, when the node does not answer. */
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf } from "../../src/identity.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";

const real = realWorld("/nonexistent", silentLogger);

let server: http.Server;
/** What was asked, in order. */
let asked: string[];
/** Whether it answers. */
let answers: (path: string) => boolean;
beforeEach(async () => {
  asked = [];
  answers = () => true;
  server = http.createServer((request, response) => {
    const path = String(request.url);
    asked.push(path);
    if (answers(path)) response.setHeader("content-type", "application/json").end('{"nodes":[],"methods":[]}');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

it("does not send again, for nobody, what it has given up on a connection that it had kept", async () => {
  const { nodes, quarantine } = { nodes: "/v1/admin/nodes", quarantine: "/v1/admin/quarantine" };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let timeIsUp = (): void => {};
  const timers = {
    ...real.timers,
    after: (_ms: number, callback: () => void) => {
      timeIsUp = callback;
      return { cancel: () => {} };
    },
  };
  const one = new HttpNodeClient({ url, world: { ...real, timers } });
  await one.nodes();
  answers = (path) => path === nodes;
  const late = one.quarantine();
  late.catch(() => {});
  await expect.poll(() => asked.length, { interval: 5, timeout: 30_000 }).toBe(2);
  timeIsUp();
  await expect(late).rejects.toMatchObject({ code: "node_unreachable" });
  await one.nodes();
  const gone = new AbortController();
  const object = identityOf("default", "Ledger", "a");
  const call = one.call({ object, method: "add", args: [], caller: { kind: "client" }, signal: gone.signal });
  call.catch(() => {});
  await expect.poll(() => asked.length, { interval: 5, timeout: 30_000 }).toBe(4);
  gone.abort();
  await expect(call).rejects.toMatchObject({ code: "outcome_unknown", details: { lost: "caller" } });
  await one.nodes();
  expect(asked).toEqual([nodes, quarantine, nodes, "/v1/default/Ledger/a/add", nodes]);
  one.close();
});
