import { beforeEach, describe, expect, it } from "vitest";
import { VirtualNode } from "../support/virtual-node.js";
import { lotClass } from "./lots.js";

const House = `
  local House = class("House")
  function House:best(least)
    local page = find "Lot" { where = "top >= :least", params = { least = least }, order = "-top", limit = 2, count = true }
    local keys = {}
    for _, found in ipairs(page.rows) do keys[#keys + 1] = found.key .. "=" .. found.row.top end
    return { keys = keys, count = page.count, more = page.after ~= nil }
  end
  function House:all()
    local keys, after = {}, nil
    repeat
      local page = find "Lot" { limit = 2, after = after }
      for _, found in ipairs(page.rows) do keys[#keys + 1] = found.key end
      after = page.after
    until after == nil
    state.store.set("keys", keys)
    return keys
  end
  function House:late() state.store.set("x", 1) return find "Lot" {} end
  function House:caught() local ok, e = pcall(function() return find "Lot" { where = "tpo > 1" } end) return { ok, e.code, e.details.position } end
  function House:wrong(options) return find "Lot" (options) end
  function House.read:looking() return find "Lot" {} end
  return House`;

const unit = `
  return function(request)
    local page = find "Lot" { where = "status = ?", params = { "open" }, order = "top" }
    return page
  end`;

let virtual: VirtualNode;

beforeEach(async () => {
  virtual = await VirtualNode.start({ classes: { Lot: lotClass(), House }, units: { best: unit } });
  for (let n = 0; n < 5; n++) await virtual.call(`Lot/k${n}`, "put", n, n % 2 === 0 ? "open" : "closed");
  await virtual.time.advance(1_000);
});

describe("find", () => {
  it("is asked by methods, a page or all of them, before they write", async () => {
    expect(await virtual.call("House/a", "best", 2)).toEqual({ keys: ["k4=4", "k3=3"], count: 3, more: true });
    expect(await virtual.call("House/a", "all")).toEqual(["k0", "k1", "k2", "k3", "k4"]);
    await virtual.stop();
  });

  it("is asked by units", async () => {
    expect(await virtual.unit("best")).toEqual({
      rows: [0, 2, 4].map((top) => ({ key: `k${top}`, row: { top, status: "open" } })),
    });
    await virtual.stop();
  });

  it("is refused after a write, in a reading method, and for options that there are not", async () => {
    await expect(virtual.call("House/a", "late")).rejects.toMatchObject({ code: "call_after_write" });
    await expect(virtual.call("House/a", "looking")).rejects.toThrow('find "Lot": only a writing method asks');
    await expect(virtual.call("House/a", "wrong", { wehre: "top > 1" })).rejects.toThrow("did you mean 'where'?");
    await expect(virtual.call("House/a", "wrong", { limit: "2" })).rejects.toThrow("limit is a number");
    await virtual.stop();
  });

  it("raises what is wrong with a filter as an error that pcall catches", async () => {
    expect(await virtual.call("House/a", "caught")).toEqual([false, "bad_filter", 1]);
    await virtual.stop();
  });
});
