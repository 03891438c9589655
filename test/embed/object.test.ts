import { describe, expect, it } from "vitest";
import { embedded } from "./embedded.js";
import type { LedgerMethods } from "./ledger-class.js";

describe("an object in the program", () => {
  it("is called by name or by its methods", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a/b c");
    expect(ledger.id).toBe("default/Ledger/a/b c");
    expect(await ledger.add("one", { by: "ada" })).toEqual({ id: 1 });
    expect(await ledger.call("add", ["two"])).toEqual({ id: 2 });
    expect(await ledger.texts()).toEqual(["one", "two"]);
    expect((await ledger.inspect()).seq).toBe(2);
    expect(await ledger.call("inspect")).toBe("the class's own");
  });

  it("is no promise, and says nothing to JSON", async () => {
    const moonport = await embedded();
    const ledger = moonport.object("Ledger", "a");
    expect(await ledger).toBe(ledger);
    expect(JSON.parse(JSON.stringify({ ledger }))).toEqual({ ledger: { id: "default/Ledger/a" } });
  });

  it("passes values through as they are, bytes and nulls included", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const values = [true, 1.5, "ü", new Uint8Array([0, 255]), [1, [null]], { a: { b: [] } }];
    expect(await ledger.mirror(...values)).toEqual(values);
  });

  it("answers with a value of the program's own each time", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    await ledger.add("one");
    for (let time = 0; time < 6; time++) {
      const texts = await ledger.texts();
      expect(texts).toEqual(["one"]);
      texts.push("mine");
    }
  });

  it("refuses what cannot travel before anything runs", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const bad = ledger.mirror(1, { at: new Date(0) });
    await expect(bad).rejects.toMatchObject({ code: "bad_value", message: "argument 2.at: a Date cannot travel" });
    expect((await ledger.inspect()).state).toBe("unwritten");
  });

  it("refuses misspelled options and names", async () => {
    const moonport = await embedded();
    const ledger = moonport.object("Ledger", "a");
    const call = (options: object): Promise<unknown> => ledger.call("count", [], options);
    await expect(call({ callID: "x" })).rejects.toMatchObject({ code: "bad_option", hint: "did you mean callId?" });
    await expect(call({ consistency: "stale" })).rejects.toMatchObject({ code: "bad_option" });
    await expect(call({ timeoutMs: 0 })).rejects.toMatchObject({ code: "bad_option" });
    await expect(call({ callId: "with space" })).rejects.toMatchObject({ code: "bad_option" });
    await expect(call({ signal: {} })).rejects.toMatchObject({ code: "bad_option" });
    await expect(call({ as: { claim: {} } })).rejects.toMatchObject({ hint: "did you mean claims?" });
    await expect(ledger.call("not a name")).rejects.toMatchObject({ code: "bad_name" });
    await expect(ledger.call("coumt")).rejects.toMatchObject({ code: "method_not_found", hint: "did you mean count?" });
    expect(() => moonport.object("ledger", "a")).toThrow(expect.objectContaining({ code: "bad_name" }));
    expect(() => moonport.object("Ledger", "")).toThrow(expect.objectContaining({ code: "bad_key" }));
  });

  it("tells Lua on whose behalf it is called", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    expect(await ledger.whoami()).toEqual({ kind: "client" });
    const as = { id: "ada", claims: { roles: ["admin"] } };
    expect(await ledger.call("whoami", [], { as })).toEqual({ kind: "client", ...as });
  });

  it("fails with what the class threw", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const failing = ledger.call("add", [""], { callId: "call-1" });
    await expect(failing).rejects.toMatchObject({
      name: "MoonportError",
      code: "empty",
      source: "class",
      retryable: false,
      object: "default/Ledger/a",
      callId: "call-1",
      details: { given: "" },
    });
  });

  it("runs a call once that is made twice with one id", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const options = { callId: "order-17" };
    expect(await ledger.call("add", ["one"], options)).toEqual({ id: 1 });
    expect(await ledger.call("add", ["one"], options)).toEqual({ id: 1 });
    await expect(ledger.call("add", ["two"], options)).rejects.toMatchObject({ code: "id_conflict" });
    expect(await ledger.count()).toBe(1);
  });

  it("rejects with the signal's reason, and does not run what has not begun", async () => {
    const moonport = await embedded({ settings: { METHOD_BUDGET_MS: 60_000 } });
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    const aborted = ledger.call("add", ["never"], { signal: AbortSignal.abort(new Error("too late")) });
    await expect(aborted).rejects.toThrow("too late");

    const giveUp = new AbortController();
    const busy = ledger.spin();
    const waiting = ledger.call("add", ["never"], { signal: giveUp.signal });
    giveUp.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    expect(await busy).toBe(1e6);
    expect(await ledger.count()).toBe(0);
  });

  it("is destroyed, and starts anew", async () => {
    const moonport = await embedded();
    const ledger = moonport.object<LedgerMethods>("Ledger", "a");
    await expect(ledger.destroy()).rejects.toMatchObject({ code: "object_not_found" });
    await ledger.add("one");
    await ledger.destroy();
    expect((await ledger.inspect()).state).toBe("destroyed");
    expect(await ledger.add("two")).toEqual({ id: 1 });
  });
});
