/**
 * What a journal's files say when a node starts: every object's state, and the file that goes on.
 *
 * Files are read from the newest back, because each says where the one before it ended and which is the oldest that is
 * still needed. Older ones were to be deleted, and go. One that is missing between them, or is shorter than it was, is
 * damage and refused.
 *
 * Then what may not be on the disk is brought there before anything is answered from it. What a process read back from a
 * file is no proof that the disk has it: its predecessor may have ended before its sync, or over one that failed, after
 * which the system's copy in memory is not written any more. So the last batch is written again, in its place, and synced.
 */
import { MoonportError } from "../errors.js";
import type { FileHandle } from "../world/folder.js";
import { type World, yieldTurn } from "../world/world.js";
import { FileLedger, type StandingFile } from "./file-ledger.js";
import { journalFileName, journalFileNumbers } from "./file-names.js";
import { damaged, FileWindow, type Scanned, scanFile } from "./file-scan.js";
import { type HeldSlot, type KeptPayload, newSlot } from "./held-slot.js";
import { JoinedObject } from "./join.js";
import type { CurrentFile } from "./journal-writer.js";
import { type BeginRecord, type Frame, FrameFormat, type Head, recordOf } from "./records.js";

const STEP_BYTES = 1024 * 1024;

export interface OpenedFiles {
  readonly slots: ReadonlyMap<string, HeldSlot>;
  readonly ledger: FileLedger;
  readonly current: CurrentFile;
}

interface FoundObject {
  readonly joined: JoinedObject<KeptPayload>;
  /** What the newest of its records says. */
  newest: { readonly file: number; readonly head: Head };
}

/** @throws MoonportError `journal_corrupt`, `storage_*` */
export async function openFiles(world: World, folder: string, identity: string): Promise<OpenedFiles> {
  return new FilesReading(world, folder, identity).run();
}

class FilesReading {
  readonly #world: World;
  readonly #folder: string;
  readonly #identity: string;
  readonly #objects = new Map<string, FoundObject>();
  readonly #inFile = new Map<number, Set<string>>();
  #oldest = 1;
  #previousBytes: number | undefined;

  constructor(world: World, folder: string, identity: string) {
    this.#world = world;
    this.#folder = folder;
    this.#identity = identity;
  }

