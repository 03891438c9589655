/**
 * The one error type of Moonport and the one table of its codes.
 *
 * Every door (CLI, HTTP, TypeScript) renders the same error; the table below is the only place that
 * knows a code's HTTP status, exit code and whether a caller may simply try again. docs/errors.md is
 * generated from it, and a test asserts that the page is current.
 */

/** What happens next, which is what a reader of an error wants to know first. */
export type ErrorGroup =
  /** The request itself is wrong; sending it again changes nothing. */
  | "refuse"
  /** The class's own doing: its code threw, ran too long, or is not valid. */
  | "class"
  /** Nothing happened, or asking again with the same call id is safe. */
  | "retry"
  /** The write is committed locally, its durability is not known. */
  | "unknown"
  /** Storage or configuration needs an operator. */
  | "operator";

export interface ErrorCodeEntry {
  readonly group: ErrorGroup;
  /** HTTP status. */
  readonly status: number;
  /** Exit code of the CLI. */
  readonly exit: number;
  readonly retryable: boolean;
  readonly meaning: string;
}

const refuse = (status: number, meaning: string, exit = 2): ErrorCodeEntry => ({
  group: "refuse",
  status,
  exit,
  retryable: false,
  meaning,
});
const byClass = (status: number, meaning: string): ErrorCodeEntry => ({
  group: "class",
  status,
  exit: 4,
  retryable: false,
  meaning,
});
const retry = (status: number, meaning: string): ErrorCodeEntry => ({
  group: "retry",
  status,
  exit: 5,
  retryable: true,
  meaning,
});
const operator = (status: number, meaning: string, exit = 7): ErrorCodeEntry => ({
  group: "operator",
  status,
  exit,
  retryable: false,
  meaning,
});

