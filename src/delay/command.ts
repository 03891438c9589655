/** Delayed commands as they travel between whoever schedules them, their shard, and whoever delivers them. */
import type { PlainObject } from "../values.js";

/** When, as it travels: a {@link TimerPlan}. */
export type PlanFields = PlainObject;

/** A command as it is given to its shard. */
export type CommandRequest = {
  /** Made by whoever schedules it: a second one of the same id is the same command. */
  id: string;
  app: string;
  className: string;
  key: string;
  method: string;
  /** An encoded argument list, or `argsHash`: the name under which it lies in the bucket. */
  args: Uint8Array | null;
  argsHash: string | null;
  plan: PlanFields;
  /** Wall clock; found after it, the command is not delivered any more. */
  expiresMs: number | null;
  /** What the method sees as `caller`, beside its kind. */
  caller: PlainObject;
  /** Told of how each run ended: by a message to the method, or by an event. */
  outcome: ({ className: string; key: string } & ({ method: string } | { event: string })) | null;
  /** It was tried under this call id already; what that came to, or what others did for it, is not known. */
  triedAs: string | null;
};

/** A command that is to be delivered now. */
export type DueCommand = {
  id: string;
  app: string;
  className: string;
  key: string;
  method: string;
  args: Uint8Array | null;
  argsHash: string | null;
  caller: PlainObject;
  run: number;
  /** Of this run, wall clock. */
  dueMs: number;
  /** Tries of this run that failed and count. */
  attempts: number;
  /** All tries of it. */
  tries: number;
  /** When this run began to be tried. */
  beganMs: number;
  callId: string;
  callIdMs: number;
  /** What an earlier try under this call id came to is not known. */
  doubtful: boolean;
};

/** An object that wants to be woken. */
export type DueWake = { object: string; lookMs: number; epoch: number; seq: number; failures: number };
