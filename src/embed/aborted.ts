/** The platform's way with signals: whoever gives up is answered at once, with the reason. */

/** The outcome, or the signal's reason as soon as it is aborted; the outcome then goes nowhere. */
export async function orAborted<T>(signal: AbortSignal | undefined, start: () => Promise<T>): Promise<T> {
  if (signal === undefined) return await start();
  signal.throwIfAborted();
  return await new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    start()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", abort));
  });
}
