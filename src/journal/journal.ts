/**
 * The journal of a node, on its disk: what it acknowledges, it answers for after any crash.
 *
 * What an object's next state is, and what to answer, journal-rules decides; here every state that an answer speaks of is
 * on the disk before the answer leaves. One thing may reach it later: that a base has risen within an epoch. If that is
 * lost, the journal holds entries that the bucket has too. It would never have acknowledged anything by that base that the
 * bucket does not cover, and each entry's record names the base that it was appended over, so no hole comes of it. All else
 * waits: a promise and a new tail epoch, because they end an older one; an entry; and any answer about an object of which
 * something is still on its way, also one that states an old state, for that may be what is on its way.
 *
 * Promises outlive entries (J6): with its last entry gone an object stays known until JOURNAL_OBJECTS_MAX are, and then the
 * longest unheard of are forgotten. What an object's record in the bucket says counts as promised when it is heard of again,
 * and is recorded with the first answer: files may still hold an older state, which must not come back with a lower one.
 */
import type { EntryRun } from "../cluster/entry-run.js";
import {
  begun,
  type CoverageNotice,
  decideEntry,
  decideNotice,
  decidePromise,
  type EntryAnswer,
  type EntryMessage,
  type HeldObject,
  haveSeq,
  mayForget,
  type NoticeAnswer,
  type PromiseAnswer,
  type PromiseRequest,
} from "../cluster/journal-rules.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import type { JournalCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import type { Batch } from "./batch.js";
import { Cleaner } from "./cleaner.js";
import type { AskedPromise, EntryRange, HeldEntries, HeldTail, JournalPort, Payload, TailPart } from "./contract.js";
import type { FileLedger } from "./file-ledger.js";
import { journalFileName } from "./file-names.js";
import { HeldObjects } from "./held-objects.js";
import { type HeldSlot, type KeptEntry, type KeptPayload, newSlot } from "./held-slot.js";
import { openIdentity } from "./identity-file.js";
import { type CurrentFile, JournalWriter } from "./journal-writer.js";
import { type OpenedFiles, openFiles } from "./open-files.js";
import { FilesReader, readEntries, readTail } from "./read-back.js";
import { queueFull, RecordReadings } from "./record-readings.js";
import { type EntryRecord, frameBytesOf, type StoredPlace } from "./records.js";

export type JournalSettings = Pick<
  Settings,
  "JOURNAL_BYTES_MAX" | "JOURNAL_FILE_BYTES" | "JOURNAL_QUEUE_BYTES_MAX" | "JOURNAL_OBJECTS_MAX"
>;

export interface JournalOptions {
  readonly world: World;
  readonly settings: JournalSettings;
  /** Relative to the data folder. */
  readonly folder: string;
  /** The epoch that the object's record in the bucket names, 0 without one; never from a cache. */
  recordEpoch(object: string): Promise<number>;
  readonly counters?: JournalCounters;
  /** Told once, when a write or a sync has failed: it takes and promises nothing more until the node is started again. */
  readonly broken?: (error: MoonportError) => void;
}

type State =
  | { readonly kind: "open" }
  | { readonly kind: "closing" }
  | { readonly kind: "broken"; readonly error: MoonportError };

/** Heads that ride with a batch, for no answer waits for them. */
const LATE_HEADS_MAX = 4_096;

export class Journal implements JournalPort {
  readonly id: string;
  readonly #options: JournalOptions;
  readonly #ledger: FileLedger;
  readonly #writer: JournalWriter;
  readonly #cleaner: Cleaner;
  readonly #objects = new HeldObjects();
  readonly #readings: RecordReadings<number>;
  #state: State = { kind: "open" };
  #closing: Promise<void> | undefined;

  /** @throws MoonportError `journal_corrupt`, `storage_*` */
  static async open(options: JournalOptions): Promise<Journal> {
    const { world, folder } = options;
    const identity = await openIdentity(world, folder);
    return new Journal(identity, options, await openFiles(world, folder, identity));
  }

