/** What a test may ask of its host: time as its node has it, repeatable randomness, lines for whoever reads the result. */
import type { Caller, CodeHost } from "../lua/contract.js";
import { SeededRandom } from "../testing/seeded-random.js";
import type { TestNode } from "./test-node.js";

export class TestHost implements CodeHost {
  readonly caller: Caller = { kind: "system" };
  readonly #node: Pick<TestNode, "wallMs">;
  readonly #random = new SeededRandom(1);
  readonly #say: (text: string) => void;

  constructor(node: Pick<TestNode, "wallMs">, say: (text: string) => void) {
    this.#node = node;
    this.#say = say;
  }

  /** `now()` of a test moves on with the node's clock. */
  get startedMs(): number {
    return this.#node.wallMs;
  }

  mayWait(): void {}

  random(): number {
    return this.#random.fraction();
  }

  uuid(): string {
    const hex = Buffer.from(this.#random.bytes(16)).toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  }

  log(_level: string, text: string): void {
    this.#say(text);
  }
}
