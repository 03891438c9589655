import fs from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Access } from "../../src/auth/contract.js";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { parseTokenFile, tokenDigest } from "../../src/auth/token-file.js";
import { MoonportError } from "../../src/errors.js";

const ADA = "mp_ada-0123456789abcdef";
const BOB = "mp_bob-0123456789abcdef";
const key = new Uint8Array(32).fill(7);

const FILE = {
  tokens: [
    {
      id: "ada",
      token: ADA,
      claims: { role: "bidder", limits: [1, 2] },
      allow: [
        {
          apps: ["default"],
          classes: ["Auction"],
          keys: ["lot-*"],
          methods: ["bid", "top"],
          rights: ["read", "call", "subscribe"],
        },
        { apps: ["shop"], methods: ["check*"], rights: ["unit"] },
      ],
    },
    { id: "bob", sha256: tokenDigest(BOB).toString("hex"), allow: [{ rights: ["read", "admin"] }] },
  ],
};

const tokens = (file: unknown = FILE): StaticTokens => new StaticTokens(JSON.stringify(file), "auth.json", key);

function codeOf(action: () => unknown): string {
  try {
    action();
    return "allowed";
  } catch (error) {
    if (error instanceof MoonportError) return error.code;
    throw error;
  }
}

function refusal(file: unknown): MoonportError {
  const text = typeof file === "string" ? file : JSON.stringify(file);
  try {
    parseTokenFile(text, "auth.json");
  } catch (error) {
    if (error instanceof MoonportError) return error;
  }
  throw new Error(`${text} was accepted`);
}

const lot: Access = { right: "call", app: "default", className: "Auction", key: "lot-42", method: "bid" };

describe("a token", () => {
  it("tells who its bearer is, given whole or as its hash", () => {
    expect(tokens().authenticate(ADA)).toMatchObject({ id: "ada", claims: { role: "bidder", limits: [1, 2] } });
    expect(tokens().authenticate(BOB).id).toBe("bob");
    expect(tokens().authenticate(BOB).claims).toBeUndefined();
  });

  it.each([
    undefined,
    "",
    "x",
    `${ADA}x`,
    ADA.slice(1),
    ADA.toUpperCase(),
    tokenDigest(BOB).toString("hex"),
    "__proto__",
  ])("that is %j is not known", (token) => {
    expect(codeOf(() => tokens().authenticate(token))).toBe("unauthenticated");
  });

  it("is asked for", () => {
    expect(tokens().isOpen).toBe(false);
  });

  it("never stands in what the object of tokens shows of itself", async () => {
    const { inspect } = await import("node:util");
    const shown = inspect(tokens(), { depth: 9, showHidden: true }) + JSON.stringify(tokens());
    expect(shown).not.toContain(ADA);
    expect(shown).not.toContain(BOB);
  });
});

