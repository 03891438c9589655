/** One clock for all processes of the machine, milliseconds since it was started. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1_000_000;
}
