/** Delayed commands through each door of one real node: HTTP, WebSocket, the embedding program; and what a token may send. */
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { connect, type MoonportClient } from "../../src/client/index.js";
import { Moonport } from "../../src/moonport.js";
import type { NativeContext } from "../../src/units/native.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ALARM, POST } from "./classes.js";

const TOKENS = {
  all: { rights: ["send", "call", "subscribe", "admin"] },
  post: { rights: ["send"], classes: ["Post"], keys: ["p"], methods: ["count"] },
};
const HOUR_MS = 3_600_000;

let moonport: Moonport;
let clients: MoonportClient[] = [];
const delivered: unknown[] = [];

beforeEach(async () => {
  delivered.length = 0;
  moonport = await Moonport.open({
    dataDir: temporaryFolder(),
    bucket: "memory:",
    classes: { Post: POST, Alarm: ALARM },
    native: {
      Mailer: {
        deliver: async ([text]: readonly unknown[], { key, caller, callId }: NativeContext) =>
          void delivered.push([key, text, caller.kind, callId !== ""]),
      },
    },
    listen: { port: 0, auth: authenticator() },
  });
});
afterEach(async () => {
  for (const client of clients) await client.close();
  clients = [];
  await moonport.close();
});

function authenticator(): StaticTokens {
  const tokens = Object.entries(TOKENS).map(([id, allow]) => {
    return { id, sha256: createHash("sha256").update(tokenOf(id)).digest("hex"), allow: [allow] };
  });
  return new StaticTokens(JSON.stringify({ tokens }), "auth.json", new Uint8Array(32));
}

function tokenOf(id: string): string {
  return `${id}-token-of-enough-length`;
}

function clientOf(id: keyof typeof TOKENS): MoonportClient {
  const client = connect((moonport.url as string).replace("http", "ws"), { token: tokenOf(id) });
  clients.push(client);
  return client;
}

async function post(path: string, id: keyof typeof TOKENS = "all"): Promise<number> {
  const headers = { authorization: `Bearer ${tokenOf(id)}`, "content-type": "application/json" };
  return (await fetch(`${moonport.url}${path}`, { method: "POST", headers, body: "[]" })).status;
}

const counted = (key: string) => moonport.object("Post", key).call("counted");

