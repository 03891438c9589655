import { createServer, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Addresses } from "../../src/client/addresses.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { ERROR_CODES, type ErrorCode, MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { CallReply, CallRequest } from "../../src/node-api.js";
import { SETTINGS } from "../../src/settings/settings.js";
import { problemOf } from "../../src/wire/problem.js";
import { deferred } from "../../src/world/deferred.js";
import { type OpenDoor, openDoor, world } from "./door.js";

let open: OpenDoor;
let client: HttpNodeClient;
const object = identityOf("default", "Echo", "key");
const say: CallRequest = { object, method: "say", args: [], caller: { kind: "client" } };

beforeEach(async () => {
  open = await openDoor();
  client = new HttpNodeClient({ url: open.url, world });
});
afterEach(async () => {
  client.close();
  await open.door.stop();
});

async function errorOf(promise: Promise<unknown>): Promise<MoonportError> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome instanceof MoonportError) return outcome;
  throw new Error("expected a MoonportError", { cause: outcome });
}

describe("a node behind its HTTP door", () => {
  it("answers as the node itself does", async () => {
    open.node.answer = ({ args }) => ({ value: [...args], seq: 9 });
    const args = ["ada", 25, null, { seal: new Uint8Array([1, 2]) }];
    expect(await client.call({ ...say, args, callId: "id-1", timeoutMs: 500 })).toEqual({ value: args, seq: 9 });
    expect(open.node.calls[0]).toMatchObject({ args, callId: "id-1", timeoutMs: 500, mustRead: false });
    expect(await client.classes()).toEqual(await open.node.classes());
    expect(await client.status()).toEqual(await open.node.status());
    expect(await client.inspect(object)).toEqual(await open.node.inspect(object));
    expect(await client.sql(object, "select ?", [1, new Uint8Array([7])])).toEqual(
      await open.node.sql(object, "select ?", [1, new Uint8Array([7])]),
    );
    open.node.stores.set(object.id, new Map([["top", null]]));
    expect(await client.storeGet(object, "top")).toBeNull();
    expect(await client.storeGet(object, "other")).toBeUndefined();
    expect(await client.storeList(object, "t")).toEqual([["top", null]]);
    const stalled = { object: object.id, method: "say", quarantined: true, stalls: 2, lastAtMs: 1, lastSilentMs: 2 };
    open.node.quarantined = [stalled];
    expect(await client.quarantine()).toEqual([stalled]);
    expect(await client.clearQuarantine(object, "say")).toBe(true);
    expect(await client.clearQuarantine(object, "say")).toBe(false);
    await client.destroy(object);
    expect(open.node.destroyed).toEqual([object.id]);
  });

  it("tells and uses an object's past as the node itself does", async () => {
    expect(await client.history(object)).toEqual(await open.node.history(object));
    expect((await client.history(object, 7)).eras).toMatchObject([{ states: 7 }]);
    const restored = await client.restore(object, { at: { atMs: 99 }, timers: "drop" });
    expect(restored).toEqual({ object: object.id, epoch: 2, seq: 5, fromSeq: 3, fromMs: 7 });
    const forked = await client.fork(object, { at: { seq: 3 } }, "another/key");
    expect(forked.object).toBe("default/Echo/another/key");
    expect(open.node.restorations).toEqual([
      { object: object.id, restoration: { at: { atMs: 99 }, timers: "drop" } },
      { object: object.id, restoration: { at: { seq: 3 } }, key: "another/key" },
    ]);
    for (const at of [undefined, { seq: 3 }, { atMs: 12 }]) {
      const { parts, ...rest } = await client.exportDatabase(object, at);
      const read: Uint8Array[] = [];
      for await (const part of parts) read.push(part);
      expect(Buffer.concat(read).toString()).toBe(JSON.stringify(at ?? "now"));
      expect(rest).toEqual({ seq: 4, atMs: 7, bytes: Buffer.concat(read).length });
    }
    expect((await errorOf(client.exportDatabase(object, { seq: 5 }))).code).toBe("not_in_history");
  });

  it("may answer from a replica, and says so", async () => {
    open.node.answer = ({ consistency }) => ({ value: 1, seq: 9, ...(consistency && { from: "replica" }) });
    expect(await client.call({ ...say, consistency: "replica" })).toEqual({ value: 1, seq: 9, from: "replica" });
    expect(await client.call(say)).toEqual({ value: 1, seq: 9 });
  });

  it("gets a call id with every call, and GET for what must only read", async () => {
    await client.call({ ...say, mustRead: true, args: ["a b&c"] });
    expect(open.node.calls[0]).toMatchObject({ mustRead: true, args: ["a b&c"] });
    expect(open.node.calls[0]?.callId).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("is reached under every key that the grammar allows", async () => {
    const keys = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter((key) => {
      try {
        return identityOf("default", "Echo", key).key === key;
      } catch {
        return false;
      }
    });
    const special = fc.constantFrom(".", "..", "-", "a/b", "%2F", "?", "#", "__proto__", "a b", "+");
    await fc.assert(
      fc.asyncProperty(fc.oneof(keys, special), async (key) => {
        await client.call({ ...say, object: identityOf("default", "Echo", key) });
        expect(open.node.calls.at(-1)?.object.key).toBe(key);
      }),
      { numRuns: 60 },
    );
  });
});

describe("a client with a token", () => {
  it("sends it with every request, and shows it in no error", async () => {
    const seen: (string | undefined)[] = [];
    const stranger = await serve((socket) => {
      socket.once("data", (part) => {
        seen.push(/^authorization: (.*)$/im.exec(String(part))?.[1]?.trim());
        socket.end("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      });
    });
    const bearer = new HttpNodeClient({ url: stranger.url, world, token: "mp_secret.0_~+/-=" });
    for (const asking of [() => bearer.call(say), () => bearer.status(), () => bearer.sql(object, "select 1", [])]) {
      const { message, hint, details } = await errorOf(asking());
      expect(JSON.stringify([message, hint, details])).not.toContain("mp_secret");
    }
    expect(seen).toEqual(Array(3).fill("Bearer mp_secret.0_~+/-="));
    bearer.close();
    stranger.server.close();
  });

  it("refuses one that could not be sent", () => {
    for (const token of ["", "two words", "a\r\nX-Forged: 1", "ü"]) {
      const making = (): HttpNodeClient => new HttpNodeClient({ url: open.url, world, token });
      expect(making).toThrow(expect.objectContaining({ code: "bad_option" }));
    }
  });

  it("learns which life of a node answers, also of one that is not well", async () => {
    expect(await client.session()).toBe("session-of-the-fake");
    open.node.writesLand = false;
    expect(await client.session()).toBe("session-of-the-fake");
    const stranger = await listen("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    expect((await errorOf(new HttpNodeClient({ url: stranger.url, world }).session())).code).toBe("node_unreachable");
    stranger.server.close();
  });
});

describe("an error that crosses the wire", () => {
  it.each(Object.keys(ERROR_CODES) as ErrorCode[])("%s is the same error on the other side", async (code) => {
    const thrown = MoonportError.of(code, "what happened", {
      hint: "do this",
      object: "default/Echo/key",
      callId: "id-1",
      retryAfterMs: 70,
      details: { path: ["a", "b"], bytes: new Uint8Array([1]) },
    });
    open.node.answer = () => Promise.reject(thrown);
    const error = await errorOf(client.call({ ...say, callId: "id-1" }));
    for (const field of ["code", "source", "message", "hint", "object", "callId", "retryAfterMs", "details"] as const) {
      expect(error[field]).toEqual(thrown[field]);
    }
    expect(error.entry).toBe(thrown.entry);
  });

  it("stays a class's own", async () => {
    open.node.answer = () => Promise.reject(MoonportError.byClass("too_low", "bid more", { details: { top: 25 } }));
    const error = await errorOf(client.call(say));
    expect([error.code, error.source, error.details]).toEqual(["too_low", "class", { top: 25 }]);
  });
});

describe("a node that is not there", () => {
  it("is unreachable when nothing listens", async () => {
    await open.door.stop();
    expect((await errorOf(client.call(say))).code).toBe("node_unreachable");
  });

  it("is unreachable when something else listens", async () => {
    const stranger = await listen("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi");
    const error = await errorOf(new HttpNodeClient({ url: stranger.url, world }).status());
    expect([error.code, error.message]).toEqual([
      "node_unreachable",
      `${stranger.url} answered 200 and is no Moonport node`,
    ]);
    stranger.server.close();
  });

  it("leaves the outcome of a write unknown when it dies under it, and says under which id to ask again", async () => {
    const halves = [
      "",
      "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1",
      "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    ];
    for (const half of halves) {
      const dying = await listen(half);
      const lost = new HttpNodeClient({ url: dying.url, world });
      const unit = {
        app: "default",
        unit: "pay",
        method: "GET",
        path: "/",
        query: {},
        headers: {},
        caller: say.caller,
      };
      for (const asked of [
        () => lost.call({ ...say, callId: "order-17" }),
        () => lost.runUnit({ ...unit, callId: "order-17" }),
      ]) {
        const details = { callId: "order-17", lost: "connection" };
        expect(await errorOf(asked())).toMatchObject({ code: "outcome_unknown", callId: "order-17", details });
      }
      const own = await errorOf(lost.call(say));
      expect([own.code, own.callId]).toEqual(["outcome_unknown", expect.stringMatching(/^[0-9a-f-]{36}$/)]);
      const sent = { app: "default", className: "Echo", key: "a", method: "say", args: [], id: "later" } as const;
      expect(await errorOf(lost.delay.send(sent))).toMatchObject({ code: "outcome_unknown", callId: "later" });
      for (const asked of [() => lost.destroy(object), () => lost.delay.cancel("later"), () => lost.recover(object)]) {
        expect(await errorOf(asked())).toMatchObject({ code: "outcome_unknown", callId: undefined });
      }
      // What only reads has done nothing, whatever became of it.
      for (const asked of [
        () => lost.call({ ...say, mustRead: true }),
        () => lost.sql(object, "select 1", []),
        () => lost.status(),
      ]) {
        expect((await errorOf(asked())).code).toBe("node_unreachable");
      }
      lost.close();
      dying.server.close();
    }
  });

  it("leaves it unknown, too, when it does not answer in time, or is not waited for", async () => {
    let timeIsUp = (): void => {};
    const after = (_delayMs: number, run: () => void): { cancel(): void } => {
      timeIsUp = run;
      return { cancel() {} };
    };
    const late = new HttpNodeClient({ url: open.url, world: { ...world, timers: { ...world.timers, after } } });
    const begun = deferred<void>();
    open.node.answer = () => {
      begun.resolve();
      return new Promise<CallReply>(() => {});
    };
    const call = errorOf(late.call({ ...say, callId: "order-18" }));
    await begun.promise;
    timeIsUp();
    expect(await call).toMatchObject({ code: "outcome_unknown", details: { callId: "order-18", lost: "time" } });
    late.close();
  });

  it("is given the time of its gate on top of the time that a call or a unit may wait for its turn", async () => {
    const waitsMs: number[] = [];
    const after = (delayMs: number): { cancel(): void } => {
      waitsMs.push(delayMs);
      return { cancel() {} };
    };
    const patient = new HttpNodeClient({ url: open.url, world: { ...world, timers: { ...world.timers, after } } });
    await patient.call({ ...say, timeoutMs: 1_000 });
    const { caller } = say;
    const unit = { app: "default", unit: "pay", method: "GET", path: "/", query: {}, headers: {}, caller };
    await patient.runUnit({ ...unit, timeoutMs: 1_000 }).catch(() => {});
    const { OBJECT_ACK_GATE_MS, METHOD_BUDGET_MS } = SETTINGS;
    expect(waitsMs).toHaveLength(2);
    expect(Math.min(...waitsMs)).toBeGreaterThan(1_000 + METHOD_BUDGET_MS.default + OBJECT_ACK_GATE_MS.default);
    patient.close();
  });

  it("is asked again on a fresh connection when it closes the kept one, but is told once to destroy", async () => {
    const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1";
    let connections = 0;
    const forgetful = await serve((socket) => {
      connections += 1;
      socket.once("data", () => {
        socket.write(answer);
        socket.once("data", () => socket.destroy());
      });
    });
    const patient = new HttpNodeClient({ url: forgetful.url, world });
    for (let calls = 1; calls <= 3; calls++) expect(await patient.call(say)).toEqual({ value: 1 });
    expect(connections).toBe(3);
    expect((await errorOf(patient.destroy(object))).code).toBe("outcome_unknown");
    for (const change of [() => patient.delay.cancel("x"), () => patient.delay.retry("x")]) {
      await patient.call(say);
      const before = connections;
      expect((await errorOf(change())).code).toBe("outcome_unknown");
      expect(connections).toBe(before);
    }
    patient.close();
    forgetful.server.close();
  });

  it("leaves it unknown what it came to where the kept connection closed, when the fresh one is turned away", async () => {
    const turned = (error: MoonportError): string => {
      const body = JSON.stringify(problemOf(error));
      const head = "Content-Type: application/problem+json\r\nConnection: close";
      return `HTTP/1.1 503 No\r\n${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    };
    let refusal = MoonportError.of("mailbox_full", "full");
    let connections = 0;
    const busy = await serve((socket) => {
      connections += 1;
      if (connections % 2 === 0) return void socket.once("data", () => socket.end(turned(refusal)));
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1");
        socket.once("data", () => socket.destroy());
      });
    });
    const patient = new HttpNodeClient({ url: busy.url, world });
    const again = async (request: CallRequest): Promise<MoonportError> => {
      await patient.call(say);
      return await errorOf(patient.call({ ...request, callId: "order-19" }));
    };
    expect(await again(say)).toMatchObject({ code: "outcome_unknown", callId: "order-19" });
    expect((await again({ ...say, mustRead: true })).code).toBe("mailbox_full");
    refusal = MoonportError.of("method_not_found", "no such method");
    expect((await again(say)).code).toBe("method_not_found");
    patient.close();
    busy.server.close();
  });

  it.each([
    "http://ada:hunter2@127.0.0.1:7070",
    "http://:hunter2@127.0.0.1:7070",
    "http://ada:hun/hunter2@a b",
    "http://127.0.0.1:7070?token=hunter2",
  ])("does not repeat what is secret in the address %s", (url) => {
    for (const connect of [() => new HttpNodeClient({ url, world }), () => new Addresses(url)]) {
      expect(connect).toThrow(/is not a node's address/);
      expect(connect).not.toThrow(/hunter2/);
    }
  });

  it.each(["127.0.0.1:7070", "https://a.example", "http://a/path", "nonsense", "http://u:p@a"])(
    "refuses the address %s",
    (url) => {
      expect(() => new HttpNodeClient({ url, world })).toThrow(/is not a node's address/);
    },
  );

  it("is given up when the caller aborts", async () => {
    const begun = deferred<void>();
    open.node.answer = () => {
      begun.resolve();
      return new Promise<CallReply>(() => {});
    };
    const controller = new AbortController();
    const call = errorOf(client.call({ ...say, signal: controller.signal }));
    await begun.promise;
    controller.abort();
    // It has begun, and runs to its end.
    expect(await call).toMatchObject({ code: "outcome_unknown", details: { lost: "caller" } });
    expect((await errorOf(client.call({ ...say, signal: controller.signal }))).code).toBe("caller_gone");
  });
});

/** A server that answers each connection's first bytes with `answer`, or hangs up when there is none. */
function listen(answer: string): Promise<{ url: string; server: Server }> {
  return serve((socket) => {
    socket.once("data", () => (answer === "" ? socket.destroy() : socket.end(answer)));
  });
}

async function serve(connected: (socket: Socket) => void): Promise<{ url: string; server: Server }> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    connected(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}`, server };
}