  private constructor(id: string, options: JournalOptions, opened: OpenedFiles) {
    this.id = id;
    this.#options = options;
    this.#ledger = opened.ledger;
    this.#readings = new RecordReadings(
      (object) => options.recordEpoch(object),
      options.settings.JOURNAL_QUEUE_BYTES_MAX,
    );
    this.#writer = this.#newWriter(opened.current);
    this.#cleaner = this.#newCleaner();
    for (const slot of opened.slots.values()) {
      this.#objects.add(slot);
      // Its records say its head together, and no single one does.
      if (slot.recorded === undefined) this.#objects.late.add(slot);
    }
    this.#forgetSome(0);
  }

  /** Why it takes nothing more; undefined while it does. */
  get failure(): MoonportError | undefined {
    return this.#state.kind === "broken" ? this.#state.error : undefined;
  }

  /** Of its files, without what is written ahead. */
  get bytes(): number {
    return this.#ledger.bytes;
  }

  /** Of the disk, since it was opened. */
  get syncs(): number {
    return this.#writer.syncs;
  }

  /** Objects with entries, whosever they are, some perhaps not acknowledged yet. */
  tails(): HeldTail[] {
    return Array.from(this.#objects.withEntries(), tailOf);
  }

  /** Objects that are known and have no entries: the bucket has all that was told of them. The last heard of first. */
  covered(): string[] {
    return this.#objects.withoutEntries();
  }

  tailOf(object: string): HeldTail | undefined {
    const slot = this.#objects.get(object);
    return slot === undefined || mayForget(slot.held) ? undefined : tailOf(slot);
  }

  /** Of the entries of the object, on the disk. */
  tailBytes(object: string): number {
    const slot = this.#objects.get(object);
    if (slot === undefined || mayForget(slot.held)) return 0;
    return [...slot.held.entries].reduce((bytes, { payload }) => bytes + payload.frameBytes, 0);
  }

  /**
   * Entries for a reader beside the protocol, who knows from the owner of that epoch through which seq all is released: nothing
   * is promised, and what is still on its way to the disk counts too.
   * @returns undefined where what it holds of the object is of another line
   * @throws MoonportError `journal_corrupt`, `storage_*`, `node_stopping`
   */
  async entries(object: string, { epoch, afterSeq, throughSeq }: EntryRange): Promise<HeldEntries | undefined> {
    this.#assertOpen();
    const held = this.#objects.get(object)?.held;
    if (held === undefined || held.tailEpoch !== epoch) return undefined;
    const wanted: KeptEntry[] = [];
    for (const entry of held.entries.droppedThrough(afterSeq)) {
      if (entry.toSeq > throughSeq) break;
      wanted.push(entry);
    }
    const { world, folder } = this.#options;
    const reader = new FilesReader(world, folder, this.id);
    return { base: held.base, entries: await readEntries(world, reader, wanted) };
  }

  async append(object: string, message: EntryMessage<Payload>): Promise<EntryAnswer> {
    const { epoch, covered, afterSeq, toSeq } = message;
    assertWhole(epoch, covered, afterSeq, toSeq);
    return this.#known(object, message.payload.length, (slot) => this.#append(slot, message));
  }

  async notice(object: string, notice: CoverageNotice): Promise<NoticeAnswer | undefined> {
    this.#assertOpen();
    assertWhole(notice.epoch, notice.covered);
    if (this.#objects.get(object) === undefined && !this.#readings.isUnderWay(object)) return undefined;
    return this.#known(object, 0, (slot) => {
      const { held, answer } = decideNotice(this.id, slot.held, notice);
      this.#adopt(slot, held);
      return this.#whenDurable(slot, () => answer);
    });
  }

  async promise(object: string, request: PromiseRequest, part?: TailPart): Promise<PromiseAnswer<Payload>> {
    assertWhole(request.epoch);
    return this.#known(object, 0, (slot) => {
      const { held, answer } = decidePromise(this.id, slot.held, request);
      this.#adopt(slot, held);
      return this.#whenDurable(slot, () => this.#withPayloads(answer, part));
    });
  }

  /** Answers without entries, as most are, wait together. */
  async promiseMany(asked: readonly AskedPromise[]): Promise<readonly (PromiseAnswer<Payload> | MoonportError)[]> {
    const batches = new Set<Batch>();
    const answers = asked.map(({ object, epoch, journal, part }) => {
      const slot = this.#state.kind === "open" ? this.#objects.get(object) : undefined;
      if (slot === undefined || !mayForget(slot.held))
        return this.promise(object, { epoch, journal }, part).catch(asMoonportError);
      assertWhole(epoch);
      const { held, answer } = decidePromise(this.id, slot.held, { epoch, journal });
      this.#adopt(slot, held);
      if (slot.batch?.isDurable === false) batches.add(slot.batch);
      // There is nothing to read back, which is all that would be another type.
      return answer as PromiseAnswer<Payload>;
    });
    const waits = Array.from(batches, (batch) => {
      return new Promise<void>((resolve, reject) => void batch.waiters.push({ durable: resolve, failed: reject }));
    });
    try {
      await Promise.all(waits);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      return Promise.all(answers.map((answer) => (answer instanceof Promise ? answer : error)));
    }
    return Promise.all(answers);
  }

  /** Waits for what is under way; requests from now on are refused. Idempotent. */
  close(): Promise<void> {
    if (this.#state.kind === "open") this.#state = { kind: "closing" };
    this.#closing ??= this.#closed();
    return this.#closing;
  }

  async #closed(): Promise<void> {
    await this.#writer.rested();
    // Behind the last batch, so that damage to that can be told from a crash.
    this.#writer.gathering.add({ kind: "oldest", oldest: this.#ledger.oldest.number }, () => {});
    await this.#writer.close();
    this.#cleaner.stop();
  }

  /** With the object's state; one that is not known is begun by a reading of its record (J6). */
  async #known<A>(object: string, bytes: number, act: (slot: HeldSlot) => A | Promise<A>): Promise<A> {
    this.#assertOpen();
    const slot = this.#objects.get(object);
    if (slot !== undefined) return act(slot);
    return this.#readings.wait(object, bytes, (recordEpoch) => {
      this.#assertOpen();
      return act(this.#objects.get(object) ?? this.#begin(object, recordEpoch));
    });
  }

  #begin(object: string, recordEpoch: number): HeldSlot {
    assertWhole(recordEpoch);
    // Nobody is forgotten but here, before: forgotten among those who waited, the object would be begun twice by one reading.
    this.#forgetSome(1);
    const slot = newSlot(object, begun(recordEpoch));
    this.#objects.add(slot);
    return slot;
  }

  #append(slot: HeldSlot, message: EntryMessage<Payload>): Promise<EntryAnswer> {
    const payload: KeptPayload = { at: { kind: "waiting", bytes: message.payload }, frameBytes: 0, isHeld: true };
    const { held, answer } = decideEntry(this.id, slot.held, { ...message, payload });
    if (answer.kind !== "ack") {
      this.#adopt(slot, held);
      return this.#whenDurable(slot, () => answer);
    }
    const record = entryRecord(slot, held, message);
    const full = this.#fullness(slot, frameBytesOf(record));
    if (full !== undefined) {
      // Its word of coverage counts all the same: that is what makes room.
      this.#adopt(slot, decideNotice(this.id, slot.held, message).held);
      throw full;
    }
    this.#adopt(slot, held, { record, payload });
    return this.#whenDurable(slot, () => answer);
  }

  /** Makes `next` the object's state and sees to it that the disk comes to know what answers may rest on. */
  #adopt(
    slot: HeldSlot,
    next: HeldObject<KeptPayload>,
    appended?: { record: EntryRecord; payload: KeptPayload },
  ): void {
    this.#objects.change(slot, next);
    const { recorded } = slot;
    const isNewEpoch = recorded?.promised !== next.promised || recorded.tailEpoch !== next.tailEpoch;
    if (appended !== undefined || isNewEpoch) {
      slot.batch = this.#writer.gathering;
      if (appended !== undefined) this.#addEntry(slot.batch, slot, appended.record, appended.payload);
      else this.#addHead(slot.batch, slot);
      this.#writer.wake();
    } else if (recorded.base !== next.base) {
      this.#objects.late.add(slot);
    }
    if (this.#cleaner.hasWork) this.#writer.wake();
  }

  #addEntry(batch: Batch, slot: HeldSlot, record: EntryRecord, payload: KeptPayload): void {
    const frameBytes = batch.add(record, (at) => {
      payload.at = at;
      this.#headWritten(slot, at);
    });
    this.#objects.count(payload, frameBytes);
    this.#recorded(slot);
  }

  #addHead(batch: Batch, slot: HeldSlot): number {
    const { promised, tailEpoch, base } = slot.held;
    this.#recorded(slot);
    return batch.add({ kind: "head", object: slot.object, promised, tailEpoch, base }, (at) => {
      this.#headWritten(slot, at);
    });
  }

  /** Out of a file that is to go. */
  #copyEntry(batch: Batch, slot: HeldSlot, { payload }: KeptEntry, reader: FilesReader): number {
    assert(payload.at.kind === "stored", "what is copied stands in a file");
    const record = { ...reader.entry(payload.at), base: slot.held.base };
    return batch.add(record, (at) => {
      payload.at = at;
      if (!payload.isHeld) return;
      this.#objects.count(payload, at.frameBytes);
      this.#ledger.stands(slot);
    });
  }

  /** All that the head says now stands in the batches. */
  #recorded(slot: HeldSlot): void {
    const { promised, tailEpoch, base } = slot.held;
    slot.recorded = { promised, tailEpoch, base };
    this.#objects.late.delete(slot);
  }

  #headWritten(slot: HeldSlot, at: StoredPlace): void {
    slot.headFile = at.file;
    if (this.#objects.isKnown(slot)) this.#ledger.stands(slot);
  }

  #forgetSome(more: number): void {
    for (const slot of this.#objects.tooMany(this.#options.settings.JOURNAL_OBJECTS_MAX - more)) {
      // The last record of an object says how far it is covered: its entries go before that does.
      if (this.#objects.late.has(slot)) this.#addHead(this.#writer.gathering, slot);
      this.#objects.forget(slot);
      this.#ledger.forget(slot);
    }
  }

  #whenDurable<A>(slot: HeldSlot, answer: () => A | Promise<A>): Promise<A> {
    const { batch } = slot;
    return new Promise((resolve, reject) => {
      if (batch === undefined || batch.isDurable) {
        slot.batch = undefined;
        resolve(answer());
      } else {
        batch.waiters.push({ durable: () => resolve(answer()), failed: reject });
      }
    });
  }

  #withPayloads(
    answer: PromiseAnswer<KeptPayload>,
    part: TailPart | undefined,
  ): PromiseAnswer<Payload> | Promise<PromiseAnswer<Payload>> {
    if (answer.kind !== "promised") return answer;
    const { world, folder } = this.#options;
    const reader = new FilesReader(world, folder, this.id);
    const wanted = part === undefined ? answer.tail.entries : entriesOf(answer.tail.entries, part);
    return readTail(world, reader, wanted).then((entries) => ({
      ...answer,
      tail: { ...answer.tail, entries },
    }));
  }

  #fullness({ object }: HeldSlot, bytes: number): MoonportError | undefined {
    const { JOURNAL_BYTES_MAX, JOURNAL_QUEUE_BYTES_MAX } = this.#options.settings;
    const queued = this.#writer.queuedBytes + bytes;
    if (queued > JOURNAL_QUEUE_BYTES_MAX) return queueFull(object);
    if (this.#ledger.bytes + queued <= JOURNAL_BYTES_MAX) return undefined;
    return MoonportError.of(
      "journal_full",
      `the node's journal has ${this.#ledger.bytes} bytes, of JOURNAL_BYTES_MAX ${JOURNAL_BYTES_MAX}`,
      { object },
    );
  }

  #newWriter(current: CurrentFile): JournalWriter {
    const { world, settings, folder, counters } = this.#options;
    const parts = {
      world,
      settings,
      folder,
      identity: this.id,
      ledger: this.#ledger,
      hasMore: () => (this.#state.kind === "closing" ? this.#objects.late.size > 0 : this.#cleaner.hasWork),
      fill: (batch: Batch) => this.#fill(batch),
      failed: (error: MoonportError) => this.#break(error),
      ...(counters && { counters }),
    };
    return new JournalWriter(parts, current);
  }

  #newCleaner(): Cleaner {
    const { world, settings, folder } = this.#options;
    return new Cleaner({
      settings,
      ledger: this.#ledger,
      heldBytes: () => this.#objects.bytes,
      // Entries that a base has dropped, and no record says so, would leave those behind them over a hole.
      needsHead: (slot, { number }) => slot.headFile <= number || this.#objects.late.has(slot),
      reader: () => new FilesReader(world, folder, this.id),
      copyEntry: (batch, slot, entry, reader) => this.#copyEntry(batch, slot, entry, reader),
      copyHead: (batch, slot) => this.#addHead(batch, slot),
      remove: ({ number }) => world.folder.remove(`${folder}/${journalFileName(number)}`),
    });
  }

  #fill(batch: Batch): void {
    let heads = LATE_HEADS_MAX;
    for (const slot of this.#objects.late) {
      if (heads-- === 0) break;
      this.#addHead(batch, slot);
    }
    if (this.#state.kind === "open") this.#cleaner.step(batch);
  }

  #break(error: MoonportError): void {
    const { log } = this.#options.world;
    log.error({ error, journal: this.id }, "the journal's disk failed: it acknowledges nothing more");
    this.#state = { kind: "broken", error };
    this.#options.broken?.(error);
  }

  #assertOpen(): void {
    if (this.#state.kind === "broken") throw this.#state.error;
    if (this.#state.kind === "closing") throw MoonportError.of("node_stopping", "the node's journal is closed");
  }
}

function entryRecord(slot: HeldSlot, next: HeldObject<KeptPayload>, message: EntryMessage<Payload>): EntryRecord {
  const { epoch, afterSeq, toSeq, payload } = message;
  return { kind: "entry", object: slot.object, epoch, base: next.base, afterSeq, toSeq, payload };
}

function entriesOf(entries: EntryRun<KeptEntry>, { afterSeq, bytesMax }: TailPart): KeptEntry[] {
  const wanted: KeptEntry[] = [];
  let bytes = 0;
  for (const entry of entries.droppedThrough(afterSeq)) {
    bytes += entry.payload.frameBytes;
    if (wanted.length > 0 && bytes > bytesMax) break;
    wanted.push(entry);
  }
  return wanted;
}

function tailOf({ object, held }: HeldSlot): HeldTail {
  return { object, tailEpoch: held.tailEpoch, have: haveSeq(held) };
}

/** Before it is decided on: what no record can say must not become a state. */
function assertWhole(...numbers: readonly number[]): void {
  assert(
    numbers.every((number) => Number.isSafeInteger(number) && number >= 0),
    "epochs and seqs are whole numbers",
  );
}
