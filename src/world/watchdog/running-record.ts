/**
 * What the main thread is doing, in memory that the watchdog's thread reads while the main thread is blocked: whose class code
 * runs (object and method), and the statement it waits for in SQLite.
 *
 * The main thread says so before every statement, so saying it must cost next to nothing: a text is encoded into a slot once,
 * and what is written each time is the slot's number. The order of plain writes is enough. Whoever reads does so after many
 * milliseconds of silence, and looks afterwards whether the silence lasts.
 */

/** Written by the main thread, but for STOP. */
const WORD = { beat: 0, debugged: 1, object: 2, entry: 3, statement: 4, stop: 5 } as const;
const WORDS = 16;
const WORD_BYTES = WORDS * 4;

/** Enough for the longest object id. */
const SLOT_TEXT_BYTES = 400;
/** A text that was cut fills its slot but for what its next character needs. */
const CUT_BYTES_MIN = SLOT_TEXT_BYTES - 4;
/** Length in bytes, then whether the text goes on. */
const SLOT_HEAD_BYTES = 8;
const SLOT_BYTES = SLOT_HEAD_BYTES + SLOT_TEXT_BYTES;
const SLOTS = 256;
/** Objects are too many to be remembered; this slot holds the last one. */
const OBJECT_SLOT = 0;
/** For texts that are too long to be remembered by: encoded anew each time. */
const LONG_SLOT = 1;
const KEPT_CHARACTERS_MAX = 4_096;
/** Up to here a loop encodes faster than a call into the platform. */
const SHORT_CHARACTERS = 100;
/** Of a statement this much is shown. */
const STATEMENT_BYTES_MAX = 200;

/** What {@link RunningRecord.enter} may name besides methods; none of them can be a method's name. */
export const MIGRATIONS_ENTRY = "migrations";
export const ROW_ENTRY = "directory.row";
export const CONSOLE_ENTRY = "(console)";

export interface Running {
  /** `app/Class/key`; absent for units, and while no class code runs. */
  readonly object?: string;
  /** The method, `on_create`, `on_wake`, `directory.row`, `migrations`, `(console)`, or `unit app/name`. */
  readonly entry?: string;
  /** The statement under way, cut after some 200 bytes. */
  readonly statement?: string;
}

/** The main thread's side. */
export class RunningRecord {
  readonly shared: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #slots: Slots;

  constructor() {
    this.shared = new SharedArrayBuffer(WORD_BYTES + SLOTS * SLOT_BYTES);
    this.#words = new Int32Array(this.shared, 0, WORDS);
    this.#slots = new Slots(this.shared, this.#words);
  }

  /** Class code begins or goes on. @param object `app/Class/key`, or "" where there is none */
  enter(object: string, entry: string): void {
    const words = this.#words;
    words[WORD.object] = this.#slots.ofObject(object);
    words[WORD.entry] = this.#slots.of(entry);
  }

  /** It ended, or gives way. */
  leave(): void {
    const words = this.#words;
    words[WORD.object] = 0;
    words[WORD.entry] = 0;
  }

  statementBegins(sql: string): void {
    this.#words[WORD.statement] = this.#slots.of(sql);
  }

  statementEnds(): void {
    this.#words[WORD.statement] = 0;
  }

