/** How the page says things: amounts, times, and what went wrong. */
import { MoonportError } from "moonport/client";

const AMOUNT = new Intl.NumberFormat("en", { style: "currency", currency: "EUR", maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function money(amount: number): string {
  return AMOUNT.format(amount);
}

/** @param seconds since 1970 */
export function timeOfDay(seconds: number): string {
  return CLOCK.format(seconds * 1_000);
}

/** `1:02:09`, `12:34`, `0:05` */
export function timeLeft(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const hours = Math.floor(seconds / 3_600);
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60];
  const [first, ...others] = hours > 0 ? [hours, ...parts] : parts;
  return [first, ...others.map((part) => `${part}`.padStart(2, "0"))].join(":");
}

/** Why a bid was not taken. Codes are the class's own, or those of docs/errors.md. */
export function whyNot(error: unknown): string {
  if (!(error instanceof MoonportError)) return String(error);
  switch (error.code) {
    case "too_low":
      return `Too low: bid at least ${money(Number(error.details?.least))}.`;
    case "closed":
      return "Too late: this lot takes no more bids.";
    case "bad_amount":
    // What is no number at all does not leave the page.
    case "bad_value":
      return "Bid a whole number of euros.";
    case "bad_name":
      return "Say at the top of the page who is bidding.";
    case "outcome_unknown":
      return "No answer yet: if the bid was taken, it will show below.";
    default:
      return error.hint === undefined ? error.message : `${error.message}: ${error.hint}`;
  }
}
