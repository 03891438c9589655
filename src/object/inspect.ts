/** What `inspect` shows of an object: its position, its queue, what it keeps. */
import type { ObjectTimers, TimerDetails } from "../delay/contract.js";
import type { ObjectIdentity } from "../identity.js";
import type { TimerPlan } from "../lua/contract.js";
import type { Inspection } from "../node-api.js";
import type { Manifest } from "../shipping/manifest.js";
import type { StoredTimer, TimerState } from "../store/timers.js";
import type { OpenObject } from "./open-object.js";

export function inspectOpen(open: OpenObject, mailboxCalls: number): Inspection {
  const { tables, database, shipper } = open;
  const { manifest } = open.claim;
  const row = tables.directoryRow.get();
  const classVersion = tables.meta.get("class_version");
  return {
    ...positionOf(manifest),
    object: open.object.id,
    state: "resident",
    seq: open.committedSeq,
    flying: shipper.state === "flying",
    shipping: shipper.state,
    mailboxCalls,
    ...(classVersion !== undefined && { classVersion }),
    migrationsApplied: tables.meta.get("migrations")?.length ?? 0,
    databaseBytes: database.sizeBytes(),
    tables: database.tableNames(),
    timers: tables.timers.count,
    outbox: tables.outbox.count,
    events: { count: tables.events.count, last: tables.events.last },
    ...((row.row !== undefined || row.failure !== undefined) && {
      directoryRow: {
        seq: row.seq,
        row: row.row ?? null,
        ...(row.staleSinceMs !== undefined && { staleSinceMs: row.staleSinceMs }),
        ...(row.failure !== undefined && { failure: row.failure }),
      },
    }),
  };
}

/** A key that has no content: never written, or destroyed. */
export function inspectAbsent(object: ObjectIdentity, manifest: Manifest | undefined): Inspection {
  return {
    ...positionOf(manifest),
    object: object.id,
    state: manifest?.destroyed ? "destroyed" : "unwritten",
    seq: manifest?.seq ?? 0,
    flying: false,
    shipping: "idle",
    mailboxCalls: 0,
    migrationsApplied: 0,
    databaseBytes: 0,
    tables: [],
    timers: 0,
    outbox: 0,
    events: { count: 0, last: 0 },
  };
}

function positionOf(
  manifest: Manifest | undefined,
): Pick<Inspection, "epoch" | "landedSeq" | "segments" | "snapshotSeq"> {
  return {
    epoch: manifest?.epoch ?? 0,
    landedSeq: manifest?.seq ?? 0,
    segments: manifest?.segments.length ?? 0,
    ...(manifest?.snapshot && { snapshotSeq: manifest.snapshot.seq }),
  };
}

const TIMER_RUNS_SHOWN = 50;

export function inspectTimers({ tables: { timers } }: OpenObject): ObjectTimers {
  return {
    timers: timers.list().map((timer) => timerDetails(timer, timers.stateOf(timer.id))),
    runs: timers.runs(TIMER_RUNS_SHOWN),
  };
}

function timerDetails({ id, name, method, plan, dueMs }: StoredTimer, state: TimerState): TimerDetails {
  const { isDead, tries, runs, lastMs, error } = state;
  return {
    id,
    ...(name !== undefined && { name }),
    method,
    plan: planText(plan),
    state: isDead ? "dead" : tries > 0 ? "retrying" : "set",
    ...(!isDead && { nextMs: dueMs }),
    runs,
    ...(lastMs !== undefined && { lastMs }),
    tries,
    ...(error !== undefined && { error }),
  };
}

function planText(plan: TimerPlan): string {
  if (plan.kind === "every") return `every ${plan.everyMs} ms`;
  if (plan.kind === "cron") return `cron ${plan.expression}${plan.timeZone === undefined ? "" : ` ${plan.timeZone}`}`;
  return plan.kind;
}
