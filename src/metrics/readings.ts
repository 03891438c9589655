/** For each metric of the table, what it shows now. */
import { REQUEST_KINDS, type RequestCounts } from "../bucket/request-counts.js";
import { WAIT_BOUNDS_MS, type WaitHistogram } from "./histogram.js";
import type { DoorGauges, FleetMeasures, MeasuredNode, NodeGauges } from "./measured.js";
import type { NodeCounters } from "./node-counters.js";
import type { Outcomes } from "./outcomes.js";
import type { MetricName } from "./table.js";

export type Labels = Readonly<Record<string, string>>;

/** One line of the page. */
export interface Sample {
  /** What follows the metric's name: of histograms. */
  readonly suffix?: "_bucket" | "_sum" | "_count";
  readonly labels?: Labels;
  readonly value: number;
}

/** Taken at one moment. */
export interface Taken {
  readonly node: NodeGauges;
  readonly doors: DoorGauges;
  readonly counters: NodeCounters;
  readonly requests: RequestCounts | undefined;
  readonly fleet: FleetMeasures | undefined;
}

export function taken(node: MeasuredNode, doors: DoorGauges): Taken {
  return {
    node: node.gauges(),
    doors,
    counters: node.counters,
    requests: node.bucketRequests,
    fleet: node.fleetMeasures,
  };
}

const CARRIED = ["segment", "snapshot", "tombstone"] as const;

export const READINGS: Readonly<Record<MetricName, (taken: Taken) => Sample[]>> = {
  moonport_node_info: ({ node: { version, session, bucket } }) => [{ labels: { version, session, bucket }, value: 1 }],
  moonport_writes_land: ({ node }) => one(node.writesLand ? 1 : 0),
  moonport_since_landed_seconds: ({ node }) => one(node.sinceLandedMs / 1_000),
  moonport_load_faults: ({ node }) => one(node.loadFaults),
  moonport_release: ({ node }) => node.releases.map(({ app, release = 0 }) => ({ labels: { app }, value: release })),
  moonport_release_failed: ({ node }) =>
    node.releases.map(({ app, failed }) => ({ labels: { app }, value: failed?.release ?? 0 })),

  moonport_calls_total: ({ counters }) => callSamples(counters),
  moonport_call_duration_seconds: ({ counters }) =>
    named(counters.calls.apps, "class").flatMap(([labels, { tookMs }]) => waits(tookMs, labels)),
  moonport_unit_requests_total: ({ counters: { units } }) => [
    ...outcomes(units.noUnit, { app: "", unit: "" }),
    ...named(units.apps, "unit").flatMap(([labels, unit]) => outcomes(unit, labels)),
  ],
  moonport_unit_duration_seconds: ({ counters }) =>
    named(counters.units.apps, "unit").flatMap(([labels, { tookMs }]) => waits(tookMs, labels)),
  moonport_units_running: ({ node }) => one(node.unitsRunning),
  moonport_mailbox_calls: ({ node }) => one(node.mailboxCalls),
  moonport_mailbox_wait_seconds: ({ counters }) => waits(counters.mailboxMs, {}),
  moonport_budgets_exceeded_total: ({ counters }) => by("budget", counters.budgetsExceeded),
  moonport_gate_replies: ({ node }) => one(node.gateReplies),
  moonport_gate_wait_seconds: ({ counters }) => waits(counters.gateMs, {}),

  moonport_flights_landed_total: ({ counters: { flights } }) =>
    CARRIED.map((carried) => ({ labels: { carried }, value: flights[carried].landed })),
  moonport_flight_bytes_total: ({ counters: { flights } }) =>
    CARRIED.map((carried) => ({ labels: { carried }, value: flights[carried].bytes })),
  moonport_flight_landing_seconds: ({ counters }) => waits(counters.landedMs, {}),
  moonport_flight_failures_total: ({ counters }) => one(counters.flightsFailed),
  moonport_residencies_broken_total: ({ counters }) => one(counters.residenciesBroken),

  moonport_directory_rows_waiting: ({ node }) => one(node.directory.waiting),
  moonport_directory_lag_seconds: ({ node }) => one(node.directory.lagMs / 1_000),
  moonport_directory_rows_told_total: ({ counters }) => one(counters.directory.told),
  moonport_directory_rows_dropped_total: ({ counters }) => one(counters.directory.dropped),
  moonport_directory_failures_total: ({ counters }) => one(counters.directory.failures),
  moonport_directory_derivations_failed_total: ({ counters }) => one(counters.directory.derivationsFailed),

  moonport_bucket_requests_total: ({ requests }) =>
    requests === undefined ? [] : REQUEST_KINDS.map((kind) => ({ labels: { kind }, value: requests[kind] })),
  moonport_bucket_failures_total: ({ requests }) => (requests === undefined ? [] : one(requests.errors)),
  moonport_bucket_throttled_total: ({ requests }) => (requests === undefined ? [] : one(requests.throttled)),
  moonport_bucket_bytes_total: ({ requests }) =>
    requests === undefined
      ? []
      : [
          { labels: { direction: "sent" }, value: requests.bytesSent },
          { labels: { direction: "received" }, value: requests.bytesReceived },
        ],

  moonport_timers_run_total: ({ counters: { delay } }) => one(delay.timersRun),
  moonport_timer_failures_total: ({ counters: { delay } }) => [
    { labels: { outcome: "again" }, value: delay.timersFailed },
    { labels: { outcome: "dead" }, value: delay.timersDead },
  ],
  moonport_messages_sent_total: ({ counters: { delay } }) => one(delay.messagesSent),
  moonport_commands_total: ({ counters: { delay } }) => [
    { labels: { outcome: "delivered" }, value: delay.delivered },
    { labels: { outcome: "again" }, value: delay.failed },
    { labels: { outcome: "dead" }, value: delay.dead },
  ],
  moonport_due_late_seconds: ({ counters: { delay } }) => waits(delay.lateMs, {}),

  moonport_residents: ({ node }) => one(node.residents),
  moonport_open_files: ({ node }) => one(node.openFiles),

  moonport_forwarded_calls_total: ofFleet(({ counters }) => outcomes(counters.forwardedCalls, {})),
  moonport_objects_claimed_total: ofFleet(({ counters }) => by("reason", counters.claimed)),
  moonport_takeovers_begun_total: ofFleet(({ counters }) => one(counters.takeovers.begun)),
  moonport_takeovers_ended_total: ofFleet(({ counters }) => one(counters.takeovers.ended)),
  moonport_takeover_seconds: ofFleet(({ counters }) => waits(counters.takeoverMs, {})),
  moonport_handovers_total: ofFleet(({ counters }) => by("outcome", counters.handovers)),
  moonport_handover_seconds: ofFleet(({ counters }) => waits(counters.handoverMs, {})),
  moonport_journal_batches_total: ofFleet(({ counters }) => one(counters.journal.batches)),
  moonport_journal_entries_total: ofFleet(({ journalEntries }) => one(journalEntries)),
  moonport_journal_sync_seconds: ofFleet(({ counters }) => waits(counters.journal.syncMs, {})),
  moonport_journal_bytes: ofFleet(({ journalBytes }) => one(journalBytes)),
  moonport_journal_broken: ofFleet(({ isJournalBroken }) => one(isJournalBroken ? 1 : 0)),
  moonport_links: ofFleet(({ links }) => by("direction", links)),
  moonport_link_bytes_total: ofFleet(({ counters: { links } }) =>
    by("direction", { sent: links.sentBytes, received: links.receivedBytes }),
  ),

  moonport_replica_reads_total: ({ counters: { replicaReads } }) => [
    { labels: { from: "copy" }, value: replicaReads.copy },
    { labels: { from: "owner" }, value: replicaReads.owner },
  ],
  moonport_copies: ({ node }) => one(node.copies),
  moonport_copy_bytes: ({ node }) => one(node.copyBytes),

  moonport_remembered_reads_total: ({ counters }) => one(counters.rememberedReads),
  moonport_answer_bytes: ({ node }) => one(node.answerBytes),

  moonport_subscriptions: ({ node }) => one(node.subscriptions),
  moonport_watched_objects: ({ node }) => one(node.watchedObjects),
  moonport_sockets: ({ doors }) => one(doors.sockets),
  moonport_socket_calls: ({ doors }) => one(doors.socketCalls),
  moonport_http_connections: ({ doors }) => one(doors.httpConnections),
};

