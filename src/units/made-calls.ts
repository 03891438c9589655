/**
 * The calls that one request of a unit made, and what is known of each: what `outcome_unknown` tells whoever asked.
 *
 * Nothing of a call may leave the request before its ticket is settled (G1).
 */
import { isOwn, type MoonportError } from "../errors.js";

export type CallFate =
  /** Asked, and no answer has come, or none that tells whether it ran. */
  | "unknown"
  /** It ran; whether that is durable is not known. */
  | "unsettled"
  | "durable"
  /** The method threw: nothing of it is kept. */
  | "failed"
  | "not_run";

interface MadeCall {
  readonly object: string;
  readonly method: string;
  readonly callId: string;
  /** A reading method leaves nothing behind that could be in doubt. */
  readonly reads: boolean;
  fate: CallFate;
  code: string | undefined;
  ticket: Promise<void> | undefined;
}

export interface Ticket {
  /** It ran, and what came of it may be told once `settled` resolves. */
  ran(settled: Promise<void>, error?: MoonportError): void;
  notRun(error: MoonportError): void;
}

export class MadeCalls {
  readonly #calls: MadeCall[] = [];

  get count(): number {
    return this.#calls.length;
  }

  add(call: Pick<MadeCall, "object" | "method" | "callId" | "reads">): Ticket {
    const made: MadeCall = { ...call, fate: "unknown", code: undefined, ticket: undefined };
    this.#calls.push(made);
    return {
      ran: (settled, error) => {
        if (error === undefined) made.fate = "unsettled";
        else made.fate = isOwn(error, "outcome_unknown") ? "unknown" : "failed";
        made.code = error?.code;
        made.ticket = settled;
        settled.then(
          () => {
            made.ticket = undefined;
            if (made.fate === "unsettled") made.fate = "durable";
          },
          () => {},
        );
      },
      notRun: (error) => {
        made.fate = "not_run";
        made.code = error.code;
      },
    };
  }

  /** The tickets that were not settled yet. */
  get tickets(): Promise<void>[] {
    return this.#calls.flatMap(({ ticket }) => (ticket === undefined ? [] : [ticket]));
  }

  /** Whether something may have been written of which it is not known that it lasts. */
  get inDoubt(): boolean {
    return this.#calls.some(({ reads, fate }) => !reads && (fate === "unknown" || fate === "unsettled"));
  }

  /** Whether a call may have left something, be it durable or in doubt. */
  get haveLeftSomething(): boolean {
    return this.#calls.some(({ reads, fate }) => !reads && fate !== "failed" && fate !== "not_run");
  }

  /** For an error's details. */
  report(): readonly Readonly<Record<string, string>>[] {
    return this.#calls.map(({ object, method, callId, fate, code }) => ({
      object,
      method,
      callId,
      fate,
      ...(code !== undefined && { code }),
    }));
  }
}
