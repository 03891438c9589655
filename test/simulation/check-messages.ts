/** Whether each message between objects, and each command from outside, took effect as often as it may, and not early. */
import type { ChangedAnswer, CommandState } from "../../src/delay/contract.js";
import type { Ended } from "./history.js";
import type { Doer, LedgerEntry } from "./ledger.js";

/** Rounding of seconds that travel as fractions. */
const EXACT_MS = 0.01;

/**
 * @param skewMs how far apart the nodes' wall clocks were at most: a message is never early by the clock of the node that delivers it
 * @returns what is wrong, a sentence each
 */
export function checkMessages(doers: readonly Doer[], skewMs: number): string[] {
  const faults: string[] = [];
  const sent = doers.flatMap(({ key, isEnding, ledger }) =>
    of(ledger, "sent").map((entry) => ({ entry, from: key, isEnding })),
  );
  for (const { entry, from } of sent) {
    const to = doers.find(({ key }) => key === entry.other);
    if (to === undefined) continue;
    const took = of(to.ledger, "took").filter(({ token }) => token === entry.token);
    if (took.length === 0 && !to.isEnding) faults.push(`${from} sent ${entry.token} to ${to.key}, which never got it`);
    for (const { atMs } of took) {
      const earlyMs = (entry.dueMs ?? 0) - skewMs - EXACT_MS - atMs;
      if (earlyMs > 0) faults.push(`${to.key} got ${entry.token} of ${from} early by ${earlyMs} ms`);
    }
  }
  const senders = new Set(doers.filter(({ isEnding }) => !isEnding).map(({ key }) => `default/Doer/${key}`));
  const known = new Set(sent.map(({ entry }) => entry.token));
  for (const { key, ledger } of doers) {
    for (const what of ["took", "told"] as const)
      faults.push(...twice(of(ledger, what)).map((one) => `${key} got ${one} twice`));
    for (const { token, other = "" } of of(ledger, "took")) {
      if (senders.has(other) && !known.has(token)) faults.push(`${key} got ${token}, and ${other} never sent it`);
    }
  }
  return faults;
}

/** What was asked of one command, one after the other. */
export interface CommandStep {
  readonly kind: "send" | "cancel" | "move";
  /** Not before then; of a cancel, undefined. */
  readonly dueMs: number | undefined;
  readonly ended: Ended;
  readonly tries: number;
}

export interface AskedCommand {
  readonly id: string;
  readonly key: string;
  /** Who is told how it ended. */
  readonly tells: string | undefined;
  readonly steps: readonly CommandStep[];
}

interface Allowed {
  readonly least: number;
  readonly most: number;
  /** What the answers have in them that cannot be. */
  readonly faults: readonly string[];
}

/** In calm nothing waits any more, and nothing was given up. @param states what the shards say of each command */
export function checkSettled(states: ReadonlyMap<string, CommandState>): string[] {
  return [...states].flatMap(([id, state]) =>
    state === "done" || state === "cancelled" ? [] : [`command ${id} is ${state} in calm`],
  );
}

/** @param states what the shards say of each command that they know */
export function checkCommands(
  commands: readonly AskedCommand[],
  doers: readonly Doer[],
  states: ReadonlyMap<string, CommandState>,
  skewMs: number,
): string[] {
  return commands.flatMap((command) => {
    const { id, key, tells } = command;
    const { least, most, faults } = allowed(command);
    const to = doers.find((doer) => doer.key === key);
    const took = of(to?.ledger ?? [], "took").filter(({ token }) => token === id);
    const isLost = to?.isEnding === true && took.length < least;
    const found = [...faults];
    if (took.length > most || (took.length < least && !isLost)) {
      found.push(
        `took effect ${took.length} times, and has to ${least === most ? least : `${least} to ${most}`} times`,
      );
    }
    // Its time is reckoned by one node's clock, looked at by another's, and written down by a third's.
    const earliestMs = notBeforeMs(command) - 2 * skewMs - EXACT_MS;
    for (const { atMs } of took) if (atMs < earliestMs) found.push(`took effect early by ${earliestMs - atMs} ms`);
    const state = states.get(id);
    if (took.length > 0 && state !== "done") found.push(`took effect, and is said to be ${state}`);
    if (tells !== undefined)
      found.push(
        ...checkTold(
          id,
          doers.find((doer) => doer.key === tells),
          state === "done",
        ),
      );
    return found.map((fault) => `command ${id} to ${key} ${fault}: ${JSON.stringify(command.steps)}`);
  });
}

function checkTold(id: string, teller: Doer | undefined, isDone: boolean): string[] {
  if (teller === undefined || teller.isEnding) return [];
  const told = of(teller.ledger, "told").filter(({ token }) => token === id).length;
  return told === (isDone ? 1 : 0) ? [] : [`was told ${told} times to ${teller.key}`];
}

/** How often it may have taken effect by what its asker was told. */
function allowed({ steps }: AskedCommand): Allowed {
  const faults: string[] = [];
  let [least, most] = [0, 1];
  let [isKnown, mayBeCancelled] = [false, false];
  for (const { kind, ended } of steps) {
    if (kind === "send") isKnown = ended.kind === "ok";
    else {
      const answer = ended.kind === "ok" ? (ended.value as ChangedAnswer) : undefined;
      if (answer === "delivered") least = 1;
      if (answer === "unknown" && isKnown && !(kind === "move" && mayBeCancelled))
        faults.push("was said to be unknown");
      if (kind === "cancel" && answer === "done") most = 0;
      if (kind === "cancel" && answer !== "delivered") mayBeCancelled = true;
    }
  }
  if (isKnown && !mayBeCancelled) least = 1;
  return { least, most, faults };
}

/** The last word counts, where it is known which one was. */
function notBeforeMs({ steps }: AskedCommand): number {
  const timed = steps.filter(
    ({ kind, ended }) => kind !== "cancel" && (ended.kind !== "ok" || ended.value !== "unknown"),
  );
  const isPlain = timed.every(({ ended, tries }) => ended.kind === "ok" && tries === 1);
  const accepted = timed.filter(
    ({ kind, ended }) => kind === "send" || (ended.kind === "ok" && ended.value === "done"),
  );
  const counted = isPlain ? accepted.slice(-1) : timed;
  return Math.min(...counted.map(({ dueMs = 0 }) => dueMs));
}

function of(ledger: readonly LedgerEntry[], what: LedgerEntry["what"]): LedgerEntry[] {
  return ledger.filter((entry) => entry.what === what);
}

function twice(entries: readonly LedgerEntry[]): string[] {
  const seen = new Set<string>();
  return entries.flatMap(({ token }) => {
    if (!seen.has(token)) {
      seen.add(token);
      return [];
    }
    return [token];
  });
}
