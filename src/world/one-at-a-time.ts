/**
 * Work of which one run is under way at a time, and which is asked for from many sides: by whoever has something for it to find.
 *
 * Promises: after each {@link begin} a run begins that was not under way yet. There is no moment between a run's last look
 * and its end at which being asked goes unheard.
 */
export class OneAtATime {
  readonly #run: () => Promise<void>;
  #isAsked = false;
  #running: Promise<void> | undefined;

  /** @param run never rejects */
  constructor(run: () => Promise<void>) {
    this.#run = run;
  }

  /** Begins a run now, or once more after the one that is under way. */
  begin(): void {
    this.#isAsked = true;
    this.#running ??= this.#runs();
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Resolves when no run is under way. */
  async ended(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  async #runs(): Promise<void> {
    try {
      while (this.#isAsked) {
        this.#isAsked = false;
        await this.#run();
      }
    } finally {
      // In one step with the last look at the wish: whoever asks from here on begins a run, after one that broke its word too.
      this.#running = undefined;
    }
  }
}
