/** One lot on the page: shows its state as it changes, and hands on what its form bids. It decides nothing: the lot does. */
import type { Bid, LotState, Standing } from "./lot-state.js";
import { part } from "./part.js";
import { money, timeLeft, timeOfDay, whyNot } from "./words.js";

export interface LotCardOptions {
  /** Its place in the catalogue, from 1. */
  readonly number: number;
  /** Who bids here, so that the card can tell "you" from others. */
  readonly bidder: () => string;
  /** Resolves when the bid is durable. @throws MoonportError */
  readonly bid: (amount: number) => Promise<unknown>;
}

const LAST_MINUTE_MS = 60_000;

export class LotCard {
  readonly element: HTMLElement;
  readonly #options: LotCardOptions;
  readonly #form: HTMLFormElement;
  readonly #input: HTMLInputElement;
  readonly #button: HTMLButtonElement;
  #lot: LotState | undefined;
  /** The amount is the reader's own: a new bid must not change it under their hands. */
  #isEdited = false;

  constructor(options: LotCardOptions) {
    const { content } = part(document, "#lot", HTMLTemplateElement);
    this.element = part(document.importNode(content, true), ".lot", HTMLElement);
    this.#options = options;
    this.#form = part(this.element, "form", HTMLFormElement);
    this.#input = part(this.#form, "input", HTMLInputElement);
    this.#button = part(this.#form, "button", HTMLButtonElement);
    this.#say("number", `Lot ${options.number}`);
    this.#input.addEventListener("input", () => {
      this.#isEdited = true;
      this.#say("error", "");
    });
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#bid();
    });
  }

  /** @param isNew it has just happened, and may catch the eye */
  show(lot: LotState, isNew: boolean): void {
    this.#lot = lot;
    const { standing, history } = lot;
    this.element.hidden = standing === undefined;
    if (standing === undefined) return;
    this.#say("title", standing.title);
    this.#say("label", standing.title);
    this.#say("about", standing.about);
    this.#say("count", `${standing.bids}`);
    this.#say("amount", money(standing.top ?? standing.least));
    this.#part("none").hidden = history.length > 0;
    this.#part("history").replaceChildren(...history.map((bid, index) => bidLine(bid, isNew && index === 0)));
    if (!this.#isEdited) this.#input.value = `${standing.least}`;
    this.tick();
  }

  bidderChanged(): void {
    this.#say("error", "");
    this.tick();
  }

  /** Time went by. */
  tick(): void {
    if (this.#lot?.standing === undefined) return;
    const { standing, clockAheadMs } = this.#lot;
    const leftMs = standing.ends_at * 1_000 - (Date.now() + clockAheadMs);
    const isOver = leftMs <= 0;
    this.element.classList.toggle("over", isOver);
    this.element.classList.toggle("ending", !isOver && leftMs < LAST_MINUTE_MS);
    this.#form.hidden = isOver;
    this.#say("time", isOver ? "Over" : `${timeLeft(leftMs)} left`);
    this.#say("none", isOver ? "None." : "None yet: yours would be the first.");
    this.#say("leader", leaderText(standing, isOver, this.#options.bidder()));
    this.element.classList.toggle("mine", standing.leader !== undefined && standing.leader === this.#options.bidder());
  }

  fail(error: unknown): void {
    this.#say("error", whyNot(error));
  }

  async #bid(): Promise<void> {
    this.#say("error", "");
    this.#button.disabled = true;
    this.#button.textContent = "Bidding";
    try {
      await this.#options.bid(Number(this.#input.value));
      this.#isEdited = false;
      if (this.#lot?.standing !== undefined) this.#input.value = `${this.#lot.standing.least}`;
    } catch (error) {
      this.fail(error);
    } finally {
      this.#button.disabled = false;
      this.#button.textContent = "Bid";
    }
  }

  #part(name: string): HTMLElement {
    return part(this.element, `[data-part="${name}"]`, HTMLElement);
  }

  /** Only if it differs: a screen reader would read the same again. */
  #say(name: string, text: string): void {
    const element = this.#part(name);
    if (element.textContent !== text) element.textContent = text;
  }
}

function leaderText({ top, leader }: Standing, isOver: boolean, bidder: string): string {
  if (top === undefined || leader === undefined) return isOver ? "Nobody bid" : "Starting price";
  const who = leader === bidder ? "you" : leader;
  if (isOver) return `Sold to ${who}`;
  return leader === bidder ? "You lead" : `${leader} leads`;
}

function bidLine({ who, amount, at }: Bid, isNew: boolean): HTMLLIElement {
  const line = document.createElement("li");
  line.classList.toggle("new", isNew);
  for (const [name, text] of Object.entries({ who, amount: money(amount), at: timeOfDay(at) })) {
    const cell = document.createElement("span");
    cell.className = name;
    cell.textContent = text;
    line.append(cell);
  }
  return line;
}
