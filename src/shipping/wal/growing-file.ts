/**
 * A database file that segments bring on, one after the other, each applied only where it belongs: it must be the next, and made
 * over just this content (S1). Nobody reads the file meanwhile.
 */
import { MoonportError } from "../../errors.js";
import type { FileHandle } from "../../world/folder.js";
import { applyDelta } from "./page-delta.js";
import type { PageLedger } from "./page-identity.js";
import { decodeSegment, type Segment, type SegmentPage } from "./segment.js";
import { lockPage } from "./words.js";

export interface GrowingFileParts {
  readonly file: FileHandle;
  /** For messages. */
  readonly path: string;
  /** Object id, for messages. */
  readonly object: string;
  /** Of the content; kept up. */
  readonly ledger: PageLedger;
}

export class GrowingFile {
  readonly #parts: GrowingFileParts;
  #seq: number;
  #epoch: number;

  /** @param seq of the content, and under which epoch it was written */
  constructor(parts: GrowingFileParts, seq: number, epoch: number) {
    this.#parts = parts;
    this.#seq = seq;
    this.#epoch = epoch;
  }

  get seq(): number {
    return this.#seq;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** @throws MoonportError `object_corrupt`, `storage_*`; the file is good for nothing then */
  add(bytes: Uint8Array): void {
    const { file, ledger, object } = this.#parts;
    const segment = decodeSegment(bytes, `the segment of ${object} due at seq ${this.#seq + 1}`);
    const name = `segment ${segment.fromSeq}-${segment.toSeq}`;
    const fault = this.#misfit(segment);
    if (fault !== undefined) throw corrupt(object, `${name} ${fault}`);
    const images = new Map<number, Uint8Array>();
    for (const page of segment.pages) images.set(page.pgno, this.#imageOf(page, name));
    const missing = this.#missingPage(images, segment.finalPages);
    if (missing !== undefined) throw corrupt(object, `${name} grows the database without giving page ${missing}`);
    for (const run of runsOf(images)) file.write(run.bytes, (run.pgno - 1) * segment.pageSize);
    ledger.apply(images, segment.finalPages);
    const identity = ledger.identity();
    if (identity !== segment.identityAfter) {
      throw corrupt(object, `${name} makes content ${identity} instead of ${segment.identityAfter}`);
    }
    this.#epoch = segment.epoch;
    this.#seq = segment.toSeq;
  }

  /** Why a segment does not continue the content so far. */
  #misfit(segment: Segment): string | undefined {
    const { ledger } = this.#parts;
    const due = this.#seq + 1;
    if (segment.fromSeq !== due) return `stands where ${due} is due`;
    if (segment.pageSize !== ledger.pageSize) return `has pages of ${segment.pageSize} bytes`;
    if (segment.epoch < this.#epoch) return `is of epoch ${segment.epoch}, what is before it of ${this.#epoch}`;
    const identity = ledger.identity();
    if (segment.identityBefore !== identity) {
      return `was made over content ${segment.identityBefore}, before it stands ${identity}`;
    }
    return undefined;
  }

  #imageOf(page: SegmentPage, name: string): Uint8Array {
    if (page.kind === "whole") return page.image;
    const { file, ledger, path, object } = this.#parts;
    const { pageSize } = ledger;
    if (page.pgno > ledger.pages) {
      throw corrupt(object, `${name} holds a change of page ${page.pgno}, before it are ${ledger.pages} pages`);
    }
    const base = new Uint8Array(pageSize);
    const got = file.read(base, 0, pageSize, (page.pgno - 1) * pageSize);
    if (got !== pageSize) throw MoonportError.of("storage_failed", `read ${path}: page ${page.pgno} is cut short`);
    return applyDelta(base, page.delta);
  }

  #missingPage(images: ReadonlyMap<number, Uint8Array>, finalPages: number): number | undefined {
    const { ledger } = this.#parts;
    for (let pgno = ledger.pages + 1; pgno <= finalPages; pgno++) {
      if (!images.has(pgno) && pgno !== lockPage(ledger.pageSize)) return pgno;
    }
    return undefined;
  }
}

function corrupt(object: string, why: string): MoonportError {
  return MoonportError.of("object_corrupt", `the history of ${object} is damaged: ${why}`, { object });
}

/** Pages that are written in one go. */
const RUN_PAGES_MAX = 64;

/** Pages that follow one another, joined. */
function* runsOf(
  images: ReadonlyMap<number, Uint8Array>,
): Generator<{ readonly pgno: number; readonly bytes: Uint8Array }> {
  let pgno = 0;
  let run: Uint8Array[] = [];
  for (const [next, image] of images) {
    if (run.length > 0 && (next !== pgno + run.length || run.length === RUN_PAGES_MAX)) {
      yield { pgno, bytes: joined(run) };
      run = [];
    }
    if (run.length === 0) pgno = next;
    run.push(image);
  }
  if (run.length > 0) yield { pgno, bytes: joined(run) };
}

function joined(run: readonly Uint8Array[]): Uint8Array {
  return run.length === 1 ? (run[0] as Uint8Array) : Buffer.concat(run);
}
