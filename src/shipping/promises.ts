/**
 * The promises of a claim (C2): all recorded journals are asked, again and again while they cannot be reached, until enough
 * have answered to choose a tail (C3), or CLAIM_MS are over.
 */
import type { PromiseAnswer } from "../cluster/journal-rules.js";
import type { Member, OwnershipRecord } from "../cluster/ownership.js";
import { chooseTail, type TailChoice } from "../cluster/tail-choice.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import type { Payload } from "../journal/contract.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";
import type { Timer, World } from "../world/world.js";
import type { FleetView } from "./fleet-view.js";

type Choice = Exclude<TailChoice<Payload>, { kind: "waiting" }> & {
  /** Too few journals have answered to be sure that it has all released writes. */
  readonly hasLoss?: true;
};

export interface PromiseParts {
  readonly world: Pick<World, "timers" | "random">;
  readonly settings: Pick<Settings, "CLAIM_MS" | "OBJECT_SHIP_BACKOFF_MS" | "OBJECT_SHIP_BACKOFF_MAX_MS">;
  readonly fleet: Pick<FleetView, "journalOf">;
  /** With too few answers the claim goes on with those there are: an operator has accepted that released writes may be lost. */
  readonly acceptLoss?: boolean;
}

/**
 * @param record as the claimer's CAS1, known to have won, wrote it
 * @returns undefined when a journal has promised a later claim: this one is over
 * @throws MoonportError `replicas_missing` naming the nodes that have not answered
 */
export function gatherPromises(
  parts: PromiseParts,
  object: string,
  record: OwnershipRecord,
): Promise<Choice | undefined> {
  return new Gathering(parts, object, record).choice();
}

export interface Claiming {
  readonly object: string;
  /** As the claimer's CAS1, known to have won, wrote it. */
  readonly record: OwnershipRecord;
}

/**
 * As {@link gatherPromises} for many, where each journal is asked once, of all that name it.
 * @returns in the order of `claims`, as soon as each has its choice; `waiting` where too few journals have answered
 */
export function gatherManyPromises(
  fleet: Pick<FleetView, "journalOf">,
  claims: readonly Claiming[],
): Promise<readonly (TailChoice<Payload> | undefined)[]> {
  return new Promise((resolve) => {
    const answers = claims.map((): PromiseAnswer<Payload>[] => []);
    const choices: (TailChoice<Payload> | undefined)[] = claims.map(({ record }) => chooseTail(record, []));
    let undecided = claims.length;
    const journals = byJournal(claims);
    let silent = journals.length;
    const heard = (index: number, answer: PromiseAnswer<Payload> | MoonportError): void => {
      if (answer instanceof MoonportError || choices[index]?.kind !== "waiting") return;
      const { record } = claims[index] as Claiming;
      const counted = answers[index] as PromiseAnswer<Payload>[];
      counted.push(answer);
      const choice = answer.kind === "refused" ? undefined : chooseTail(record, counted);
      choices[index] = choice;
      if (choice?.kind !== "waiting") undecided--;
    };
    const ask = async ({ member, indexes }: JournalAsked): Promise<void> => {
      try {
        const asked = indexes.map((index) => {
          const { object, record } = claims[index] as Claiming;
          return { object, epoch: record.epoch, journal: member.journal };
        });
        const told = await fleet.journalOf(member).promiseMany(asked);
        for (const [at, index] of indexes.entries()) heard(index, told[at] as (typeof told)[number]);
      } catch {
        // It has not answered: which claims that holds up is seen below.
      }
      silent--;
      if (silent === 0 || undecided === 0) resolve(choices);
    };
    for (const asked of journals) void ask(asked);
  });
}

interface JournalAsked {
  readonly member: Member;
  /** Of the claims whose record names it. */
  readonly indexes: number[];
}

function byJournal(claims: readonly Claiming[]): readonly JournalAsked[] {
  const journals = new Map<string, JournalAsked>();
  for (const [index, { record }] of claims.entries()) {
    for (const member of record.set) {
      const known = journals.get(member.journal);
      if (known !== undefined) known.indexes.push(index);
      else journals.set(member.journal, { member, indexes: [index] });
    }
  }
  return [...journals.values()];
}

