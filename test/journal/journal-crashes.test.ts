/** A journal against the rules alone, in memory: whatever is asked, and whenever its process or its machine ends. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EntryRun } from "../../src/cluster/entry-run.js";
import {
  begun,
  decideEntry,
  decideNotice,
  decidePromise,
  type HeldObject,
  haveSeq,
} from "../../src/cluster/journal-rules.js";
import { MoonportError } from "../../src/errors.js";
import type { Journal } from "../../src/journal/journal.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { WorldRevoked } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { JournalLife, type PlainHeld, plainOf } from "./journal-life.js";

const OBJECTS = ["app/Counter/a", "app/Counter/b", "app/Room/日本"] as const;

type Step =
  | {
      readonly kind: "entry";
      readonly object: number;
      readonly back: number;
      readonly covered: number;
      readonly ahead: number;
      readonly seqs: number;
      readonly bytes: number;
    }
  | { readonly kind: "notice"; readonly object: number; readonly back: number; readonly covered: number }
  | { readonly kind: "promise"; readonly object: number; readonly back: number; readonly isOurs: boolean }
  /** Somebody's CAS1 landed: the object's record names a higher epoch, and messages of that epoch may come. */
  | { readonly kind: "claim"; readonly object: number }
  | { readonly kind: "turns"; readonly count: number }
  | { readonly kind: "rest" }
  | { readonly kind: "sync_fails" }
  | { readonly kind: "end"; readonly how: "crash" | "power cut" | "close"; readonly seed: number };

const object = fc.nat(OBJECTS.length - 1);
/** How many epochs below the newest the sender is. */
const back = fc.constantFrom(0, 0, 0, 0, 1, 2);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("entry" as const),
      object,
      back,
      /** Seqs below what the journal has. */
      covered: fc.constantFrom(0, 0, 1, 2, 3, 30),
      ahead: fc.constantFrom(0, 0, 0, 0, 0, -1, -3, 1),
      seqs: fc.integer({ min: 1, max: 3 }),
      bytes: fc.constantFrom(0, 10, 60, 60, 300, 2_500),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("notice" as const), object, back, covered: fc.nat(4) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("promise" as const),
      object,
      back,
      isOurs: fc.constantFrom(true, true, true, false),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("claim" as const), object }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("turns" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("rest" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sync_fails" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      how: fc.constantFrom("crash" as const, "power cut" as const, "close" as const),
      seed: fc.nat(1_000_000),
    }),
  },
);

/** What the rules say of one object in this life: all states since it began, and how many of them an answer has told. */
interface Told {
  readonly states: HeldObject<Uint8Array>[];
  told: number;
}

interface Asked {
  readonly what: string;
  answered: boolean;
  failed: MoonportError | undefined;
}

class Run {
  readonly life: JournalLife;
  readonly epochs: number[];
  #id: string;
  #objects = new Map<string, Told>();
  #payloads = 0;
  /** Of this life: every request, whether it was answered. */
  #requests: Asked[] = [];
  #syncFails = false;

  constructor(life: JournalLife, epochs: number[]) {
    this.life = life;
    this.epochs = epochs;
    this.#id = life.journal.id;
    this.#watchSyncs();
  }

  async take(one: Step): Promise<void> {
    switch (one.kind) {
      case "claim":
        this.epochs[one.object] = (this.epochs[one.object] as number) + 1;
        return;
      case "turns":
        for (let turn = 0; turn < one.count; turn++) await this.life.time.settleOnce();
        return;
      case "rest":
        return this.#rest();
      case "sync_fails":
        this.#syncFails = true;
        return;
      case "end":
        return this.#end(one.how, one.seed);
      default:
        this.#ask(one);
    }
  }

  async finish(): Promise<void> {
    await this.#end("close", 0);
  }

