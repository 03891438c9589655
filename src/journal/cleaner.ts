/**
 * Lets the oldest file go when it pays: what is still held of it is copied into the current one, a bounded piece with each
 * batch, then a record says that it is not needed, and when that is durable it is deleted.
 *
 * It pays when more than is held, or a quarter of what the journal may take, is held no more. So copying costs no more than
 * was freed while the journal is less than half full, and at most three times that when it is full. An object that nobody
 * covers any more, of a set that this node has left, is carried along and holds up nothing.
 */
import type { Settings } from "../settings/settings.js";
import type { Batch } from "./batch.js";
import type { FileLedger, StandingFile } from "./file-ledger.js";
import type { HeldSlot, KeptEntry } from "./held-slot.js";
import type { FilesReader } from "./read-back.js";

const LOOKS_MIN = 4_096;
const BYTES_MIN = 256 * 1024;

export interface CleanerParts {
  readonly settings: Pick<Settings, "JOURNAL_FILE_BYTES" | "JOURNAL_BYTES_MAX">;
  readonly ledger: FileLedger;
  /** What the entries and heads that the journal needs take on the disk. */
  heldBytes(): number;
  reader(): FilesReader;
  /** Whether what newer files say of the object would not be enough. */
  needsHead(slot: HeldSlot, file: StandingFile): boolean;
  /** They return what was added. */
  copyEntry(batch: Batch, slot: HeldSlot, entry: KeptEntry, reader: FilesReader): number;
  copyHead(batch: Batch, slot: HeldSlot): number;
  remove(file: StandingFile): void;
}

type State =
  | { readonly kind: "resting" }
  /** Yields the bytes that each look has added. */
  | { readonly kind: "copying"; readonly steps: Generator<number, void, Batch> }
  /** Everything is copied, and on its way to the disk. */
  | { readonly kind: "ending" };

export class Cleaner {
  readonly #parts: CleanerParts;
  #state: State = { kind: "resting" };

  constructor(parts: CleanerParts) {
    this.#parts = parts;
  }

  get hasWork(): boolean {
    return this.#state.kind === "copying" || (this.#state.kind === "resting" && this.#pays());
  }

  /** Keeps up with what is written: it does more where the batch is larger. */
  step(batch: Batch): void {
    if (!this.hasWork) return;
    if (this.#state.kind === "resting")
      this.#state = { kind: "copying", steps: this.#copied(this.#parts.ledger.oldest) };
    if (this.#state.kind !== "copying") return;
    const { steps } = this.#state;
    let looks = Math.max(LOOKS_MIN, 4 * batch.records.length);
    let bytes = Math.max(BYTES_MIN, 2 * batch.bytes);
    while (looks-- > 0 && bytes > 0) {
      const step = steps.next(batch);
      if (step.done) return this.#end(batch);
      bytes -= step.value;
    }
  }

  stop(): void {
    if (this.#state.kind === "copying") this.#state.steps.return();
  }

  #pays(): boolean {
    const { settings, ledger } = this.#parts;
    if (ledger.count < 2) return false;
    const held = this.#parts.heldBytes();
    const worthwhile = Math.max(settings.JOURNAL_FILE_BYTES, Math.min(held, settings.JOURNAL_BYTES_MAX / 4));
    return ledger.bytes - held > worthwhile;
  }

  /** Driven with the batch that each step adds to. */
  *#copied(file: StandingFile): Generator<number, void, Batch> {
    const reader = this.#parts.reader();
    try {
      let batch = yield 0;
      for (const slot of file.slots) {
        for (const entry of slot.held.entries) {
          const { at, isHeld } = entry.payload;
          const isHere = isHeld && at.kind === "stored" && at.file === file.number;
          batch = yield isHere ? this.#parts.copyEntry(batch, slot, entry, reader) : 0;
        }
        batch = yield this.#parts.needsHead(slot, file) ? this.#parts.copyHead(batch, slot) : 0;
      }
    } finally {
      reader.close();
    }
  }

  #end(batch: Batch): void {
    const { ledger } = this.#parts;
    this.#state = { kind: "ending" };
    // The last of its batch: what follows, the beginning of a file too, is written when the file is gone.
    batch.add({ kind: "oldest", oldest: ledger.oldest.number + 1 }, () => {});
    batch.afterwards.push(() => {
      this.#parts.remove(ledger.removeOldest());
      this.#state = { kind: "resting" };
    });
  }
}
