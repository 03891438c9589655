/**
 * Which session sent the last entry that this node's journal keeps of an object: whose death makes the tail an orphan. Of
 * objects unheard of for long, and from before the node began, it is not known; whoever asks then looks into the bucket.
 */
export class Senders {
  readonly #sessions = new Map<string, string>();
  readonly #max: number;
  #entries = 0;

  /** @param max objects that are remembered, as many as the journal knows */
  constructor(max: number) {
    this.#max = max;
  }

  /** Entries that have come so far. */
  get entries(): number {
    return this.#entries;
  }

  note(object: string, session: string): void {
    this.#entries++;
    if (this.#sessions.get(object) === session) return;
    this.#sessions.delete(object);
    this.#sessions.set(object, session);
    if (this.#sessions.size <= this.#max) return;
    const [oldest] = this.#sessions.keys();
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }

  sessionOf(object: string): string | undefined {
    return this.#sessions.get(object);
  }
}
