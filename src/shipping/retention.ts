/**
 * How long the past of an object is kept, and what of it may go. Pure.
 *
 * A past manifest says until when it was how the object stood. To be restorable as of each moment inside retention, an object
 * needs the first one that stood until then, everything after that, and nothing before: it is the *horizon*.
 */
import type { Bucket } from "../bucket/bucket.js";
import type { Settings } from "../settings/settings.js";
import { type PastName, parsePastKey } from "./layout.js";
import type { Manifest } from "./manifest.js";

export type RetentionSettings = Pick<Settings, "PITR_RETENTION_MS">;

const HOUR_MS = 3_600_000;
const EMBEDDED_MS = HOUR_MS;
const REMOTE_MS = 7 * 24 * HOUR_MS;
/**
 * What is older than retention stays for this much longer: for whoever is reading it, and for a writer that stalled between
 * putting a past manifest down and replacing it.
 */
export const MARGIN_MS = 60_000;

/** Without retention a hot object, which merges every few dozen flights, sweeps once in some thousands of them. */
export const COMPACTIONS_PER_SWEEP = 64;
const SWEEPS_PER_RETENTION = 8;

/** When an object's keys are next looked through for what nobody needs. */
export type NextSweep =
  /** They never were since the object was claimed, or it failed. */
  | { readonly kind: "due" }
  /** From this key on. */
  | { readonly kind: "goes_on"; readonly after: string }
  | {
      readonly kind: "rests";
      /** Monotonic. */
      readonly sinceMs: number;
      compactions: number;
    };

/** How often what is older than retention is looked for. */
export function sweepEveryMs(retainedMs: number): number {
  return retainedMs / SWEEPS_PER_RETENTION;
}

export function isSweepDue(next: NextSweep, nowMs: number, retainedMs: number): boolean {
  if (next.kind !== "rests") return true;
  if (retainedMs === 0) return next.compactions > COMPACTIONS_PER_SWEEP;
  return nowMs >= next.sinceMs + sweepEveryMs(retainedMs);
}

/** @returns 0 where nothing is kept */
export function retentionMs({ PITR_RETENTION_MS }: RetentionSettings, { atomic }: Pick<Bucket, "atomic">): number {
  if (PITR_RETENTION_MS >= 0) return PITR_RETENTION_MS;
  return atomic ? EMBEDDED_MS : REMOTE_MS;
}

/** Wall clock: how an object was before that is not needed. */
export function keptSince(nowMs: number, retainedMs: number): number {
  // What was kept before retention was turned off goes as well.
  return retainedMs === 0 ? Number.POSITIVE_INFINITY : nowMs - retainedMs - MARGIN_MS;
}

/** A past manifest as a listing names it. */
export interface ListedPast extends PastName {
  readonly key: string;
}

/** Of a listing's keys those of past manifests, in their order. */
export function pastIn(keys: readonly string[]): ListedPast[] {
  return keys.flatMap((key) => {
    const name = parsePastKey(key);
    return name === undefined ? [] : [{ ...name, key }];
  });
}

export interface Horizon {
  /** May go. */
  readonly expired: readonly ListedPast[];
  /** Nothing that it does not name and that was left behind when it stood is needed any more. */
  readonly standing: ListedPast | Manifest;
  /** There was more to look at than was given. */
  readonly isPartial: boolean;
}

/**
 * @param past in order, from the oldest on
 * @param isAll otherwise there are more behind them
 * @param keptSinceMs wall clock; what stood until before that is not needed
 * @param landed stands now, for all that whoever asks knows. What a newer owner left is not for it to judge
 */
export function horizonOf(past: readonly ListedPast[], isAll: boolean, keptSinceMs: number, landed: Manifest): Horizon {
  const known = past.filter(({ seq, epoch }) => seq <= landed.seq && epoch <= landed.epoch);
  const first = known.findIndex(({ untilMs }) => untilMs >= keptSinceMs);
  if (first >= 0) return { expired: known.slice(0, first), standing: known[first] as ListedPast, isPartial: false };
  // Whether those behind the last one are needed is not known yet.
  const last = known.at(-1);
  if (!isAll && last !== undefined) return { expired: known.slice(0, -1), standing: last, isPartial: true };
  return { expired: known, standing: landed, isPartial: false };
}