/** A node that is alone shows none of it. */
function ofFleet(read: (fleet: FleetMeasures) => Sample[]): (taken: Taken) => Sample[] {
  return ({ fleet }) => (fleet === undefined ? [] : read(fleet));
}

function one(value: number): Sample[] {
  return [{ value }];
}

function by(label: string, counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

function callSamples({ calls }: NodeCounters): Sample[] {
  const ofClass = named(calls.apps, "class").flatMap(([labels, { methods, noMethod }]) => [
    ...outcomes(noMethod, { ...labels, method: "" }),
    ...[...methods].flatMap(([method, counted]) => outcomes(counted, { ...labels, method })),
  ]);
  return [...outcomes(calls.noClass, { app: "", class: "", method: "" }), ...ofClass];
}

function named<V>(apps: ReadonlyMap<string, ReadonlyMap<string, V>>, kind: "class" | "unit"): [Labels, V][] {
  return [...apps].flatMap(([app, entries]) =>
    [...entries].map(([name, value]): [Labels, V] => [{ app, [kind]: name }, value]),
  );
}

/** Only those that have happened: most methods never meet most errors. */
function outcomes({ ok, failed }: Outcomes, labels: Labels): Sample[] {
  const counts = [["ok", ok] as const, ...failed];
  return counts.filter(([, value]) => value > 0).map(([outcome, value]) => ({ labels: { ...labels, outcome }, value }));
}

/** Buckets hold what is at most their bound, those before them included. */
function waits({ counts, sumMs }: WaitHistogram, labels: Labels): Sample[] {
  let count = 0;
  const buckets = [...counts].map((more, at): Sample => {
    count += more;
    const bound = WAIT_BOUNDS_MS[at];
    const le = bound === undefined ? "+Inf" : String(bound / 1_000);
    return { suffix: "_bucket", labels: { ...labels, le }, value: count };
  });
  return [...buckets, { suffix: "_sum", labels, value: sumMs / 1_000 }, { suffix: "_count", labels, value: count }];
}
