/**
 * Answers of reading methods, remembered until their object changes: whoever asks the same again gets what a run would give.
 *
 * An answer is kept when nothing but the object's own database went into it: not the time, chance, the caller, and nothing was
 * logged. It holds while the file and the class are the same and nothing was written, by the mark that also tells a writing
 * call from one that wrote nothing. It is given where the method would have run, so gate and session are asked as ever (G1, E4).
 *
 * An answer is kept when the same was asked before, and not by the first reading after a write: who writes between any two reads
 * pays nothing for this, and who never asks the same twice next to nothing.
 */
import type { LuaClass } from "../lua/contract.js";
import type { PlainValue } from "../values.js";

/** What is asked: enough to know the answer by. */
export interface AskedReading {
  readonly lua: LuaClass;
  readonly method: string;
  readonly args: readonly PlainValue[];
}

export interface RememberedAnswer {
  readonly value: PlainValue;
  /** Others are given the same value: nobody may change it. */
  readonly isShared: true;
}

interface Entry {
  readonly answer: RememberedAnswer;
  readonly bytes: number;
}

/** The text of a call by which its answer is known: the same for the same call alone. */
export type CallText = string & { readonly isCallText: true };

/** Longest text of a call that is worth keeping; an answer larger than a part of the bound is not. */
const CALL_CHARACTERS_MAX = 512;
/** Of calls that were asked lately, in all; a power of two. */
const ASKED_SLOTS = 65_536;
const ANSWER_SHARE_MAX = 1 / 64;
/** What an entry takes beside its text and its value, and what a value within another does. */
const ENTRY_BYTES = 160;
const INNER_BYTES = 32;
const BLOB_BYTES = 224;

/** Of all objects of a node: at most so many bytes. */
export class AnswerMemory {
  readonly #bytesMax: number;
  /** Of those that keep answers, in the order in which they began to. */
  readonly #keeping = new Set<ObjectAnswers>();
  #bytes = 0;
  /** Prints of calls, each where its last bits say: whichever came last. */
  readonly #asked: Int32Array;
  #objects = 0;

