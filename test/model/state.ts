/**
 * One state of the explored world: a single object, its record and its content in the bucket, everyone who ever claimed
 * it, and the journals. What src/cluster defines is held in its own types, so that its functions decide on them.
 *
 * - A *claimant* is one claim of the object, one epoch. It never dies: a crash or a pause is a claimant that takes no
 *   further step, for a while or for ever. So crashes, zombies and late messages are nothing but orders of steps.
 * - A *slot* is one node's journal. A journal that restarts is one that answers nothing for a while. One that loses its
 *   disk starts empty under a new identity.
 * - A *write* is named by epoch and seq; what came before it on its line is fixed by its claimant's line.
 */
import type { HeldObject, PromiseAnswer } from "../../src/cluster/journal-rules.js";
import type { Attempt, OwnershipRecord } from "../../src/cluster/ownership.js";
import type { ReleaseBook } from "../../src/cluster/release-rule.js";
import type { OwnFile } from "../../src/cluster/tail-choice.js";

/** epoch * 16 + seq. */
export type Write = number;

export const SEQS_MAX = 16;

export function writeOf(epoch: number, seq: number): Write {
  return epoch * SEQS_MAX + seq;
}
export function epochOf(write: Write): number {
  return Math.floor(write / SEQS_MAX);
}
export function seqOf(write: Write): number {
  return write % SEQS_MAX;
}

export function writesText(list: readonly Write[]): string {
  return `[${list.map((write) => (write === 0 ? "nothing" : `w${seqOf(write)}(e${epochOf(write)})`)).join(" ")}]`;
}

/** Entries carry the epoch of who committed them: with their range that names their writes, also in a broken journal. */
export type Payload = number;
export type Held = HeldObject<Payload>;
export type Answer = PromiseAnswer<Payload>;

export interface Slot {
  readonly node: string;
  readonly journal: string;
  /** Disks lost so far. */
  readonly disk: number;
  /** Undefined: the journal has no record of the object. */
  readonly held: Held | undefined;
  /** The record's epoch, read for J6 and not used yet. */
  readonly reading: number | undefined;
}

/** Where a claimant's own writes begin. */
export interface Line {
  readonly startSeq: number;
  /** The write at `startSeq`; 0 for none. */
  readonly parent: Write;
}

export interface Claiming {
  readonly kind: "claiming";
  readonly epoch: number;
  /** As its CAS1 wrote it. */
  readonly record: OwnershipRecord;
  readonly answers: readonly Answer[];
  readonly ownFile: OwnFile | undefined;
}

export interface Owner {
  /** `ended`: a clean release has landed; what it shipped may still arrive. */
  readonly kind: "serving" | "frozen" | "ended";
  readonly epoch: number;
  readonly line: Line;
  /** Number of its own commits. */
  readonly committed: number;
  readonly book: ReleaseBook;
  /** The record as it knows it. */
  readonly known: { readonly version: number; readonly record: OwnershipRecord };
  /** A CAS of its own that the bucket has applied, and whose answer it has not had. */
  readonly unlearned: Attempt<number> | undefined;
  readonly setChange: Attempt<number> | undefined;
  readonly release: Attempt<number> | undefined;
  /** Only where it serves before its CAS2 is known: what that would write, not applied yet. */
  readonly takeover: { readonly attempt: Attempt<number>; readonly log: readonly Write[] } | undefined;
  /** Acknowledgements under way to it: through which seq, by journal. */
  readonly underway: readonly Underway[];
  /** It asked for promises; such a request may still arrive somewhere. Tracked only where the scope lets it. */
  readonly asked: boolean;
}

export interface Underway {
  readonly journal: string;
  readonly have: number;
}

/** Nothing that it does can matter any more; had it served, its line stays for the checks. */
export interface Past {
  readonly kind: "past";
  readonly epoch: number;
  readonly line: Line | undefined;
  readonly committed: number;
  readonly asked: boolean;
}

export type Claimant = Claiming | Owner | Past;

export interface Spent {
  readonly writes: number;
  readonly setChanges: number;
  readonly disks: number;
  readonly releases: number;
}

export interface ModelState {
  readonly record: OwnershipRecord;
  /** Moves with every applied CAS. */
  readonly version: number;
  /** What the bucket holds: the write of seq 1, of seq 2, … */
  readonly log: readonly Write[];
  /** By epoch, from 1. */
  readonly claimants: readonly Claimant[];
  readonly slots: readonly Slot[];
  /** Told to callers as done and not, or not any more, in the log; in order. */
  readonly told: readonly Write[];
  readonly spent: Spent;
}

export function isOwner(claimant: Claimant): claimant is Owner {
  return claimant.kind === "serving" || claimant.kind === "frozen" || claimant.kind === "ended";
}

/** Where what the owner committed ends. */
export function committedSeq({ line, committed }: Owner): number {
  return line.startSeq + committed;
}

export function sessionOf(epoch: number): string {
  return SESSIONS[epoch] as string;
}

export function nodeOf(slot: number): string {
  return NODES[slot] as string;
}

export function journalOf(slot: number, disk: number): string {
  return JOURNALS[slot]?.[disk] as string;
}

// Names are made once: they are compared millions of times.
const SESSIONS = Array.from({ length: SEQS_MAX }, (_, epoch) => `s${epoch}`);
const NODES = Array.from({ length: SEQS_MAX }, (_, slot) => `n${slot}`);
const JOURNALS = NODES.map((_, slot) => Array.from({ length: SEQS_MAX }, (_, disk) => `j${slot}.${disk}`));

export function replaced<T>(list: readonly T[], index: number, value: T): readonly T[] {
  const copy = list.slice();
  copy[index] = value;
  return copy;
}

/** One line for a reader of a trace. */
export function stateText({ record, log, slots, told }: ModelState): string {
  const journals = slots.map(({ journal, held }) => {
    if (held === undefined) return `${journal} unknown`;
    const entries = [...held.entries].map(({ afterSeq, toSeq, payload }) => `${afterSeq}-${toSeq}(e${payload})`);
    const member = record.set.some((one) => one.journal === journal) ? "" : " (not in the set)";
    return `${journal}${member} promised e${held.promised}, e${held.tailEpoch} from ${held.base}: ${entries.join(" ")}`;
  });
  const { epoch, tailEpoch, clean, quorum } = record;
  const head = `e${epoch} tail e${tailEpoch}${clean ? " clean" : ""} N${quorum.copies} W${quorum.acksToLand}`;
  return `bucket ${head} ${writesText(log)}; told ${writesText(told)}; ${journals.join("; ")}`;
}
