/** After the crash: what the auction holds, against what the bidders were told. */
import type { NodeApi } from "../../src/node-api.js";
import type { PlainObject } from "../../src/values.js";
import { type Bid, LOT } from "./bidders.js";

/** The lot's row in the directory, its events and its bids tell the same story, or a bid is there in part. */
export interface Audit {
  readonly acknowledged: number;
  readonly acknowledgedFound: number;
  readonly unanswered: number;
  /** Of the unanswered ones, those that are in the auction. */
  readonly unansweredFound: number;
  readonly refused: number;
  readonly refusedFound: number;
  /** Bids in the auction, nobody's left out. */
  readonly bidsFound: number;
  /** What is wrong; empty when everything promised holds. */
  readonly faults: readonly string[];
}

interface Row {
  readonly who: string;
  readonly amount: number;
}

export async function audit(node: NodeApi, bids: readonly Bid[]): Promise<Audit> {
  const rows = (await read(node, "history", [1_000_000])) as unknown as Row[];
  const top = (await read(node, "top", [])) as PlainObject;
  const { events, directoryRow } = await node.inspect(LOT);
  const found = (fate: Bid["fate"]): number =>
    bids.filter((bid) => bid.fate === fate && rows.some((row) => isOf(row, bid))).length;
  const count = (fate: Bid["fate"]): number => bids.filter((bid) => bid.fate === fate).length;
  const audited = {
    acknowledged: count("acknowledged"),
    acknowledgedFound: found("acknowledged"),
    unanswered: count("waiting"),
    unansweredFound: found("waiting"),
    refused: count("refused"),
    refusedFound: found("refused"),
    bidsFound: rows.length,
  };
  const faults: string[] = [];
  const expect = (holds: boolean, fault: string): void => void (holds || faults.push(fault));
  const { acknowledged, acknowledgedFound, unansweredFound, refusedFound } = audited;
  expect(acknowledgedFound === acknowledged, `${acknowledged - acknowledgedFound} acknowledged bids are lost`);
  expect(refusedFound === 0, `${refusedFound} refused bids are in the auction`);
  expect(rows.length === acknowledgedFound + unansweredFound, "the auction holds bids that nobody made, or one twice");
  // A bid writes a row, the lot, an event and the directory row: whole means that all four are there.
  const [last] = rows;
  const row = directoryRow?.row as PlainObject | undefined;
  expect(top.top === last?.amount && top.leader === last?.who, "the lot does not name the last bid as its highest");
  expect(row?.bids === rows.length && row?.top === last?.amount, "the directory row does not fit the bids");
  expect(events.last === rows.length + 1, `${events.last} events, for ${rows.length} bids and the opening`);
  return { ...audited, faults };
}

async function read(node: NodeApi, method: string, args: number[]): Promise<unknown> {
  return (await node.call({ object: LOT, method, args, caller: { kind: "client" }, mustRead: true })).value;
}

function isOf(row: Row, bid: Bid): boolean {
  return row.who === bid.who && row.amount === bid.amount;
}
