/** A call's own random numbers in [0, 1): mulberry32 (Tommy Ettinger), from four bytes. */
export function seededRandom(seed: Uint8Array): () => number {
  let state = new DataView(seed.buffer, seed.byteOffset).getUint32(0);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
