/**
 * The page of the auction house: one connection to the node, one live view of the catalogue, one subscription for each lot.
 *
 * Nothing here deals with lost connections. The client comes back by itself, each subscription goes on where it was, and a bid
 * that was under way is asked about again under its own id: it counts once.
 */
import { type ClientState, connect } from "moonport/client";
import { LotCard } from "./lot-card.js";
import { fold, HISTORY_MAX, type LotMethods, UNKNOWN_LOT } from "./lot-state.js";
import { part } from "./part.js";
import { whyNot } from "./words.js";

interface HouseMethods {
  lots(): readonly string[];
}

const RECONNECT_MAX_MS = 2_000;
const NAME = "bidder";

const notice = part(document, "#notice", HTMLElement);
const list = part(document, "#lots", HTMLElement);
const connection = part(document, "#connection", HTMLElement);
const bidder = part(document, "#bidder input", HTMLInputElement);
const cards = new Map<string, LotCard>();

const { url } = (await (await fetch("/node.json")).json()) as { readonly url: string };
const client = connect(url, { reconnectDelayMaxMs: RECONNECT_MAX_MS });

showConnection(client.state);
client.onStateChange(showConnection);
rememberBidder();
setInterval(() => {
  for (const card of cards.values()) card.tick();
}, 1_000);
try {
  await watchCatalogue();
} catch (error) {
  notice.textContent = whyNot(error);
  notice.hidden = false;
}

async function watchCatalogue(): Promise<void> {
  for await (const keys of client.object<HouseMethods>("House", "main").view("lots")) {
    notice.textContent = "No lots are on offer.";
    notice.hidden = keys.length > 0;
    for (const key of keys) if (!cards.has(key)) void showLot(key);
  }
}

async function showLot(key: string): Promise<void> {
  const lot = client.object<LotMethods>("Lot", key);
  const card = new LotCard({
    number: cards.size + 1,
    bidder: () => bidder.value.trim(),
    bid: (amount) => lot.bid(bidder.value.trim(), amount),
  });
  cards.set(key, card);
  list.append(card.element);
  try {
    let state = UNKNOWN_LOT;
    for await (const item of lot.subscribe({ from: { snapshot: "catch_up", args: [HISTORY_MAX] } })) {
      state = fold(state, item, Date.now());
      card.show(state, item.kind === "event");
    }
  } catch (error) {
    card.fail(error);
  }
}

function showConnection(state: ClientState): void {
  connection.dataset.kind = state.kind;
  connection.textContent = connectionText(state);
}

function connectionText(state: ClientState): string {
  switch (state.kind) {
    case "open":
      return "Live";
    case "connecting":
      return state.attempt === 1 ? "Connecting" : "Reconnecting";
    case "waiting":
      return "Reconnecting";
    case "closed":
      return state.error === undefined ? "Closed" : `Closed: ${state.error.message}`;
  }
}

/** In this tab only, so that two tabs may be two bidders. */
function rememberBidder(): void {
  bidder.value = sessionStorage.getItem(NAME) ?? "";
  bidder.addEventListener("input", () => {
    sessionStorage.setItem(NAME, bidder.value);
    for (const card of cards.values()) card.bidderChanged();
  });
}
