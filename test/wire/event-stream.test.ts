import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PlainValue } from "../../src/values.js";
import {
  eventText,
  keepAliveText,
  STREAM_NAMES,
  type StreamMessage,
  StreamReader,
  saidText,
} from "../../src/wire/event-stream.js";
import { parseWireJson } from "../../src/wire/wire-json.js";

const event = fc.record({
  number: fc.integer({ min: 1, max: 2 ** 50 }),
  name: fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.constantFrom("", "moonport.gap", "a\nb", "a\rb", "\0", " x", "data"),
  ),
  data: fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.constantFrom<PlainValue>(null, 1.5, ["\r\n\n"], { $bytes: "x" }, new Uint8Array([0, 255])),
  ),
  atMs: fc.integer({ min: 0, max: 2 ** 42 }),
});

function eventOf({ name, data, id, atMs }: StreamMessage): unknown {
  const value = parseWireJson(data, "data", 10);
  if (name !== STREAM_NAMES.event) return { number: Number(id), name, data: value, atMs };
  return { number: Number(id), ...(value as object), atMs };
}

/** The text in pieces of these sizes, over and over. */
function pieces(text: string, sizes: readonly number[]): string[] {
  const cut: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    cut.push(text.slice(at, at + size));
    at += size;
  }
  return cut;
}

describe("an event stream's text", () => {
  it("comes back as what it was, in pieces of any size", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 6 }), sizes, (events, cut) => {
        const reader = new StreamReader();
        const text = events.map((one) => eventText(one) + keepAliveText(undefined)).join("");
        const read = pieces(text, cut).flatMap((piece) => reader.push(piece));
        expect(read.map(eventOf)).toEqual(events);
      }),
      { numRuns: 300 },
    );
  });

  it("has come as far as its last whole message: one that was cut off does not count", () => {
    fc.assert(
      fc.property(fc.nat(200), (length) => {
        const texts = [1, 2, 3].map((number) => eventText({ number, name: "said", data: "x", atMs: 5 }));
        const text = texts.join("");
        const reader = new StreamReader();
        const read = reader.push(text.slice(0, length));
        expect(reader.id).toBe(read.at(-1)?.id ?? "");
      }),
    );
  });

  it("carries a position without a message, and a message without one", () => {
    const reader = new StreamReader();
    expect(reader.push(keepAliveText(7))).toEqual([]);
    expect(reader.id).toBe("7");
    const [gap] = reader.push(saidText("gap", { from: 8, first: 9 }));
    expect(gap).toEqual({ name: "moonport.gap", data: '{"from":8,"first":9}', id: "7", atMs: undefined });
  });

  it("is read as others write it: carriage returns, several lines of data, fields without a space or a value", () => {
    const reader = new StreamReader();
    expect(reader.push("\r\nretry: 5\r\nevent:a\r\ndata: 1\r\ndata:2\r\ndata\r\nid\r\n\r\n")).toEqual([
      { name: "a", data: "1\n2\n", id: "", atMs: undefined },
    ]);
  });
});