class Gathering {
  readonly #parts: PromiseParts;
  readonly #object: string;
  readonly #record: OwnershipRecord;
  readonly #answers: PromiseAnswer<Payload>[] = [];
  readonly #faults = new Map<string, string>();
  readonly #timers: Timer[] = [];
  #isOver = false;
  #resolve: (choice: Choice | undefined) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #asking = 0;

  constructor(parts: PromiseParts, object: string, record: OwnershipRecord) {
    this.#parts = parts;
    this.#object = object;
    this.#record = record;
  }

  async choice(): Promise<Choice | undefined> {
    const { timers } = this.#parts.world;
    const result = new Promise<Choice | undefined>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timers.push(timers.after(this.#parts.settings.CLAIM_MS, () => this.#giveUp()));
    this.#asking = this.#record.set.length;
    for (const member of this.#record.set) void this.#ask(member, 1);
    try {
      return await result;
    } finally {
      this.#isOver = true;
      for (const timer of this.#timers) timer.cancel();
    }
  }

  async #ask(member: Member, tries: number): Promise<void> {
    try {
      const request = { epoch: this.#record.epoch, journal: member.journal };
      const answer = await this.#parts.fleet.journalOf(member).promise(this.#object, request);
      if (!this.#isOver) this.#heard(member, answer);
    } catch (thrown) {
      if (!this.#isOver) this.#askAgain(member, tries, asMoonportError(thrown));
    }
  }

  #askAgain(member: Member, tries: number, { message }: MoonportError): void {
    this.#faults.set(member.node, message);
    const { world, settings } = this.#parts;
    const { OBJECT_SHIP_BACKOFF_MS: firstMs, OBJECT_SHIP_BACKOFF_MAX_MS: maxMs } = settings;
    const pauseMs = backoffMs(tries, firstMs, maxMs, world.random.fraction());
    this.#timers.push(world.timers.after(pauseMs, () => void this.#ask(member, tries + 1)));
  }

  #heard(member: Member, answer: PromiseAnswer<Payload>): void {
    if (answer.kind === "refused") return this.#end(undefined);
    if (answer.kind === "other_journal") {
      this.#faults.set(member.node, `its journal ${member.journal} is gone: it has ${answer.journal} now`);
    } else {
      this.#faults.delete(member.node);
      this.#answers.push(answer);
      const choice = chooseTail(this.#record, this.#answers);
      if (choice.kind !== "waiting") return this.#end(choice);
    }
    this.#asking--;
    if (this.#asking === 0) this.#giveUp();
  }

  /** Journals that are still to answer, or to be asked again, are not listened to any more. */
  #end(choice: Choice | undefined): void {
    this.#isOver = true;
    this.#resolve(choice);
  }

  #giveUp(): void {
    if (this.#parts.acceptLoss !== true) return this.#reject(this.#missing());
    const choice = chooseTail(this.#record, this.#answers, undefined, 0);
    assert(choice.kind !== "waiting", "a choice that needs no answer waits for none");
    this.#end({ ...choice, hasLoss: true });
  }

  #missing(): MoonportError {
    const choice = chooseTail(this.#record, this.#answers);
    const missing = choice.kind === "waiting" ? choice.missing.map(({ node }) => node) : [];
    const { copies, acksToLand } = this.#record.quorum;
    return MoonportError.of(
      "replicas_missing",
      `${this.#object} cannot be taken over: of the ${copies} journals that hold its last writes ` +
        `${copies - acksToLand + 1} must answer, ${this.#answers.length} did; missing: ${missing.join(", ")}`,
      {
        object: this.#object,
        hint: "bring one of these nodes back with its data folder; if its disk is lost, see moonport recover",
        details: { missing, faults: Object.fromEntries(this.#faults) },
        retryAfterMs: 1_000,
      },
    );
  }
}
