/** What a doer wrote down, and how what was asked of it ended. Times are wall clock, milliseconds, of whoever wrote them. */
import type { ObjectTimers } from "../../src/delay/contract.js";
import type { Ended } from "./history.js";

export type EntryKind = "set" | "every" | "cron" | "cancel" | "move" | "rang" | "ticked" | "sent" | "took" | "told";

export interface LedgerEntry {
  readonly what: EntryKind;
  /** Of the timer, the message or the command; no other one has it. */
  readonly token: string;
  readonly atMs: number;
  /** Not before then. */
  readonly dueMs: number | undefined;
  /** Of what was cancelled or moved: whether it was still there. */
  readonly done: boolean | undefined;
  /** Whom it was sent to, who sent it, what becomes of missed runs, or how a run ended. */
  readonly other: string | undefined;
}

/** One of those that set timers and send messages, as it is in the end. */
export interface Doer {
  readonly key: string;
  /** It may have been destroyed: what an earlier life of it wrote down is lost. */
  readonly isEnding: boolean;
  readonly ledger: readonly LedgerEntry[];
  readonly timers: ObjectTimers;
}

/** A call that was to set a timer, or to send a message. */
export interface AskedEntry {
  readonly key: string;
  readonly token: string;
  readonly ended: Ended;
}

const MAKING: ReadonlySet<EntryKind> = new Set(["set", "every", "cron", "sent"]);

/** Whether it made a timer or a message. */
export function isMaking({ what }: LedgerEntry): boolean {
  return MAKING.has(what);
}

/** As the class answers it. */
export function ledgerOf(answer: unknown): LedgerEntry[] {
  return (answer as readonly Record<string, unknown>[]).map(({ what, token, at, due, done, other }) => ({
    what: what as EntryKind,
    token: String(token),
    atMs: Number(at) * 1_000,
    dueMs: due == null ? undefined : Number(due) * 1_000,
    done: done == null ? undefined : done === 1,
    other: other == null ? undefined : String(other),
  }));
}
