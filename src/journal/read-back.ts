/** Payloads back from the files, each verified by its frame's checksum. */
import { EntryRun } from "../cluster/entry-run.js";
import type { JournalEntry } from "../cluster/journal-rules.js";
import { assert } from "../errors.js";
import { type World, yieldTurn } from "../world/world.js";
import type { Payload } from "./contract.js";
import { journalFileName } from "./file-names.js";
import { damaged, FileWindow, frameAt } from "./file-scan.js";
import type { KeptEntry } from "./held-slot.js";
import { type EntryRecord, FrameFormat, recordOf, type StoredPlace } from "./records.js";

const STEP_BYTES = 1024 * 1024;
const WINDOW_BYTES = 64 * 1024;

interface OpenFile {
  readonly path: string;
  readonly window: FileWindow;
  readonly format: FrameFormat;
  close(): void;
}

/** Opens each file that it needs once; what is deleted while it is open can still be read. */
export class FilesReader {
  readonly #world: World;
  readonly #folder: string;
  readonly #identity: string;
  readonly #files = new Map<number, OpenFile>();

  constructor(world: World, folder: string, identity: string) {
    this.#world = world;
    this.#folder = folder;
    this.#identity = identity;
  }

  /** Its payload is a copy. @throws MoonportError `journal_corrupt`, `storage_*` */
  entry(at: StoredPlace): EntryRecord {
    const { path, window, format } = this.open(at.file);
    const frame = at.place + at.frameBytes <= window.sizeBytes ? frameAt(window, format, at.place) : undefined;
    if (frame?.kind !== "entry") throw damaged(path, at.place, "an entry that was synced there is not whole any more");
    const record = recordOf(frame);
    assert(record.kind === "entry", "a frame of an entry holds one");
    return { ...record, payload: new Uint8Array(record.payload) };
  }

  open(number: number): OpenFile {
    let opened = this.#files.get(number);
    if (opened === undefined) {
      const path = `${this.#folder}/${journalFileName(number)}`;
      const file = this.#world.folder.open(path, "read");
      opened = {
        path: this.#world.folder.absolute(path),
        window: new FileWindow(file, WINDOW_BYTES),
        format: new FrameFormat(this.#identity, number),
        close: () => file.close(),
      };
      this.#files.set(number, opened);
    }
    return opened;
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  }
}

/** Entries of a tail with their bytes, as {@link readEntries}. They are durable. */
export async function readTail(
  world: World,
  reader: FilesReader,
  entries: Iterable<KeptEntry>,
): Promise<EntryRun<JournalEntry<Payload>>> {
  const kept = [...entries];
  for (const { payload } of kept) assert(payload.at.kind === "stored", "a tail is read when it is durable");
  return EntryRun.from(await readEntries(world, reader, kept));
}

/**
 * Entries with their bytes. The files are opened before it first gives way, and what is still to be written is copied, so that
 * what is covered, copied or deleted from then on is read where it was.
 */
export async function readEntries(
  world: World,
  reader: FilesReader,
  entries: readonly KeptEntry[],
): Promise<readonly JournalEntry<Payload>[]> {
  try {
    const places = entries.map(({ afterSeq, toSeq, payload: { at } }) => {
      if (at.kind === "waiting") return { afterSeq, toSeq, at: { kind: at.kind, bytes: new Uint8Array(at.bytes) } };
      reader.open(at.file);
      return { afterSeq, toSeq, at };
    });
    const read: JournalEntry<Payload>[] = [];
    let bytes = 0;
    for (const { afterSeq, toSeq, at } of places) {
      const payload = at.kind === "waiting" ? at.bytes : reader.entry(at).payload;
      read.push({ afterSeq, toSeq, payload });
      bytes += payload.length;
      if (bytes < STEP_BYTES) continue;
      bytes = 0;
      await yieldTurn(world);
    }
    return read;
  } finally {
    reader.close();
  }
}
