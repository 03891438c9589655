/**
 * Which session was the last to show this node's journal that an object is its own, by an entry or by word of coverage: whose death
 * makes what is kept of it an orphan. Of objects unheard of for long, and from before the node began, it is not known; whoever asks
 * then looks into the bucket.
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

  entryFrom(object: string, session: string): void {
    this.#entries++;
    this.#note(object, session);
  }

  /**
   * While it is asked whether the journal takes a session's word of coverage.
   * @returns to be told when it has; what was heard of the object meanwhile is newer
   */
  wordFrom(object: string, session: string): () => void {
    const before = this.sessionOf(object);
    return () => {
      if (this.sessionOf(object) === before) this.#note(object, session);
    };
  }

  sessionOf(object: string): string | undefined {
    return this.#sessions.peek(object);
  }

  #note(object: string, session: string): void {
    if (this.sessionOf(object) !== session) this.#sessions.set(object, session);
  }
}
