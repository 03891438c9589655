import { inspect, isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { Packr } from "msgpackr";
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { LiveEvent } from "../../src/realtime/contract.js";
import { type PlainObject, type PlainValue, setOwn } from "../../src/values.js";
import { codecOf, type FrameCodec, jsonCodec, msgpackCodec } from "../../src/wire/codec.js";
import type { ServerFrame } from "../../src/wire/frames.js";
import { readMsgpack } from "../../src/wire/msgpack-reader.js";

const CODECS = [jsonCodec, msgpackCodec];
const DEPTH_MAX = 40;

const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "binary", maxLength: 300, minLength: 30 }));
const name = fc.oneof(
  text,
  fc.constantFrom("__proto__", "constructor", "$bytes", "$$bytes", "hasOwnProperty", "id", "type"),
);
const { value } = fc.letrec<{ value: PlainValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
    text,
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("value"), { maxLength: 20 }) as fc.Arbitrary<PlainValue>,
    fc.array(fc.tuple(name, tie("value")), { maxLength: 20 }).map(table),
  ),
}));

function table(entries: readonly (readonly [string, PlainValue])[]): PlainObject {
  const object: PlainObject = {};
  for (const [key, inner] of entries) setOwn(object, key, inner);
  return object;
}

function decoded(codec: FrameCodec, message: string | Uint8Array): PlainValue {
  const { value: plain, fault } = codec.decode(message, DEPTH_MAX);
  if (fault !== undefined) throw fault;
  return plain;
}

describe.each(CODECS)("$protocol", (codec) => {
  it("brings every value back as what it was", () => {
    fc.assert(
      fc.property(value, (plain) => {
        const frame: ServerFrame = { type: "reply", id: 1, value: plain };
        const back = decoded(codec, codec.encode(frame)) as PlainObject;
        expectSame(back.value, unsigned(plain));
      }),
      { numRuns: 300 },
    );
  });

  it("makes the frame of an event of a head and a shared body", () => {
    fc.assert(
      fc.property(value, fc.maxSafeInteger().map(Math.abs), (data, id) => {
        const event: LiveEvent = { number: 7, name: "bid", data, atMs: 1_700_000_000_123, encoded: new Map() };
        const bytes = Buffer.concat([codec.eventHead(id), codec.eventBody(event)]);
        const frame = decoded(codec, codec.isBinary ? bytes : bytes.toString("utf8"));
        const expected = { type: "event", id, number: 7, name: "bid", data: unsigned(data), atMs: 1_700_000_000_123 };
        expectSame(frame, expected);
      }),
      { numRuns: 100 },
    );
  });

  it("is found by its subprotocol", () => {
    expect(codecOf(codec.protocol)).toBe(codec);
    expect(codecOf("moonport.v2+json")).toBeUndefined();
  });

  it("reports a value that is too deep beside the outermost fields", () => {
    let deep: PlainValue = "bottom";
    for (let level = 0; level < 100_000; level++) deep = level % 2 === 0 ? [deep] : { inner: deep };
    const message = codec.isBinary ? nested(100_000) : `{"id":4,"value":${"[".repeat(100_000)}1${"]".repeat(100_000)}}`;
    const { value: frame, fault } = codec.decode(message, DEPTH_MAX);
    expect((frame as PlainObject).id).toBe(4);
    expect(fault).toMatchObject({ code: "too_deep" });
  });
});

