/** The tables of test/fixtures/lua. */
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { LuaEngine } from "../../src/lua/contract.js";
import { FakeHost, loadThing, makeEngine, run, step } from "./support/fake-host.js";
import { type LuaCase, luaCases } from "./support/lua-cases.js";

/** In a class of its own, in an engine that it shares with others. */
function outcomeOf({ code }: LuaCase, engine: LuaEngine): unknown {
  const thing = loadThing(`function Thing:go()\n${code}\nend`, engine);
  const result = step(thing, "go", [], new FakeHost());
  if (result.kind === "failed") return result.error;
  return result.kind === "returned" ? { value: result.value } : result;
}

function holds(one: LuaCase, outcome: unknown): void {
  if (one.kind === "returns") return expect(outcome).toStrictEqual({ value: one.value });
  expect(outcome).toBeInstanceOf(MoonportError);
  const { code, message, details } = outcome as MoonportError;
  if (one.kind === "killed") return expect([code, details]).toEqual(["budget_exceeded", { kind: one.by }]);
  expect(message).toContain(one.text);
  if (one.errorCode !== undefined) expect(code).toBe(one.errorCode);
}

const attacks = luaCases("test/fixtures/lua/attacks.lua");
const engines: Readonly<Record<string, LuaEngine>> = {
  memory: makeEngine({ limits: { memoryBytesMax: 1024 * 1024 } }),
  other: makeEngine({ limits: { instructionsMax: 200_000 } }),
};
const PROBE = `
  function Thing.read:state() return state.store.get("x"), self.key, self.go == nil or "go" end
  function Thing:look()
    local co = coroutine.wrap(function() coroutine.yield(1) return 2 end)
    return ("x"):upper(), math.pi > 3, select("#", table.unpack({ 1, 2 })), json.encode({ 1 }), co(), co(), self.key,
      caller.kind, type(state.store.set), Auction("a").key, tostring(null), next({}) == nil, #{ 1, 2, 3 }
  end`;

describe.each(Object.entries(engines))("attacks, in an engine bounded by %s", (bound, engine) => {
  const untouched = run(loadThing(PROBE, engine), "look");

  it.each(attacks.filter((one) => (one.kind === "killed" && one.by === "memory") === (bound === "memory")))(
    "$name",
    (attack) => {
      holds(attack, outcomeOf(attack, engine));
      expect(run(loadThing(PROBE, engine), "look")).toEqual(untouched);
    },
  );
});

describe("values", () => {
  const engine = makeEngine();
  it.each(luaCases("test/fixtures/lua/values.lua"))("$name", (one) => {
    holds(one, outcomeOf(one, engine));
  });
});