/** Every code that Moonport itself gives. Codes thrown by classes (`error{code=...}`) live beside these; `source` tells whose a code is. */
export const ERROR_CODES = {
  bad_request: refuse(400, "The request is malformed."),
  bad_json: refuse(400, "The body or an argument is not valid JSON."),
  bad_name: refuse(
    400,
    "An app, class or method name does not follow the grammar, or an app is called as that of Moonport's own objects, `system`.",
  ),
  bad_key: refuse(400, "A key is empty, longer than 256 bytes, or holds control characters."),
  bad_value: refuse(400, "A value cannot travel: cycle, hole, function, NaN, or text that is not UTF-8."),
  bad_option: refuse(400, "An option or flag is unknown or has the wrong form."),
  bad_setting: refuse(400, "A setting is unknown, of the wrong type, or out of bounds."),
  too_large: refuse(413, "A body, argument, reply, value or row is larger than its limit."),
  too_deep: refuse(400, "A value is nested deeper than the limit."),
  unauthenticated: refuse(401, "No token, or one that is not known."),
  forbidden: refuse(403, "The token does not allow this."),
  route_not_found: refuse(404, "No such route.", 3),
  method_not_allowed: refuse(405, "The route exists, but not for this HTTP method."),
  origin_refused: refuse(403, "The request comes from a browser page, or by a name, that may not reach this node."),
  app_not_found: refuse(404, "No such app on this node.", 3),
  class_not_found: refuse(404, "No such class.", 3),
  method_not_found: refuse(404, "The class has no such public method.", 3),
  not_a_reading_method: refuse(405, "Only reading methods may be called with GET, or be answered by a replica."),
  unit_not_found: refuse(404, "No such unit.", 3),
  no_directory: refuse(404, "The class declares no directory: it cannot be queried.", 3),
  bad_filter: refuse(400, "A query's filter is not understood; `details.position` tells where, from 1."),
  bad_order: refuse(400, "A query's order names no column of the directory."),
  bad_cursor: refuse(400, "A query's `after` is not what the page before it ended with."),
  object_not_found: refuse(404, "The object was never written, or it is destroyed.", 3),
  object_exists: refuse(409, "There is an object under the key that a fork was to take."),
  not_in_history: refuse(404, "What the object was at that time or seq is not kept, or it did not exist then.", 3),
  bad_release: refuse(
    400,
    "What was to be deployed is no release: a path, a name or a text that an app's files cannot have.",
  ),
  release_not_found: refuse(404, "The app has no such release, or none at all.", 3),
  deploy_conflict: refuse(409, "Another deployment came first; look at what it brought before you deploy again."),
  objects_migrated: refuse(
    409,
    "Objects have applied migrations that the release does not declare; `details.objects` lists the first of them, `details.count` says how many there are.",
  ),
  objects_unread: refuse(
    409,
    "It could not be made sure that no object has applied migrations that the release does not declare.",
  ),
  id_conflict: refuse(409, "The call id was used before with another method or other arguments, or by somebody else."),
  id_expired: refuse(409, "The call id is older than the node remembers; whether it ran is no longer known."),

  method_error: byClass(500, "The method threw a plain error, or hit a Lua runtime error."),
  budget_exceeded: byClass(500, "The method used up its time, memory or depth."),
  class_invalid: byClass(
    500,
    "A file of classes, modules or tests does not compile, or does not return what it should.",
  ),
  release_unloadable: byClass(
    409,
    "Nodes of the fleet say that they cannot load the release; `details.nodes` has their reasons.",
  ),
  unit_invalid: byClass(500, "The unit's file does not compile or does not return a function."),
  unit_response_invalid: byClass(500, "The unit returned a status, header or body that no response can have."),
  not_in_unit: byClass(500, "A unit used what only methods of objects have."),
  unit_calls_exceeded: byClass(500, "One request of a unit made more calls than it may."),
  native_failed: byClass(500, "A native class of the host program threw."),
  fetch_refused: byClass(500, "The address is not on the allow-list, or cannot be fetched."),
  fetch_failed: byClass(502, "The other side could not be reached, or broke off its answer."),
  fetch_timeout: byClass(504, "The other side did not answer in time."),
  migration_failed: byClass(500, "A migration of the class failed on this object; the object stays as it was."),
  migration_mismatch: byClass(409, "The object has applied a migration whose text the class has changed."),
  hook_failed: byClass(500, "on_create or on_wake threw; the object stays closed."),
  sql_error: byClass(500, "SQLite refused the statement."),
  sql_refused: byClass(500, "The statement is not on the allow-list for class code."),
  read_only: byClass(500, "A reading method, or a row derivation, tried to write."),
  call_doomed: byClass(
    500,
    "The transaction ended under the call (full disk, ROLLBACK by a statement); the rest of it may not write.",
  ),
  call_cycle: byClass(500, "A call reached an object that is already waiting in its own chain of calls."),
  call_chain_too_long: byClass(500, "A chain of calls from object to object is longer than it may be."),
  call_after_write: byClass(500, "A method may call other objects only before its first write."),

  mailbox_full: retry(503, "The object has as many waiting calls as its mailbox holds."),
  call_deadlock: retry(503, "Two chains of calls waited for each other; this one gave way."),
  units_full: retry(503, "The node runs as many units at once as it may."),
  object_restarting: retry(
    503,
    "The object's residency was broken; nothing of the call is kept, the next call activates it afresh.",
  ),
  node_stopping: retry(503, "The node is shutting down."),
  node_full: retry(
    503,
    "The node has as many resident objects, open files or connections as it may have, and all are busy.",
  ),
  request_timeout: retry(408, "The request did not arrive in full within its time; nothing of it ran."),
  socket_full: retry(503, "The WebSocket has as many subscriptions, or as much waiting to be sent, as it may have."),
  client_full: retry(503, "The client has as many calls under way as it may have."),
  token_changed: retry(503, "The token says something else of its bearer by now; what went on as before has ended."),
  subscriptions_full: retry(503, "The node has as many subscriptions as it may have."),
  storage_behind: retry(503, "Too much is waiting to be shipped; new writes are refused until shipping catches up."),
  not_durable_yet: retry(503, "The reply was computed over writes that have not landed within the gate's bound."),
  deadline_exceeded: retry(504, "The call's deadline passed before its turn came; it did not run."),
  caller_gone: retry(499, "The caller went away before the call's turn came; it did not run."),
  moved: retry(503, "The object lives elsewhere."),
  node_unreachable: retry(503, "No running node answered at the address."),
  node_fenced: retry(503, "The node's session has lapsed: it answers nothing until it has a new one."),
  link_broken: retry(503, "The link to another node broke before its answer came."),
  link_full: retry(503, "As much is under way to another node as may be."),
  release_behind: retry(
    503,
    "The object has been migrated by a newer release than the node serves; the node looks for it.",
  ),
  replicas_missing: retry(503, "Too few of the journals that hold the object's last writes can be reached."),
  journal_full: retry(503, "The node's journal is full until the bucket has taken what it holds."),

  delivery_under_way: retry(
    503,
    "The command is being delivered just now: whether it can be taken back is known soon.",
  ),

  outcome_unknown: {
    group: "unknown",
    status: 504,
    exit: 6,
    retryable: true,
    meaning:
      "The call may have run, its answer being lost; or its write is committed on the node, but its flight has not landed within the gate's bound. Asking again with the same call id tells what became of it.",
  },

  storage_full: operator(507, "The disk is full."),
  storage_readonly: operator(507, "The data folder is not writable."),
  storage_failed: operator(500, "The disk or SQLite reported an I/O error."),
  journal_corrupt: operator(
    500,
    "The node's journal is damaged: what it has acknowledged cannot be told from its files.",
  ),
  object_full: operator(507, "The object's database reached OBJECT_BYTES_MAX."),
  object_corrupt: operator(500, "The object's history in the bucket is damaged or has a gap; it is not served."),
  release_damaged: operator(
    500,
    "The record of an app's releases in the bucket, or a release, is not what was written.",
  ),
  quarantined: operator(
    503,
    "This method of this object has stalled its node before; it is not run until an operator clears it.",
  ),
  bucket_failed: retry(503, "The bucket answered with an error."),
  bucket_unusable: operator(500, "The bucket failed the start-up probe."),
  link_refused: operator(500, "Another node refused the link: its secret, version or fleet differs."),
  fleet_mismatch: operator(500, "The node's settings differ from the fleet's, or it is alone on a fleet's bucket."),
  fleet_full: operator(503, "The fleet has as many nodes as it may have."),
  journal_broken: operator(
    503,
    "A write or a sync of the node's journal has failed: it takes nothing until the node is started again.",
  ),
  node_replaced: operator(409, "Another process has taken this node's name; this one answers nothing any more."),
  folder_locked: operator(500, "Another process uses the data folder.", 8),
  address_in_use: operator(500, "The address to listen on is taken.", 8),
  insecure_bind: operator(500, "A non-loopback address needs auth."),
  internal: operator(500, "A fault in Moonport itself.", 1),
} as const satisfies Record<string, ErrorCodeEntry>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** How errors that a class throws with a code of its own are rendered. */
export const CLASS_ERROR: ErrorCodeEntry = byClass(422, "The class refused the call with a code of its own.");

