/** What the demo prints: a page that reads from top to bottom, bold headings on a terminal, plain text elsewhere. */
import type { Flight } from "./node-process.js";

const isTerminal = process.stdout.isTTY === true && process.env.NO_COLOR === undefined;
/** Flights shown of one stretch of bidding; the rest is counted. */
const FLIGHTS_SHOWN = 12;

export function heading(text: string): void {
  process.stdout.write(`\n${isTerminal ? `\u001b[1m${text}\u001b[22m` : text}\n`);
}

export function line(text = ""): void {
  process.stdout.write(text === "" ? "\n" : `  ${text}\n`);
}

/** Flights as a table that grows as they land. */
export class FlightTable {
  readonly #columns = [
    ["object", 19],
    ["seq", 5],
    ["flight", 8],
    ["tickets released", 18],
    ["commit to landing", 19],
  ] as const;
  #shown = 0;
  count = 0;
  tickets = 0;

  begin(): void {
    this.#shown = 0;
    this.#row(this.#columns.map(([name]) => name));
  }

  /** @param isShown whether to print it while there is room */
  add({ object, seq, flight, ticketsReleased, sinceCommitMs }: Flight, isShown: boolean): void {
    this.count++;
    this.tickets += ticketsReleased;
    if (!isShown || this.#shown++ >= FLIGHTS_SHOWN) return;
    const name = object.slice(object.indexOf("/") + 1);
    this.#row([name, `${seq}`, `${flight}`, `${ticketsReleased}`, `${sinceCommitMs.toFixed(1)} ms`]);
  }

  get hidden(): number {
    return Math.max(0, this.#shown - FLIGHTS_SHOWN);
  }

  #row(cells: readonly string[]): void {
    const padded = this.#columns.map(([, width], index) => {
      const cell = cells[index] ?? "";
      return index === 0 ? cell.padEnd(width) : cell.padStart(width);
    });
    line(padded.join(""));
  }
}