  #ask(one: Extract<Step, { kind: "entry" | "notice" | "promise" }>): void {
    const name = OBJECTS[one.object] as string;
    const epoch = Math.max(1, (this.epochs[one.object] as number) - one.back);
    const { journal } = this.life;
    if (one.kind === "promise") {
      const request = { epoch, journal: one.isOurs ? this.#id : "its-old-disk" };
      this.#expect(name, one, (held) => decidePromise(this.#id, held, request), journal.promise(name, request));
      return;
    }
    const known = this.#objects.get(name);
    const have = known === undefined ? 0 : haveSeq(known.states.at(-1) as HeldObject<Uint8Array>);
    const covered = Math.max(0, have - one.covered);
    if (one.kind === "notice") {
      const notice = { epoch, covered };
      const asked = journal.notice(name, notice);
      if (known === undefined) this.#expectNothing(one, asked);
      else this.#expect(name, one, (held) => decideNotice(this.#id, held, notice), asked);
      return;
    }
    const afterSeq = Math.max(0, have + one.ahead);
    const payload = new SeededRandom(++this.#payloads).bytes(one.bytes);
    const message = { epoch, covered, afterSeq, toSeq: afterSeq + one.seqs, payload };
    this.#expect(name, one, (held) => decideEntry(this.#id, held, message), journal.append(name, message));
  }

  /** The rules decide now, as the journal does; its answer must be theirs. */
  #expect(
    name: string,
    what: Step,
    decide: (held: HeldObject<Uint8Array>) => { held: HeldObject<Uint8Array>; answer: object },
    asked: ReturnType<Journal["append"] | Journal["promise"] | Journal["notice"]>,
  ): void {
    const index = OBJECTS.indexOf(name as (typeof OBJECTS)[number]);
    const known = this.#objects.get(name) ?? { states: [begun<Uint8Array>(this.epochs[index] as number)], told: 0 };
    this.#objects.set(name, known);
    const { held, answer } = decide(known.states.at(-1) as HeldObject<Uint8Array>);
    const place = known.states.push(held) - 1;
    this.#follow(what, asked, (given) => {
      expect(plainAnswer(given)).toEqual(plainAnswer(answer));
      known.told = Math.max(known.told, place);
    });
  }

  #expectNothing(what: Step, asked: Promise<unknown>): void {
    this.#follow(what, asked, (given) => expect(given).toBeUndefined());
  }

  #follow(what: Step, asked: Promise<unknown>, check: (given: object) => void): void {
    const request: Asked = { answered: false, failed: undefined, what: JSON.stringify(what) };
    this.#requests.push(request);
    asked
      .then(
        (given) => {
          request.answered = true;
          check(given as object);
        },
        (error: unknown) => {
          if (error instanceof WorldRevoked) return;
          if (!(error instanceof MoonportError)) throw error;
          request.failed = error;
        },
      )
      .catch((error: unknown) => {
        this.#wrong ??= error;
      });
  }

  #wrong: unknown;

  async #rest(): Promise<void> {
    await this.life.time.settle();
    if (this.#wrong !== undefined) throw this.#wrong;
    for (const { answered, failed, what } of this.#requests) {
      if (failed === undefined) expect(answered, what).toBe(true);
      else expect(failed.code, what).toBe("storage_failed");
    }
  }

  async #end(how: "crash" | "power cut" | "close", seed: number): Promise<void> {
    const isBroken = (): boolean => this.#requests.some(({ failed }) => failed !== undefined);
    let isComplete = false;
    if (how === "close") {
      await this.#rest();
      await this.life.close();
      isComplete = !this.#syncFailed && !isBroken();
    }
    if (how !== "close") this.life.end(how, seed);
    else this.life.end(seed % 2 === 0 ? "crash" : "power cut", seed);
    if (this.#wrong !== undefined) throw this.#wrong;
    this.#checkDisk(await this.life.onDisk(), isComplete);
    await this.life.open();
    expect(this.life.journal.id).toBe(this.#id);
    this.#requests = [];
    this.#syncFails = false;
    this.#syncFailed = false;
    this.#watchSyncs();
  }

  #syncFailed = false;

  #watchSyncs(): void {
    this.life.world.folder.intercept = (operation, path) => {
      if (!this.#syncFails || operation !== "flush") return;
      this.#syncFails = false;
      this.#syncFailed = true;
      throw MoonportError.of("storage_failed", `sync ${path}: the disk does not answer`);
    };
  }

  /** Of each object: one of the states that the rules had, none before the last that an answer told. */
  #checkDisk(disk: ReadonlyMap<string, PlainHeld>, isComplete: boolean): void {
    const next = new Map<string, Told>();
    for (const name of OBJECTS) {
      const { states = [], told = 0 } = this.#objects.get(name) ?? {};
      const found = disk.get(name);
      if (found === undefined) {
        expect(told, `${name} is not on the disk`).toBe(0);
        continue;
      }
      const possible = states.slice(isComplete ? -1 : told).map((state) => plainOf(state, (payload) => payload));
      expect(
        possible.some((state) => isLike(found, state)),
        `${name} is ${short(found)} on the disk, and should be one of ${possible.map(short).join(" ")}`,
      ).toBe(true);
      if (isComplete) expect(found).toEqual(possible.at(-1));
      next.set(name, { states: [heldOf(found)], told: 0 });
    }
    for (const name of disk.keys()) expect(OBJECTS).toContain(name);
    this.#objects = next;
  }
}

/** The same but for a base that has risen within the epoch without a record, and what it covers. */
function isLike(found: PlainHeld, state: PlainHeld): boolean {
  if (found.promised !== state.promised || found.tailEpoch !== state.tailEpoch || found.base > state.base) return false;
  const beyond = found.entries.filter(({ toSeq }) => toSeq > state.base);
  return JSON.stringify(beyond) === JSON.stringify(state.entries);
}

function short({ promised, tailEpoch, base, entries }: PlainHeld): string {
  return JSON.stringify([promised, tailEpoch, base, entries.map(({ afterSeq, toSeq }) => [afterSeq, toSeq])]);
}

function heldOf({ entries, ...head }: PlainHeld): HeldObject<Uint8Array> {
  const parsed = entries.map((entry) => ({ ...entry, payload: Uint8Array.from(Buffer.from(entry.payload, "hex")) }));
  return { ...head, entries: EntryRun.of(...parsed) };
}

function plainAnswer(answer: object): object {
  if (!("tail" in answer)) return answer;
  const tail = answer.tail as HeldObject<Uint8Array> & { readonly have: number };
  return { ...answer, tail: { ...plainOf(tail, (payload) => payload), have: tail.have } };
}

describe("a journal", () => {
  it("does what the rules say, and answers for it after whatever ends its process or its machine", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), fc.nat(1_000_000), async (steps, seed) => {
        const epochs = OBJECTS.map(() => 1);
        const recordEpoch = async (name: string) => epochs[OBJECTS.indexOf(name as (typeof OBJECTS)[number])] as number;
        const life = await JournalLife.begin(temporaryFolder(), {}, recordEpoch, seed);
        const run = new Run(life, epochs);
        for (const one of steps) await run.take(one);
        await run.finish();
      }),
      { numRuns: Number(process.env.MOONPORT_JOURNAL_RUNS ?? 150), endOnFailure: false },
    );
  });
});
