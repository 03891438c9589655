import vm from "node:vm";
import { describe, expect, it } from "vitest";
import { plainCopy } from "../../src/plain-copy.js";

const copy = (value: unknown): unknown => plainCopy(value, "argument 1", 8);

describe("what a program hands over", () => {
  it("is copied, so that a later change of it is not seen", () => {
    const bytes = new Uint8Array([1, 2]);
    const given = { list: [1, { a: true }], bytes };
    const copied = copy(given);
    given.list.push(2);
    bytes[0] = 9;
    expect(copied).toEqual({ list: [1, { a: true }], bytes: new Uint8Array([1, 2]) });
  });

  it("loses undefined fields and keeps the places of undefined elements, as JSON does", () => {
    const copied = copy({ a: undefined, b: [undefined, 1] });
    expect(copied).toStrictEqual({ b: [null, 1] });
    expect(copy(undefined)).toBeNull();
    expect(copy(Array(2))).toStrictEqual([null, null]);
  });

  it("keeps a key such as __proto__ a key like any other", () => {
    const copied = copy(JSON.parse('{"__proto__":{"admin":true}}')) as object;
    expect(Object.keys(copied)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(copied)).toBe(Object.prototype);
  });

  it("takes plain objects of other realms and without a prototype", () => {
    expect(copy(vm.runInNewContext("({ a: [1] })"))).toEqual({ a: [1] });
    expect(copy(Object.assign(Object.create(null), { a: 1 }))).toEqual({ a: 1 });
  });

  it.each([
    ["a function", { at: () => 1 }, "argument 1.at: a function"],
    ["a big integer", [1n], "argument 1[0]: a bigint"],
    ["NaN", { deep: [{ n: Number.NaN }] }, "argument 1.deep[0].n: NaN"],
    ["a date", { when: new Date(0) }, "argument 1.when: a Date"],
    ["a map", new Map(), "argument 1: a Map"],
    ["a promise that was not awaited", Promise.resolve(1), "argument 1: a Promise"],
    ["an array of numbers that are not bytes", new Float64Array(1), "argument 1: a Float64Array"],
    ["half a surrogate pair", ["\ud800"], "argument 1[0]: text"],
    ["half a surrogate pair in a name", { "\ud800": 1 }, "argument 1: a name"],
  ])("refuses %s and says where", (_what, value, where) => {
    expect(() => copy(value)).toThrow(expect.objectContaining({ code: "bad_value" }));
    expect(() => copy(value)).toThrow(where);
  });

  it("refuses circles and what is too deep", () => {
    const circle: unknown[] = [];
    circle.push(circle);
    expect(() => copy(circle)).toThrow(expect.objectContaining({ code: "too_deep" }));
    expect(() => plainCopy([[1]], "argument 1", 1)).toThrow(expect.objectContaining({ code: "too_deep" }));
    expect(plainCopy([[1]], "argument 1", 2)).toEqual([[1]]);
  });
});
