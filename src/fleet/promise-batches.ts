/**
 * Requests for promises to one peer's journal: those of one turn travel as one message, and what comes while two are on their
 * way makes the next one, so that a node that takes over thousands of objects asks each journal a few times, and the journal
 * syncs its disk as often.
 *
 * Only the way is shared. Each answer names the object that it is about, and counts for the request that asked about that one;
 * what a journal could not answer fails alone, and what it has left out, because the tails before it were large, is asked
 * again. A peer of a release that knows no batches is asked one by one.
 */
import type { PromiseAnswer, PromiseRequest } from "../cluster/journal-rules.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { JournalPort, Payload } from "../journal/contract.js";
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

interface Asked {
  readonly object: string;
  readonly request: PromiseRequest;
  readonly resolve: (answer: PromiseAnswer<Payload>) => void;
  readonly reject: (error: unknown) => void;
}

export interface PromiseBatchesParts {
  readonly world: Pick<World, "timers">;
  /** One message. @throws MoonportError */
  readonly send: (body: PromisesBody) => Promise<PromisesAnswer>;
  /** As {@link JournalPort.promise}, in a message of its own. */
  readonly sendOne: JournalPort["promise"];
}

export class PromiseBatches {
  readonly #parts: PromiseBatchesParts;
  #waiting: Asked[] = [];
  #underWay = 0;
  #isPlanned = false;
  #knowsBatches = true;

  constructor(parts: PromiseBatchesParts) {
    this.#parts = parts;
  }

  promise(object: string, request: PromiseRequest): Promise<PromiseAnswer<Payload>> {
    if (!this.#knowsBatches) return this.#parts.sendOne(object, request);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ object, request, resolve, reject });
      this.#plan();
    });
  }

  #plan(): void {
    if (this.#isPlanned || this.#waiting.length === 0 || this.#underWay >= UNDER_WAY_MAX) return;
    this.#isPlanned = true;
    this.#parts.world.timers.soon(() => {
      this.#isPlanned = false;
      this.#underWay++;
      void this.#ask(this.#waiting.splice(0, REQUESTS_MAX));
      this.#plan();
    });
  }

  async #ask(batch: readonly Asked[]): Promise<void> {
    let answers: PromisesAnswer;
    try {
      answers = await this.#parts.send(batch.map(({ object, request }) => [object, request.epoch, request.journal]));
    } catch (thrown) {
      return this.#failed(batch, asMoonportError(thrown));
    } finally {
      this.#underWay--;
      this.#plan();
    }
    for (const [index, asked] of batch.entries()) {
      const answer = answers[index];
      if (answer !== undefined) settle(asked, answer);
      else if (index === 0) asked.reject(MoonportError.of("internal", "a journal answered nothing"));
      else this.promise(asked.object, asked.request).then(asked.resolve, asked.reject);
    }
  }

  #failed(batch: readonly Asked[], error: MoonportError): void {
    if (error.code !== "bad_request") {
      for (const { reject } of batch) reject(error);
      return;
    }
    this.#knowsBatches = false;
    for (const { object, request, resolve, reject } of batch)
      this.#parts.sendOne(object, request).then(resolve, reject);
  }
}

function settle({ object, resolve, reject }: Asked, [about, answer]: PromisesAnswer[number]): void {
  if (about !== object) return reject(MoonportError.of("internal", `a journal answered about ${about}, not ${object}`));
  if (answer.kind !== "failed") return resolve(fromWire(answer));
  reject(errorOf(answer.problem) ?? MoonportError.of("internal", "another node failed and did not say how"));
}

/** The journal as it answers batches. */
export interface PromisingJournal extends Pick<JournalPort, "promise"> {
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
  let taken = 0;
  for (const [object] of body) {
    bytes += journal.tailBytes(object);
    if (taken > 0 && bytes > bytesMax) break;
    taken++;
  }
  return Promise.all(
    body.slice(0, taken).map(async ([object, epoch, name]) => {
      try {
        return [object, toWire(await journal.promise(object, { epoch, journal: name }))] as const;
      } catch (thrown) {
        return [object, { kind: "failed", problem: problemOf(asMoonportError(thrown)) }] as const;
      }
    }),
  );
}
