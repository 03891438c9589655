/**
 * What a node offers to its doors: the one list of operations that CLI, HTTP and the embedding API all speak.
 *
 * A running node implements it in process; the CLI's HTTP client implements it over the wire. Every method rejects with a
 * MoonportError and with nothing else.
 */
import type { DelayApi, ObjectTimers } from "./delay/contract.js";
import type { ObjectIdentity } from "./identity.js";
import type { Caller, DirectoryQuery } from "./lua/contract.js";
import type { ReleaseApi, ServedApp } from "./release/contract.js";
import type { PlainObject, PlainValue, SqlRows, SqlValue } from "./values.js";

export interface CallRequest {
  readonly object: ObjectIdentity;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  /** Makes the call safe to repeat; see docs/calls.md. */
  readonly callId?: string;
  /** Within which its turn has to come, from now; one that has begun runs to its end. Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** Aborted when the caller has gone: a call that has not begun is then skipped. */
  readonly signal?: AbortSignal;
  /** The same without a signal, which is dear to make for every call; wins over `signal`. */
  readonly waiter?: CallWaiter;
  /** Refuse with `not_a_reading_method` unless the method is a reading one (HTTP GET). */
  readonly mustRead?: boolean;
  /**
   * `replica`: of a reading method, a copy on the node that is asked may answer, as fresh as the owner would (docs/calls.md).
   * Default: the owner.
   */
  readonly consistency?: Consistency;
}

export type Consistency = "replica";

/** Whoever waits for a call. */
export interface CallWaiter {
  isGone(): boolean;
  /** Given once, when the call stands in its queue: `tell` may be called when the caller goes, or at once if it has gone. */
  whenGone(tell: () => void): void;
}

export interface CallReply {
  readonly value: PlainValue;
  /** Others are given the same value: who hands it to a program, which might change it, copies it. */
  readonly isShared?: true;
  /** The object's seq after the call, when it wrote; or that of the copy, where one answered. */
  readonly seq?: number;
  /** That a copy answered. */
  readonly from?: "replica";
  /** That owns the object, where the node which was asked had to ask it. */
  readonly node?: ServingNode;
}

/** A node of the fleet, for whoever may ask it the next time. */
export interface ServingNode {
  readonly name: string;
  /** Where clients reach it, as far as is known. */
  readonly url?: string;
}

export interface Inspection {
  readonly object: string;
  /** Node of the fleet that it lives on, or would. */
  readonly node?: string;
  readonly state: "resident" | "local" | "stored" | "destroyed" | "unwritten";
  readonly epoch: number;
  /** Last committed writing transaction. */
  readonly seq: number;
  /** Last seq known to be in the bucket. */
  readonly landedSeq: number;
  readonly flying: boolean;
  readonly shipping: "idle" | "flying" | "backing_off" | "stopped";
  readonly mailboxCalls: number;
  readonly classVersion?: string;
  readonly migrationsApplied: number;
  readonly snapshotSeq?: number;
  readonly segments: number;
  readonly databaseBytes: number;
  readonly tables: readonly string[];
  readonly timers: number;
  readonly outbox: number;
  readonly events: { readonly count: number; readonly last: number };
  readonly directoryRow?: {
    readonly seq: number;
    readonly row: PlainValue;
    readonly staleSinceMs?: number;
    readonly failure?: string;
  };
}

export interface ClassInfo {
  readonly app: string;
  readonly name: string;
  readonly version: string;
  readonly methods: readonly { readonly name: string; readonly kind: "write" | "read" }[];
}

/** What a unit is told: one request, by whichever door. */
export interface UnitRequest {
  readonly app: string;
  readonly unit: string;
  /** Upper case. */
  readonly method: string;
  /** What follows the unit's name; `/` when nothing does. */
  readonly path: string;
  /** A list where a name is given more than once. */
  readonly query: Readonly<Record<string, string | readonly string[]>>;
  /** Names in lower case; without what proves who the caller is. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: PlainValue;
  readonly caller: Caller;
  /** A repeat under it does nothing twice. Made when absent. */
  readonly callId?: string;
  /** Wait in all, from now. Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** Aborted when the caller has gone: the unit ends where it next waits. */
  readonly signal?: AbortSignal;
}

export interface UnitResponse {
  /** 200 to 599. */
  readonly status: number;
  /** Names in lower case; `content-type` among them when there is a body. */
  readonly headers: Readonly<Record<string, string>>;
  /** As it leaves; empty when there is none. */
  readonly body: string | Uint8Array;
}

export interface UnitInfo {
  readonly app: string;
  readonly name: string;
  readonly version: string;
}

/** A query of a class's directory. */
export interface FindRequest {
  readonly app: string;
  readonly className: string;
  readonly query: DirectoryQuery;
  /** Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
}

export interface FoundRow {
  /** The object's. */
  readonly key: string;
  /** Without the columns that are null. */
  readonly row: PlainObject;
  /** Since when the row could not be derived: it is the last good one. Wall clock, milliseconds. */
  readonly staleSinceMs?: number;
}

