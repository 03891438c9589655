import { describe, expect, it } from "vitest";
import { responseOf } from "../../src/units/response.js";
import type { PlainValue } from "../../src/values.js";

const JSON_TYPE = "application/json; charset=utf-8";
const bytes = new Uint8Array([0, 255]);

describe("what a unit returns", () => {
  it("is sent as JSON with status 200, unless it is a response", () => {
    for (const [value, body] of [
      [null, "null"],
      ["text", '"text"'],
      [[1, 2], "[1,2]"],
      [{}, "{}"],
      [{ status: 1, other: 2 }, '{"status":1,"other":2}'],
    ] as [PlainValue, string][]) {
      expect(responseOf(value)).toEqual({ status: 200, headers: { "content-type": JSON_TYPE }, body });
    }
    expect(responseOf(bytes)).toEqual({
      status: 200,
      headers: { "content-type": "application/octet-stream" },
      body: bytes,
    });
  });

  it("has status, headers and body where it names them", () => {
    expect(responseOf({ status: 404, body: { why: "gone" }, headers: { "X-A": "b", "x-n": 3 } })).toEqual({
      status: 404,
      headers: { "x-a": "b", "x-n": "3", "content-type": JSON_TYPE },
      body: '{"why":"gone"}',
    });
    expect(responseOf({ body: { status: 1 } }).body).toBe('{"status":1}');
    expect(responseOf({ status: 204 })).toEqual({ status: 204, headers: {}, body: "" });
  });

  it("is sent as it is where it names its type, and as JSON where that is the type", () => {
    const of = (type: string, body: PlainValue) => responseOf({ headers: { "Content-Type": type }, body }).body;
    expect(of("text/html", "<p>")).toBe("<p>");
    expect(of("application/json", '{"a":1}')).toBe('{"a":1}');
    expect(of("application/problem+json", { a: 1 })).toBe('{"a":1}');
    expect(of("image/png", bytes)).toBe(bytes);
    expect(() => of("text/html", { a: 1 })).toThrow("a body of type text/html is text or a blob");
  });

  it("is refused where no response can be so", () => {
    const wrong: [PlainValue, string][] = [
      [{ status: 99 }, "status is 99"],
      [{ status: 600 }, "status is 600"],
      [{ status: 101 }, "status is 101"],
      [{ status: 200.5 }, "status is 200.5"],
      [{ status: "open" }, 'status is "open"'],
      [{ status: 204, body: "x" }, "has no body"],
      [{ headers: ["a"] }, "headers are a table"],
      [{ headers: { "a b": "c" } }, "is no header name"],
      [{ headers: { "": "c" } }, "is no header name"],
      [{ headers: { a: "b\r\nset-cookie: x" } }, "one line of printable ASCII"],
      [{ headers: { a: { b: 1 } } }, "one line of printable ASCII"],
      [{ headers: { "Content-Length": "1" } }, "not a unit's to set"],
      [{ headers: { "transfer-encoding": "chunked" } }, "not a unit's to set"],
      [{ headers: { "Moonport-Unit": "x" } }, "not a unit's to set"],
      [{ headers: { a: "1", A: "2" } }, "given twice"],
      [{ headers: { a: "x".repeat(20_000) } }, "headers of more than 16384 bytes"],
      [{ headers: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`h${n}`, ""])) }, "more than 64 headers"],
    ];
    for (const [value, message] of wrong) expect(() => responseOf(value)).toThrow(message);
  });
});