describe("MessagePack of strangers", () => {
  const packr = new Packr({ useRecords: false, variableMapSize: true });

  it("is read as msgpackr writes it", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (json) => {
        const plain = unsigned(json as PlainValue);
        expectSame(readMsgpack(packr.pack(plain), "it", DEPTH_MAX).value, plain);
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, number[], PlainValue]>([
    ["a float32", [0xca, 0x3f, 0x80, 0, 0], 1],
    ["a uint64", [0xcf, 0, 0, 0, 1, 0, 0, 0, 2], 2 ** 32 + 2],
    ["a negative int64", [0xd3, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff], -(2 ** 32) - 1],
    ["an int8", [0xd0, 0x80], -128],
    ["an int16", [0xd1, 0xff, 0xfe], -2],
    ["an int32", [0xd2, 0x80, 0, 0, 0], -(2 ** 31)],
    ["a str32", [0xdb, 0, 0, 0, 1, 0x61], "a"],
    ["a text with a byte order mark", [0xa4, 0xef, 0xbb, 0xbf, 0x61], "\ufeffa"],
    ["a bin32", [0xc6, 0, 0, 0, 1, 9], new Uint8Array([9])],
    ["an array32", [0xdd, 0, 0, 0, 1, 0xc0], [null]],
    ["a map32 whose key comes twice", [0xdf, 0, 0, 0, 2, 0xa1, 0x61, 1, 0xa1, 0x61, 2], { a: 2 }],
  ])("may hold %s", (_, bytes, expected) => {
    expect(readMsgpack(Uint8Array.from(bytes), "it", DEPTH_MAX)).toStrictEqual({ value: expected, fault: undefined });
  });

  it.each<[string, number[]]>([
    ["nothing", []],
    ["the byte that is never used", [0xc1]],
    ["more than one value", [1, 2]],
    ["an array of four billion that ends", [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ["a map of four billion that ends", [0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 0x61]],
    ["text of four billion bytes that ends", [0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]],
    ["bytes that end", [0xc4, 2, 1]],
    ["a number that ends", [0xcb, 1, 2]],
    ["an extension that ends", [0xc9, 0, 0, 0, 9, 1, 1]],
  ])("is refused when it holds %s", (_, bytes) => {
    expect(() => readMsgpack(Uint8Array.from(bytes), "it", DEPTH_MAX)).toThrow(
      expect.objectContaining({ code: "bad_request" }) as Error,
    );
  });

  it.each<[string, number[], string]>([
    ["a date", [0xd6, 0xff, 0, 0, 0, 1], "bad_value"],
    ["what msgpackr takes for a record's definition", [0xd4, 0x72, 0x40], "bad_value"],
    ["an ext8", [0xc7, 2, 1, 0, 0], "bad_value"],
    ["an ext16", [0xc8, 0, 2, 1, 0, 0], "bad_value"],
    ["an ext32", [0xc9, 0, 0, 0, 2, 1, 0, 0], "bad_value"],
    ["text that is not UTF-8", [0xa2, 0xc3, 0x28], "bad_value"],
    ["half a surrogate pair as bytes", [0xa3, 0xed, 0xa0, 0x80], "bad_value"],
    ["NaN", [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], "bad_value"],
    ["infinity", [0xca, 0x7f, 0x80, 0, 0], "bad_value"],
    ["a map with a number for a key", [0x81, 1, 1], "bad_value"],
    ["a map with a map for a key", [0x81, 0x81, 0xa1, 0x61, 1, 1], "too_deep"],
  ])("may not hold %s, and what stands beside it is still read", (_, bytes, code) => {
    const frame = Uint8Array.from([0x82, 0xa2, 0x69, 0x64, 5, 0xa1, 0x76, ...bytes]);
    const { value: read, fault } = readMsgpack(frame, "it", DEPTH_MAX);
    expect((read as PlainObject).id).toBe(5);
    expect(fault).toMatchObject({ code });
  });

  it("never throws anything but a coded error, whatever the bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => {
        try {
          readMsgpack(bytes, "it", DEPTH_MAX);
        } catch (error) {
          expect(error).toBeInstanceOf(MoonportError);
          expect((error as MoonportError).code).toBe("bad_request");
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("copies bytes out of what it reads", () => {
    const message = Uint8Array.from([0xc4, 2, 1, 2]);
    const { value: bytes } = readMsgpack(message, "it", DEPTH_MAX);
    message.fill(0);
    expect(bytes).toStrictEqual(new Uint8Array([1, 2]));
  });

  it("gives short texts that it has seen and others of the same hash as what they are", () => {
    const texts = Array.from({ length: 20_000 }, (_, index) => `k${index.toString(36)}`);
    const twice = [...texts, ...texts];
    expect(readMsgpack(packr.pack(twice), "it", DEPTH_MAX).value).toStrictEqual(twice);
  });
});

/** Vitest takes a key called `constructor` for the class of what it stands in. */
function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) throw new Error(`${inspect(actual)} is not ${inspect(expected)}`);
}

/** `{ id: 4, value: [[[...]]] }` */
function nested(levels: number): Uint8Array {
  const head = [0x82, 0xa2, 0x69, 0x64, 4, 0xa5, 0x76, 0x61, 0x6c, 0x75, 0x65];
  return Uint8Array.from([...head, ...new Array<number>(levels).fill(0x91), 1]);
}

/** Minus zero is zero on the wire. */
function unsigned(plain: PlainValue): PlainValue {
  if (typeof plain === "number") return plain + 0 === 0 ? 0 : plain;
  if (plain === null || typeof plain !== "object" || plain instanceof Uint8Array) return plain;
  if (Array.isArray(plain)) return plain.map(unsigned);
  return table(Object.entries(plain).map(([key, inner]) => [key, unsigned(inner)]));
}