  /** The loop has come round. @param isDebugged somebody may hold the main thread at a breakpoint */
  beat(isDebugged: boolean): void {
    this.#words[WORD.debugged] = isDebugged ? 1 : 0;
    Atomics.add(this.#words, WORD.beat, 1);
  }

  /** Asks whoever watches to end. */
  stop(): void {
    Atomics.store(this.#words, WORD.stop, 1);
    Atomics.notify(this.#words, WORD.stop);
  }
}

/** Texts by slot; each is named by its slot's number plus 1. The oldest gives way to a new one, unless it is shown right now. */
class Slots {
  readonly #words: Int32Array;
  readonly #bytes: Buffer;
  readonly #heads: Int32Array;
  readonly #texts: (string | undefined)[] = new Array(SLOTS).fill(undefined);
  readonly #byText = new Map<string, number>();
  #object = "";
  #last = LONG_SLOT;

  constructor(shared: SharedArrayBuffer, words: Int32Array) {
    this.#words = words;
    this.#bytes = Buffer.from(shared);
    this.#heads = new Int32Array(shared);
  }

  of(text: string): number {
    return this.#byText.get(text) ?? this.#place(text);
  }

  ofObject(id: string): number {
    if (id === "") return 0;
    if (id !== this.#object) {
      this.#object = id;
      this.#write(OBJECT_SLOT, id);
    }
    return OBJECT_SLOT + 1;
  }

  #place(text: string): number {
    if (text.length > KEPT_CHARACTERS_MAX) return this.#write(LONG_SLOT, text);
    const slot = this.#free();
    const before = this.#texts[slot];
    if (before !== undefined) this.#byText.delete(before);
    this.#texts[slot] = text;
    const number = this.#write(slot, text);
    this.#byText.set(text, number);
    return number;
  }

  #free(): number {
    do {
      this.#last = this.#last + 1 < SLOTS ? this.#last + 1 : LONG_SLOT + 1;
    } while (this.#last + 1 === this.#words[WORD.entry]);
    return this.#last;
  }

  #write(slot: number, text: string): number {
    const at = WORD_BYTES + slot * SLOT_BYTES;
    const bytes = this.#writeAscii(at + SLOT_HEAD_BYTES, text) ?? this.#writeText(at + SLOT_HEAD_BYTES, text);
    this.#heads[at / 4] = bytes;
    this.#heads[at / 4 + 1] = bytes > CUT_BYTES_MIN && bytes < Buffer.byteLength(text, "utf8") ? 1 : 0;
    return slot + 1;
  }

  /** Half the time of the general way, and nearly every text is short and ASCII. */
  #writeAscii(at: number, text: string): number | undefined {
    const bytes = this.#bytes;
    if (text.length > SHORT_CHARACTERS) return undefined;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return undefined;
      bytes[at + index] = code;
    }
    return text.length;
  }

  /** Never half a character. */
  #writeText(at: number, text: string): number {
    return this.#bytes.write(text.slice(0, SLOT_TEXT_BYTES), at, SLOT_TEXT_BYTES, "utf8");
  }
}

/** The watching thread's side. */
export class RunningReader {
  readonly #words: Int32Array;
  readonly #bytes: Buffer;

  constructor(shared: SharedArrayBuffer) {
    this.#words = new Int32Array(shared, 0, WORDS);
    this.#bytes = Buffer.from(shared);
  }

  get beats(): number {
    return Atomics.load(this.#words, WORD.beat);
  }

  get isDebugged(): boolean {
    return Atomics.load(this.#words, WORD.debugged) === 1;
  }

  get isStopped(): boolean {
    return Atomics.load(this.#words, WORD.stop) === 1;
  }

  /** Blocks this thread for the time, or until it is asked to end. */
  sleep(ms: number): void {
    Atomics.wait(this.#words, WORD.stop, 0, ms);
  }

  running(): Running {
    const object = this.#text(WORD.object, SLOT_TEXT_BYTES);
    const entry = this.#text(WORD.entry, SLOT_TEXT_BYTES);
    const statement = this.#text(WORD.statement, STATEMENT_BYTES_MAX);
    return {
      ...(object !== undefined && { object }),
      ...(entry !== undefined && { entry }),
      ...(statement !== undefined && { statement }),
    };
  }

  #text(word: number, bytesMax: number): string | undefined {
    const number = Atomics.load(this.#words, word);
    if (number < 1 || number > SLOTS) return undefined;
    const at = WORD_BYTES + (number - 1) * SLOT_BYTES;
    const bytes = Math.min(Math.max(this.#bytes.readInt32LE(at), 0), SLOT_TEXT_BYTES);
    const goesOn = this.#bytes.readInt32LE(at + 4) === 1 || bytes > bytesMax;
    const start = at + SLOT_HEAD_BYTES;
    const text = this.#bytes.toString("utf8", start, start + Math.min(bytes, bytesMax));
    // A character that the bound cut in two shows as a replacement sign.
    return goesOn ? `${text.replace(/\ufffd$/, "")}...` : text;
  }
}

/** For whatever nobody watches: class code says what it does, and no thread reads it. */
export const unwatched = new RunningRecord();
