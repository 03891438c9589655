/**
 * Answers of reading methods, remembered until their object changes: whoever asks the same again gets what a run would give.
 *
 * An answer is kept when nothing but the object's own database went into it: not the time, chance, the caller, and nothing was
 * logged. It holds while the file and the class are the same and nothing was written, by the mark that also tells a writing
 * call from one that wrote nothing. It is given where the method would have run, so gate and session are asked as ever (G1, E4).
 *
 * The first answer after a write is not kept, the second is: who writes between any two reads pays nothing for this.
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

/** Longest text of a call that is worth keeping; an answer larger than a part of the bound is not. */
const CALL_CHARACTERS_MAX = 512;
const ANSWER_SHARE_MAX = 1 / 64;
/** What an entry takes beside its text and its value, and what a value within another does. */
const ENTRY_BYTES = 160;
const INNER_BYTES = 32;

/** Of all objects of a node: at most so many bytes. */
export class AnswerMemory {
  readonly #bytesMax: number;
  /** Of those that keep answers, in the order in which they began to. */
  readonly #keeping = new Set<ObjectAnswers>();
  #bytes = 0;

  /** @param bytesMax 0 keeps nothing */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
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
  #entries: Map<string, Entry> | undefined;
  #bytes = 0;
  #wasUsed = false;
  /** For which class and which state of the file something was read. */
  #lua: LuaClass | undefined;
  #mark = -1;

  constructor(memory: AnswerMemory) {
    this.#memory = memory;
  }

  /** @param mark of the file's writes */
  get(asked: AskedReading, mark: number): RememberedAnswer | undefined {
    if (this.#entries === undefined || mark !== this.#mark || asked.lua !== this.#lua) return undefined;
    const call = callText(asked);
    const entry = call === undefined ? undefined : this.#entries.get(call);
    if (entry === undefined) return undefined;
    this.#wasUsed = true;
    return entry.answer;
  }

  /**
   * Whether the answer to what is read now is worth keeping.
   * @param mark of the file's writes when the method begins
   */
  isWorthKeeping({ lua }: AskedReading, mark: number): boolean {
    if (mark === this.#mark && lua === this.#lua) return true;
    this.forget();
    this.#mark = mark;
    this.#lua = lua;
    return false;
  }

  /**
   * @param mark as it was when the method began: what was written since makes the answer an old one
   * @returns the answer, if it is kept
   */
  keep(asked: AskedReading, mark: number, value: PlainValue): RememberedAnswer | undefined {
    if (mark !== this.#mark || asked.lua !== this.#lua) return undefined;
    const call = callText(asked);
    if (call === undefined) return undefined;
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

  /** Whether it was asked since it was last passed over. */
  takeUse(): boolean {
    const wasUsed = this.#wasUsed;
    this.#wasUsed = false;
    return wasUsed;
  }
}

/** The same for the same call alone; nothing for one whose arguments are more than a few scalars. */
function callText({ method, args }: AskedReading): string | undefined {
  if (args.length === 0) return method;
  let characters = 0;
  for (const arg of args) {
    if (typeof arg === "object" && arg !== null) return undefined;
    // JSON has neither -0, which Lua can tell from 0, nor what no call may bring.
    if (typeof arg === "number" && (!Number.isFinite(arg) || Object.is(arg, -0))) return undefined;
    characters += typeof arg === "string" ? arg.length : 8;
    if (characters > CALL_CHARACTERS_MAX) return undefined;
  }
  return method + JSON.stringify(args);
}

/** What a value takes in memory, roughly; once that is more than `most`, anything above it. */
function bytesOf(value: PlainValue, most: number): number {
  if (typeof value === "string") return INNER_BYTES + 2 * value.length;
  if (typeof value !== "object" || value === null) return INNER_BYTES;
  if (value instanceof Uint8Array) return INNER_BYTES + value.byteLength;
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