describe("the rights of a token", () => {
  const ada = tokens().authenticate(ADA);
  const bob = tokens().authenticate(BOB);

  it.each([
    ["as it stands", {}, "allowed"],
    ["reading", { right: "read", method: "top" }, "allowed"],
    ["another method", { method: "close" }, "forbidden"],
    ["another key", { key: "house-1" }, "forbidden"],
    ["another class", { className: "Auctions" }, "forbidden"],
    ["another app", { app: "shop" }, "forbidden"],
    ["another right", { right: "send" }, "forbidden"],
    ["the operator's right", { right: "admin" }, "forbidden"],
    ["the same name in the wrong place", { className: "lot-42", key: "Auction" }, "forbidden"],
  ] as const)("%s", (_what, change, outcome) => {
    expect(codeOf(() => ada.check({ ...lot, ...change }))).toBe(outcome);
  });

  it("to subscribe do not hang on methods, to read a store do", () => {
    const object = { app: "default", className: "Auction", key: "lot-1" };
    expect(codeOf(() => ada.check({ right: "subscribe", ...object }))).toBe("allowed");
    expect(codeOf(() => ada.check({ right: "read", ...object }))).toBe("forbidden");
    expect(codeOf(() => bob.check({ right: "read", ...object }))).toBe("allowed");
  });

  it("to a unit are of an entry that names no classes", () => {
    expect(codeOf(() => ada.check({ right: "unit", app: "shop", method: "checkout" }))).toBe("allowed");
    expect(codeOf(() => ada.check({ right: "unit", app: "shop", method: "refund" }))).toBe("forbidden");
    expect(codeOf(() => ada.check({ right: "unit", app: "default", method: "bid" }))).toBe("forbidden");
  });

  it("over one class are none over the node", () => {
    const file = { tokens: [{ id: "ada", token: ADA, allow: [{ classes: ["Auction"], rights: ["admin"] }] }] };
    const limited = tokens(file).authenticate(ADA);
    expect(codeOf(() => limited.check({ right: "admin", app: "default", className: "Chat", key: "x" }))).toBe(
      "forbidden",
    );
    expect(codeOf(() => limited.check({ right: "admin", app: "default", className: "Auction", key: "x" }))).toBe(
      "allowed",
    );
    expect(codeOf(() => limited.check({ right: "admin" }))).toBe("forbidden");
    expect(codeOf(() => bob.check({ right: "admin" }))).toBe("allowed");
  });

  it("are named by a refusal, with the id and without the token", () => {
    expect(() => ada.check({ ...lot, method: "close" })).toThrow(
      "the token of ada does not allow: call default/Auction/lot-42 close",
    );
  });
});

describe("somebody without a token", () => {
  const open = { ...FILE, anonymous: { allow: [{ classes: ["Auction"], methods: ["top"], rights: ["read"] }] } };

  it("may do what the file says for all, and is asked for a token for the rest", () => {
    const anybody = tokens(open).authenticate(undefined);
    expect(anybody.id).toBeUndefined();
    expect(codeOf(() => anybody.check({ ...lot, right: "read", method: "top" }))).toBe("allowed");
    expect(codeOf(() => anybody.check(lot))).toBe("unauthenticated");
  });

  it("is not let in with a token that is wrong", () => {
    expect(codeOf(() => tokens(open).authenticate("mp_wrong-0123456789"))).toBe("unauthenticated");
  });
});

describe("a new file", () => {
  it("holds at once for those who were let in before", () => {
    const all = tokens();
    const ada = all.authenticate(ADA);
    const bob = all.authenticate(BOB);
    ada.check(lot);
    all.replace(JSON.stringify({ tokens: [{ id: "ada", token: ADA, allow: [{ rights: ["read"] }] }] }), "auth.json");
    expect(codeOf(() => ada.check(lot))).toBe("forbidden");
    expect(codeOf(() => bob.check({ right: "admin" }))).toBe("unauthenticated");
    expect(codeOf(() => all.authenticate(BOB))).toBe("unauthenticated");
  });

  it("that is wrong changes nothing, and nobody is told", () => {
    const all = tokens();
    let told = 0;
    all.watch(() => told++);
    expect(() => all.replace("{", "auth.json")).toThrow("auth.json: it is not JSON");
    expect(all.authenticate(ADA).id).toBe("ada");
    expect(told).toBe(0);
  });

  it("is told to who watches, once it holds, until they leave", () => {
    const all = tokens();
    const ada = all.authenticate(ADA);
    const heard: string[] = [];
    const leave = [1, 2].map((n) => all.watch(() => heard.push(`${n} ${codeOf(() => ada.renewed?.())}`)));
    all.replace(JSON.stringify({ tokens: [FILE.tokens[1]] }), "auth.json");
    leave[0]?.();
    all.replace(JSON.stringify(FILE), "auth.json");
    expect(heard).toEqual(["1 unauthenticated", "2 unauthenticated", "2 allowed"]);
  });

  it("may say something else of a bearer, who is then known anew", () => {
    const all = tokens();
    const ada = all.authenticate(ADA);
    const entry = { id: "ada the second", token: ADA, claims: { role: "guest" }, allow: [{ rights: ["read"] }] };
    all.replace(JSON.stringify({ tokens: [entry] }), "auth.json");
    expect(ada).toMatchObject({ id: "ada", claims: { role: "bidder" } });
    expect(ada.renewed?.()).toMatchObject({ id: "ada the second", claims: { role: "guest" } });
  });

  it("may let everybody in, or nobody without a token any more", () => {
    const open = { ...FILE, anonymous: { allow: [{ rights: ["read"] }] } };
    const all = tokens(open);
    const anybody = all.authenticate(undefined);
    expect(codeOf(() => anybody.renewed?.())).toBe("allowed");
    all.replace(JSON.stringify(FILE), "auth.json");
    expect(codeOf(() => anybody.renewed?.())).toBe("unauthenticated");
  });

  it("may give one id two tokens, so that one can be replaced without a gap", () => {
    const allow = [{ rights: ["read"] }];
    const both = tokens({
      tokens: [
        { id: "ada", token: ADA, allow },
        { id: "ada", token: BOB, allow },
      ],
    });
    expect([both.authenticate(ADA).id, both.authenticate(BOB).id]).toEqual(["ada", "ada"]);
  });
});

