/**
 * What a Ledger must hold after a crash, given what was asked and what was answered.
 *
 * The log in the object names its calls in order; {@link stateAfter} computes every table from it, so a call that is there in
 * part is seen. Besides, whatever an answer told of the log binds all later ones: acknowledged calls keep their place,
 * a log once read is the beginning of every later log, refused calls never appear.
 */
import { isDeepStrictEqual } from "node:util";
import { MoonportError } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";

export type LedgerOperation =
  | { readonly method: "add" | "refuse" | "stumble"; readonly rows: number; readonly units: number }
  | { readonly method: "rewrite"; readonly of: number; readonly units: number }
  | { readonly method: "drop"; readonly through: number };

export interface LedgerCall {
  /** Unlike that of any other call of the test. */
  readonly tag: number;
  readonly operation: LedgerOperation;
  readonly callId: string | undefined;
}

export interface LedgerState {
  readonly log: readonly { n: number; tag: number; method: string; affected: number }[];
  readonly entries: readonly { tag: number; part: number; unit: string; units: number; rest: string }[];
  readonly affected: number;
  readonly last: { readonly tag: number; readonly method: string } | null;
}

/** What the test knows of one call. `open`: no answer, or one that leaves it unknown. */
type Fate =
  | { readonly kind: "open" }
  | { readonly kind: "acknowledged"; readonly value: PlainValue; readonly seq: number }
  | { readonly kind: "not_there"; readonly code: string };

interface Known {
  readonly call: LedgerCall;
  fate: Fate;
}

/** The class refused the call, as it would refuse each try of it. */
const BY_THE_CLASS = new Set(["refused", "method_error"]);

/** This try of the call did not run, or nothing of it is kept. */
const NOTHING_KEPT = new Set([
  "mailbox_full",
  "object_restarting",
  "deadline_exceeded",
  "caller_gone",
  "node_full",
  "storage_behind",
]);

export class LedgerBroken extends Error {
  override readonly name = "LedgerBroken";
}

export function argumentsOf({ tag, operation }: LedgerCall): PlainValue[] {
  switch (operation.method) {
    case "rewrite":
      return [tag, operation.of, operation.units];
    case "drop":
      return [tag, operation.through];
    default:
      return [tag, operation.rows, operation.units];
  }
}

/** Everything that the calls with these tags, in this order, leave behind. */
export function stateAfter(calls: readonly LedgerCall[]): LedgerState {
  const entries = new Map<string, LedgerState["entries"][number]>();
  const log = calls.map((call, index) => {
    const affected = apply(entries, call);
    return { n: index + 1, tag: call.tag, method: call.operation.method, affected };
  });
  const last = log.at(-1);
  return {
    log,
    entries: [...entries.values()].sort((a, b) => a.tag - b.tag || a.part - b.part),
    affected: log.reduce((sum, line) => sum + line.affected, 0),
    last: last === undefined ? null : { tag: last.tag, method: last.method },
  };
}

/** Events that these calls emit. */
export function eventsAfter(calls: readonly LedgerCall[]): number {
  return calls.reduce((sum, { operation }) => sum + (operation.method === "add" ? 2 : 1), 0);
}

function apply(entries: Map<string, LedgerState["entries"][number]>, { tag, operation }: LedgerCall): number {
  const put = (of: number, part: number, units: number): void => {
    entries.set(`${of}/${part}`, { tag: of, part, unit: `${tag}:${part};`, units, rest: "" });
  };
  switch (operation.method) {
    case "add":
      for (let part = 1; part <= operation.rows; part++) put(tag, part, operation.units);
      return operation.rows;
    case "rewrite": {
      const rewritten = [...entries.values()].filter((entry) => entry.tag === operation.of);
      for (const { part } of rewritten) put(operation.of, part, operation.units);
      return rewritten.length;
    }
    case "drop": {
      const dropped = [...entries].filter(([, entry]) => entry.tag <= operation.through);
      for (const [key] of dropped) entries.delete(key);
      return dropped.length;
    }
    default:
      throw new LedgerBroken(`call ${tag} (${operation.method}) always fails and yet is in the log`);
  }
}

/** One object through all its lives. */
export class LedgerHistory {
  readonly object: string;
  readonly #known = new Map<number, Known>();
  /** Tags by their place in the log, as far as answers told them. */
  readonly #places: (number | undefined)[] = [];

  constructor(object: string) {
    this.object = object;
  }

