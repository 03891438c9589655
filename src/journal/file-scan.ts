/**
 * Reading a journal's file from its beginning: frame after frame, to where what is whole ends, and then whether that is its
 * end or damage.
 *
 * A crash may leave any part of what was written after the last completed sync, and none of that was acknowledged: it is
 * cut off. What was synced must be there. The two look alike up to one thing: a frame that begins a batch was written when
 * all before it had been synced. So a valid one of those *behind* the first frame that is not whole proves that something
 * acknowledged is damaged, and the journal refuses to open rather than to speak for less than it has promised. Damage within
 * the last batch, with nothing written after it, cannot be told from a crash. A journal that is closed in order leaves a
 * frame behind its last batch for that.
 */
import { MoonportError } from "../errors.js";
import type { FileHandle } from "../world/folder.js";
import { FRAME_HEAD_BYTES, type Frame, type FrameFormat, PREFIX } from "./records.js";

const CHUNK_BYTES = 1024 * 1024;
const MARK_BYTES = 4;

export interface Scanned {
  /** Where the last whole frame ends; 0 when not even the file's beginning is there. */
  readonly endBytes: number;
  /** Where what may not have been synced begins: the last frame that begins a batch. */
  readonly lastBatchAt: number;
}

export interface ScanRequest {
  readonly path: string;
  readonly file: FileHandle;
  readonly format: FrameFormat;
  /** Where the file after it says that this one ended; undefined for the last. */
  readonly syncedBytes: number | undefined;
  visit(frame: Frame, place: number): void;
}

/** In steps of one chunk: the caller lets others run between them. @throws MoonportError `journal_corrupt` */
export function* scanFile(request: ScanRequest): Generator<void, Scanned> {
  const { path, file, format, syncedBytes } = request;
  const window = new FileWindow(file);
  let [endBytes, lastBatchAt] = [0, 0];
  if (beginsWell(window.bytes(0, PREFIX.length), path)) endBytes = PREFIX.length;
  while (endBytes > 0 && endBytes !== syncedBytes) {
    const frame = frameAt(window, format, endBytes);
    if (frame === undefined) break;
    if (frame.beginsBatch && frame.kind !== "begin") lastBatchAt = endBytes;
    request.visit(frame, endBytes);
    endBytes += frame.frameBytes;
    if (window.tookChunk()) yield;
  }
  if (endBytes === PREFIX.length) endBytes = 0;
  if (syncedBytes !== undefined) {
    if (endBytes !== syncedBytes) throw damaged(path, endBytes, `${syncedBytes} bytes of it were synced`);
  } else {
    const proof = yield* laterBatch(window, format, endBytes);
    if (proof !== undefined) throw damaged(path, endBytes, `it was synced before what stands at ${proof} was written`);
  }
  return { endBytes, lastBatchAt };
}

/** The frame that stands at a place, if it is whole. */
export function frameAt(window: FileWindow, format: FrameFormat, place: number): Frame | undefined {
  const frameBytes = format.frameBytes(window.bytes(place, FRAME_HEAD_BYTES), place);
  if (frameBytes === undefined || frameBytes > window.sizeBytes - place) return undefined;
  return format.frame(window.bytes(place, frameBytes), place);
}

/** Where behind `from` a frame stands that was written after a sync of what is there. */
function* laterBatch(window: FileWindow, format: FrameFormat, from: number): Generator<void, number | undefined> {
  // What begins the file proves nothing of itself.
  const first = Math.max(from + 1, PREFIX.length + 1);
  for (let start = first; start + FRAME_HEAD_BYTES <= window.sizeBytes; start += CHUNK_BYTES) {
    const bytes = window.bytes(start, Math.min(CHUNK_BYTES + MARK_BYTES, window.sizeBytes - start));
    const places: number[] = [];
    for (let at = 0; at < CHUNK_BYTES && at + MARK_BYTES <= bytes.length; at++) {
      if (bytes.readUInt32LE(at) === format.mark(start + at)) places.push(start + at);
    }
    const proof = places.find((place) => frameAt(window, format, place)?.beginsBatch);
    if (proof !== undefined) return proof;
    yield;
  }
  return undefined;
}

function beginsWell(bytes: Buffer, path: string): boolean {
  const isOurs = bytes.length === PREFIX.length && bytes.subarray(0, 4).equals(PREFIX.subarray(0, 4));
  if (isOurs && bytes.equals(PREFIX)) return true;
  const format = isOurs ? bytes.readUInt16LE(4) : 0;
  if (format <= 1) return false;
  throw MoonportError.of("journal_corrupt", `${path} has format ${format}, which this version does not know`);
}

export function damaged(path: string, place: number, why: string): MoonportError {
  return MoonportError.of("journal_corrupt", `${path} is damaged at byte ${place}: ${why}`, {
    hint: "a journal that cannot answer for what it acknowledged is given up by moving its folder away: the node makes a new one, and other journals answer for what this one held",
    details: { path, place },
  });
}

/** A file's bytes, read in chunks; a frame that is longer is read at once. What it gives is valid until it is asked again. */
export class FileWindow {
  readonly #file: FileHandle;
  readonly sizeBytes: number;
  #chunk: Buffer;
  #start = 0;
  #length = 0;
  #tookChunk = false;

  constructor(file: FileHandle, chunkBytes = CHUNK_BYTES) {
    this.#file = file;
    this.sizeBytes = file.sizeBytes();
    this.#chunk = Buffer.allocUnsafe(Math.min(chunkBytes, this.sizeBytes));
  }

  /** Fewer where the file ends. */
  bytes(place: number, length: number): Buffer {
    const wanted = Math.max(0, Math.min(length, this.sizeBytes - place));
    if (place < this.#start || place + wanted > this.#start + this.#length) this.#read(place, wanted);
    return this.#chunk.subarray(place - this.#start, place - this.#start + wanted);
  }

  /** Whether it has read since it was last asked. */
  tookChunk(): boolean {
    const took = this.#tookChunk;
    this.#tookChunk = false;
    return took;
  }

  #read(place: number, wanted: number): void {
    if (wanted > this.#chunk.length) this.#chunk = Buffer.allocUnsafe(wanted);
    this.#start = place;
    this.#length = this.#file.read(this.#chunk, 0, Math.min(this.#chunk.length, this.sizeBytes - place), place);
    this.#tookChunk = true;
  }
}
