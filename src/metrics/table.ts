/**
 * Every metric that a node shows, but for those of its process: one table, from which the page at `/metrics` and docs/metrics.md
 * are made. Names and units follow Prometheus: seconds, bytes, `_total` for what only grows.
 */

export interface MetricEntry {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly meaning: string;
}

const counter = (meaning: string, ...labels: string[]): MetricEntry => ({ kind: "counter", labels, meaning });
const gauge = (meaning: string, ...labels: string[]): MetricEntry => ({ kind: "gauge", labels, meaning });
const histogram = (meaning: string, ...labels: string[]): MetricEntry => ({ kind: "histogram", labels, meaning });

export const METRICS = {
  moonport_node_info: gauge(
    "Always 1: which version, which life of the node, which bucket.",
    "version",
    "session",
    "bucket",
  ),
  moonport_writes_land: gauge("1 while a write has landed within HEALTH_LANDED_MS, else 0: what /readyz says."),
  moonport_since_landed_seconds: gauge("Since the last write landed, a flight's or a probe's."),
  moonport_load_faults: gauge("Files of classes and units that do not load; their last good versions serve."),
  moonport_release: gauge(
    "Number of the release of the app that the node serves; 0 where it serves a folder's files.",
    "app",
  ),
  moonport_release_failed: gauge(
    "Number of a newer release that the node cannot serve, so that it keeps the one that it has; 0 when there is none.",
    "app",
  ),

  moonport_calls_total: counter(
    "Calls of methods by how they ended: ok, class_error for a code of the class's own, or a code of the error table. A call without app, class or method named none that there is. Calls of a unit count when they return to it.",
    "app",
    "class",
    "method",
    "outcome",
  ),
  moonport_call_duration_seconds: histogram(
    "From a call's arrival at the node to its answer, mailbox, method and gate together.",
    "app",
    "class",
  ),
  moonport_unit_requests_total: counter(
    "Requests of units by how they ended, as calls; ok whatever status the unit gave.",
    "app",
    "unit",
    "outcome",
  ),
  moonport_unit_duration_seconds: histogram(
    "From a unit's request to its response, until all it did is durable.",
    "app",
    "unit",
  ),
  moonport_units_running: gauge("Units running now."),
  moonport_mailbox_calls: gauge("Calls that wait in mailboxes now, of all objects together."),
  moonport_mailbox_wait_seconds: histogram(
    "How long calls waited in mailboxes for their turn. Reads that need no turn do not count.",
  ),
  moonport_budgets_exceeded_total: counter(
    "Runs of Lua code that were ended for what they used, by which budget it was: time, instructions, memory, depth.",
    "budget",
  ),
  moonport_gate_replies: gauge("Finished replies that wait for a flight now."),
  moonport_gate_wait_seconds: histogram(
    "How long finished replies waited for their flight. Those that need not wait do not count.",
  ),

  moonport_flights_landed_total: counter(
    "Flights that landed, by what they carried: segment, snapshot, tombstone.",
    "carried",
  ),
  moonport_flight_bytes_total: counter("What landed flights carried, bytes, by what it was.", "carried"),
  moonport_flight_landing_seconds: histogram("From the oldest commit that a flight carried to its landing."),
  moonport_flight_failures_total: counter("Tries of flights that failed. Each is tried again."),
  moonport_residencies_broken_total: counter(
    "Objects that were closed in doubt: a failed commit, a lost ownership, a broken file.",
  ),

  moonport_directory_rows_waiting: gauge("Directory rows that have landed and are not told to their directory yet."),
  moonport_directory_lag_seconds: gauge("Since the oldest of those landed; 0 when none waits."),
  moonport_directory_rows_told_total: counter("Directory rows that were told."),
  moonport_directory_rows_dropped_total: counter(
    "Directory rows that found DIRECTORY_QUEUE_MAX others waiting. Each is asked for again when there is room.",
  ),
  moonport_directory_failures_total: counter("Batches of rows that a directory did not take. Each is tried again."),
  moonport_directory_derivations_failed_total: counter(
    "Derivations of directory rows that failed: the class's own doing. The last good row stays.",
  ),

  moonport_bucket_requests_total: counter(
    "Requests to an S3 bucket by kind, every try: what the store bills. The embedded bucket has none.",
    "kind",
  ),
  moonport_bucket_failures_total: counter(
    "Of those, how many were refused, failed or lost. A lost condition and an absent key are answers.",
  ),
  moonport_bucket_throttled_total: counter("Of those, how many because the store asked for fewer."),
  moonport_bucket_bytes_total: counter(
    "Bodies of requests to an S3 bucket, by direction: sent, received.",
    "direction",
  ),

  moonport_timers_run_total: counter(
    "Runs of timers that this node's delay shards had begun, by whatever node, failed ones included.",
  ),
  moonport_timer_failures_total: counter(
    "Runs of timers on this node that failed: to be tried again, or given up.",
    "outcome",
  ),
  moonport_messages_sent_total: counter(
    "Messages of this node's objects that were delivered, or given to a delay shard.",
  ),
  moonport_commands_total: counter(
    "Tries of delayed commands by this node's delay shards: delivered, to be tried again, or given up.",
    "outcome",
  ),
  moonport_due_late_seconds: histogram("From the time at which a command or timer was due to its being taken up."),

  moonport_residents: gauge("Objects in memory."),
  moonport_open_files: gauge("Of those, how many have their file open."),

  moonport_forwarded_calls_total: counter(
    "Tries of calls that this node asked another one for, by how they ended: as calls do, or as links do.",
    "outcome",
  ),
  moonport_objects_claimed_total: counter(
    "Objects that became this node's, by why: call, because somebody asked for it; takeover, from a session that had died, before anybody asked; handover, from a node that had given it up in good order.",
    "reason",
  ),
  moonport_takeovers_begun_total: counter("Times that this node began to take over what dead sessions left."),
  moonport_takeovers_ended_total: counter("Of those, how many are through with all objects that they were for."),
  moonport_takeover_seconds: histogram("From the beginning of a takeover to its end."),
  moonport_handovers_total: counter(
    "Objects that were to go to another node: gone, or stayed, to be asked again.",
    "outcome",
  ),
  moonport_handover_seconds: histogram(
    "From the end of an object's service here to its being given up for others, of those that went: callers wait so long.",
  ),
  moonport_journal_batches_total: counter("Batches of records that shared a sync of the journal's disk."),
  moonport_journal_entries_total: counter("Segments that this node's journal took, of objects of any node."),
  moonport_journal_sync_seconds: histogram("How long a sync of the journal's disk took."),
  moonport_journal_bytes: gauge("The journal's files, bytes."),
  moonport_journal_broken: gauge(
    "1 when a write or a sync of the journal has failed: it takes nothing until the node is started again.",
  ),
  moonport_links: gauge(
    "Links to other nodes that stand: outgoing, over which this node asks, and incoming.",
    "direction",
  ),
  moonport_link_bytes_total: counter("What links carried, bytes: sent, received.", "direction"),

  moonport_replica_reads_total: counter(
    "Calls of another node's objects that a copy might answer, by who did: this node's copy, or the owner.",
    "from",
  ),
  moonport_copies: gauge("Copies of other nodes' objects."),
  moonport_copy_bytes: gauge("Their files, bytes."),

  moonport_remembered_reads_total: counter("Reading calls that were answered as before, as nothing was written since."),
  moonport_answer_bytes: gauge("Answers of reading methods that are remembered, bytes."),

  moonport_subscriptions: gauge("Subscriptions and live views."),
  moonport_watched_objects: gauge("Objects that have any."),
  moonport_sockets: gauge("Open WebSockets."),
  moonport_socket_calls: gauge("Calls under way on them."),
  moonport_http_connections: gauge("Open connections, WebSockets included."),
} as const satisfies Record<string, MetricEntry>;

export type MetricName = keyof typeof METRICS;