it("the file that docs/auth.md shows is one that is taken", () => {
  const shown = /```json\n(.*?)```/s.exec(fs.readFileSync("docs/auth.md", "utf8"))?.[1] ?? "";
  expect(parseTokenFile(shown, "tokens.json").tokens[0]?.id).toBe("ada");
});

describe("a file of tokens is refused, naming the place", () => {
  const allow = [{ rights: ["read"] }];
  const one = (entry: object): object => ({ tokens: [{ id: "ada", token: ADA, allow, ...entry }] });
  const granting = (grant: object): object => one({ allow: [...allow, { rights: ["read"], ...grant }] });

  it.each([
    ["[]", "auth.json: it is to be a table with tokens, anonymous"],
    ["{}", "auth.json: it lets nobody in"],
    [{ tokens: {} }, "auth.json: tokens: it is to be a list"],
    [{ tokens: [5] }, "auth.json: tokens[0]: it is to be a table with id, token, sha256, claims, allow"],
    [{ tokens: [], keys: [] }, "auth.json: its field number 2 is not one of tokens, anonymous"],
    [one({ id: 5 }), "auth.json: tokens[0].id: it is to be text"],
    [one({ id: "" }), "auth.json: tokens[0].id: an id is 1 to 256 characters without control characters"],
    [one({ id: "a\nb" }), "auth.json: tokens[0].id: an id is 1 to 256 characters without control characters"],
    [{ tokens: [{ token: ADA, allow }] }, "auth.json: tokens[0]: id is missing"],
    [{ tokens: [{ id: "ada", token: ADA }] }, "auth.json: tokens[0]: allow is missing"],
    [{ tokens: [{ id: "ada", allow }] }, "auth.json: tokens[0]: give either token or sha256"],
    [one({ sha256: "00".repeat(32) }), "auth.json: tokens[0]: give either token or sha256"],
    [
      { tokens: [{ id: "a", sha256: "xyz", allow }] },
      "auth.json: tokens[0].sha256: it is the token's SHA-256 as 64 hexadecimal digits",
    ],
    [one({ token: "short" }), "auth.json: tokens[0].token: a token is 16 to 4096 letters, digits and . _ ~ + / -"],
    [
      one({ token: "with spaces in the middle" }),
      "auth.json: tokens[0].token: a token is 16 to 4096 letters, digits and . _ ~ + / -",
    ],
    [one({ claims: [] }), "auth.json: tokens[0].claims: claims are a JSON object"],
    [
      one({ claims: { a: "x".repeat(20_000) } }),
      "auth.json: tokens[0].claims: claims are at most 16384 characters of JSON",
    ],
    [one({ allow: {} }), "auth.json: tokens[0].allow: it is to be a list"],
    [one({ allow: [{}] }), "auth.json: tokens[0].allow[0]: rights is missing"],
    [granting({ rights: [] }), "auth.json: tokens[0].allow[1].rights: it is empty, which allows nothing"],
    [
      granting({ rights: ["read", "write"] }),
      "auth.json: tokens[0].allow[1].rights[1]: a right is one of read, call, send, subscribe, query, unit, admin",
    ],
    [
      granting({ keys: ["ok", ""] }),
      "auth.json: tokens[0].allow[1].keys[1]: a pattern of keys is up to 256 characters, no control characters",
    ],
    [
      granting({ classes: ["auction"] }),
      "auth.json: tokens[0].allow[1].classes[0]: a pattern of classes is letters, digits and *, beginning with a capital or *",
    ],
    [granting({ apps: "default" }), "auth.json: tokens[0].allow[1].apps: it is to be a list"],
    [
      granting({ method: ["bid"] }),
      "auth.json: tokens[0].allow[1]: its field number 2 is not one of apps, classes, keys, methods, rights",
    ],
    [
      granting({ methods: ["bid"], rights: ["admin"] }),
      "auth.json: tokens[0].allow[1].methods: the right admin is about no methods",
    ],
    [{ tokens: [], anonymous: [] }, "auth.json: anonymous: it is to be a table with allow"],
    [
      {
        tokens: [
          { id: "a", token: ADA, allow },
          { id: "b", token: ADA, allow },
        ],
      },
      "auth.json: tokens[1]: this token stands at tokens[0] already",
    ],
  ])("%j", (file, message) => {
    const error = refusal(file);
    expect([error.code, error.message]).toEqual(["bad_option", message]);
  });

  it("with the nearest right name", () => {
    expect(refusal(granting({ method: ["bid"] })).hint).toBe("did you mean methods?");
    expect(refusal(granting({ rights: ["cal"] })).hint).toBe("did you mean call?");
  });

  it("with line and column where it is not JSON", () => {
    expect(refusal('{"tokens": [\n  {"id": "ada",}]}').message).toBe(
      "auth.json: it is not JSON: see line 2, column 16",
    );
  });

  it("without a word of what it holds, wherever a token may have got to", () => {
    const secret = fc.constant("mp_SECRET-0123456789");
    const anywhere = fc.letrec((tie) => ({
      value: fc.oneof({ maxDepth: 4 }, secret, fc.constantFrom(5, null, true), tie("list"), tie("table")),
      list: fc.array(tie("value"), { maxLength: 3 }),
      table: fc.dictionary(
        fc.constantFrom(
          "tokens",
          "id",
          "token",
          "sha256",
          "claims",
          "allow",
          "rights",
          "keys",
          "anonymous",
          "mp_SECRET-0123456789",
        ),
        tie("value"),
        { maxKeys: 4 },
      ),
    }));
    const text = fc.oneof(
      anywhere.value.map((value) => JSON.stringify(value)),
      anywhere.value.map((value) => JSON.stringify(value).slice(0, -1)),
      secret,
    );
    fc.assert(
      fc.property(text, (file) => {
        try {
          parseTokenFile(file, "auth.json");
        } catch (error) {
          expect(error).toBeInstanceOf(MoonportError);
          const { message, hint, cause, details, stack } = error as MoonportError;
          expect(JSON.stringify([message, hint, cause, details, stack])).not.toContain("SECRET");
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("keeps a claim called __proto__ a claim", () => {
    const file = `{"tokens":[{"id":"ada","token":"${ADA}","allow":[{"rights":["read"]}],"claims":{"__proto__":{"role":"admin"}}}]}`;
    const { claims } = new StaticTokens(file, "auth.json", key).authenticate(ADA);
    expect(Object.keys(claims ?? {})).toEqual(["__proto__"]);
    expect((claims as { role?: string }).role).toBeUndefined();
  });
});
