/**
 * Reads of an object that run beside its mailbox, and the writer that they must not see the work of before it has ended.
 *
 * Promises:
 * - A writer writes only while no read is under way: one that needs several slices would else see writes that may yet be rolled
 *   back.
 * - No read begins while a writer waits for those under way, or it would wait for ever.
 */
import { MoonportError } from "../errors.js";

export interface ReadsBesideParts {
  /** Its id, for errors. */
  readonly object: string;
  /** Reads that may wait for a writer's end. */
  readonly waitingMax: number;
  /** The last read under way has ended. */
  readonly idle: () => void;
}

export class ReadsBeside {
  readonly #parts: ReadsBesideParts;
  #underWay = 0;
  #writerWaits = false;
  #waiting: (() => void)[] = [];
  #noneWaiters: (() => void)[] = [];

  constructor(parts: ReadsBesideParts) {
    this.#parts = parts;
  }

  /** Whether any is under way. */
  get any(): boolean {
    return this.#underWay > 0;
  }

  /** Whether any waits for a writer's end. */
  get anyWaits(): boolean {
    return this.#waiting.length > 0;
  }

  get writerWaits(): boolean {
    return this.#writerWaits;
  }

  began(): void {
    this.#underWay++;
  }

  ended(): void {
    this.#underWay--;
    if (this.#underWay > 0) return;
    const waiters = this.#noneWaiters;
    this.#noneWaiters = [];
    for (const wake of waiters) wake();
    this.#parts.idle();
  }

  /** What a writer waits for before it may write, and asks anew after: undefined when no read is under way. */
  untilNone(): Promise<void> | undefined {
    this.#writerWaits = this.any;
    return this.any ? new Promise((resolve) => void this.#noneWaiters.push(resolve)) : undefined;
  }

  /** It waits no more, and may have come to its end without asking again. */
  writerWentOn(): void {
    this.#writerWaits = false;
  }

  /** What a read waits for that may not begin. @throws MoonportError `mailbox_full` */
  writerEnded(): Promise<void> {
    const { object, waitingMax } = this.#parts;
    if (this.#waiting.length >= waitingMax) {
      throw MoonportError.of("mailbox_full", `${object} has ${this.#waiting.length} reads waiting`, {
        object,
        retryAfterMs: 1_000,
      });
    }
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  /** The writer has ended: what waited for that may look again. */
  letRun(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const run of waiting) run();
  }
}
