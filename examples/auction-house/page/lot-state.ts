/**
 * What the page knows of one lot, and how it changes: a pure fold over what the lot's subscription tells. It begins with a
 * snapshot; every event after it comes once and in order, also when the node was away in between.
 */
import type { SubscriptionItem } from "moonport/client";

export interface Standing {
  readonly title: string;
  readonly about: string;
  /** Seconds since 1970, by the node's clock. */
  readonly ends_at: number;
  readonly top?: number;
  readonly leader?: string;
  /** What the next bid must be. */
  readonly least: number;
  /** How many there are. */
  readonly bids: number;
}

export interface Bid {
  readonly who: string;
  readonly amount: number;
  /** Seconds since 1970. */
  readonly at: number;
}

export interface LotState {
  /** Nothing before the snapshot has come, and of a lot that was never offered or is destroyed. */
  readonly standing: Standing | undefined;
  /** The newest first, at most {@link HISTORY_MAX}. */
  readonly history: readonly Bid[];
  /** By how much the node's clock is ahead of this page's, milliseconds. */
  readonly clockAheadMs: number;
}

/** What `Lot:catch_up` returns. */
export interface CatchUp {
  readonly standing?: Standing;
  readonly history: readonly Bid[];
  readonly now: number;
}

/** What `Lot:bid` tells with its event. */
type BidMade = Pick<Standing, "least" | "ends_at"> & Pick<Bid, "who" | "amount">;

export interface LotMethods {
  bid(who: string, amount: number): { readonly top: number; readonly least: number };
  catch_up(limit?: number): CatchUp;
}

export const HISTORY_MAX = 4;

export const UNKNOWN_LOT: LotState = { standing: undefined, history: [], clockAheadMs: 0 };

/** @param nowMs this page's clock */
export function fold(lot: LotState, item: SubscriptionItem, nowMs: number): LotState {
  switch (item.kind) {
    case "snapshot": {
      // What a method returns is known to the class alone; classes/Lot.lua is where this type comes from.
      const { standing, history, now } = item.value as unknown as CatchUp;
      return { standing, history, clockAheadMs: now * 1_000 - nowMs };
    }
    case "event":
      return foldEvent(lot, item.name, item.data, item.atMs);
    case "gap":
      // The page was away for longer than the node keeps events: a snapshot follows.
      return lot;
    case "destroyed":
      return UNKNOWN_LOT;
  }
}

function foldEvent(lot: LotState, name: string, data: unknown, atMs: number): LotState {
  if (name === "opened") return { ...lot, standing: data as Standing, history: [] };
  if (name !== "bid" || lot.standing === undefined) return lot;
  const { who, amount, least, ends_at } = data as BidMade;
  return {
    ...lot,
    standing: { ...lot.standing, top: amount, leader: who, least, ends_at, bids: lot.standing.bids + 1 },
    history: [{ who, amount, at: atMs / 1_000 }, ...lot.history].slice(0, HISTORY_MAX),
  };
}
