/**
 * Values of the store that a transaction has set and not written yet: a key that many calls of a burst set is written once,
 * right before COMMIT.
 *
 * A call that fails takes back what it set, so each change says what stood there before it and after how many writes of the
 * transaction it came. The bounds keep what waits, and what could be taken back, small; what is beyond them is written at once.
 */
import type { ObjectConnection } from "./object-connection.js";

const KEYS_MAX = 256;
const VALUE_BYTES_MAX = 4 * 1024;
const CHANGES_MAX = 1_024;

interface Change {
  readonly key: string;
  readonly before: Uint8Array | undefined;
  /** {@link ObjectConnection.writeMark} right after it. */
  readonly mark: number;
}

export class WaitingValues {
  readonly #database: ObjectConnection;
  readonly #values = new Map<string, Uint8Array>();
  readonly #changes: Change[] = [];

  constructor(database: ObjectConnection) {
    this.#database = database;
  }

  get(key: string): Uint8Array | undefined {
    return this.#values.get(key);
  }

  keys(): Iterable<string> {
    return this.#values.keys();
  }

  /** False when it is to be written at once; nothing waits under the key then. In a transaction, which counts as writing. */
  set(key: string, bytes: Uint8Array): boolean {
    const before = this.#values.get(key);
    const mayWait =
      bytes.length <= VALUE_BYTES_MAX &&
      this.#changes.length < CHANGES_MAX &&
      (before !== undefined || this.#values.size < KEYS_MAX);
    if (!mayWait) {
      this.take(key);
      return false;
    }
    this.#changes.push({ key, before, mark: this.#database.willWrite() });
    this.#values.set(key, bytes);
    return true;
  }

  /** It waits no longer. */
  take(key: string): Uint8Array | undefined {
    const before = this.#values.get(key);
    if (before === undefined) return undefined;
    this.#changes.push({ key, before, mark: this.#database.willWrite() });
    this.#values.delete(key);
    return before;
  }

  /** All that waits, which is about to be written. */
  entries(): Iterable<readonly [key: string, bytes: Uint8Array]> {
    return this.#values;
  }

  /** After a savepoint or the transaction was rolled back. */
  rolledBack(): void {
    if (!this.#database.inTransaction) return this.clear();
    for (let last = this.#changes.at(-1); last !== undefined; last = this.#changes.at(-1)) {
      if (last.mark <= this.#database.writeMark) return;
      this.#changes.pop();
      if (last.before === undefined) this.#values.delete(last.key);
      else this.#values.set(last.key, last.before);
    }
  }

  clear(): void {
    this.#values.clear();
    this.#changes.length = 0;
  }
}
