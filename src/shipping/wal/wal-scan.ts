/**
 * Reading a WAL file: its header, and the committed frames from a place on, in bounded steps.
 *
 * The reading buffer is shared by all objects of the thread, and images are handed out as views of it where they can be:
 * they stand until the next reading of any WAL, so whoever wants one longer copies it in the same tick.
 */
import { MoonportError } from "../../errors.js";
import type { FileHandle } from "../../world/folder.js";
import type { ChangedPages } from "./changed-pages.js";
import { FRAME_HEADER_BYTES, FrameWalk, readWalHeader, WAL_HEADER_BYTES, type WalHeader } from "./wal-format.js";
import { wordsOf } from "./words.js";

const BUFFER_BYTES = 256 * 1024;
const buffer = new Uint8Array(BUFFER_BYTES);
const bufferWords = wordsOf(buffer);

/** The end of the last commit frame that was captured, and the checksum there. */
export interface Cursor {
  readonly header: WalHeader;
  readonly offset: number;
  readonly checksum1: number;
  readonly checksum2: number;
}

export function readHeader(file: FileHandle): WalHeader | undefined {
  const got = file.read(buffer, 0, WAL_HEADER_BYTES, 0);
  return got === WAL_HEADER_BYTES ? readWalHeader(buffer) : undefined;
}

export function startOf(header: WalHeader): Cursor {
  return { header, offset: WAL_HEADER_BYTES, checksum1: header.checksum1, checksum2: header.checksum2 };
}

export interface Scan {
  /** At the last commit frame; where the scan began when there was none. */
  readonly end: Cursor;
  /** The scan took one step, so all it read is still in the buffer. */
  readonly isBuffered: boolean;
}

/** Walks the frames from `cursor` to the end of the file or to the first that does not continue the chain. */
export function scanCommits(file: FileHandle, cursor: Cursor, changed: ChangedPages): Scan {
  const frameBytes = FRAME_HEADER_BYTES + cursor.header.pageSize;
  const stepBytes = Math.floor(BUFFER_BYTES / frameBytes) * frameBytes;
  const walk = new FrameWalk(cursor.header, cursor);
  let end = cursor;
  for (let start = cursor.offset; ; start += stepBytes) {
    const isBuffered = start === cursor.offset;
    const got = file.read(buffer, 0, stepBytes, start);
    for (let at = 0; at + frameBytes <= got; at += frameBytes) {
      if (!walk.accept(bufferWords, at >>> 2)) return { end, isBuffered };
      changed.frame(walk.pgno, start + at);
      if (walk.pagesAfterCommit === 0) continue;
      changed.commit(walk.pagesAfterCommit);
      const { checksum1, checksum2 } = walk;
      end = { header: cursor.header, offset: start + at + frameBytes, checksum1, checksum2 };
    }
    if (got < stepBytes) return { end, isBuffered };
  }
}

/** The last images, right after the scan from `from` that found them; good until the next reading of any WAL. */
export function lastImages(file: FileHandle, from: Cursor, scan: Scan, changed: ChangedPages): Map<number, Uint8Array> {
  const { pageSize } = from.header;
  const images = new Map<number, Uint8Array>();
  for (const [pgno, offset] of changed.lastImages()) {
    const start = offset + FRAME_HEADER_BYTES;
    const image = scan.isBuffered ? bufferedImage(start - from.offset, pageSize) : readImage(file, start, pageSize);
    images.set(pgno, image);
  }
  return images;
}

function bufferedImage(at: number, pageSize: number): Uint8Array {
  return buffer.subarray(at, at + pageSize);
}

function readImage(file: FileHandle, position: number, pageSize: number): Uint8Array {
  const image = new Uint8Array(pageSize);
  const got = file.read(image, 0, pageSize, position);
  if (got !== pageSize)
    throw MoonportError.of("storage_failed", `the WAL ended at ${position + got} while it was read`);
  return image;
}
