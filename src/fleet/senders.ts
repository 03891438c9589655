/**
 * Which session sent the last entry that this node's journal keeps of an object: whose death makes the tail an orphan. Of
 * objects unheard of for long, and from before the node began, it is not known; whoever asks then looks into the bucket.
 */
import { RecentMap } from "../recent-map.js";

export class Senders {
  readonly #sessions: RecentMap<string, string>;
  #entries = 0;

  /** @param max objects that are remembered, as many as the journal knows */
  constructor(max: number) {
    this.#sessions = new RecentMap(max);
  }

  /** Entries that have come so far. */
  get entries(): number {
    return this.#entries;
  }

  note(object: string, session: string): void {
    this.#entries++;
    if (this.#sessions.peek(object) !== session) this.#sessions.set(object, session);
  }

  sessionOf(object: string): string | undefined {
    return this.#sessions.peek(object);
  }
}
