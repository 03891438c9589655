/**
 * Requests for promises to one peer's journal: many travel as one message, so that a node that takes over thousands of objects
 * asks each journal a few times, and the journal syncs its disk as often. Those that are asked one by one in one turn make a
 * message too, and what comes while two are on their way makes the next one.
 *
 * Only the way is shared. Each answer names the object that it is about, and counts for the request that asked about that one;
 * what a journal could not answer fails alone, and what it has left out, because the tails before it were large, is asked
 * again. A tail may be larger than a message: it comes in parts, each asked for by the seq that the one before ends at. A peer of
 * a release that knows no batches is asked one by one, and one that knows no parts answers with all at once.
 */
import { haveSeq, type PromiseAnswer, type PromiseRequest } from "../cluster/journal-rules.js";
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { AskedPromise, JournalPort, Payload, TailPart } from "../journal/contract.js";
import { errorOf, problemOf } from "../wire/problem.js";
import type { World } from "../world/world.js";
import { fromWire, toWire, type WiredPromise } from "./wired-promise.js";

/** Requests in one message. */
const REQUESTS_MAX = 1_024;
const UNDER_WAY_MAX = 2;

/** Field by field in a row, as there are thousands. */
export type PromisesBody = readonly (readonly [
  object: string,
  epoch: number,
  journal: string,
  /** Whoever asks takes a tail in parts. */
  tailBytesMax?: number,
])[];

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
  /** In a message of its own: the entries beyond `afterSeq`, or the first of them. @throws MoonportError */
  readonly sendOne: (object: string, request: PromiseRequest, afterSeq: number) => Promise<PromiseAnswer<Payload>>;
  /** Of entries in one answer, but for one that is larger by itself. */
  readonly tailBytesMax: number;
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
    if (!this.#knowsBatches) return this.#askOne({ object, epoch, journal });
    return new Promise((resolve, reject) => {
      this.#waiting.push({ object, epoch, journal, resolve, reject });
      this.#plan();
    });
  }

  /** At once, as as few messages as will do. */
  async promiseMany(asked: readonly AskedPromise[]): Promise<readonly Answer[]> {
    const answers: Promise<Answer>[] = [];
    while (answers.length < asked.length) {
      const next = asked.slice(answers.length, answers.length + REQUESTS_MAX);
      const told = this.#knowsBatches ? await this.#askTogether(next) : await this.#askApart(next);
      for (const [index, answer] of told.entries()) {
        const whole = answer instanceof MoonportError ? answer : this.#whole(next[index] as AskedPromise, answer);
        answers.push(Promise.resolve(whole).catch(asMoonportError));
      }
    }
    return Promise.all(answers);
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
      else this.#whole({ object, epoch, journal }, answer).then(resolve, reject);
    }
  }

  /** @returns of the first, at least one */
  async #askTogether(batch: readonly AskedPromise[]): Promise<readonly Answer[]> {
    let told: PromisesAnswer;
    try {
      const { send, tailBytesMax } = this.#parts;
      told = await send(batch.map(({ object, epoch, journal }) => [object, epoch, journal, tailBytesMax]));
    } catch (thrown) {
      const error = asMoonportError(thrown);
      // The tail of one of them. By itself it fails alone.
      if (isOwn(error, "too_large") && batch.length > 1) return this.#askTogether(batch.slice(0, 1));
      if (!isOwn(error, "bad_request")) return batch.map(() => error);
      this.#knowsBatches = false;
      return this.#askApart(batch);
    }
    if (told.length === 0) return [MoonportError.of("internal", "a journal answered nothing")];
    return told.slice(0, batch.length).map((answer, index) => answerAbout(batch[index] as AskedPromise, answer));
  }

  #askApart(batch: readonly AskedPromise[]): Promise<readonly Answer[]> {
    return Promise.all(batch.map((asked) => this.#askOne(asked).catch(asMoonportError)));
  }

  async #askOne(asked: AskedPromise): Promise<PromiseAnswer<Payload>> {
    const { object, epoch, journal } = asked;
    return this.#whole(asked, await this.#parts.sendOne(object, { epoch, journal }, 0));
  }

  /** With the parts that are still to come. @throws MoonportError */
  async #whole(
    { object, epoch, journal }: AskedPromise,
    first: PromiseAnswer<Payload>,
  ): Promise<PromiseAnswer<Payload>> {
    let answer = first;
    while (answer.kind === "promised" && haveSeq(answer.tail) < answer.tail.have) {
      const next = await this.#parts.sendOne(object, { epoch, journal }, haveSeq(answer.tail));
      // A later claim has come: what it says of that is all that still matters.
      if (next.kind !== "promised") return next;
      answer = joined(object, answer, next);
    }
    return answer;
  }
}

type Promised = Extract<PromiseAnswer<Payload>, { kind: "promised" }>;

/** @throws MoonportError when they are no parts of one tail */
function joined(object: string, one: Promised, next: Promised): Promised {
  const { tailEpoch, base, have } = one.tail;
  const isSame = next.journal === one.journal && next.epoch === one.epoch && next.tail.tailEpoch === tailEpoch;
  let { entries } = one.tail;
  for (const entry of next.tail.entries) {
    const isNext = entry.afterSeq <= (entries.lastSeq ?? base) && entry.toSeq > (entries.lastSeq ?? base);
    if (!isSame || !isNext || next.tail.have !== have) throw torn(object);
    entries = entries.appended(entry);
  }
  if (entries.length === one.tail.entries.length) throw torn(object);
  return { ...one, tail: { ...one.tail, entries } };
}

function torn(object: string): MoonportError {
  return MoonportError.of("internal", `a journal's parts of the tail of ${object} do not continue each other`);
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

/** What an asker gets of a tail in one answer; undefined for one that knows no parts. */
export function partFor(tailBytesMax: number | undefined, bytesMax: number, afterSeq = 0): TailPart | undefined {
  return tailBytesMax === undefined ? undefined : { afterSeq, bytesMax: Math.min(tailBytesMax, bytesMax) };
}

/** @param bytesMax of tails in the answer; of one that is larger a part travels, and alone */
export async function answerPromises(
  journal: PromisingJournal,
  body: PromisesBody,
  bytesMax: number,
): Promise<PromisesAnswer> {
  let bytes = 0;
  const asked: AskedPromise[] = [];
  for (const [object, epoch, name, tailBytesMax] of body) {
    const part = partFor(tailBytesMax, bytesMax);
    bytes += journal.tailBytes(object);
    if (asked.length > 0 && bytes > (part?.bytesMax ?? bytesMax)) break;
    asked.push({ object, epoch, journal: name, ...(part && { part }) });
  }
  const answers = await journal.promiseMany(asked);
  return answers.map((answer, index) => {
    const { object } = asked[index] as AskedPromise;
    if (answer instanceof MoonportError) return [object, { kind: "failed", problem: problemOf(answer) }];
    return [object, toWire(answer)];
  });
}