  /** @param bytesMax 0 keeps nothing */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#asked = new Int32Array(bytesMax === 0 ? 0 : ASKED_SLOTS);
  }

  /** Tells one object's calls from another's. */
  nextSalt(): number {
    return Math.imul(++this.#objects, 0x9e3779b1);
  }

  /** Whether it was asked lately, as far as is known; from now on it was. */
  wasAsked(print: number): boolean {
    if (this.#bytesMax === 0) return false;
    const slot = (print ^ (print >>> 16)) & (ASKED_SLOTS - 1);
    if (this.#asked[slot] === print) return true;
    this.#asked[slot] = print;
    return false;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The largest answer that is kept. */
  get answerBytesMax(): number {
    return Math.floor(this.#bytesMax * ANSWER_SHARE_MAX);
  }

  kept(answers: ObjectAnswers, bytes: number): void {
    this.#bytes += bytes;
    this.#keeping.add(answers);
    while (this.#bytes > this.#bytesMax) this.#forgetOne();
  }

  forgot(answers: ObjectAnswers, bytes: number): void {
    this.#bytes -= bytes;
    this.#keeping.delete(answers);
  }

  /** All of the object that began first and was not asked since it was last passed over. */
  #forgetOne(): void {
    for (const answers of this.#keeping) {
      if (!answers.takeUse()) return answers.forget();
      this.#keeping.delete(answers);
      this.#keeping.add(answers);
    }
  }
}

/** Of one open file. */
export class ObjectAnswers {
  readonly #memory: AnswerMemory;
  readonly #salt: number;
  #entries: Map<CallText, Entry> | undefined;
  #bytes = 0;
  #wasUsed = false;
  /** For which class and which state of the file something was read. */
  #lua: LuaClass | undefined;
  #mark = -1;

  constructor(memory: AnswerMemory) {
    this.#memory = memory;
    this.#salt = memory.nextSalt();
  }

  /**
   * @param mark of the file's writes
   * @returns the answer; or, where a run's answer is worth keeping, the text to keep it by
   */
  find(asked: AskedReading, mark: number): RememberedAnswer | CallText | undefined {
    if (mark !== this.#mark || asked.lua !== this.#lua) {
      this.forget();
      this.#mark = mark;
      this.#lua = asked.lua;
      return undefined;
    }
    const call = callText(asked);
    if (call === undefined) return undefined;
    const entry = this.#entries?.get(call);
    if (entry === undefined) return this.#memory.wasAsked(printOf(call, this.#salt ^ mark)) ? call : undefined;
    this.#wasUsed = true;
    return entry.answer;
  }

  /**
   * @param call as {@link find} gave it
   * @param mark as it was when the method began: what was written since makes the answer an old one
   * @returns the answer, if it is kept
   */
  keep(call: CallText, lua: LuaClass, mark: number, value: PlainValue): RememberedAnswer | undefined {
    if (mark !== this.#mark || lua !== this.#lua) return undefined;
    const bytesMax = this.#memory.answerBytesMax;
    const bytes = ENTRY_BYTES + 2 * call.length + bytesOf(value, bytesMax);
    if (bytes > bytesMax) return undefined;
    this.#entries ??= new Map();
    const before = this.#entries.get(call)?.bytes ?? 0;
    const answer: RememberedAnswer = { value, isShared: true };
    this.#entries.set(call, { answer, bytes });
    this.#bytes += bytes - before;
    this.#memory.kept(this, bytes - before);
    return answer;
  }

  forget(): void {
    if (this.#entries === undefined) return;
    this.#entries = undefined;
    this.#memory.forgot(this, this.#bytes);
    this.#bytes = 0;
  }

  /** The file is closed: what a reading under way comes to is kept no more. */
  end(): void {
    this.forget();
    this.#mark = Number.NaN;
  }

  /** Whether it was asked since it was last passed over. */
  takeUse(): boolean {
    const wasUsed = this.#wasUsed;
    this.#wasUsed = false;
    return wasUsed;
  }
}

/** Nothing for a call whose arguments are more than a few scalars. */
function callText({ method, args }: AskedReading): CallText | undefined {
  let text = method;
  for (const arg of args) {
    const part = argumentText(arg);
    if (part === undefined) return undefined;
    text += part;
    if (text.length > CALL_CHARACTERS_MAX) return undefined;
  }
  return text as CallText;
}

/** Type, and length or end, stand in it: no two rows of arguments give one text. No name of a method has a colon. */
function argumentText(arg: PlainValue): string | undefined {
  switch (typeof arg) {
    case "string":
      return `:${arg.length}:${arg}`;
    case "number":
      // As a text -0 is 0, from which Lua can tell it.
      return Object.is(arg, -0) ? undefined : `:n${arg}`;
    case "boolean":
      return arg ? ":t" : ":f";
    default:
      return arg === null || arg === undefined ? ":0" : undefined;
  }
}

function printOf(text: string, salt: number): number {
  let print = salt;
  for (let at = 0; at < text.length; at++) print = Math.imul(print ^ text.charCodeAt(at), 0x01000193);
  return print ^ (print >>> 13);
}

/** What a value takes in memory, roughly; once that is more than `most`, anything above it. */
function bytesOf(value: PlainValue, most: number): number {
  if (typeof value === "string") return INNER_BYTES + 2 * value.length;
  if (typeof value !== "object" || value === null) return INNER_BYTES;
  if (value instanceof Uint8Array) return BLOB_BYTES + value.byteLength;
  let bytes = INNER_BYTES;
  if (Array.isArray(value)) {
    for (const element of value) {
      bytes += bytesOf(element, most - bytes);
      if (bytes > most) return bytes;
    }
    return bytes;
  }
  for (const name of Object.keys(value)) {
    bytes += 2 * name.length + bytesOf(value[name] ?? null, most - bytes);
    if (bytes > most) return bytes;
  }
  return bytes;
}