describe("a command", () => {
  it("is sent through each door, and one of its id is one command whichever they come through", async () => {
    const client = clientOf("all");
    expect(await client.object("Post", "p").send("count", [], { id: "once" })).toEqual({ id: "once" });
    const as = { id: "all" };
    expect(await moonport.object("Post", "p").send("count", [], { id: "once", as })).toEqual({ id: "once" });
    expect(await post("/v1/default/Post/p/-/send/count?id=once")).toBe(200);
    await expect.poll(() => counted("p")).toBe(1);
    await client.object("Post", "p").send("count");
    await moonport.object("Post", "p").send("count", [], { delayMs: 20 });
    await expect.poll(() => counted("p")).toBe(3);
    await expect(client.object("Post", "q").send("count", [], { id: "once" })).resolves.toEqual({ id: "once" });
    await expect(client.object("Post", "p").send("take", ["x"], { id: "once" })).rejects.toMatchObject({
      code: "id_conflict",
    });
  });

  it("is its sender's: whoever else sends under its id is refused, and may take one that nobody is known to have sent", async () => {
    const send = (id: string, as?: { id: string }) =>
      moonport.object("Post", "p").send("count", [], { id, delayMs: HOUR_MS, ...(as && { as }) });
    await send("hers", { id: "all" });
    expect(await clientOf("all").object("Post", "p").send("count", [], { id: "hers" })).toEqual({ id: "hers" });
    await expect(clientOf("post").object("Post", "p").send("count", [], { id: "hers" })).rejects.toMatchObject({
      code: "id_conflict",
    });
    expect(await post("/v1/default/Post/p/-/send/count?id=hers", "post")).toBe(409);
    await expect(send("hers")).rejects.toMatchObject({ code: "id_conflict" });
    await moonport.delay.cancel("hers");
    await expect(send("hers", { id: "post" })).rejects.toMatchObject({ code: "id_conflict" });
    await send("open");
    expect(await send("open", { id: "post" })).toEqual({ id: "open" });
  });

  it("is listed, shown, moved and taken back by a client and by the program", async () => {
    const client = clientOf("all");
    const object = client.object("Post", "p");
    const atMs = Date.now() + HOUR_MS;
    await object.send("count", [], { id: "later", atMs });
    expect(await client.delay.list({ object: "Post/p" })).toMatchObject([
      { id: "later", state: "pending", dueMs: atMs },
    ]);
    expect(await client.delay.get("later")).toMatchObject({ command: { method: "count" }, runs: [] });
    expect(await client.delay.get("never")).toBeUndefined();
    expect(await client.delay.move("later", { atMs: atMs + HOUR_MS })).toBe("done");
    expect(await moonport.delay.list({})).toMatchObject([{ id: "later", dueMs: atMs + HOUR_MS }]);
    expect(await moonport.delay.cancel("later")).toBe("done");
    expect(await client.delay.cancel("never")).toBe("unknown");
    expect(await client.delay.retry("later")).toBe(false);
  });

  it("of a recurring plan runs, and an object's timers are shown", async () => {
    const client = clientOf("all");
    await client.object("Post", "p").send("count", [], { id: "often", everyMs: 30, missed: "skip" });
    await expect.poll(() => counted("p")).toBeGreaterThan(2);
    expect(await client.delay.cancel("often")).toBe("done");
    await client.object("Alarm", "a").call("set", [60, "wake"]);
    const shown = { timers: [{ name: "wake", state: "set", plan: "after" }], runs: [] };
    expect(await client.object("Alarm", "a").timers()).toMatchObject(shown);
    expect(await moonport.object("Alarm", "a").timers()).toMatchObject(shown);
  });

  it("tells its outcome by a message, or by an event of an object", async () => {
    const client = clientOf("all");
    const events = client.object("Post", "boss").subscribe();
    await events.ready;
    const outcome = { class: "Post", key: "boss" };
    await client.object("Post", "p").send("count", [], { id: "a", outcome: { ...outcome, method: "told" } });
    await expect.poll(() => moonport.object("Post", "boss").call("got")).toEqual(["a done"]);
    await moonport.object("Post", "p").send("count", [], { id: "b", outcome: { ...outcome, event: "ran" } });
    for await (const item of events) {
      expect(item).toMatchObject({ kind: "event", name: "ran", data: { id: "b", outcome: "done", object: "Post/p" } });
      break;
    }
  });

  it("may be for code of the program: a native class, from outside and from an object", async () => {
    await moonport.object("Mailer", "ada").send("deliver", ["hello"]);
    await expect.poll(() => delivered).toEqual([["ada", "hello", "message", true]]);
    await expect(
      moonport.object("Mailer", "ada").send("deliver", [], { outcome: { class: "Mailer", key: "a", event: "x" } }),
    ).rejects.toMatchObject({ code: "class_not_found" });
  });

  it("that is wrong is refused through each door alike", async () => {
    const object = clientOf("all").object("Post", "p");
    const wrong = [{ delayMs: 1, atMs: 2 }, { timeZone: "Europe/Berlin" }, { cron: "never" }, { id: "a#b" }] as const;
    for (const options of wrong) {
      const code = "cron" in options ? "bad_value" : "bad_option";
      await expect(object.send("count", [], options)).rejects.toMatchObject({ code });
      await expect(moonport.object("Post", "p").send("count", [], options)).rejects.toMatchObject({ code });
    }
    await expect(object.send("count", [], { dleayMs: 5 } as object)).rejects.toMatchObject({
      code: "bad_option",
      hint: "did you mean delayMs?",
    });
    await expect(clientOf("all").delay.list({ states: ["pendin"] as never })).rejects.toMatchObject({
      code: "bad_option",
    });
    await expect(object.send("cuont")).rejects.toMatchObject({ code: "method_not_found" });
  });

  it("needs the right to send, for its object and method, and for whoever is told its outcome", async () => {
    const client = clientOf("post");
    await client.object("Post", "p").send("count");
    const told = { class: "Post", key: "p" };
    await client.object("Post", "p").send("count", [], { outcome: { ...told, method: "count" } });
    await expect.poll(() => counted("p")).toBe(3);
    const refused = [
      client.object("Post", "q").send("count"),
      client.object("Post", "p").send("take"),
      client.object("Post", "p").send("count", [], { outcome: { ...told, method: "told" } }),
      client.object("Post", "p").send("count", [], { outcome: { ...told, key: "q", method: "count" } }),
      client.object("Post", "p").send("count", [], { outcome: { ...told, event: "x" } }),
      client.object("Alarm", "a").timers(),
      client.delay.list(),
      client.delay.cancel("x"),
    ];
    for (const one of refused) await expect(one).rejects.toMatchObject({ code: "forbidden" });
    for (const query of ["outcome=Post/p/told", "outcome=Post/q/count", "outcome_event=Post/p/x"]) {
      expect(await post(`/v1/default/Post/p/-/send/count?${query}`, "post")).toBe(403);
    }
    expect(await post("/v1/default/Post/p/-/send/count?outcome=Post/p/count", "post")).toBe(200);
  });
});