export interface ErrorOptionsBag {
  readonly hint?: string;
  readonly cause?: unknown;
  /** `app/Class/key` of the object concerned. */
  readonly object?: string;
  readonly callId?: string;
  /** How long to wait before trying again, milliseconds. */
  readonly retryAfterMs?: number;
  /** Further fields, plain JSON values; for class errors the fields of the thrown table. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The error that reaches users. `code` is one of {@link ERROR_CODES}, or a class's own code when `source` is "class". */
export class MoonportError extends Error {
  override readonly name = "MoonportError";
  readonly source: "moonport" | "class";
  readonly hint: string | undefined;
  readonly object: string | undefined;
  readonly callId: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  private constructor(
    readonly code: string,
    source: "moonport" | "class",
    message: string,
    bag: ErrorOptionsBag,
  ) {
    super(message, bag.cause === undefined ? undefined : { cause: bag.cause });
    this.source = source;
    this.hint = bag.hint;
    this.object = bag.object;
    this.callId = bag.callId;
    this.retryAfterMs = bag.retryAfterMs;
    this.details = bag.details;
  }

  static of(code: ErrorCode, message: string, bag: ErrorOptionsBag = {}): MoonportError {
    return new MoonportError(code, "moonport", message, bag);
  }

  /**
   * An error thrown by class code with a code of its own. The code may be one that Moonport uses too: `source` tells them
   * apart, and what a class throws is never retryable by itself.
   */
  static byClass(code: string, message: string, bag: ErrorOptionsBag = {}): MoonportError {
    return new MoonportError(code, "class", message, bag);
  }

  get entry(): ErrorCodeEntry {
    if (this.source === "class") return CLASS_ERROR;
    return ERROR_CODES[this.code as ErrorCode];
  }

  get retryable(): boolean {
    return this.entry.retryable;
  }

  /** A copy that also names the object or the call; fields already set win. */
  with(bag: Pick<ErrorOptionsBag, "object" | "callId" | "hint">): MoonportError {
    const merged: Record<string, unknown> = { ...bag };
    for (const field of ["hint", "object", "callId", "retryAfterMs", "details", "cause"] as const) {
      if (this[field] !== undefined) merged[field] = this[field];
    }
    return new MoonportError(this.code, this.source, this.message, merged as ErrorOptionsBag);
  }
}

/** Anything thrown, as a MoonportError: a foreign error is a fault of ours and becomes `internal`. */
export function asMoonportError(thrown: unknown): MoonportError {
  if (thrown instanceof MoonportError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return MoonportError.of("internal", message, { cause: thrown });
}

/**
 * Whether it is Moonport's own error with one of these codes. Class code may throw an error with any of them, which says
 * nothing of the object's place, the call's id or the node: whoever decides by a code has to ask whose it is.
 */
export function isOwn(thrown: unknown, ...codes: readonly ErrorCode[]): boolean {
  return thrown instanceof MoonportError && thrown.source === "moonport" && codes.includes(thrown.code as ErrorCode);
}

/** Asserts what only a programming mistake can break; a failed one is `internal` and never caught for control flow. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw MoonportError.of("internal", `assertion failed: ${message}`);
}
