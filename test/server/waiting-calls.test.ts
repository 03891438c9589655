/** A real node behind its doors: calls that wait are answered at their deadline by whichever door they came. */
import { describe, expect, it } from "vitest";
import { classes } from "../realtime/log-class.js";
import { serveNode } from "../support/event-streams.js";
import { ask } from "./door.js";
import { TestClient } from "./sockets.js";

/** They run until the budget is used up, in slices, unless something ends them. */
const Busy = `
local Busy = class "Busy"
function Busy:spin() while true do end end
function Busy.read:slowly() while true do end end
function Busy:set(text) state.store.set("text", text) return text end
function Busy.read:get() return state.store.get("text") end
return Busy
`;

const log = { class: "Log", key: "a" };

describe("a call whose object cannot be opened now", () => {
  it("is answered at its deadline over HTTP and over a WebSocket, and never runs", async () => {
    const served = await serveNode({ classes });
    const client = await TestClient.greeted(served.port);
    const gate = served.bucket.gate();
    client.send({ type: "call", id: 1, ...log, method: "say", args: ["socket"], timeoutMs: 20 });
    const short = { "x-request-timeout-ms": "20" };
    const overHttp = ask(served.port, "POST", "/v1/default/Log/a/say", '["http"]', short);
    expect(await client.next("error")).toMatchObject({ id: 1, error: { code: "deadline_exceeded", retryable: true } });
    expect(await overHttp).toMatchObject({ status: 504, json: { code: "deadline_exceeded" } });
    client.send({ type: "call", id: 2, ...log, method: "say", args: ["in time"] });
    gate.release();
    expect(await client.next("reply")).toMatchObject({ id: 2, seq: 1 });
  });

  it("makes room on its socket as soon as nobody waits for it", async () => {
    const served = await serveNode({ classes, settings: { SOCKET_CALLS_MAX: 2 } });
    const client = await TestClient.greeted(served.port);
    const gate = served.bucket.gate();
    for (const id of [1, 2]) client.send({ type: "call", id, ...log, method: "say", args: ["cancelled"] });
    for (const id of [1, 2]) client.send({ type: "cancel", id });
    // With both places of the socket taken this one would not even begin to wait.
    client.send({ type: "call", id: 3, ...log, method: "say", args: ["late"], timeoutMs: 20 });
    expect(await client.next("error")).toMatchObject({ id: 3, error: { code: "deadline_exceeded" } });
    gate.release();
    client.send({ type: "call", id: 4, ...log, method: "say", args: ["in time"] });
    expect(await client.next("reply")).toMatchObject({ id: 4, seq: 1 });
  });
});

describe("a call whose object is busy", () => {
  it("is answered at its deadline between the slices of what runs, a writer or a read that it waits for", async () => {
    const settings = { METHOD_SLICE_MS: 2, METHOD_BUDGET_MS: 1_500 };
    const served = await serveNode({ classes: { Busy }, settings });
    const client = await TestClient.greeted(served.port);
    const target = (key: string): { class: string; key: string } => ({ class: "Busy", key });
    for (const [n, key] of ["a", "b"].entries()) {
      client.send({ type: "call", id: n, ...target(key), method: "set", args: ["before"] });
      await client.next("reply", n);
    }
    client.send({ type: "call", id: 10, ...target("a"), method: "spin" });
    client.send({ type: "call", id: 20, ...target("b"), method: "slowly" });
    client.send({ type: "call", id: 11, ...target("a"), method: "set", args: ["late"], timeoutMs: 20 });
    client.send({ type: "call", id: 21, ...target("b"), method: "set", args: ["late"], timeoutMs: 20 });
    const ends: unknown[] = [];
    while (ends.length < 4) {
      const { id, error } = await client.next("error");
      ends.push([id, (error as { code: string }).code]);
    }
    expect(ends.slice(0, 2).sort()).toEqual([
      [11, "deadline_exceeded"],
      [21, "deadline_exceeded"],
    ]);
    expect(ends.slice(2).sort()).toEqual([
      [10, "budget_exceeded"],
      [20, "budget_exceeded"],
    ]);
    for (const [n, key] of ["a", "b"].entries()) {
      client.send({ type: "call", id: 30 + n, ...target(key), method: "get" });
      expect((await client.next("reply", 30 + n)).value).toBe("before");
    }
  });
});
