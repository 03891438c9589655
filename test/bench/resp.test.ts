import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { command, replyEnd } from "../../bench/peers/redis/resp.js";

type Reply = null | number | string | readonly Reply[];

const reply = fc.letrec<{ reply: Reply }>((tie) => ({
  reply: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.integer(),
    fc.string({ unit: "binary" }),
    fc.array(tie("reply"), { maxLength: 4 }),
  ),
})).reply;

function encoded(value: Reply): string {
  if (value === null) return "$-1\r\n";
  if (typeof value === "number") return `:${value}\r\n`;
  if (typeof value === "string") return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
  return `*${value.length}\r\n${value.map(encoded).join("")}`;
}

describe("replies of Redis", () => {
  it("end where they end, whatever follows", () => {
    fc.assert(
      fc.property(fc.array(reply, { minLength: 1, maxLength: 5 }), (values) => {
        const parts = values.map((value) => Buffer.from(encoded(value)));
        const bytes = Buffer.concat(parts);
        let at = 0;
        for (const part of parts) {
          expect(replyEnd(bytes, at)).toBe(at + part.length);
          at += part.length;
        }
      }),
    );
  });

  it("have no end as long as a byte is missing", () => {
    fc.assert(
      fc.property(reply, fc.nat(), (value, cut) => {
        const bytes = Buffer.from(encoded(value));
        expect(replyEnd(bytes.subarray(0, cut % bytes.length), 0)).toBeUndefined();
      }),
    );
  });

  it("may be a line of words, or an error", () => {
    expect(replyEnd(Buffer.from("+OK\r\n"), 0)).toBe(5);
    expect(replyEnd(Buffer.from("-ERR no\r\n+OK\r\n"), 0)).toBe(9);
    expect(() => replyEnd(Buffer.from("HTTP/1.1 400\r\n"), 0)).toThrow("no reply of Redis");
  });
});

it("a command counts bytes, not characters", () => {
  expect(command("SET", "é", "").toString()).toBe("*3\r\n$3\r\nSET\r\n$2\r\né\r\n$0\r\n\r\n");
});
