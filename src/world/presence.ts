/** Whether whoever waits for an answer is still there, and who is told when not. */
export class Presence {
  #signal: AbortController | undefined;
  #isGone = false;
  #tell: (() => void) | undefined;

  isGone(): boolean {
    return this.#isGone;
  }

  whenGone(tell: () => void): void {
    if (this.#isGone) tell();
    else this.#tell = tell;
  }

  /** Made when somebody asks, which a node does not for a call: it would cost a good part of one. */
  get signal(): AbortSignal {
    this.#signal ??= new AbortController();
    if (this.#isGone) this.#signal.abort();
    return this.#signal.signal;
  }

  giveUp(): void {
    this.#isGone = true;
    this.#signal?.abort();
    this.#tell?.();
  }
}
