/**
 * What the objects of the drill must hold, given what was asked of them and what was answered.
 *
 * A call that was acknowledged stands in its object at the place that the answer named, once; one whose answer never came stands
 * there or not, once at most; one that was refused does not. What a call obliges to follows from the lists alone: each timer that
 * was armed has fired once, each message that was told has arrived once, whoever heard what.
 */
import { MoonportError } from "../../src/errors.js";
import type { PlainValue } from "../../src/values.js";

export type CallKind = "add" | "arm" | "tell";

export interface Line {
  readonly n: number;
  readonly kind: CallKind | "fired" | "got";
  readonly id: string;
  readonly other: string | null;
}

type Fate =
  | { readonly kind: "open" }
  | { readonly kind: "acknowledged"; readonly n: number }
  | { readonly kind: "not_there"; readonly code: string };

interface Known {
  readonly kind: CallKind;
  fate: Fate;
}

/** This try of the call did not run, or nothing of it is kept. */
const NOTHING_KEPT = new Set([
  "mailbox_full",
  "object_restarting",
  "deadline_exceeded",
  "caller_gone",
  "node_full",
  "storage_behind",
]);

/** The drill has found something. */
export class DrillBroken extends Error {
  override readonly name = "DrillBroken";
}

export class ObjectModel {
  readonly key: string;
  readonly #calls = new Map<string, Known>();
  /** How many lines answers have told of. */
  #told = 0;

  constructor(key: string) {
    this.key = key;
  }

  get acknowledged(): number {
    return this.#count("acknowledged");
  }

  get open(): number {
    return this.#count("open");
  }

  /** To be told before a request leaves; what it returns takes the answer. */
  asked(
    id: string,
    kind: CallKind,
  ): { acknowledged(value: PlainValue): void; failed(error: unknown, explained?: ReadonlySet<string>): void } {
    const before = this.#calls.get(id);
    const known: Known = before ?? { kind, fate: { kind: "open" } };
    this.#calls.set(id, known);
    const isDoubtful = before?.fate.kind === "open";
    if (known.fate.kind === "not_there") known.fate = { kind: "open" };
    return {
      acknowledged: (value) => this.#acknowledged(id, known, value),
      failed: (error, explained) => this.#failed(known, error, { id, isDoubtful, explained }),
    };
  }

  /** To be told before a read leaves; what it returns takes what was read. It binds all later answers. */
  reading(): (lines: readonly Line[]) => void {
    const toldBefore = this.#told;
    return (lines) => {
      if (lines.length < toldBefore) {
        throw this.#broken(`a read shows ${lines.length} lines, after ${toldBefore} were told of`);
      }
      this.#told = Math.max(this.#told, lines.length);
      this.#check(lines);
    };
  }

  #check(lines: readonly Line[]): void {
    const places = new Map<string, number>();
    for (const [index, { n, kind, id }] of lines.entries()) {
      if (n !== index + 1) throw this.#broken(`line ${index + 1} has the number ${n}`);
      const name = `${kind} ${id}`;
      const before = places.get(name);
      if (before !== undefined) throw this.#broken(`${name} stands at ${before} and at ${n}`);
      places.set(name, n);
      if (kind === "fired" && !places.has(`arm ${id}`)) throw this.#broken(`${id} fired and was not armed`);
      if (kind === "fired" || kind === "got") continue;
      if (!this.#calls.has(id)) throw this.#broken(`${name} is there and was never asked for`);
    }
    for (const [id, { kind, fate }] of this.#calls) {
      const place = places.get(`${kind} ${id}`);
      // Told while the read was under way, it may lie beyond what that saw.
      if (fate.kind === "acknowledged" && place !== fate.n && fate.n <= lines.length) {
        throw this.#broken(
          `${id} was acknowledged at ${fate.n} and is ${place === undefined ? "lost" : `at ${place}`}`,
        );
      }
      if (fate.kind === "not_there" && place !== undefined) {
        throw this.#broken(`${id} failed with ${fate.code} and yet is there`);
      }
    }
  }

  #acknowledged(id: string, known: Known, value: PlainValue): void {
    const { n } = value as { n: number };
    if (known.fate.kind === "acknowledged" && known.fate.n !== n) {
      throw this.#broken(`${id} repeated is told the place ${n}, first ${known.fate.n}`);
    }
    known.fate = { kind: "acknowledged", n };
    this.#told = Math.max(this.#told, n);
  }

  #failed(
    known: Known,
    error: unknown,
    { id, isDoubtful, explained }: { id: string; isDoubtful: boolean; explained: ReadonlySet<string> | undefined },
  ): void {
    if (!(error instanceof MoonportError)) throw error;
    const isExplained = explained?.has(error.code) === true;
    if (!error.retryable && !isExplained) throw this.#broken(`${id} met ${error.code}: ${error.message}`);
    if (known.fate.kind === "open" && !isDoubtful && (isExplained || NOTHING_KEPT.has(error.code))) {
      known.fate = { kind: "not_there", code: error.code };
    }
  }

  #count(kind: Fate["kind"]): number {
    return [...this.#calls.values()].filter(({ fate }) => fate.kind === kind).length;
  }

  #broken(message: string): DrillBroken {
    return new DrillBroken(`Drill/${this.key}: ${message}`);
  }
}

/** @returns what is still owed, in words; nothing when each timer has fired and each message has arrived, once */
export function owedBy(lists: ReadonlyMap<string, readonly Line[]>): string[] {
  const owed: string[] = [];
  const arrived = new Set<string>();
  const told = new Map<string, string>();
  for (const [key, lines] of lists) {
    const fired = new Set(lines.filter(({ kind }) => kind === "fired").map(({ id }) => id));
    for (const { kind, id, other } of lines) {
      if (kind === "arm" && !fired.has(id)) owed.push(`the timer ${id} of ${key}`);
      if (kind === "got") arrived.add(`${id} to ${key}`);
      if (kind === "tell") told.set(`${id} to ${other}`, key);
    }
  }
  for (const [message, from] of told) if (!arrived.has(message)) owed.push(`the message ${message} from ${from}`);
  for (const message of arrived) {
    if (!told.has(message)) throw new DrillBroken(`the message ${message} arrived and was not told`);
  }
  return owed;
}
