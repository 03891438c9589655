/** A journal through its lives: under virtual time, on a disk that loses what a disk may lose. */
import type { HeldObject } from "../../src/cluster/journal-rules.js";
import type { HeldSlot } from "../../src/journal/held-slot.js";
import { openIdentity } from "../../src/journal/identity-file.js";
import { Journal, type JournalSettings } from "../../src/journal/journal.js";
import { openFiles } from "../../src/journal/open-files.js";
import { FilesReader } from "../../src/journal/read-back.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";

export const FOLDER = "journal";

export const SMALL: JournalSettings = {
  JOURNAL_BYTES_MAX: 1024 * 1024,
  JOURNAL_FILE_BYTES: 2_000,
  JOURNAL_QUEUE_BYTES_MAX: 1024 * 1024,
  JOURNAL_OBJECTS_MAX: 1_000,
};

/** An object's state as plain values, payloads as bytes in hexadecimal. */
export interface PlainHeld {
  readonly promised: number;
  readonly tailEpoch: number;
  readonly base: number;
  readonly entries: readonly { readonly afterSeq: number; readonly toSeq: number; readonly payload: string }[];
}

export function plainOf<P>(held: HeldObject<P>, bytesOf: (payload: P) => Uint8Array): PlainHeld {
  const { promised, tailEpoch, base } = held;
  const entries = [...held.entries].map(({ afterSeq, toSeq, payload }) => ({
    afterSeq,
    toSeq,
    payload: Buffer.from(bytesOf(payload)).toString("hex"),
  }));
  return { promised, tailEpoch, base, entries };
}

export class JournalLife {
  readonly time: VirtualTime;
  world: VirtualWorld;
  journal!: Journal;
  readonly #settings: JournalSettings;
  readonly #recordEpoch: (object: string) => Promise<number>;

  private constructor(
    world: VirtualWorld,
    time: VirtualTime,
    settings: Partial<JournalSettings>,
    recordEpoch: (object: string) => Promise<number>,
  ) {
    this.world = world;
    this.time = time;
    this.#settings = { ...SMALL, ...settings };
    this.#recordEpoch = recordEpoch;
  }

  static async begin(
    root: string,
    settings: Partial<JournalSettings> = {},
    recordEpoch: (object: string) => Promise<number> = async () => 0,
    seed = 1,
  ): Promise<JournalLife> {
    const time = new VirtualTime();
    const life = new JournalLife(new VirtualWorld({ time, root, seed }), time, settings, recordEpoch);
    await life.open();
    return life;
  }

  /** Not opened yet. */
  static over(world: VirtualWorld, time: VirtualTime): JournalLife {
    return new JournalLife(world, time, {}, async () => 0);
  }

  async open(): Promise<Journal> {
    this.journal = await this.time.until(this.opening());
    return this.journal;
  }

  /** While the test lets time pass. */
  opening(): Promise<Journal> {
    const recordEpoch = (object: string) => this.#recordEpoch(object);
    return Journal.open({ world: this.world, settings: this.#settings, folder: FOLDER, recordEpoch });
  }

  end(how: "crash" | "power cut", seed?: number): void {
    this.world = how === "crash" ? this.world.crash(seed) : this.world.powerCut(seed);
  }

  close(): Promise<void> {
    return this.time.until(this.journal.close());
  }

  /** What the files say, read as a start reads them. */
  async onDisk(): Promise<Map<string, PlainHeld>> {
    const { world, time } = this;
    const identity = await time.until(openIdentity(world, FOLDER));
    const { slots, current } = await time.until(openFiles(world, FOLDER, identity));
    current.handle.close();
    return new Map([...slots].map(([object, slot]) => [object, this.#plain(identity, slot)]));
  }

  fileNames(): string[] {
    return this.world.folder.list(FOLDER).filter((name) => name.endsWith(".journal"));
  }

  #plain(identity: string, { held }: HeldSlot): PlainHeld {
    const reader = new FilesReader(this.world, FOLDER, identity);
    try {
      return plainOf(held, ({ at }) => (at.kind === "stored" ? reader.entry(at).payload : at.bytes));
    } finally {
      reader.close();
    }
  }
}
