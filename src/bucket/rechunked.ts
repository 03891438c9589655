/** Parts of whatever size a caller has, as parts of the size a bucket stores. */

export interface Chunk {
  readonly bytes: Uint8Array;
  readonly last: boolean;
}

/** Every chunk but the last has `chunkBytes`; there is always a last one, which may be empty. Holds one chunk in memory. */
export async function* rechunked(parts: AsyncIterable<Uint8Array>, chunkBytes: number): AsyncGenerator<Chunk> {
  let chunk = new Uint8Array(chunkBytes);
  let filled = 0;
  for await (const part of parts) {
    let taken = 0;
    while (taken < part.length) {
      if (filled === chunkBytes) {
        yield { bytes: chunk, last: false };
        chunk = new Uint8Array(chunkBytes);
        filled = 0;
      }
      const length = Math.min(chunkBytes - filled, part.length - taken);
      chunk.set(part.subarray(taken, taken + length), filled);
      filled += length;
      taken += length;
    }
  }
  yield { bytes: chunk.subarray(0, filled), last: true };
}
