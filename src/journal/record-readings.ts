/**
 * Readings of objects' records in the bucket, by which a journal comes to know an object (J6): at most one of an object at a
 * time, used once, and whoever asks about the object meanwhile waits for it, in order.
 *
 * How many objects are read at once is bounded by those who ask: links bound the requests under way, and so does the bucket.
 * What the requests bring along is bounded here.
 */
import { MoonportError } from "../errors.js";

/** Told the epoch that the record names, or why it could not be read. */
export interface Waiting<T> {
  begun(value: T): void;
  failed(error: unknown): void;
}

export class RecordReadings<T> {
  readonly #read: (object: string) => Promise<T>;
  readonly #bytesMax: number;
  readonly #underWay = new Map<string, Waiting<T>[]>();
  #bytes = 0;

  /** @param read begins the object: its end and all who wait for it come in one turn */
  constructor(read: (object: string) => Promise<T>, bytesMax: number) {
    this.#read = read;
    this.#bytesMax = bytesMax;
  }

  isUnderWay(object: string): boolean {
    return this.#underWay.has(object);
  }

  /** @param bytes that wait with it. @throws MoonportError `journal_full` */
  async wait<A>(object: string, bytes: number, act: (value: T) => A | Promise<A>): Promise<A> {
    if (this.#bytes + bytes > this.#bytesMax) throw queueFull(object);
    this.#bytes += bytes;
    try {
      return await new Promise<A>((resolve, reject) => {
        this.#join(object, {
          begun(value) {
            try {
              resolve(act(value));
            } catch (error) {
              reject(error);
            }
          },
          failed: reject,
        });
      });
    } finally {
      this.#bytes -= bytes;
    }
  }

  #join(object: string, one: Waiting<T>): void {
    const others = this.#underWay.get(object);
    if (others !== undefined) return void others.push(one);
    const all = [one];
    this.#underWay.set(object, all);
    const end = (tell: (waiting: Waiting<T>) => void): void => {
      this.#underWay.delete(object);
      for (const waiting of all) tell(waiting);
    };
    this.#read(object).then(
      (value) => end((waiting) => waiting.begun(value)),
      (error: unknown) => end((waiting) => waiting.failed(error)),
    );
  }
}

export function queueFull(object: string): MoonportError {
  return MoonportError.of("journal_full", "as much waits for the journal as JOURNAL_QUEUE_BYTES_MAX allows", {
    object,
  });
}
