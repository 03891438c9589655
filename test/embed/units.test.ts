import { describe, expect, it } from "vitest";
import type { NativeContext, PlainValue } from "../../src/index.js";
import { MoonportError } from "../../src/index.js";
import { embedded } from "./embedded.js";

const ECHO = `return function(request) return { status = 201, headers = { ["x-by"] = caller.id or "nobody" }, body = request } end`;
const POST_IT = `return function(request)
  local ledger = Ledger(request.query.ledger)
  local added = ledger:add(request.body.text)
  local sent = Mailer("ops"):send(request.body.text, added.id)
  return { added = added.id, sent = sent, count = ledger:count() }
end`;
const FAILS = `return function() Mailer("ops"):explode() end`;
const FETCHES = `return function() return fetch("http://127.0.0.1:9/") end`;

class Mailer {
  readonly sent: { args: readonly PlainValue[]; key: string; callId: string }[] = [];

  async send(args: readonly PlainValue[], { key, callId }: NativeContext): Promise<PlainValue> {
    this.sent.push({ args, key, callId });
    return `to ${key}`;
  }

  explode(): never {
    throw MoonportError.of("forbidden", "no mail today");
  }
}

const units = { echo: ECHO, "post-it": POST_IT, fails: FAILS, fetches: FETCHES };

describe("a unit run from the program", () => {
  it("sees the request as it is and answers with a response", async () => {
    const moonport = await embedded({ units, native: { Mailer: new Mailer() } });
    const request = { path: "/a/b", query: { q: ["1", "2"] }, headers: { "X-Trace": "t" }, body: { n: [1] } };
    const response = await moonport.unit("echo", request, { as: { id: "ada" } });
    expect(response.status).toBe(201);
    expect(response.headers).toMatchObject({ "x-by": "ada", "content-type": expect.stringMatching(/json/) });
    expect(JSON.parse(String(response.body))).toMatchObject({
      method: "POST",
      path: "/a/b",
      query: { q: ["1", "2"] },
      headers: { "x-trace": "t" },
      body: { n: [1] },
    });
    expect(JSON.parse(String((await moonport.unit("echo")).body))).toMatchObject({ method: "GET", path: "/" });
  });

  it("calls objects and the program's own code", async () => {
    const mailer = new Mailer();
    const moonport = await embedded({ units, native: { Mailer: mailer } });
    const request = { query: { ledger: "a" }, body: { text: "one" } };
    const response = await moonport.unit("post-it", request, { callId: "request-1" });
    expect(JSON.parse(String(response.body))).toEqual({ added: 1, sent: "to ops", count: 1 });
    expect(mailer.sent).toEqual([{ args: ["one", 1], key: "ops", callId: expect.any(String) }]);
    await moonport.unit("post-it", request, { callId: "request-1" });
    expect(mailer.sent[1]).toEqual(mailer.sent[0]);
    expect(await moonport.object("Ledger", "a").call("count")).toBe(1);
    await expect(moonport.unit("fails")).rejects.toMatchObject({ code: "forbidden", message: "no mail today" });
  });

  it("reaches the network only where it is let", async () => {
    const native = { Mailer: new Mailer() };
    const closed = await embedded({ units, native });
    await expect(closed.unit("fetches")).rejects.toMatchObject({ code: "fetch_refused" });
    const open = await embedded({ units, native, allowFetch: ["127.0.0.1:9"] });
    await expect(open.unit("fetches")).rejects.toMatchObject({ code: "fetch_failed" });
  });

  it("refuses what is wrong in the asking", async () => {
    const moonport = await embedded({ units, native: { Mailer: new Mailer() } });
    await expect(moonport.unit("ecko")).rejects.toMatchObject({ code: "unit_not_found" });
    await expect(moonport.unit("Echo")).rejects.toMatchObject({ code: "bad_name" });
    const wrong = [{ paht: "/" }, { path: "a" }, { method: "get" }, { query: { a: 1 } }, { headers: { a: 1 } }];
    for (const request of wrong as object[]) {
      await expect(moonport.unit("echo", request)).rejects.toMatchObject({ code: "bad_option" });
    }
    await expect(moonport.unit("echo", { body: () => 1 })).rejects.toMatchObject({ code: "bad_value" });
    const aborted = moonport.unit("echo", {}, { signal: AbortSignal.abort(new Error("too late")) });
    await expect(aborted).rejects.toThrow("too late");
  });
});
