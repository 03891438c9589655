import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseFilter } from "../../src/directory/filter/parse.js";
import { conditionOf } from "../../src/directory/filter/to-sql.js";
import { parseOrder } from "../../src/directory/order.js";
import { pageStatements } from "../../src/directory/page-sql.js";
import { type ApplyRequest, shardNumberOf, shardObject } from "../../src/directory/shard-contract.js";
import type { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { ColumnType, DirectoryQuery } from "../../src/lua/contract.js";
import type { FoundRow } from "../../src/node-api.js";
import { SETTINGS } from "../../src/settings/settings.js";
import type { PlainObject, PlainValue, SqlValue } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";
import { find, lotClass } from "./lots.js";

const SHARDS = 4;
const COLUMNS: Record<string, ColumnType> = { top: "integer", status: "text", featured: "boolean" };
let virtual: VirtualNode;
let known: string[] = [];
let seq = 0;

beforeEach(async () => {
  known = [];
  virtual = await VirtualNode.start({ classes: { Lot: lotClass(), Plain: 'return class("Plain")' } });
});
afterEach(() => virtual.stop());

/** Makes the directory hold these rows, and no others. */
async function fill(rows: ReadonlyMap<string, PlainObject>): Promise<void> {
  seq++;
  const told = [...new Set([...known, ...rows.keys()])];
  known = [...rows.keys()];
  for (let number = 0; number < SHARDS; number++) {
    const mine = told.filter((key) => shardNumberOf(identityOf("default", "Lot", key), SHARDS) === number);
    const request: ApplyRequest = {
      shape: ["shape", COLUMNS, ["top", "status"]],
      isFresh: true,
      nowMs: 0,
      rows: mine.map((key) => [key, 1, seq, "shape", null, rows.get(key) ?? null]),
    };
    const object = shardObject("default", "Lot", number, SHARDS);
    const args = [request as unknown as PlainValue];
    await virtual.time.until(virtual.node.call({ object, method: "apply", args, caller: { kind: "system" } }));
  }
}

async function allPages(query: DirectoryQuery): Promise<FoundRow[]> {
  const rows: FoundRow[] = [];
  for (let after: string | undefined; ; ) {
    const page = await find(virtual, { ...query, ...(after !== undefined && { after }) });
    rows.push(...page.rows);
    if (page.after === undefined) return rows;
    expect(page.rows).toHaveLength(query.limit ?? 20);
    after = page.after;
  }
}

async function refusal(query: DirectoryQuery, className = "Lot"): Promise<MoonportError> {
  return find(virtual, query, className).then(
    () => Promise.reject(new Error("it was answered")),
    (error: MoonportError) => error,
  );
}

const cell = {
  key: fc.oneof(fc.constantFrom("a", "b", "ä", "\u{1f600}", "\ue000"), fc.stringMatching(/^[a-z0-9/]{1,6}$/)),
  row: fc.record({
    top: fc.option(fc.integer({ min: -3, max: 3 })),
    status: fc.option(fc.constantFrom("open", "closed", "", "\u{1f600}", "\ue000", "ä")),
    featured: fc.option(fc.boolean()),
  }),
};
const order = fc
  .uniqueArray(fc.constantFrom("top", "status", "featured", "key"), { maxLength: 4 })
  .chain((names) => fc.tuple(...names.map((name) => fc.constantFrom(name, `-${name}`))))
  .map((terms) => terms.join(","));

describe("pages of a query", () => {
  it("one after the other hold every row once, as if all had been sorted together, whatever the order and the limit", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(cell.key, cell.row), { maxLength: 40 }),
        order,
        fc.integer({ min: 1, max: 9 }),
        async (entries, by, limit) => {
          const rows = new Map(entries.map(([key, row]) => [key, row as PlainObject]));
          await fill(rows);
          const found = await allPages({ order: by, limit });
          expect(found.map(({ key }) => key)).toEqual(sortedKeys(rows, by));
          for (const { key, row } of found) expect(row).toEqual(withoutNulls(rows.get(key) as PlainObject));
        },
      ),
      { numRuns: 60 },
    );
  });

  it("go on behind their place though rows before and behind it come and go", async () => {
    const rows = new Map(["a", "c", "e", "g", "i"].map((key, at): [string, PlainObject] => [key, { top: at }]));
    await fill(rows);
    const first = await find(virtual, { order: "top", limit: 2 });
    expect(first.rows.map(({ key }) => key)).toEqual(["a", "c"]);
    rows.delete("a");
    rows.delete("g");
    await fill(rows.set("b", { top: 0 }).set("f", { top: 3 }));
    const second = await find(virtual, { order: "top", after: first.after as string });
    expect(second.rows.map(({ key }) => key)).toEqual(["e", "f", "i"]);
  });

  it("go on behind rows that are ordered by as much as a row may hold", async () => {
    const rowBytesMax = SETTINGS.DIRECTORY_ROW_BYTES_MAX.max;
    await fill(
      new Map(["a", "b", "c"].map((key): [string, PlainObject] => [key, { status: key.repeat(rowBytesMax) }])),
    );
    expect((await allPages({ order: "-status", limit: 1 })).map(({ key }) => key)).toEqual(["c", "b", "a"]);
  });

  it("count all that the filter selects, over all shards", async () => {
    await fill(new Map(Array.from({ length: 50 }, (_, n): [string, PlainObject] => [`k${n}`, { top: n % 5 }])));
    expect(await find(virtual, { where: "top >= 3", limit: 1, count: true })).toMatchObject({ count: 20 });
    expect((await find(virtual, { where: "top >= ?", params: [3], limit: 50 })).rows).toHaveLength(20);
  });

  it("are refused for what cannot be asked", async () => {
    await fill(new Map(["a", "b", "c"].map((key): [string, PlainObject] => [key, { top: 1 }])));
    expect(await refusal({ where: "tpo > 1" })).toMatchObject({
      code: "bad_filter",
      details: { position: 1, column: "tpo" },
    });
    expect(await refusal({ order: "-tpo" })).toMatchObject({ code: "bad_order", hint: "did you mean top?" });
    expect(await refusal({ order: "top desc" })).toMatchObject({ code: "bad_order" });
    expect(await refusal({ order: "top,top" })).toMatchObject({ code: "bad_order" });
    for (const limit of [0, 1_001, 1.5, Number.NaN])
      expect(await refusal({ limit })).toMatchObject({ code: "bad_option" });
    for (const after of ["", "!", "AAAA", "x".repeat(100_000)])
      expect(await refusal({ after })).toMatchObject({ code: "bad_cursor" });
    const { after } = await find(virtual, { order: "top", limit: 1 });
    expect(await refusal({ order: "-top", after: after as string })).toMatchObject({ code: "bad_cursor" });
    expect(await refusal({}, "Plain")).toMatchObject({ code: "no_directory" });
    expect(await refusal({}, "Lott")).toMatchObject({ code: "class_not_found", hint: "did you mean Lot?" });
  });
});