  get calls(): readonly LedgerCall[] {
    return [...this.#known.values()].map(({ call }) => call);
  }

  get acknowledged(): number {
    return this.#count("acknowledged");
  }

  /** Calls of which the test knows neither that they are there nor that they are not. */
  get open(): readonly LedgerCall[] {
    return [...this.#known.values()].filter(({ fate }) => fate.kind === "open").map(({ call }) => call);
  }

  /** To be told before a request leaves; what it returns takes the answer. */
  asked(call: LedgerCall): { acknowledged(reply: CallReply): void; failed(error: unknown): void } {
    const before = this.#known.get(call.tag);
    const known: Known = before ?? { call, fate: { kind: "open" } };
    this.#known.set(call.tag, known);
    const isDoubtful = before?.fate.kind === "open";
    if (known.fate.kind === "not_there") known.fate = { kind: "open" };
    const durableBefore = this.#places.length;
    return {
      acknowledged: (reply) => this.#acknowledged(known, reply, before === undefined ? durableBefore : 0),
      failed: (error) => this.#failed(known, error, durableBefore, isDoubtful),
    };
  }

  /** To be told before a read leaves; what it returns takes the state that was read. */
  reading(): (state: PlainValue) => void {
    const durableBefore = this.#places.length;
    return (value) => {
      const { log } = stateOf(value);
      this.#assert(log.length >= durableBefore, `a read shows ${log.length} calls, after ${durableBefore} were told`);
      for (const [index, line] of log.entries()) this.#place(index + 1, line.tag, "a read");
    };
  }

  /** Checks the object at rest against all that is known. Returns the calls that are there, in order. */
  check(value: PlainValue): readonly LedgerCall[] {
    const state = stateOf(value);
    this.reading()(value);
    const calls = state.log.map(({ tag }) => this.#callOf(tag));
    const expected = stateAfter(calls);
    for (const field of ["log", "entries", "affected", "last"] as const) {
      const is = isDeepStrictEqual(state[field], expected[field]);
      this.#assert(is, `${field} is ${show(state[field])}, and should be ${show(expected[field])}`);
    }
    this.#checkFates(new Map(state.log.map(({ n, tag }) => [tag, n])));
    return calls;
  }

  #checkFates(places: ReadonlyMap<number, number>): void {
    let lastSeq = 0;
    const known = [...this.#known.values()].sort(
      (a, b) => (places.get(a.call.tag) ?? 0) - (places.get(b.call.tag) ?? 0),
    );
    for (const { call, fate } of known) {
      const isThere = places.has(call.tag);
      if (fate.kind === "not_there") {
        this.#assert(!isThere, `call ${call.tag} failed with ${fate.code} and yet is there`);
      } else if (fate.kind === "acknowledged") {
        this.#assert(isThere, `call ${call.tag} was acknowledged and is lost`);
        this.#assert(fate.seq > lastSeq, `call ${call.tag} has seq ${fate.seq}, a call before it has ${lastSeq}`);
        lastSeq = fate.seq;
      }
    }
  }

  #acknowledged(known: Known, { value, seq }: CallReply, durableBefore: number): void {
    const { call, fate } = known;
    const { n } = value as { n: number };
    this.#assert(seq !== undefined, `call ${call.tag} wrote and was answered without a seq`);
    if (fate.kind === "acknowledged") {
      const isSame = isDeepStrictEqual(fate.value, value) && fate.seq === seq;
      this.#assert(
        isSame,
        `call ${call.tag} repeated got ${show(value)} ${seq}, first ${show(fate.value)} ${fate.seq}`,
      );
    }
    const placed = this.#places.indexOf(call.tag) + 1;
    this.#assert(
      placed === n || n > durableBefore,
      `call ${call.tag} got place ${n}, after ${durableBefore} were told`,
    );
    known.fate = { kind: "acknowledged", value, seq };
    this.#place(n, call.tag, "an acknowledgement");
  }

  /** @param isDoubtful an earlier try of the call may have run: then what happened to this one says little */
  #failed(known: Known, error: unknown, durableBefore: number, isDoubtful: boolean): void {
    if (!(error instanceof MoonportError)) throw error;
    const isExpected = error.retryable || BY_THE_CLASS.has(error.code);
    this.#assert(isExpected, `call ${known.call.tag} met ${error.code}: ${error.message}`);
    this.#assert(known.fate.kind !== "acknowledged" || error.retryable, `a repeat of ${known.call.tag}: ${error.code}`);
    const told = error.details?.n;
    if (error.code === "refused" && typeof told === "number") {
      this.#assert(told >= durableBefore, `a refusal saw ${told} calls, after ${durableBefore} were told`);
      // A refusal tells of state as any reply does (G1): those calls stay.
      if (told > this.#places.length) this.#places[told - 1] ??= undefined;
    }
    const decides = BY_THE_CLASS.has(error.code) || (!isDoubtful && NOTHING_KEPT.has(error.code));
    if (known.fate.kind === "open" && decides) {
      known.fate = { kind: "not_there", code: error.code };
    }
  }

  #place(n: number, tag: number, by: string): void {
    const before = this.#places[n - 1];
    this.#assert(before === undefined || before === tag, `${by} puts call ${tag} at ${n}, where call ${before} was`);
    const other = this.#places.indexOf(tag) + 1;
    this.#assert(other === 0 || other === n, `${by} puts call ${tag} at ${n}, and it stands at ${other}`);
    this.#places[n - 1] = tag;
  }

  #callOf(tag: number): LedgerCall {
    const known = this.#known.get(tag);
    if (known === undefined) throw new LedgerBroken(`${this.object}: call ${tag} is in the log and was never made`);
    return known.call;
  }

  #count(kind: Fate["kind"]): number {
    return [...this.#known.values()].filter(({ fate }) => fate.kind === kind).length;
  }

  #assert(condition: boolean, message: string): asserts condition {
    if (!condition) throw new LedgerBroken(`${this.object}: ${message}`);
  }
}

function stateOf(value: PlainValue): LedgerState {
  const { last = null, ...state } = value as object as Partial<LedgerState>;
  const { log, entries, affected } = state;
  if (!Array.isArray(log) || !Array.isArray(entries) || typeof affected !== "number") {
    throw new LedgerBroken(`not what a Ledger's everything returns: ${show(value)}`);
  }
  return { log, entries, affected, last };
}

function show(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 2_000 ? `${text.slice(0, 2_000)}...` : text;
}
