/** What may stand in an object's mailbox, and what comes of it. */
import { MoonportError } from "../errors.js";
import type { Caller } from "../lua/contract.js";
import type { PlainValue } from "../values.js";
import type { OpenObject } from "./open-object.js";

/** A method call: one writing method, or a reading one that could not skip the mailbox. */
export interface CallWork {
  readonly kind: "call";
  readonly method: string;
  readonly access: "write" | "read";
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Monotonic; when its turn comes later than this it does not run. */
  readonly expiresMs: number;
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** The operator ends the object. */
export interface DestroyWork {
  readonly kind: "destroy";
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** The directory row is derived once more by itself after a failure. */
export interface RowWork {
  readonly kind: "row";
  reject(error: MoonportError): void;
}

export type Work = CallWork | DestroyWork | RowWork;

export interface Reply {
  readonly value: PlainValue;
  readonly seq: number | undefined;
}

/** How a call ended inside its transaction; it is told to the caller after COMMIT and the gate. */
export type Outcome =
  | { readonly kind: "wrote"; readonly work: CallWork | DestroyWork; readonly value: PlainValue; readonly seq: number }
  | { readonly kind: "read"; readonly work: CallWork; readonly value: PlainValue; readonly seq: number | undefined }
  | { readonly kind: "failed"; readonly work: CallWork | DestroyWork; readonly error: MoonportError };

/** Tells the caller once the state its reply was computed over is durable (G1). */
export function tellThroughGate(open: OpenObject, outcome: Outcome): void {
  const { work } = outcome;
  if (outcome.kind === "wrote") {
    open.shipper.ticket({
      release: () => work.resolve({ value: outcome.value, seq: outcome.seq }),
      fail: (cause) => work.reject(outcomeUnknown(open.object.id, cause)),
    });
    return;
  }
  open.shipper.readGate({
    release: () => {
      if (outcome.kind === "failed") work.reject(outcome.error);
      else work.resolve({ value: outcome.value, seq: outcome.seq });
    },
    fail: (cause) => work.reject(notDurableYet(open.object.id, cause)),
  });
}

function outcomeUnknown(object: string, cause: Error | undefined): MoonportError {
  return MoonportError.of("outcome_unknown", `the write to ${object} is committed here, but has not landed`, {
    object,
    hint: "ask again with the same call id to learn what became of it",
    cause,
  });
}

export function notDurableYet(object: string, cause: Error | undefined): MoonportError {
  if (cause instanceof MoonportError) return cause;
  return MoonportError.of("not_durable_yet", `what ${object} would answer rests on writes that have not landed`, {
    object,
    hint: "try again shortly",
    retryAfterMs: 1_000,
    cause,
  });
}
