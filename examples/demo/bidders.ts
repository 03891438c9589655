/** Bidders who all want the same lot, and a record of every bid: what was asked, and what was answered. */
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { NodeApi } from "../../src/node-api.js";
import { sleep, uuidv7, type World } from "../../src/world/world.js";

export const LOT = identityOf("default", "Auction", "moon-globe");

export interface Bid {
  readonly who: string;
  readonly amount: number;
  /** Makes asking again safe: the same id never bids twice. */
  readonly callId: string;
  /** `waiting`: no answer, so nobody but the object knows. */
  fate: "waiting" | "acknowledged" | "refused";
  /** Code of the refusal. */
  code?: string;
}

export class Bidders {
  readonly bids: Bid[] = [];
  readonly #world: World;
  readonly #names: readonly string[];
  /** What each of them believes the next bid must be; only the answers of their own bids tell them. */
  readonly #least = new Map<string, number>();

  constructor(world: World, names: readonly string[]) {
    this.#world = world;
    this.#names = names;
  }

  count(fate: Bid["fate"]): number {
    return this.bids.filter((bid) => bid.fate === fate).length;
  }

  /** All bid at once, `rounds` times each or until no answer comes, with up to `thoughtMs` of thought in between. */
  async bid(node: NodeApi, rounds: number, thoughtMs: number): Promise<void> {
    await Promise.all(this.#names.map((who) => this.#bidInTurn(node, who, rounds, thoughtMs)));
  }

  /** Sends one bid, new or again, and records the answer. Returns whether there was one. */
  async send(node: NodeApi, bid: Bid): Promise<boolean> {
    const { who, amount, callId } = bid;
    try {
      await node.call({ object: LOT, method: "bid", args: [who, amount], caller: { kind: "client" }, callId });
      bid.fate = "acknowledged";
      this.#least.set(who, amount + 1);
    } catch (error) {
      if (!(error instanceof MoonportError)) throw error;
      // Only the class's own no is a no; whatever else went wrong, the bid may have been taken.
      if (error.source !== "class") return false;
      bid.fate = "refused";
      bid.code = error.code;
      this.#least.set(who, Number(error.details?.least ?? amount + 1));
    }
    return true;
  }

  async #bidInTurn(node: NodeApi, who: string, rounds: number, thoughtMs: number): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      const raise = Math.floor(this.#world.random.fraction() * 3);
      const amount = (this.#least.get(who) ?? 1) + raise;
      const bid: Bid = { who, amount, callId: uuidv7(this.#world), fate: "waiting" };
      this.bids.push(bid);
      if (!(await this.send(node, bid))) return;
      if (thoughtMs > 0) await sleep(this.#world, this.#world.random.fraction() * thoughtMs);
    }
  }
}
