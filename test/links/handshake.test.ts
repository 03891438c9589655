/** The handshake by itself: what either side concludes from whatever the other sends. */
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { pack } from "msgpackr";
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import {
  DiallerHandshake,
  greet,
  HANDSHAKE_BYTES_MAX,
  NONCE_BYTES,
  type Party,
  type ProtocolRange,
} from "../../src/links/handshake.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";

const random = new SeededRandom(1);
const ADDRESS = "sim://two";

function party(node: string, options: Partial<Party> = {}): Party {
  return {
    self: { node, session: `${node}-1` },
    fleet: "test",
    secret: "secret",
    version: "1.0.0",
    protocols: { min: 1, max: 1 },
    messageBytesMax: 1_000_000,
    nonce: random.bytes(NONCE_BYTES),
    ...options,
  };
}

interface Run {
  readonly dialler: DiallerHandshake;
  readonly greeting: ReturnType<typeof greet>;
}

function run(one: Party, two: Party, to = { node: "two", address: ADDRESS }): Run {
  const dialler = new DiallerHandshake(one, to);
  return { dialler, greeting: greet(two, dialler.hello) };
}

function codeOf(action: () => unknown): string {
  try {
    action();
    return "none";
  } catch (error) {
    return error instanceof MoonportError ? error.code : String(error);
  }
}

function proven({ greeting }: Run, proof: Uint8Array) {
  if (greeting.kind !== "challenge") throw new Error(greeting.why);
  return greeting.proven(proof);
}

