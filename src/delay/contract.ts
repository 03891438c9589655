/** Delayed commands, as doors and operators see them: a call that is to be made at a time. */
import type { MissedPolicy } from "../lua/contract.js";
import type { PlainObject, PlainValue } from "../values.js";

export const COMMAND_STATES = [
  "pending",
  "delivering",
  "retrying",
  "done",
  "dead",
  "expired",
  "skipped",
  "cancelled",
] as const;

/**
 * `pending` until its time has come, `delivering` while it is under way, then `done`, or `retrying` until it is, or `dead`.
 * `expired` and `skipped` were found too late, `cancelled` was taken back.
 */
export type CommandState = (typeof COMMAND_STATES)[number];

/** What `cancel` and `move` answer; `delivering`: ask again, it is being found out. */
export type Changed = "done" | "delivered" | "unknown" | "delivering";

export interface RunRecord {
  readonly run: number;
  readonly dueMs: number;
  readonly endedMs: number;
  readonly outcome: string;
  readonly tries: number;
  readonly error?: { readonly code: string; readonly message: string };
}

/** A command as it is shown. Times are wall clock, milliseconds. */
export interface CommandInfo {
  readonly id: string;
  readonly shard: number;
  /** `app/Class/key` */
  readonly object: string;
  readonly method: string;
  readonly state: CommandState;
  /** Of the run that is next, under way, or was the last. */
  readonly dueMs: number;
  /** When it is looked at next; absent where nothing more is to be done. */
  readonly nextMs?: number;
  readonly recurring: boolean;
  readonly run: number;
  readonly attempts: number;
  readonly tries: number;
  readonly createdMs: number;
  readonly expiresMs?: number;
  /** When its last run ended. */
  readonly lastMs?: number;
  readonly error?: { readonly code: string; readonly message: string };
}

/** One entry of a shard's log. */
export interface LogEntry {
  readonly shard: number;
  readonly number: number;
  readonly atMs: number;
  readonly kind: string;
  /** The command or the object that it is about. */
  readonly subject: string;
  readonly what: PlainObject;
}

/** When a command is to be delivered. Default: as soon as may be. */
export interface SendTime {
  readonly delayMs?: number;
  /** Wall clock, milliseconds. */
  readonly atMs?: number;
  readonly everyMs?: number;
  /** With `timeZone`, by default UTC. */
  readonly cron?: string;
  readonly timeZone?: string;
}

/**
 * Told how each run of a command ended, exactly once: an object of its app, by a message to the method, or by an event that it
 * emits. Method and event get `{ id, object, method, run, outcome, error }`.
 */
export type OutcomeTarget = {
  readonly className: string;
  readonly key: string;
} & ({ readonly method: string } | { readonly event: string });

export interface SendRequest extends SendTime {
  readonly app: string;
  readonly className: string;
  readonly key: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
  /** Makes sending safe to repeat. Made when absent. */
  readonly id?: string;
  /** Wall clock, milliseconds: found later than that, it is not delivered. */
  readonly expiresMs?: number;
  readonly missed?: MissedPolicy;
  readonly outcome?: OutcomeTarget;
  /** Of whoever sends; the method sees it as `caller`. */
  readonly caller?: { readonly id?: string; readonly claims?: PlainObject };
}

export interface DelayFilter {
  readonly states?: readonly CommandState[];
  readonly app?: string;
  /** `Class/key` */
  readonly object?: string;
  /** Id of the last one of the page before. */
  readonly after?: string;
  /** At most {@link DELAY_PAGE_MAX}. */
  readonly limit?: number;
}

export const DELAY_PAGE_MAX = 1_000;

/** `done`: it is as was asked. `delivered`: too late. `unknown`: no such id, or none that can be moved. */
export type ChangedAnswer = Exclude<Changed, "delivering">;

export interface DelayedCommand {
  readonly command: CommandInfo;
  /** The last ones, in order. */
  readonly runs: readonly RunRecord[];
}

export interface ShardTally {
  readonly shard: number;
  /** Runs that ended, by how. */
  readonly counts: Readonly<Record<string, number>>;
  /** Commands that have something before them. */
  readonly waiting: number;
  /** Objects that want to be woken. */
  readonly wakes: number;
}

/** Delayed commands, wherever their shards live. Everything rejects with a MoonportError. */
export interface DelayApi {
  /** @throws `id_conflict`, `bad_option`, `bad_value`, `method_not_found` */
  send(request: SendRequest): Promise<{ readonly id: string }>;
  /** In the order of their ids. */
  list(filter: DelayFilter): Promise<readonly CommandInfo[]>;
  get(id: string): Promise<DelayedCommand | undefined>;
  /** @throws `delivery_under_way` while it cannot be told */
  cancel(id: string): Promise<ChangedAnswer>;
  move(id: string, time: SendTime): Promise<ChangedAnswer>;
  /** Delivers a dead letter after all. Whether there was one. */
  retry(id: string): Promise<boolean>;
  /** What happened in a shard, in order. */
  log(shard: number, after: number, limit: number): Promise<readonly LogEntry[]>;
  tallies(): Promise<readonly ShardTally[]>;
}

/** A timer of an object, as it is shown. */
export interface TimerDetails {
  readonly id: number;
  readonly name?: string;
  readonly method: string;
  /** `after`, `at`, `every 5000 ms`, `cron 0 9 * * * Europe/Berlin` */
  readonly plan: string;
  /** `set`, `retrying`, or `dead`: given up. */
  readonly state: "set" | "retrying" | "dead";
  /** When it runs next; absent where it was given up. */
  readonly nextMs?: number;
  readonly runs: number;
  readonly lastMs?: number;
  readonly tries: number;
  readonly error?: { readonly code: string; readonly message: string };
}

/** What an object has set, and the last runs of its timers, the latest first. */
export interface ObjectTimers {
  readonly timers: readonly TimerDetails[];
  readonly runs: readonly {
    readonly timer: number;
    readonly name?: string;
    readonly method: string;
    readonly dueMs: number;
    readonly atMs: number;
    readonly outcome: string;
    readonly error?: { readonly code: string; readonly message: string };
  }[];
}
