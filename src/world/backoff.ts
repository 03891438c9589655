/** Pauses between tries: doubling, capped, with jitter so that those that failed together do not return together. */

/**
 * @param failures consecutive failures so far, at least 1
 * @param fraction in [0, 1), from the world's randomness
 * @returns milliseconds, between half and the whole of the doubled pause
 */
export function backoffMs(failures: number, firstMs: number, maxMs: number, fraction: number): number {
  const doubled = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return doubled / 2 + (doubled / 2) * fraction;
}