export interface FoundPage {
  readonly rows: readonly FoundRow[];
  /** For the next page; absent when there is none. */
  readonly after?: string;
  /** In all, where it was asked for. */
  readonly count?: number;
}

/** How a class's directory stands. */
export interface DirectoryStatus {
  readonly app: string;
  readonly className: string;
  readonly columns: PlainObject;
  readonly index: readonly string[];
  readonly rows: number;
  /** Of them, derived under the columns that the class declares now. */
  readonly current: number;
  /** Of them, those whose derivation fails. */
  readonly stale: number;
  /** Every object has been asked for its row since the class got these columns. */
  readonly complete: boolean;
  /** Rows of this node's objects that wait to be told, of all classes. */
  readonly waiting: number;
  readonly lagMs: number;
  /** The last walk over the class's objects by this node, or the one under way. */
  readonly walk?: DirectoryWalk;
}

export interface DirectoryWalk {
  readonly why: "columns" | "rebuild";
  readonly state: "running" | "done" | "failed";
  /** Objects asked so far. */
  readonly objects: number;
  /** Of them, those that could not tell their row. */
  readonly failed: number;
  /** Which part of the class's partitions has been walked: 0 to 1. */
  readonly progress: number;
  readonly error?: string;
}

/** A node of a fleet, as the node that was asked sees it. */
export interface NodeInfo {
  readonly node: string;
  readonly session: string;
  /** Of its links. */
  readonly address: string;
  /** Where clients reach it. */
  readonly clientAddress?: string;
  readonly zone: string;
  readonly weight: number;
  readonly version: string;
  /** Identity of its journal. */
  readonly journal: string;
  /** What it serves of each app, as it said last; absent of nodes of an older version. */
  readonly releases?: readonly ServedApp[];
  readonly standing: "live" | "dead";
  /** Whether it is the node that was asked. */
  readonly own: boolean;
}

/** Which nodes partitions prefer, as the node that was asked sees it. */
export interface RingInfo {
  /** All, or the object's. Empty when the node is alone. `homes`: the home first. */
  readonly partitions: readonly { readonly partition: number; readonly homes: readonly string[] }[];
  /** `app/Class/key`, where one was asked for. */
  readonly object?: string;
  /** The node that owns the object now; absent where none that lives does. */
  readonly owner?: string;
}

export interface DrainRequest {
  /** Default: the node that is asked. */
  readonly node?: string;
  /** It takes objects again. */
  readonly undo?: boolean;
}

export interface Drained {
  readonly node: string;
  /** Objects that it still holds. */
  readonly left: number;
}

/** The node's part in its fleet. */
export interface FleetStatus {
  readonly node: string;
  /** Another one after each lapse. */
  readonly session: string;
  readonly address: string;
  /** Nodes that are not known to be dead, this one included. */
  readonly nodes: number;
  /** Whether it gives its objects to the others, or has: it is drained, or stops, and somebody is there who takes them. */
  readonly isLeaving: boolean;
  /** Whether the session is valid; while it is not the node answers `node_fenced`. */
  readonly valid: boolean;
  readonly whyInvalid?: string;
  /** Why its journal takes nothing any more, until the node is started again: other nodes do without it, and it is not ready. */
  readonly journalBroken?: string;
}

export interface NodeStatus {
  readonly version: string;
  /** This life of the node. */
  readonly session: string;
  readonly ready: boolean;
  /** Whether a write has landed within HEALTH_LANDED_MS, a flight's or a probe's: a node that answers may still make no progress. */
  readonly writesLand: boolean;
  /** When the last one landed, milliseconds ago. */
  readonly sinceLandedMs: number;
  readonly bucket: string;
  readonly residents: number;
  readonly openFiles: number;
  /** Subscriptions and live views. */
  readonly subscriptions: number;
  readonly watchedObjects: number;
  readonly classes: number;
  readonly classErrors: readonly { readonly file: string; readonly message: string }[];
  readonly releases: readonly ServedApp[];
  /** Of a node of a fleet. */
  readonly fleet?: FleetStatus;
}

/** What is known of one method of one object that hung its node's main thread. */
export interface QuarantineEntry {
  /** `app/Class/key` */
  readonly object: string;
  /** The method, or `on_create`, `on_wake`, `directory.row`, `migrations`. */
  readonly method: string;
  /** Whether it is refused; below QUARANTINE_STALLS it still runs. */
  readonly quarantined: boolean;
  readonly stalls: number;
  /** Of the last stall: wall clock, milliseconds. */
  readonly lastAtMs: number;
  readonly lastSilentMs: number;
  /** Of the last stall: the beginning of the statement it hung in. */
  readonly statement?: string;
}

/** A state that an object had: the last one at or before a seq, or a moment (wall clock, milliseconds). */
export type PointInTime = { readonly seq: number } | { readonly atMs: number };

/** How an object stood for a while, and what of it can be had again. */
export interface HistoryEra {
  readonly epoch: number;
  /** The first and the last of its states that can be had, and how many there are: one for each flight. */
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly states: number;
  /** Wall clock of the first of them, milliseconds; unknown where it was made before that was kept. */
  readonly fromMs?: number;
  /** Until then it stood; absent of what stands. */
  readonly untilMs?: number;
  /** It ended because the object was destroyed. */
  readonly destroyed: boolean;
  /** What its states are made from: a snapshot at this seq, or from nothing. */
  readonly snapshotSeq?: number;
}

