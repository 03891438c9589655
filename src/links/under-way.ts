/** What was asked on a link and is not answered yet, in the order of asking; each leaves it exactly once. */
import type { MoonportError } from "../errors.js";
import type { StreamReader } from "./streams.js";

export type Asked =
  | { readonly kind: "request"; resolve(value: unknown): void; reject(error: MoonportError): void }
  | { readonly kind: "stream"; readonly reader: StreamReader };

interface Entry {
  readonly asked: Asked;
  readonly name: string;
  readonly dueMs: number;
  /** Its frame, until it leaves. */
  held: Uint8Array | undefined;
}

/** Why something was not answered. */
export interface Failure {
  /** It never left this node. */
  unsent(name: string): MoonportError;
  sent(name: string): MoonportError;
}

export class UnderWay {
  readonly #entries = new Map<number, Entry>();
  #heldBytes = 0;
  #streams = 0;

  get streams(): number {
    return this.#streams;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Of frames that wait for the link to be made. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** @param held its frame, if it cannot leave yet */
  add(id: number, asked: Asked, name: string, dueMs: number, held: Uint8Array | undefined): void {
    this.#entries.set(id, { asked, name, dueMs, held });
    this.#heldBytes += held?.length ?? 0;
    if (asked.kind === "stream") this.#streams += 1;
  }

  get(id: number): Asked | undefined {
    return this.#entries.get(id)?.asked;
  }

  /** Undefined when it was answered, expired or left before. */
  take(id: number): Asked | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    this.#entries.delete(id);
    this.#heldBytes -= entry.held?.length ?? 0;
    if (entry.asked.kind === "stream") this.#streams -= 1;
    return entry.asked;
  }

  isHeld(id: number): boolean {
    return this.#entries.get(id)?.held !== undefined;
  }

  /** The frames that were held, in order; they count as sent. */
  *release(): Generator<readonly [id: number, frame: Uint8Array]> {
    for (const [id, entry] of this.#entries) {
      const { held } = entry;
      if (held === undefined) continue;
      entry.held = undefined;
      this.#heldBytes -= held.length;
      yield [id, held];
    }
  }

  /** Fails what is due. Returns when the next is. */
  expire(nowMs: number, failure: Failure): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [id, { dueMs }] of this.#entries) {
      if (dueMs <= nowMs) this.fail(id, failure);
      else nextMs = Math.min(nextMs, dueMs);
    }
    return nextMs;
  }

  failAll(failure: Failure): void {
    for (const id of [...this.#entries.keys()]) this.fail(id, failure);
  }

  fail(id: number, failure: Failure): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.take(id);
    const error = entry.held === undefined ? failure.sent(entry.name) : failure.unsent(entry.name);
    if (entry.asked.kind === "request") entry.asked.reject(error);
    else entry.asked.reader.end(error);
  }
}