describe("a handshake", () => {
  it("tells each side who the other is, and what it takes", () => {
    const made = run(party("one", { version: "1.1.0" }), party("two", { messageBytesMax: 5 }));
    const { proof, agreed } = made.dialler.answer(made.greeting.message);
    expect(agreed).toEqual({
      peer: { node: "two", session: "two-1" },
      version: "1.0.0",
      protocol: 1,
      address: ADDRESS,
      messageBytesMax: 5,
    });
    expect(proven(made, proof)).toEqual({
      peer: { node: "one", session: "one-1" },
      version: "1.1.0",
      protocol: 1,
      address: ADDRESS,
      messageBytesMax: 1_000_000,
    });
  });

  it("settles on the highest protocol that both speak, or names both ranges", () => {
    const range = fc.tuple(fc.integer({ min: 1, max: 6 }), fc.nat(3)).map(([min, more]) => ({ min, max: min + more }));
    fc.assert(
      fc.property(range, range, (ours: ProtocolRange, theirs: ProtocolRange) => {
        const made = run(party("one", { protocols: ours }), party("two", { protocols: theirs, version: "9.9.9" }));
        const common = [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((protocol) =>
          [ours, theirs].every(({ min, max }) => min <= protocol && protocol <= max),
        );
        if (common.length > 0) {
          const { proof, agreed } = made.dialler.answer(made.greeting.message);
          expect([agreed.protocol, proven(made, proof).protocol]).toEqual([common.at(-1), common.at(-1)]);
          return;
        }
        const error = refusalOf(made);
        expect(error.code).toBe("link_refused");
        for (const { min, max } of [ours, theirs]) {
          expect(error.message).toContain(`link protocol ${min === max ? min : `${min} to ${max}`}`);
        }
        expect(error.message).toMatch(/9\.9\.9.*1\.0\.0/);
      }),
    );
  });

  it("is refused by the dialler when the secret differs, before it has proved anything itself", () => {
    const { dialler, greeting } = run(party("one"), party("two", { secret: "another" }));
    expect(codeOf(() => dialler.answer(greeting.message))).toBe("link_refused");
  });

  it("is refused between fleets, and tells both names", () => {
    const error = refusalOf(run(party("one"), party("two", { fleet: "staging" })));
    expect([error.code, error.message]).toEqual([
      "link_refused",
      'two belongs to the fleet "staging", this node to "test"',
    ]);
  });

  it("finds out that another node answers, whether that says so or not", () => {
    const honest = refusalOf(run(party("one"), party("three")));
    expect([honest.code, honest.message]).toEqual([
      "node_unreachable",
      "three answers at sim://two, where two was expected",
    ]);
    // One that knows the secret, was told that two is meant, and answers all the same.
    const dialler = new DiallerHandshake(party("one"), { node: "two", address: ADDRESS });
    const { self, ...rest } = party("three");
    const { nonce, fleet, version, messageBytesMax } = rest;
    const body = pack({ magic: "moonport-link", ...self, fleet, version, messageBytesMax, nonce, protocol: 1 });
    const answer = pack({ body, proof: acceptorsProofOf(dialler.hello, body) });
    expect(codeOf(() => dialler.answer(answer))).toBe("node_unreachable");
  });

  it("cannot be replayed to either side", () => {
    const recorded = run(party("one"), party("two"));
    const { proof } = recorded.dialler.answer(recorded.greeting.message);
    // To the acceptor: the same hello draws another challenge, which the old proof does not fit.
    const again = { ...recorded, greeting: greet(party("two"), recorded.dialler.hello) };
    expect(codeOf(() => proven(again, proof))).toBe("link_refused");
    // To the dialler: the old challenge does not fit its new hello.
    const fresh = new DiallerHandshake(party("one"), { node: "two", address: ADDRESS });
    expect(codeOf(() => fresh.answer(recorded.greeting.message))).toBe("link_refused");
  });

  it("cannot be reflected: no side's proof is good for the other side", () => {
    // The victim dials; whoever answers knows nothing and has the victim's own acceptor answer.
    const victim = new DiallerHandshake(party("one"), { node: "two", address: ADDRESS });
    expect(greet(party("one"), victim.hello).kind).toBe("refusal");
    // Even one that is told its own name: it finds its own name in the challenge, and an acceptor's proof is no dialler's.
    const toItself = run(party("one"), party("one"), { node: "one", address: ADDRESS });
    const { proof } = toItself.dialler.answer(toItself.greeting.message);
    const acceptorsProof = proofIn(toItself.greeting.message);
    expect(acceptorsProof).toHaveLength(proof.length);
    expect(codeOf(() => proven(toItself, acceptorsProof))).toBe("link_refused");
  });

  it("is lost when a single bit is changed on the way, in any of its messages", () => {
    fc.assert(
      fc.property(fc.nat(2), fc.nat(), fc.nat(7), (which, at, bit) => {
        const flip = (message: Uint8Array, index: number): Uint8Array => {
          const flipped = Uint8Array.from(message);
          if (index === which) flipped[at % message.length] = (flipped[at % message.length] as number) ^ (1 << bit);
          return flipped;
        };
        const dialler = new DiallerHandshake(party("one"), { node: "two", address: ADDRESS });
        const code = codeOf(() => {
          const greeting = greet(party("two"), flip(dialler.hello, 0));
          const { proof } = dialler.answer(flip(greeting.message, 1));
          if (greeting.kind === "refusal") throw new Error("a refusal is an answer that nobody proves");
          greeting.proven(flip(proof, 2));
        });
        expect(["link_refused", "node_unreachable"]).toContain(code);
      }),
      { numRuns: 2_000 },
    );
  });

  it("ends with a coded error on anything else", () => {
    const dialler = new DiallerHandshake(party("one"), { node: "two", address: ADDRESS });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
        expect(codeOf(() => greet(party("two"), garbage))).toBe("link_refused");
        expect(codeOf(() => dialler.answer(garbage))).toBe("link_refused");
      }),
    );
    const large = new Uint8Array(HANDSHAKE_BYTES_MAX + 1);
    large.set(dialler.hello);
    expect(codeOf(() => greet(party("two"), large))).toBe("link_refused");
  });
});

function refusalOf({ dialler, greeting }: Run): MoonportError {
  expect(greeting.kind).toBe("refusal");
  try {
    dialler.answer(greeting.message);
  } catch (error) {
    return error as MoonportError;
  }
  throw new Error("it was not refused");
}

/** Written down once more, from what the file's comment says. */
function acceptorsProofOf(hello: Uint8Array, body: Uint8Array): Uint8Array {
  const parts = [hello, body].flatMap((part) => [Uint8Array.of(part.length >> 8, part.length & 255), part]);
  return createHmac("sha256", "secret")
    .update(Buffer.concat([Buffer.from("moonport link: acceptor\0"), ...parts]))
    .digest();
}

/** The last bytes of a challenge: its second field. */
function proofIn(challenge: Uint8Array): Uint8Array {
  return challenge.slice(-32);
}
