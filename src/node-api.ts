/**
 * What a node offers to its doors: the one list of operations that CLI, HTTP and the embedding API all speak.
 *
 * A running node implements it in process; the CLI's HTTP client implements it over the wire. Every method rejects with a
 * MoonportError and with nothing else.
 */
import type { ObjectIdentity } from "./identity.js";
import type { Caller } from "./lua/contract.js";
import type { PlainValue, SqlRows, SqlValue } from "./values.js";

export interface CallRequest {
  readonly object: ObjectIdentity;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  /** Makes the call safe to repeat; see docs/calls.md. */
  readonly callId?: string;
  /** Wait in all, from now. Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** Aborted when the caller has gone: a call that has not begun is then skipped. */
  readonly signal?: AbortSignal;
  /** Refuse with `not_a_reading_method` unless the method is a reading one (HTTP GET). */
  readonly mustRead?: boolean;
}

export interface CallReply {
  readonly value: PlainValue;
  /** The object's seq after the call, when it wrote. */
  readonly seq?: number;
}

export interface Inspection {
  readonly object: string;
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

export interface NodeStatus {
  readonly version: string;
  /** This life of the node. */
  readonly session: string;
  readonly ready: boolean;
  readonly bucket: string;
  readonly residents: number;
  readonly openFiles: number;
  /** Subscriptions and live views. */
  readonly subscriptions: number;
  readonly watchedObjects: number;
  readonly classes: number;
  readonly classErrors: readonly { readonly file: string; readonly message: string }[];
}

export interface NodeApi {
  call(request: CallRequest): Promise<CallReply>;
  storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined>;
  /** At most 1,000 entries, in key order. */
  storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]>;
  /** A read-only statement on the object's own database. */
  sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows>;
  inspect(object: ObjectIdentity): Promise<Inspection>;
  /** Ends the object; resolves when the tombstone is durable. @throws `object_not_found` */
  destroy(object: ObjectIdentity): Promise<void>;
  classes(): Promise<readonly ClassInfo[]>;
  status(): Promise<NodeStatus>;
}