  async run(): Promise<OpenedFiles> {
    const numbers = journalFileNumbers(this.#world.folder.list(this.#folder));
    const last = await this.#lastFile(numbers);
    const sizes = new Map([[last.number, last.endBytes]]);
    for (let number = last.number - 1; number >= this.#oldest; number--) {
      if (!numbers.includes(number)) throw this.#missing(number);
      sizes.set(number, (await this.#scan(number)).endBytes);
    }
    for (const number of numbers) if (number < this.#oldest) this.#world.folder.remove(this.#path(number));
    const handle = await this.#madeDurable(last.number, last);
    const slots = this.#slots();
    return { slots, ledger: this.#ledger(sizes, slots), current: { handle, number: last.number } };
  }

  /** The newest, or the one before it: creating one may have been broken off before anything rested on it. */
  async #lastFile(numbers: readonly number[]): Promise<Scanned & { readonly number: number }> {
    const newest = numbers.at(-1) ?? 0;
    const scanned = await this.#scan(newest);
    if (scanned.endBytes > 0) return { ...scanned, number: newest };
    if (numbers.length < 2) throw this.#beginsBadly(newest);
    const before = newest - 1;
    if (!numbers.includes(before)) throw this.#missing(before);
    const other = await this.#scan(before);
    if (other.endBytes === 0) throw this.#beginsBadly(before);
    this.#world.folder.remove(this.#path(newest));
    return { ...other, number: before };
  }

  async #scan(number: number): Promise<Scanned> {
    const path = this.#path(number);
    const file = this.#world.folder.open(path, "read");
    const names = new Set<string>();
    this.#inFile.set(number, names);
    try {
      const steps = scanFile({
        path: this.#world.folder.absolute(path),
        file,
        format: new FrameFormat(this.#identity, number),
        syncedBytes: this.#previousBytes,
        visit: (frame, place) => this.#visit(number, names, frame, place),
      });
      for (let step = steps.next(); ; step = steps.next()) {
        if (step.done) return step.value;
        await yieldTurn(this.#world);
      }
    } finally {
      file.close();
    }
  }

  #visit(file: number, names: Set<string>, frame: Frame, place: number): void {
    const record = recordOf(frame);
    if (record.kind === "begin") return this.#begin(record);
    if (record.kind === "oldest") {
      this.#oldest = Math.max(this.#oldest, record.oldest);
      return;
    }
    const found = this.#found(record.object);
    names.add(record.object);
    if (record.kind === "head") {
      found.joined.addHead(record);
      this.#note(found, file, record);
      return;
    }
    const { epoch, base, afterSeq, toSeq } = record;
    const { frameBytes } = frame;
    const payload: KeptPayload = { at: { kind: "stored", file, place, frameBytes }, frameBytes, isHeld: true };
    found.joined.addEntry(epoch, base, { afterSeq, toSeq, payload });
    this.#note(found, file, { promised: epoch, tailEpoch: epoch, base });
  }

  #begin(record: BeginRecord): void {
    this.#previousBytes = record.previousBytes;
    this.#oldest = Math.max(this.#oldest, record.oldest);
  }

  #found(object: string): FoundObject {
    let found = this.#objects.get(object);
    if (found === undefined) {
      found = { joined: new JoinedObject(), newest: { file: 0, head: { promised: 0, tailEpoch: 0, base: 0 } } };
      this.#objects.set(object, found);
    }
    return found;
  }

  /** Later ones of a file come later, older files come later too. */
  #note(found: FoundObject, file: number, { promised, tailEpoch, base }: Head): void {
    if (file >= found.newest.file) found.newest = { file, head: { promised, tailEpoch, base } };
  }

  #slots(): Map<string, HeldSlot> {
    const slots = new Map<string, HeldSlot>();
    for (const [object, { joined, newest }] of this.#objects) {
      const held = joined.held();
      if (held === undefined) {
        throw MoonportError.of("journal_corrupt", `the entries of ${object} in ${this.#folder} have a hole`, {
          object,
        });
      }
      const slot = newSlot(object, held);
      if (sameHead(newest.head, held)) {
        slot.recorded = newest.head;
        slot.headFile = newest.file;
      }
      slots.set(object, slot);
    }
    return slots;
  }

  #ledger(sizes: ReadonlyMap<number, number>, slots: ReadonlyMap<string, HeldSlot>): FileLedger {
    const files: StandingFile[] = [];
    for (const [number, bytes] of [...sizes].sort(([one], [other]) => one - other)) {
      const names = this.#inFile.get(number) ?? [];
      files.push({ number, bytes, slots: new Set([...names].flatMap((object) => slots.get(object) ?? [])) });
    }
    return new FileLedger(files);
  }

  async #madeDurable(number: number, { endBytes, lastBatchAt }: Scanned): Promise<FileHandle> {
    const file = this.#world.folder.open(this.#path(number), "update");
    try {
      file.truncate(endBytes);
      const window = new FileWindow(file, STEP_BYTES);
      for (let place = lastBatchAt; place < endBytes; place += STEP_BYTES) {
        file.write(window.bytes(place, Math.min(STEP_BYTES, endBytes - place)), place);
        await yieldTurn(this.#world);
      }
      await file.flush();
      await this.#world.folder.flushDirectory(this.#folder);
      return file;
    } catch (error) {
      file.close();
      throw error;
    }
  }

  #path(number: number): string {
    return `${this.#folder}/${journalFileName(number)}`;
  }

  #beginsBadly(number: number): MoonportError {
    const path = this.#world.folder.absolute(this.#path(number));
    return damaged(path, 0, `it does not begin as a file of journal ${this.#identity} does`);
  }

  #missing(number: number): MoonportError {
    const path = this.#world.folder.absolute(this.#path(number));
    return MoonportError.of("journal_corrupt", `${path} is missing: what it held was acknowledged and not covered`, {
      hint: "bring the file back, or move the folder away: the node then makes a new journal",
    });
  }
}

function sameHead(one: Head, other: Head): boolean {
  return one.promised === other.promised && one.tailEpoch === other.tailEpoch && one.base === other.base;
}
