/** Classes with a directory for tests, and what they are asked. */
import type { DirectoryQuery } from "../../src/lua/contract.js";
import type { FoundPage } from "../../src/node-api.js";
import type { VirtualNode } from "../support/virtual-node.js";

/** @param columns Lua of the declaration and the row */
export function lotClass(columns = LOT_COLUMNS, row = LOT_ROW): string {
  return `
    local Lot = class("Lot")
    Lot.directory = { ${columns}, row = function(self) ${row} end }
    function Lot:put(top, status, isFeatured)
      state.store.set("top", top)
      state.store.set("status", status)
      state.store.set("featured", isFeatured)
    end
    function Lot:touch() state.store.set("touched", (state.store.get("touched") or 0) + 1) end
    function Lot:throw_rows(on) state.store.set("throws", on) end
    function Lot:finish() destroy() end
    function Lot.read:get() return state.store.get("top") end
    return Lot`;
}

const LOT_COLUMNS = `columns = { top = "integer", status = "text", featured = "boolean" }, index = { "top", "status" }`;
const LOT_ROW = `
  if state.store.get("throws") then error("no row today") end
  return { top = state.store.get("top"), status = state.store.get("status"), featured = state.store.get("featured") }`;

export async function find(virtual: VirtualNode, query: DirectoryQuery = {}, className = "Lot"): Promise<FoundPage> {
  return virtual.time.until(virtual.node.find({ app: "default", className, query }));
}

/** Everything in the directory, by key. */
export async function rowsOf(virtual: VirtualNode, className = "Lot"): Promise<Record<string, unknown>> {
  const rows: Record<string, unknown> = {};
  for (let after: string | undefined; ; ) {
    const page = await find(virtual, { limit: 100, ...(after !== undefined && { after }) }, className);
    for (const { key, row } of page.rows) rows[key] = row;
    if (page.after === undefined) return rows;
    after = page.after;
  }
}