export interface ObjectHistory {
  /** `app/Class/key` */
  readonly object: string;
  /** How long the past is kept, milliseconds. */
  readonly retentionMs: number;
  /** The object's seq, and whether it is destroyed now. */
  readonly seq: number;
  readonly destroyed: boolean;
  /** The first state that can be had; absent when none can. */
  readonly from?: { readonly seq: number; readonly atMs?: number };
  /** The newest, in order; the last is the one that stands, unless the object is destroyed. */
  readonly eras: readonly HistoryEra[];
}

export interface Restoration {
  readonly at: PointInTime;
  /** Whether the timers of then are set again. Default `keep`. */
  readonly timers?: "keep" | "drop";
}

export interface Restored {
  /** `app/Class/key` of the object that has it now. */
  readonly object: string;
  /** Its epoch and seq now. */
  readonly epoch: number;
  readonly seq: number;
  /** Where the state comes from: its seq then, and when its last flight was cut. */
  readonly fromSeq: number;
  readonly fromMs?: number;
}

/** A database file, a part after the other. Whoever does not read it to its end calls `return` of its iterator. */
export interface ExportedDatabase {
  readonly seq: number;
  readonly atMs?: number;
  readonly bytes: number;
  readonly parts: AsyncIterable<Uint8Array>;
}

export interface Recovered {
  readonly object: string;
  /** It goes on from here: what came after it, if anything did, is lost. */
  readonly seq: number;
}

export interface NodeApi extends ReleaseApi {
  /** Delayed commands. */
  readonly delay: DelayApi;
  /** @throws `object_not_found` */
  timers(object: ObjectIdentity): Promise<ObjectTimers>;
  call(request: CallRequest): Promise<CallReply>;
  storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined>;
  /** At most 1,000 entries, in key order. */
  storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]>;
  /** A read-only statement on the object's own database. */
  sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows>;
  inspect(object: ObjectIdentity): Promise<Inspection>;
  /** Ends the object; resolves when the tombstone is durable. @throws `object_not_found` */
  destroy(object: ObjectIdentity): Promise<void>;
  /**
   * Takes over an object of which too few journals are left (`replicas_missing`) with those there are: acknowledged writes that
   * only the lost ones had are lost. Resolves with the seq that it goes on from. @throws `object_not_found`, `moved`
   */
  recover(object: ObjectIdentity): Promise<Recovered>;
  /** What can be had again of an object's past. @param limit of eras, the newest @throws `object_not_found` */
  history(object: ObjectIdentity, limit?: number): Promise<ObjectHistory>;
  /**
   * The object becomes what it was, under a new epoch; resolves when that is durable. Seqs and events go on counting, and an event
   * `restored` tells of it. What it was until now stays in its past, so it can be undone.
   * @throws `not_in_history` saying what there is, `object_not_found`, `outcome_unknown`
   */
  restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored>;
  /**
   * Another object of the class begins as what this one was, or is, without its events, its outbox and its call ids.
   * @throws as {@link restore}, `object_exists`
   */
  fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored>;
  /** The database of what the object was, or is. @throws as {@link restore} */
  exportDatabase(object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase>;
  /**
   * Runs a unit; resolves when everything it did is durable.
   * @throws what the unit throws, `unit_not_found`, `outcome_unknown` with the list of its calls
   */
  runUnit(request: UnitRequest): Promise<UnitResponse>;
  /** @throws `no_directory`, `bad_filter`, `bad_order`, `bad_cursor`, `bad_option` */
  find(request: FindRequest): Promise<FoundPage>;
  /** @throws `no_directory` */
  directory(app: string, className: string): Promise<DirectoryStatus>;
  /** Begins to fill the class's directory anew from its objects. Resolves when it has begun. */
  rebuildDirectory(app: string, className: string): Promise<DirectoryStatus>;
  classes(): Promise<readonly ClassInfo[]>;
  units(): Promise<readonly UnitInfo[]>;
  status(): Promise<NodeStatus>;
  /** The nodes of the fleet; none when the node is alone. */
  nodes(): Promise<readonly NodeInfo[]>;
  /** Where objects belong, or where one does and is. It is not woken. */
  ring(object?: ObjectIdentity): Promise<RingInfo>;
  /**
   * A node of the fleet gives all its objects to the others, and takes none until that is undone or it starts anew. Resolves
   * when it has none left, or DRAIN_MS have passed.
   * @throws `bad_option` where there is no such node, or no other that could take them; `node_unreachable`
   */
  drain(request: DrainRequest): Promise<Drained>;
  /** Every method that stalled and was not cleared since. */
  quarantine(): Promise<readonly QuarantineEntry[]>;
  /** Forgets a method's stalls, so that it runs again. Resolves with whether any were known. */
  clearQuarantine(object: ObjectIdentity, method: string): Promise<boolean>;
}