describe("the plan of a page", () => {
  beforeEach(async () => {
    await fill(
      new Map(Array.from({ length: 200 }, (_, n): [string, PlainObject] => [`k${n}`, { top: n, status: "open" }])),
    );
  });

  const nameOf = (column: string): string => (column === "key" ? "key" : `c_${column}`);

  async function plan(where: string | undefined, by: string, place?: readonly SqlValue[]): Promise<string[]> {
    const filter =
      where === undefined ? undefined : conditionOf(parseFilter(where, COLUMNS, [], { bytesMax: 999 }), nameOf);
    const statements = pageStatements({
      filter,
      order: parseOrder(by, COLUMNS),
      place,
      columns: ["key", "top", "status", "featured"],
      nameOf,
    });
    const steps: string[] = [];
    for (const { sql, values } of statements) {
      const object = shardObject("default", "Lot", 0, SHARDS);
      const { rows } = await virtual.time.until(virtual.node.sql(object, `EXPLAIN QUERY PLAN ${sql}`, [...values, 10]));
      steps.push(rows.map((row) => String(row.at(-1))).join("; "));
    }
    return steps;
  }

  it("walks the index of the declared column it is ordered by, from its place, and sorts nothing", async () => {
    expect(await plan(undefined, "-top")).toEqual(["SCAN entry USING INDEX entry_top"]);
    expect(await plan("status != 'closed'", "top")).toEqual(["SCAN entry USING INDEX entry_top"]);
    expect(await plan(undefined, "-top", [50, "k50"])).toEqual([
      "SEARCH entry USING INDEX entry_top (c_top<?)",
      "SEARCH entry USING INDEX entry_top (c_top=?)",
    ]);
    expect(await plan(undefined, "top", [50, "k50"])).toEqual(["SEARCH entry USING INDEX entry_top (c_top>?)"]);
    expect(await plan(undefined, "", ["k50"])).toEqual(["SEARCH entry USING INDEX sqlite_autoindex_entry_1 (key>?)"]);
  });

  it("finds what a filter selects by a declared index: values, ranges, prefixes", async () => {
    expect(await plan("top > 100", "top")).toEqual(["SEARCH entry USING INDEX entry_top (c_top>?)"]);
    expect(await plan("status = 'open'", "")).toEqual(["SEARCH entry USING INDEX entry_status (c_status=?)"]);
    expect(await plan("status like 'op%'", "status")).toEqual([
      "SEARCH entry USING INDEX entry_status (c_status>? AND c_status<?)",
    ]);
    const [both] = await plan("status in ('open', 'new') and top > 5", "-top");
    expect(both).toMatch(/^SEARCH entry USING INDEX entry_(status|top) /);
  });
});

function withoutNulls(row: PlainObject): PlainObject {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));
}

function sortedKeys(rows: ReadonlyMap<string, PlainObject>, by: string): string[] {
  const terms = by === "" ? [] : by.split(",");
  const falls = terms.at(-1)?.startsWith("-") ?? false;
  if (!terms.some((term) => term.replace("-", "") === "key")) terms.push(falls ? "-key" : "key");
  const cellOf = (key: string, term: string): PlainValue => {
    const name = term.replace("-", "");
    return name === "key" ? key : (rows.get(key)?.[name] ?? null);
  };
  return [...rows.keys()].sort((one, other) => {
    for (const term of terms) {
      const difference = compared(cellOf(one, term), cellOf(other, term));
      if (difference !== 0) return term.startsWith("-") ? -difference : difference;
    }
    return 0;
  });
}

function compared(one: PlainValue, other: PlainValue): number {
  if (one === null || other === null) return Number(one !== null) - Number(other !== null);
  if (typeof one === "string") return Buffer.compare(Buffer.from(one), Buffer.from(other as string));
  return Number(one) - Number(other);
}
