/**
 * Requests for promises to one peer's journal: many travel as one message, so that a node that takes over thousands of objects
 * asks each journal a few times, and the journal syncs its disk as often. Those that are asked one by one in one turn make a
 * message too, and what comes while two are on their way makes the next one.
 *
 * Only the way is shared. Each answer names the object that it is about, and counts for the request that asked about that one;
 * what a journal could not answer fails alone, and what it has left out, because the tails before it were large, is asked
 * again. A peer of a release that knows no batches is asked one by one.
 */
import type { PromiseAnswer, PromiseRequest } from "../cluster/journal-rules.js";
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { AskedPromise, JournalPort, Payload } from "../journal/contract.js";
import { errorOf, problemOf } from "../wire/problem.js";
import type { World } from "../world/world.js";
import { fromWire, toWire, type WiredPromise } from "./wired-promise.js";

/** Requests in one message. */
const REQUESTS_MAX = 1_024;
const UNDER_WAY_MAX = 2;

/** Field by field in a row, as there are thousands. */
export type PromisesBody = readonly (readonly [object: string, epoch: number, journal: string])[];

/** Of the first that were asked, in that order; at least one. */
export type PromisesAnswer = readonly (readonly [object: string, answer: WiredPromise | WiredFailure])[];

interface WiredFailure {
  readonly kind: "failed";
  readonly problem: unknown;
}

interface Waiting extends AskedPromise {
  readonly resolve: (answer: PromiseAnswer<Payload>) => void;
  readonly reject: (error: unknown) => void;
}

type Answer = PromiseAnswer<Payload> | MoonportError;

export interface PromiseBatchesParts {
  readonly world: Pick<World, "timers">;
  /** One message. @throws MoonportError */
  readonly send: (body: PromisesBody) => Promise<PromisesAnswer>;
  /** As {@link JournalPort.promise}, in a message of its own. */
  readonly sendOne: JournalPort["promise"];
}

export class PromiseBatches {
  readonly #parts: PromiseBatchesParts;
  #waiting: Waiting[] = [];
  #underWay = 0;
  #isPlanned = false;
  #knowsBatches = true;

  constructor(parts: PromiseBatchesParts) {
    this.#parts = parts;
  }

  promise(object: string, { epoch, journal }: PromiseRequest): Promise<PromiseAnswer<Payload>> {
    if (!this.#knowsBatches) return this.#parts.sendOne(object, { epoch, journal });
    return new Promise((resolve, reject) => {
      this.#waiting.push({ object, epoch, journal, resolve, reject });
      this.#plan();
    });
  }

  /** At once, as as few messages as will do. */
  async promiseMany(asked: readonly AskedPromise[]): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    while (answers.length < asked.length) {
      const next = asked.slice(answers.length, answers.length + REQUESTS_MAX);
      answers.push(...(this.#knowsBatches ? await this.#askTogether(next) : await this.#askApart(next)));
    }
    return answers;
  }

  #plan(): void {
    if (this.#isPlanned || this.#waiting.length === 0 || this.#underWay >= UNDER_WAY_MAX) return;
    this.#isPlanned = true;
    this.#parts.world.timers.soon(() => {
      this.#isPlanned = false;
      this.#underWay++;
      void this.#askWaiting(this.#waiting.splice(0, REQUESTS_MAX));
      this.#plan();
    });
  }

  async #askWaiting(batch: readonly Waiting[]): Promise<void> {
    let answers: readonly Answer[];
    try {
      answers = await this.#askTogether(batch);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      answers = batch.map(() => error);
    }
    this.#underWay--;
    this.#plan();
    for (const [index, { object, epoch, journal, resolve, reject }] of batch.entries()) {
      const answer = answers[index];
      if (answer === undefined) this.promise(object, { epoch, journal }).then(resolve, reject);
      else if (answer instanceof MoonportError) reject(answer);
      else resolve(answer);
    }
  }

  /** @returns of the first, at least one */
  async #askTogether(batch: readonly AskedPromise[]): Promise<readonly Answer[]> {
    let told: PromisesAnswer;
    try {
      told = await this.#parts.send(batch.map(({ object, epoch, journal }) => [object, epoch, journal]));
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!isOwn(error, "bad_request")) return batch.map(() => error);
      this.#knowsBatches = false;
      return this.#askApart(batch);
    }
    if (told.length === 0) return [MoonportError.of("internal", "a journal answered nothing")];
    return told.slice(0, batch.length).map((answer, index) => answerAbout(batch[index] as AskedPromise, answer));
  }

  #askApart(batch: readonly AskedPromise[]): Promise<readonly Answer[]> {
    const { sendOne } = this.#parts;
    return Promise.all(
      batch.map(({ object, epoch, journal }) => sendOne(object, { epoch, journal }).catch(asMoonportError)),
    );
  }
}

function answerAbout({ object }: AskedPromise, [about, answer]: PromisesAnswer[number]): Answer {
  if (about !== object) return MoonportError.of("internal", `a journal answered about ${about}, not ${object}`);
  try {
    if (answer.kind !== "failed") return fromWire(answer);
  } catch (thrown) {
    // What cannot be understood of one journal's tail is no answer to that, and says nothing of the others.
    return asMoonportError(thrown);
  }
  return errorOf(answer.problem) ?? MoonportError.of("internal", "another node failed and did not say how");
}

/** The journal as it answers batches. */
export interface PromisingJournal extends Pick<JournalPort, "promiseMany"> {
  /** Of the entries that it holds of the object. */
  tailBytes(object: string): number;
}

/** @param bytesMax of tails in the answer; a tail that is larger travels alone */
export async function answerPromises(
  journal: PromisingJournal,
  body: PromisesBody,
  bytesMax: number,
): Promise<PromisesAnswer> {
  let bytes = 0;
  const asked: AskedPromise[] = [];
  for (const [object, epoch, name] of body) {
    bytes += journal.tailBytes(object);
    if (asked.length > 0 && bytes > bytesMax) break;
    asked.push({ object, epoch, journal: name });
  }
  const answers = await journal.promiseMany(asked);
  return answers.map((answer, index) => {
    const { object } = asked[index] as AskedPromise;
    if (answer instanceof MoonportError) return [object, { kind: "failed", problem: problemOf(answer) }];
    return [object, toWire(answer)];
  });
}
