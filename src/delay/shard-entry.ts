/**
 * What may happen to a shard. Everything does by an entry of its log first: one after the other, each with the time at which
 * it was taken, and all that it changes follows from it and from the tables alone. So the log played over a checkpoint of the
 * tables gives the tables.
 */
import type { TryOutcome } from "../object/try-outcome.js";
import type { CommandRequest, PlanFields } from "./command.js";

export type Entry =
  | { kind: "schedule"; command: CommandRequest }
  | { kind: "cancel"; id: string }
  | { kind: "move"; id: string; plan: PlanFields }
  /** A due command is taken up. `lateMs`: later than this it counts as missed. */
  | { kind: "begin"; id: string; lateMs: number }
  | { kind: "ended"; id: string; run: number; callId: string; outcome: TryOutcome }
  /** Somebody new drives the shard: what was under way has an outcome that nobody here knows. */
  | { kind: "resume" }
  /** The operator wants a dead letter delivered after all. */
  | { kind: "retry"; id: string }
  /** An object wants to be woken at `atMs`, or not at all. The newest word of an object counts. */
  | { kind: "wake"; object: string; epoch: number; seq: number; atMs: number | null }
  /** It could not be woken. */
  | { kind: "defer"; object: string; untilMs: number }
  /** Commands that ended before these times are forgotten. */
  | { kind: "trim"; endedBeforeMs: number; deadBeforeMs: number }
  /** An argument list is about to be put into the bucket. */
  | { kind: "reserve"; hash: string }
  /** Argument lists that nobody refers to, and nobody has since then, are about to be deleted. */
  | { kind: "sweep"; unusedSinceMs: number }
  | { kind: "swept"; hashes: readonly string[] };

/** Whom an entry is about, for whoever reads the log. */
export function subjectOf(entry: Entry): string {
  switch (entry.kind) {
    case "schedule":
      return entry.command.id;
    case "cancel":
    case "move":
    case "begin":
    case "ended":
    case "retry":
      return entry.id;
    case "wake":
    case "defer":
      return entry.object;
    case "reserve":
      return entry.hash;
    case "resume":
    case "trim":
    case "sweep":
    case "swept":
      return "";
  }
}
