/**
 * Every bound, wait and size that an operator may set: one table, from which flags, environment variables, the config
 * and docs/settings.md derive. An unknown name fails with the nearest right one.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";

/** A `fleet` setting must be the same on every node of a fleet; a `node` setting may differ. */
export type SettingScope = "fleet" | "node";
export type SettingUnit = "milliseconds" | "bytes" | "count";

export interface SettingEntry {
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly unit: SettingUnit;
  readonly scope: SettingScope;
  readonly meaning: string;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const DAY_MS = 86_400_000;
const STALL_MS_MIN = 100;

const wait = (defaultMs: number, min: number, max: number, meaning: string): SettingEntry => ({
  default: defaultMs,
  min,
  max,
  unit: "milliseconds",
  scope: "node",
  meaning,
});
const size = (defaultBytes: number, min: number, max: number, meaning: string): SettingEntry => ({
  default: defaultBytes,
  min,
  max,
  unit: "bytes",
  scope: "node",
  meaning,
});
const count = (defaultCount: number, min: number, max: number, meaning: string): SettingEntry => ({
  default: defaultCount,
  min,
  max,
  unit: "count",
  scope: "node",
  meaning,
});

const fleetWide = (entry: SettingEntry): SettingEntry => ({ ...entry, scope: "fleet" });

export const SETTINGS = {
  OBJECT_MAILBOX_MAX: count(
    128,
    1,
    100_000,
    "Calls that may wait in one object's mailbox; one more is refused with mailbox_full.",
  ),
  OBJECT_ACK_GATE_MS: wait(
    10_000,
    10,
    600_000,
    "How long a finished reply waits for its flight before outcome_unknown (a write) or not_durable_yet (a read).",
  ),
  OBJECT_BURST_CALLS_MAX: count(
    64,
    1,
    10_000,
    "Waiting calls that may share one transaction, each in a savepoint of its own.",
  ),
  OBJECT_BURST_MS: wait(5, 0, 1_000, "How long a burst may go on taking further calls before it commits."),
  OBJECT_IDLE_MS: wait(60_000, 10, DAY_MS, "An object without calls for this long is shipped and closed."),
  OBJECT_BYTES_MAX: size(
    GIB,
    64 * KIB,
    16 * GIB,
    "Size of one object's database; a write beyond it fails with object_full.",
  ),
  OBJECT_WAL_BYTES_MAX: size(
    256 * KIB,
    16 * KIB,
    GIB,
    "Captured WAL beyond this is checkpointed into the object's file.",
  ),
  OBJECT_UNSHIPPED_BYTES_MAX: size(
    64 * MIB,
    MIB,
    4 * GIB,
    "WAL of one object that has not landed; beyond it new writing calls get storage_behind.",
  ),
  OBJECT_SHIP_CONCURRENCY: count(32, 1, 1_024, "Flights under way at once on a node."),
  OBJECT_SHIP_RESERVED: count(
    8,
    0,
    1_024,
    "Of those, how many are kept for flights that somebody waits on: callers whom journals do not release, a snapshot's among them, or whoever drains the object.",
  ),
  OBJECT_SHIP_BACKOFF_MS: wait(
    50,
    1,
    60_000,
    "First pause after a failed flight; it doubles with each failure, with jitter.",
  ),
  OBJECT_SHIP_BACKOFF_MAX_MS: wait(2_000, 1, 600_000, "Longest pause between two tries of a flight."),
  OBJECT_SHIP_FAILURES_MAX: count(
    6,
    1,
    1_000,
    "Consecutive failed flights after which a shipper stops until the next write; while the object is idle it tries once every quarter of OBJECT_IDLE_MS.",
  ),
  OBJECT_COMPANY_MS: wait(
    5,
    0,
    1_000,
    "How long a flight waits at most, and no longer than half of what the last one took, for the callers whom that one has answered: they mostly call again. 0: it does not wait.",
  ),
  OBJECT_FLIGHT_BYTES_MAX: size(
    64 * MIB,
    MIB,
    GIB,
    "Changed pages one segment may hold; a flight with more ships a snapshot. In a fleet at most LINK_MESSAGE_BYTES_MAX, of which a little is for what is around them.",
  ),
  COMPACT_SEGMENTS_MAX: count(64, 2, 10_000, "Segments after a snapshot; one more and the next flight is a snapshot."),
  COMPACT_SHARE_PERCENT: count(
    200,
    10,
    10_000,
    "Bytes of segments, as a share of the snapshot's size, that make the next flight a snapshot.",
  ),
  COMPACT_BYTES_MIN: size(
    64 * KIB,
    0,
    GIB,
    "Segments below this many bytes in all are never compacted for their share.",
  ),
  PITR_RETENTION_MS: wait(
    -1,
    -1,
    365 * DAY_MS,
    "How long what a compaction replaced is kept, so that objects can be restored as they were; -1 means 7 days on S3 and 1 hour in the embedded bucket, 0 keeps nothing.",
  ),
  SEGMENT_INLINE_BYTES_MAX: size(
    8 * KIB,
    0,
    MIB,
    "A segment up to this size travels inside its manifest where the bucket cannot write both at once.",
  ),
  MANIFEST_INLINE_BYTES_MAX: size(
    32 * KIB,
    0,
    16 * MIB,
    "Bytes of segments that one manifest may hold; from half of it on they are merged.",
  ),
  SNAPSHOT_INLINE_BYTES_MAX: size(
    4 * MIB,
    64 * KIB,
    GIB,
    "A larger snapshot is streamed in parts instead of being held in memory.",
  ),
  SNAPSHOT_PART_BYTES: size(4 * MIB, 64 * KIB, 64 * MIB, "Size of one part of a streamed snapshot."),
  DELTA_CACHE_BYTES: size(
    32 * MIB,
    0,
    4 * GIB,
    "Page images kept on a node as bases for page deltas; without a base a page travels whole.",
  ),
  NODE_RESIDENT_MAX: count(
    10_000,
    1,
    1_000_000,
    "Resident objects of a node; the longest idle leaves when one more comes.",
  ),
  OBJECT_FILES_OPEN_MAX: count(
    1_000,
    1,
    100_000,
    "Residents whose file is open; the longest unused is closed, the object stays resident.",
  ),
  NODE_CLAIMS_MAX: count(
    100_000,
    1,
    10_000_000,
    "Claims whose manifest is kept in memory after the object left; beyond it the next activation reads the bucket.",
  ),
  NODE_CLAIMS_BYTES_MAX: size(
    64 * MIB,
    0,
    16 * 1024 * MIB,
    "Bytes of segments in the manifests that a node keeps in memory for objects it owns; it reads forgotten ones again.",
  ),
  LOCAL_BYTES_MAX: size(
    10 * GIB,
    MIB,
    1024 * GIB,
    "Local copies of objects that are not resident; the oldest go first.",
  ),
  NODE_STALL_MS: wait(
    10_000,
    0,
    600_000,
    "A node whose main thread is silent for this long, in a statement that does not end for instance, says where and ends its process. 0 turns the watchdog off; else at least 100.",
  ),
  QUARANTINE_STALLS: count(
    2,
    1,
    20,
    "Stalls of one method of one object after which calls of it answer quarantined until an operator clears it.",
  ),
  METHOD_BUDGET_MS: wait(1_000, 1, 60_000, "Running time of one method; waiting does not count."),
  METHOD_SLICE_MS: wait(5, 1, 1_000, "Longest stretch a method runs before the node's other work gets its turn."),
  METHOD_INSTRUCTIONS_MAX: count(
    200_000_000,
    1_000,
    1_000_000_000_000,
    "Lua instructions of one method: the bound that holds whatever the clock says.",
  ),
  DIRECTORY_BUDGET_MS: wait(5, 1, 1_000, "Running time of a directory row's derivation."),
  DIRECTORY_RETRY_MS: wait(
    1_000,
    10,
    DAY_MS,
    "After a failed derivation of a directory row, when it is tried again by itself, once.",
  ),
  DIRECTORY_ROW_BYTES_MAX: size(16 * KIB, 256, MIB, "Size of one directory row."),
  DIRECTORY_SHARDS: fleetWide(
    count(
      4,
      1,
      256,
      "Objects that hold one class's directory; an object's partition says which of them holds its row.",
    ),
  ),
  DIRECTORY_PUBLISH_MS: wait(
    50,
    0,
    60_000,
    "Shortest pause between two batches of rows to one shard of a directory; rows that change meanwhile ride together.",
  ),
  DIRECTORY_BATCH_ROWS_MAX: count(256, 1, 10_000, "Rows of one batch to a shard of a directory."),
  DIRECTORY_QUEUE_MAX: count(
    100_000,
    1,
    10_000_000,
    "Rows of a node that may wait to be told to directories; one more is dropped, and asked for again when there is room.",
  ),
  DIRECTORY_BACKOFF_MAX_MS: wait(
    10_000,
    10,
    600_000,
    "Longest pause between tries of a batch that a directory does not take.",
  ),
  DIRECTORY_WALK_CONCURRENCY: count(
    8,
    1,
    1_000,
    "Objects that are woken at once to tell their rows again, for a directory with new columns or one that is rebuilt.",
  ),
  DIRECTORY_PAGE_MAX: count(1_000, 1, 10_000, "Rows of one page of a query."),
  DIRECTORY_FILTER_BYTES_MAX: size(4 * KIB, 64, 64 * KIB, "Length of a query's filter."),
  CALL_MEMORY_BYTES: size(64 * MIB, MIB, GIB, "Memory that one call's Lua values may take."),
  CALL_STRING_BYTES_MAX: size(16 * MIB, KIB, 256 * MIB, "Longest string in Lua."),
  CALL_DEPTH_MAX: count(200, 10, 100_000, "Depth of Lua calls in one method."),
  CALL_TIMEOUT_MS: wait(30_000, 10, 600_000, "How long a caller waits in all when it names no deadline of its own."),
  CALL_ID_RETENTION_MS: wait(3_600_000, 1_000, 30 * DAY_MS, "How long a call id's reply is kept."),
  CALL_ID_ROWS_MAX: count(10_000, 0, 10_000_000, "Call ids kept per object; the oldest go first."),
  EVENT_RETENTION_MS: wait(3_600_000, 0, 365 * DAY_MS, "How long an object's events are kept."),
  EVENT_ROWS_MAX: count(10_000, 0, 10_000_000, "Events kept per object; the oldest go first."),
  SUBSCRIPTIONS_MAX: count(
    100_000,
    1,
    10_000_000,
    "Subscriptions and live views of a node; one more is refused with subscriptions_full.",
  ),
  EVENT_PAGE_MAX: count(128, 1, 10_000, "Events that a subscriber who catches up reads at a time."),
  EVENT_BUFFER_MAX: count(
    256,
    1,
    100_000,
    "Landed events that a watched object keeps in memory while a subscriber catches up; beyond it the subscriber reads once more.",
  ),
  VIEW_INTERVAL_MS: wait(
    20,
    0,
    600_000,
    "Shortest pause between two evaluations of a live view; writes meanwhile count as one.",
  ),
  CALL_EVENTS_MAX: count(1_000, 1, 100_000, "Events, timers and messages that one call may make of each."),
  STORE_CACHE_BYTES: size(64 * KIB, 0, 64 * MIB, "Values of state.store that one object keeps in memory."),
  ANSWERS_BYTES: size(
    16 * MIB,
    0,
    16 * GIB,
    "Answers of reading methods that a node keeps in memory until their objects are written; one alone is a 64th part at most, and 0 keeps none.",
  ),
  VALUE_BYTES_MAX: size(MIB, KIB, 64 * MIB, "Size of one argument list, reply, stored value, event or message."),
  VALUE_DEPTH_MAX: count(64, 1, 1_000, "Nesting of one value."),
  SQL_ROWS_MAX: count(100_000, 1, 10_000_000, "Rows that one state.sql.all may return; use each for more."),
  SQL_BYTES_MAX: size(64 * KIB, 256, MIB, "Length of one SQL statement."),
  DELAY_SHARDS: count(
    16,
    1,
    256,
    "Objects that keep delayed commands and wake times. The fleet's record has the number; a node that starts with a higher one raises it, for what comes new. It never falls.",
  ),
  DELAY_CONCURRENCY: count(
    100,
    1,
    10_000,
    "Delayed commands, and objects with due timers, that a node delivers at once. Not above OBJECT_MAILBOX_MAX, or what falls due together for one object fills its mailbox.",
  ),
  DELAY_BATCH_MAX: count(256, 1, 10_000, "Entries that one transaction of a delay shard takes."),
  DELAY_GATHER_MS: wait(
    20,
    0,
    1_000,
    "How long a shard gathers outcomes of commands, so that one write notes many. Until then nothing that is done is done again.",
  ),
  DELAY_WAKES_GATHER_MS: wait(
    100,
    0,
    1_000,
    "The same for objects that were woken for their timers, for which nobody waits; one that is due again before is noted by then. After a crash an object is woken once more in vain.",
  ),
  DELAY_WAIT_MAX_MS: wait(
    10_000,
    100,
    366 * DAY_MS,
    "How long a node waits for due work before it looks at the wall clock again: as late may work be after a step of that clock.",
  ),
  DELAY_LATE_MS: wait(
    60_000,
    0,
    DAY_MS,
    "Found later than this, a run whose policy is to skip missed ones is skipped.",
  ),
  DELAY_ATTEMPTS_MAX: count(
    10,
    1,
    1_000,
    "Tries of one run that fail by the method's own doing; after them it is a dead letter.",
  ),
  DELAY_BACKOFF_MS: wait(1_000, 1, DAY_MS, "First pause after a failed try; it doubles with each, with jitter."),
  DELAY_BACKOFF_MAX_MS: wait(300_000, 1, DAY_MS, "Longest pause between two tries. Well below CALL_ID_RETENTION_MS."),
  DELAY_RETRY_FOR_MS: wait(
    7 * DAY_MS,
    1_000,
    366 * DAY_MS,
    "A run that has been tried for so long is a dead letter, whatever its tries failed of.",
  ),
  DELAY_KEPT_MS: wait(
    DAY_MS,
    60_000,
    366 * DAY_MS,
    "How long it is remembered what became of a delayed command, and that its id was used.",
  ),
  DELAY_DEAD_KEPT_MS: wait(30 * DAY_MS, 60_000, 3_660 * DAY_MS, "How long a dead letter can be delivered after all."),
  DELAY_LOG_ENTRIES_MAX: count(10_000, 0, 10_000_000, "Entries of its log that a delay shard keeps."),
  DELAY_ARGUMENTS_BYTES_MAX: size(
    16 * KIB,
    0,
    MIB,
    "Arguments of a delayed command beyond this lie in the bucket instead of its shard.",
  ),
  HTTP_BODY_BYTES_MAX: size(MIB, KIB, 64 * MIB, "Size of an HTTP body."),
  HTTP_CONNECTIONS_MAX: count(
    10_000,
    1,
    1_000_000,
    "Open connections; a further one gets 503, and if hundreds more come they are closed unanswered.",
  ),
  HTTP_HEADER_BYTES_MAX: size(16 * KIB, KIB, MIB, "Size of a request line with all headers."),
  HTTP_HEADER_MS: wait(10_000, 10, 600_000, "How long a request's headers may take to arrive."),
  HTTP_REQUEST_MS: wait(
    30_000,
    10,
    600_000,
    "How long a whole request may take to arrive, and how long its answer may wait for a client that does not read.",
  ),
  HTTP_IDLE_MS: wait(60_000, 10, 600_000, "How long a kept connection without a request stays open."),
  SOCKETS_MAX: count(10_000, 1, 1_000_000, "Open WebSockets; a further one is refused with node_full."),
  SOCKET_FRAME_BYTES_MAX: size(MIB, KIB, 64 * MIB, "Size of one frame that a client sends over a WebSocket."),
  SOCKET_CALLS_MAX: count(
    512,
    1,
    100_000,
    "Calls under way of one WebSocket; at the bound it is not read until one is answered.",
  ),
  SOCKET_OBJECT_CALLS_MAX: count(
    128,
    1,
    100_000,
    "Those of them that go to one object; what is behind one more waits, too. Not above OBJECT_MAILBOX_MAX, or one socket can fill a mailbox.",
  ),
  SOCKET_SUBSCRIPTIONS_MAX: count(
    1_000,
    1,
    1_000_000,
    "Subscriptions and live views of one WebSocket; one more is refused with socket_full.",
  ),
  SOCKET_BUFFER_BYTES_MAX: size(
    4 * MIB,
    16 * KIB,
    GIB,
    "What may wait to be sent over one WebSocket or event stream; a subscriber that lets it fill up is closed as slow.",
  ),
  SOCKET_PING_MS: wait(
    30_000,
    10,
    600_000,
    "How often a WebSocket is pinged; one that has not answered by the next ping is closed as dead.",
  ),
  SSE_KEEPALIVE_MS: wait(
    15_000,
    10,
    60_000,
    "How often a stream of Server-Sent Events says that it is alive, and how far it has come.",
  ),
  HELLO_TIMEOUT_MS: wait(5_000, 10, 600_000, "How long a WebSocket may take to say hello."),
  BUCKET_TIMEOUT_MS: wait(10_000, 10, 600_000, "How long one bucket request may take."),
  BUCKET_LONE_MS: wait(
    1,
    0,
    1_000,
    "A lone caller's write to the embedded bucket may hold up the node's thread for so long, and rarely longer; 0: never.",
  ),
  BUCKET_FLUSH_MS: wait(
    0,
    0,
    60_000,
    "How long a flight to an S3 bucket may be held back so that more writes ride along: callers wait longer, requests cost less.",
  ),
  BUCKET_FLUSH_BYTES: size(256 * KIB, 0, GIB, "So much WAL waiting for a flight ends BUCKET_FLUSH_MS early."),
  BUCKET_QUEUE_MAX: count(
    10_000,
    1,
    1_000_000,
    "Requests that may wait for the bucket; one more fails and its flight backs off.",
  ),
  BUCKET_CONNECT_MS: wait(3_000, 10, 600_000, "How long a connection to an S3 bucket may take to be made."),
  BUCKET_REQUESTS_MAX: count(
    64,
    1,
    4_096,
    "Requests to an S3 bucket under way at once, fewer while it throttles; further ones wait, BUCKET_QUEUE_MAX of them.",
  ),
  BUCKET_TRIES_MAX: count(
    3,
    1,
    20,
    "Tries of a request to an S3 bucket that may be repeated freely: reads, listings, deletes, parts, writes that raced another.",
  ),
  BUCKET_PAUSE_MAX_MS: wait(
    20_000,
    0,
    600_000,
    "Longest pause in which nothing is sent to an S3 bucket that throttles, whatever it asks for.",
  ),
  BUCKET_PART_BYTES: size(
    8 * MIB,
    5 * MIB,
    512 * MIB,
    "Size of one part of a stream that is written to an S3 bucket; three of them may be in memory, and S3 takes 10,000.",
  ),
  BUCKET_UPLOAD_STALE_MS: wait(
    DAY_MS,
    60_000,
    30 * DAY_MS,
    "An upload in parts to an S3 bucket that was begun this long ago and not ended is given up: its node is gone.",
  ),
  HEALTH_INTERVAL_MS: wait(
    5_000,
    0,
    600_000,
    "How long nothing may land before a small write probes whether writes do; 0 turns probing off.",
  ),
  HEALTH_LANDED_MS: wait(
    30_000,
    10,
    DAY_MS,
    "How long ago the last write may have landed, a flight's or a probe's, before the node calls itself unhealthy.",
  ),
  NODE_TTL_MS: fleetWide(
    wait(
      5_000,
      100,
      600_000,
      "How long a node's session lives without being renewed; it is renewed every third of it.",
    ),
  ),
  NODE_TTL_MARGIN_MS: fleetWide(
    wait(
      500,
      1,
      60_000,
      "By how much a session ends earlier for itself, and later for others: what clocks may drift apart within NODE_TTL_MS.",
    ),
  ),
  NODES_MAX: count(
    64,
    1,
    1_000,
    "Nodes of a fleet; one more is refused with fleet_full. Each reads the records of all every third of NODE_TTL_MS.",
  ),
  OBJECT_REPLICAS: fleetWide(
    count(
      3,
      1,
      9,
      "Journals that keep what an object's bucket copy does not have yet, fewer while there are fewer nodes.",
    ),
  ),
  OBJECT_QUORUM: fleetWide(
    count(2, 1, 9, "Of those, how many must hold a write before its reply is released; the owner's own counts."),
  ),
  FLIGHT_HEDGE_MS: wait(
    250,
    1,
    600_000,
    "How long a flight may lack its journals' acknowledgements before it also goes to the bucket at once.",
  ),
  COVER_MS: wait(
    1_000,
    0,
    600_000,
    "How long what journals hold may wait for its way into the bucket, so that many flights share a request.",
  ),
  COVER_BYTES: size(MIB, 0, GIB, "So many bytes held by journals alone, of one object, go to the bucket at once."),
  JOURNAL_BYTES_MAX: size(
    GIB,
    MIB,
    1_024 * GIB,
    "Bytes of a node's journal files; a journal that is full refuses entries with journal_full until the bucket covers some.",
  ),
  JOURNAL_FILE_BYTES: size(
    64 * MIB,
    64 * KIB,
    GIB,
    "Size at which a journal goes on in a new file; at most a quarter of JOURNAL_BYTES_MAX.",
  ),
  JOURNAL_QUEUE_BYTES_MAX: size(
    64 * MIB,
    MIB,
    4 * GIB,
    "Bytes that may wait for the journal's disk; an entry beyond is refused with journal_full.",
  ),
  JOURNAL_OBJECTS_MAX: count(
    100_000,
    1,
    10_000_000,
    "Objects that a journal knows; beyond it forgets those that it holds no entries of, and asks the bucket when it hears of them again.",
  ),
  CLAIM_MS: wait(10_000, 10, 600_000, "How long a claim may wait for promises before it fails with replicas_missing."),
  REPLICA_COPIES_MAX: count(
    128,
    0,
    100_000,
    "Copies of other nodes' objects that a node keeps for calls that may read from one; the longest unread go first. Each has a file open.",
  ),
  REPLICA_BYTES_MAX: size(GIB, 0, 1024 * GIB, "The files of those copies together; the longest unread go first."),
  REPLICA_WAIT_MS: wait(
    250,
    0,
    600_000,
    "How long a call that may read from a copy waits for it to have what the owner has landed; then the owner answers.",
  ),
  HANDOFF_CONCURRENCY: count(
    32,
    1,
    4_096,
    "Objects that a node hands over to others at once, when one joins or the node itself leaves.",
  ),
  TAKEOVER_CONCURRENCY: count(64, 1, 4_096, "Objects of a dead session that a node takes over at once."),
  TAKEOVER_BATCH: count(
    512,
    1,
    4_096,
    "As TAKEOVER_CONCURRENCY with the embedded bucket, where what they all ask of it travels and commits together.",
  ),
  TAKEOVER_AHEAD_MAX: count(
    100_000,
    0,
    10_000_000,
    "Objects of a dead session that a node claims before they are called although the embedded bucket has all of them.",
  ),
  UPKEEP_MS: wait(
    60_000,
    100,
    86_400_000,
    "How often, on average, a node looks for records of its objects that name journals which are gone, and for cold objects that dead sessions have left.",
  ),
  UPKEEP_MAX: count(
    256,
    0,
    1_000_000,
    "Records that a node changes or claims in one such look, as each costs requests to the bucket; 0: it does not look.",
  ),
  LINK_REQUEST_MS: wait(5_000, 10, 600_000, "How long a node waits for another node's answer."),
  LINK_CONNECT_MS: wait(2_000, 10, 600_000, "How long a link to another node may take to be made."),
  LINK_HEARTBEAT_MS: wait(
    250,
    10,
    60_000,
    "How often a link is tried by a heartbeat; one that brings nothing for four of them is broken off.",
  ),
  LINK_BACKOFF_MAX_MS: wait(1_000, 1, 600_000, "Longest pause between two tries to make a link."),
  LINK_MESSAGE_BYTES_MAX: size(
    64 * MIB,
    MIB,
    GIB,
    "Size of one message between nodes; the same on all of them, or what one has taken cannot be told to another.",
  ),
  LINK_BUFFER_BYTES_MAX: size(
    256 * MIB,
    MIB,
    16 * GIB,
    "Bytes that may wait to be sent on one link; a request beyond fails with link_full.",
  ),
  LINK_REQUESTS_MAX: count(
    100_000,
    1,
    10_000_000,
    "Requests and streams under way on one link, half of them streams at most; one more fails with link_full.",
  ),
  LINK_STREAM_WINDOW: count(
    32,
    1,
    100_000,
    "Items of a stream between nodes that may be on their way or waiting to be read.",
  ),
  RELEASE_POLL_MS: wait(
    10_000,
    10,
    3_600_000,
    "How often a node looks into the bucket for a newer release of its app; in a fleet it is mostly told before.",
  ),
  RELEASES_KEPT: count(
    20,
    2,
    1_000,
    "Releases of an app that are kept, the current one among them; older ones are deleted.",
  ),
  RELEASE_BYTES_MAX: size(4 * MIB, KIB, 32 * MIB, "Size of one release: the texts of all its files."),
  RELEASE_FILES_MAX: count(1_000, 1, 100_000, "Files of one release."),
  RELEASE_WALK_CONCURRENCY: count(
    8,
    1,
    1_000,
    "Objects that are read at once to see whether a release with fewer migrations may serve them.",
  ),
  RELEASE_WALK_MS: wait(
    300_000,
    10,
    DAY_MS,
    "How long that may take in all; a deployment that would need longer is refused with objects_unread.",
  ),
  CALL_CHAIN_MAX: count(16, 1, 1_000, "Calls from object to object that may wait for one another in a row."),
  UNITS_RUNNING_MAX: count(1_000, 1, 100_000, "Units running at once on a node; one more is refused with units_full."),
  UNIT_CALLS_MAX: count(1_000, 1, 1_000_000, "Calls that one request of a unit may make."),
  FETCH_TIMEOUT_MS: wait(10_000, 10, 600_000, "How long one fetch of a unit may take, all of its redirects together."),
  FETCH_BYTES_MAX: size(MIB, KIB, 64 * MIB, "Size of an answer that a unit fetches."),
  DRAIN_MS: wait(30_000, 0, 600_000, "How long a stopping node waits for its calls and flights."),
} as const satisfies Record<string, SettingEntry>;

export type SettingName = keyof typeof SETTINGS;
export type Settings = Readonly<Record<SettingName, number>>;

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

/**
 * The defaults with `overrides` over them. Values may be numbers or their text, as an environment gives them.
 * @throws MoonportError `bad_setting`
 */
export function resolveSettings(overrides: Readonly<Record<string, string | number>> = {}): Settings {
  const settings = Object.fromEntries(SETTING_NAMES.map((name) => [name, SETTINGS[name].default])) as Record<
    SettingName,
    number
  >;
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(SETTINGS, name)) throw unknownSetting(name);
    settings[name as SettingName] = checkedValue(name as SettingName, value);
  }
  if (settings.OBJECT_SHIP_RESERVED >= settings.OBJECT_SHIP_CONCURRENCY) {
    throw MoonportError.of(
      "bad_setting",
      "OBJECT_SHIP_RESERVED must be below OBJECT_SHIP_CONCURRENCY, or background flights never leave",
    );
  }
  if (settings.NODE_TTL_MARGIN_MS * 2 >= settings.NODE_TTL_MS) {
    throw MoonportError.of(
      "bad_setting",
      "NODE_TTL_MS must be more than twice NODE_TTL_MARGIN_MS, or no session lives",
    );
  }
  if (settings.OBJECT_QUORUM > settings.OBJECT_REPLICAS) {
    throw MoonportError.of("bad_setting", "OBJECT_QUORUM may not be more than OBJECT_REPLICAS, or nothing is released");
  }
  if (settings.JOURNAL_FILE_BYTES * 4 > settings.JOURNAL_BYTES_MAX) {
    throw MoonportError.of(
      "bad_setting",
      "JOURNAL_FILE_BYTES must be at most a quarter of JOURNAL_BYTES_MAX, or a journal is full before it can let go of a file",
    );
  }
  if (settings.NODE_STALL_MS > 0 && settings.NODE_STALL_MS < STALL_MS_MIN) {
    throw MoonportError.of(
      "bad_setting",
      `NODE_STALL_MS is 0 or at least ${STALL_MS_MIN}, or a node ends itself over a pause of its garbage collector`,
    );
  }
  return settings;
}

/** The settings among environment variables: exactly those whose names stand in the table. */
export function settingsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of SETTING_NAMES) {
    const value = environment[name];
    if (value !== undefined && value !== "") found[name] = value;
  }
  return found;
}

function checkedValue(name: SettingName, value: string | number): number {
  const entry: SettingEntry = SETTINGS[name];
  const number = typeof value === "number" ? value : Number(value.trim() === "" ? Number.NaN : value);
  if (!Number.isInteger(number)) {
    throw MoonportError.of("bad_setting", `${name} must be a whole number of ${entry.unit}, not "${value}"`);
  }
  if (number < entry.min || number > entry.max) {
    throw MoonportError.of(
      "bad_setting",
      `${name} must be between ${entry.min} and ${entry.max} ${entry.unit}, not ${number}`,
    );
  }
  return number;
}

function unknownSetting(name: string): MoonportError {
  const guess = nearest(name.toUpperCase(), SETTING_NAMES);
  return MoonportError.of(
    "bad_setting",
    `no setting is called ${name}`,
    guess ? { hint: `did you mean ${guess}?` } : {},
  );
}
