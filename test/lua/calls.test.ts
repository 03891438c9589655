import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { evaluate, FakeHost, loadThing, makeEngine, run, step } from "./support/fake-host.js";

describe("a call", () => {
  test("gets self, arguments and returns its value", () => {
    const host = new FakeHost();
    host.object = identityOf("shop", "Thing", "lot-42");
    const thing = loadThing("function Thing:go(a, b) return { self.app, self.class, self.key, self.id, a + b } end");
    expect(run(thing, "go", [1, 2.5], host)).toEqual(["shop", "Thing", "lot-42", "shop/Thing/lot-42", 3.5]);
  });

  test("returns null for nothing and an array for several values", () => {
    const engine = makeEngine();
    expect(evaluate("return", engine)).toBeNull();
    expect(evaluate("return nil", engine)).toBeNull();
    expect(evaluate("return 1, nil, 'x', nil", engine)).toEqual([1, null, "x", null]);
  });

  test("reaches its other methods, private ones and constants through self", () => {
    const thing = loadThing(`
      Thing.STEP = 10
      function Thing:go(n) return self:_twice(n) + self:peek() + self.STEP end
      function Thing:_twice(n) return 2 * n end
      function Thing.read:peek() return state.store.get("n") or 0 end
    `);
    const host = new FakeHost();
    host.store.set("n", 100);
    expect(run(thing, "go", [4], host)).toBe(118);
    expect(run(thing, "peek", [], host)).toBe(100);
  });

  test("of one object never sees another's self", () => {
    const thing = loadThing("function Thing:go() return self.key end");
    const [a, b] = [new FakeHost(), new FakeHost()];
    b.object = identityOf("default", "Thing", "two");
    expect([run(thing, "go", [], a), run(thing, "go", [], b), run(thing, "go", [], a)]).toEqual(["one", "two", "one"]);
  });

  test("cannot set fields of self, and is told what to do instead", () => {
    const thing = loadThing("function Thing:go() self.count = 1 end function Thing:key() self.key = 'x' end");
    expect(() => run(thing, "go")).toThrow("classes/Thing.lua:1: self.count cannot be set");
    expect(() => run(thing, "key")).toThrow("self.key cannot be set");
    expect(() => evaluate("rawset(self, 'count', 1)")).toThrow("self.count cannot be set");
    expect(() => evaluate("setmetatable(self, {})")).toThrow("cannot change a protected metatable");
  });

  test("to a method that is not there names the nearest", () => {
    const thing = loadThing("function Thing:bid() return self:bidd() end");
    expect(() => run(thing, "bid")).toThrow("Thing has no method 'bidd'; did you mean 'bid'?");
    const missing = catching(() => thing.start({ kind: "method", name: "bod" }, [], new FakeHost()));
    expect(missing.code).toBe("method_not_found");
    expect(missing.hint).toBe("did you mean bid?");
  });

  test("runs hooks and the directory's row", () => {
    const thing = loadThing(`
      Thing.directory = { columns = { n = "integer" }, row = function(self) return { n = state.store.get("n") } end }
      function Thing:on_create() state.store.set("n", 1) end
      function Thing:on_wake() state.store.set("n", 2) end
    `);
    expect(thing.hooks).toEqual({ on_create: true, on_wake: true });
    const host = new FakeHost();
    expect(thing.start({ kind: "hook", name: "on_create" }, [], host).resume().kind).toBe("returned");
    expect(thing.start({ kind: "row" }, [], host).resume()).toEqual({ kind: "returned", value: { n: 1 } });
    thing.start({ kind: "hook", name: "on_wake" }, [], host).resume();
    expect(host.store.get("n")).toBe(2);
  });

  test("that has ended is not resumed", () => {
    const invocation = loadThing("function Thing:go() end").start({ kind: "method", name: "go" }, [], new FakeHost());
    invocation.resume();
    expect(() => invocation.resume()).toThrow("ended");
    invocation.abandon();
  });

  test("leaves nothing in the coroutine the next one runs in", () => {
    const thing = loadThing("function Thing:many(...) return ... end function Thing:none(a, b) return a, b end");
    const args = Array.from({ length: 60 }, (_, index) => index);
    expect(run(thing, "many", args)).toEqual(args);
    expect(run(thing, "none")).toEqual([null, null]);
    expect(step(thing, "many", ["x"])).toEqual({ kind: "returned", value: "x" });
  });
});

function catching(action: () => unknown): MoonportError {
  try {
    action();
  } catch (error) {
    if (error instanceof MoonportError) return error;
    throw error;
  }
  throw new Error("did not throw");
}
