/**
 * One transaction over the calls that are waiting, each in a savepoint of its own (measured: it doubles a hot object's
 * rate). Every call stays atomic: it runs in mailbox order, a throw rolls back its savepoint alone, each has its own seq.
 * As long as nothing of the burst has written, the transaction itself serves as the savepoint: what is alone needs no other.
 *
 * Nobody hears anything before COMMIT: a transaction that dies takes all of the burst with it, and nothing of it was told.
 *
 * A call that asks another object ends the burst: what came before it commits, and it goes on in a transaction of its own.
 */
import { asMoonportError, assert, isOwn, MoonportError } from "../errors.js";
import {
  type AskRequest,
  type LuaClass,
  type LuaEntry,
  type LuaInvocation,
  principalOf,
  type WaitAnswer,
} from "../lua/contract.js";
import type { PlainObject, PlainValue } from "../values.js";
import { faultPoint } from "../world/fault-point.js";
import { BurstTimers } from "./burst-timers.js";
import { CallHost } from "./call-host.js";
import { deriveRow } from "./derive-row.js";
import { isKernelCall, startEmit } from "./kernel-methods.js";
import type { Mailbox } from "./mailbox.js";
import type { ObjectContext } from "./object-context.js";
import type { CommitNotes, EmittedEvent, OpenObject } from "./open-object.js";
import { isAsking, OutgoingCalls } from "./outgoing-calls.js";
import { assertEnded, type LuaEnd, type LuaStop, runLua } from "./run-lua.js";
import type { TimerFaults } from "./timer-faults.js";
import { wakeObject } from "./wake-object.js";
import {
  type CallWork,
  type DestroyWork,
  isForBurst,
  isNoTimers,
  type Outcome,
  type RowWork,
  type SentWork,
  type TimersWork,
  type Woken,
  type Work,
} from "./work.js";

export type BurstResult =
  | {
      readonly kind: "committed";
      readonly outcomes: readonly Outcome[];
      /** How many seqs the transaction takes: one for each call that wrote. */
      readonly wroteSeqs: number;
      readonly events: readonly EmittedEvent[];
      /** The object was destroyed in it. */
      readonly ends: boolean;
      /** Absent where nothing was written. */
      readonly notes: CommitNotes | undefined;
      readonly isAwake: boolean;
      /** Whoever asked for the row to be derived. */
      readonly rows: readonly RowWork[];
      /** The directory row's derivation failed for the first time. */
      readonly retryRow: boolean;
      /** The last call, which has written nothing and asks another object. */
      readonly waiting: WaitingCall | undefined;
    }
  /** Migrations or hooks failed: rolled back, the file is sound, every waiting call gets the error. */
  | { readonly kind: "refused"; readonly error: MoonportError }
  /** The residency is in doubt. Every call of the burst has been told. */
  | {
      readonly kind: "broken";
      readonly error: MoonportError;
      /** Whoever had the timers run, where more is known now of the one that took the transaction along: the rest can run. */
      readonly again: readonly TimersWork[];
    };

/** A call that stands still for another object's answer. */
export interface WaitingCall {
  readonly work: CallWork;
  /** The class it began with; a reload meanwhile is the next call's. */
  readonly lua: LuaClass;
  readonly running: RunningCall;
  readonly request: AskRequest;
}

interface RunningCall {
  readonly host: CallHost;
  readonly outgoing: OutgoingCalls;
  readonly invocation: LuaInvocation;
  /** Where its writes begin. */
  mark: number;
  /** What is rolled back when it fails. */
  undoes: "savepoint" | "transaction";
}

type Performed = Outcome | { readonly kind: "waits"; readonly call: WaitingCall };

export class Burst {
  readonly #context: ObjectContext;
  readonly #open: OpenObject;
  readonly #lua: LuaClass;
  /** Of the catalog when the class was taken from it. */
  readonly #generation: number;
  readonly #mailbox: Mailbox<Work>;
  readonly #awakeAs: string | undefined;
  readonly #timers: BurstTimers;
  /** What the burst waits for before it may write; undefined when no read beside the mailbox is under way. */
  readonly #readsUnderWay: () => Promise<void> | undefined;
  readonly #outcomes: Outcome[] = [];
  readonly #events: EmittedEvent[] = [];
  #seqs = 0;
  #ends = false;
  readonly #rows: RowWork[] = [];
  readonly #sents: SentWork[] = [];
  #brokenBy: MoonportError | undefined;
  #startMark = 0;
  #waiting: WaitingCall | undefined;
  /** Taken from the mailbox and not yet among the outcomes. */
  #current: CallWork | DestroyWork | undefined;

  constructor(
    context: ObjectContext,
    open: OpenObject,
    lua: LuaClass,
    mailbox: Mailbox<Work>,
    awakeAs: string | undefined,
    timerFaults: TimerFaults,
    readsUnderWay: () => Promise<void> | undefined,
  ) {
    this.#timers = new BurstTimers(context, open, timerFaults);
    this.#readsUnderWay = readsUnderWay;
    this.#context = context;
    this.#open = open;
    this.#lua = lua;
    this.#generation = context.catalog.generation;
    this.#mailbox = mailbox;
    this.#awakeAs = awakeAs;
  }

  /**
   * Whether reads beside the mailbox must wait for its end: it has written. Also after COMMIT, until the shipper knows of it:
   * in between the writes are there to be seen, and the gate would take them for durable (G1).
   */
  get hasWritten(): boolean {
    return this.#open.database.wroteSince(this.#startMark);
  }

  /** The call that runs now. */
  get running(): CallWork | undefined {
    return this.#current?.kind === "call" ? this.#current : undefined;
  }

  /** Why the residency was lost meanwhile, whether or not the burst has come to see it. */
  get brokenBy(): MoonportError | undefined {
    return this.#brokenBy;
  }

  /** The residency was lost while the burst was waiting for a slice. */
  breakWith(error: MoonportError): void {
    this.#brokenBy = error;
  }

  async run(): Promise<BurstResult> {
    const { database } = this.#open;
    try {
      database.begin();
      this.#startMark = database.writeMark;
      if (this.#awakeAs !== this.#lua.version) {
        const refused = await this.#wake();
        if (refused !== undefined) return refused;
      }
      const preludeWrote = database.wroteSince(this.#startMark);
      await this.#runCalls();
      return this.#finish(preludeWrote);
    } catch (error) {
      return this.#die(asMoonportError(error));
    }
  }

  /** The call that waited goes on, alone in its transaction. */
  async goOn({ work, running }: WaitingCall, answer: WaitAnswer): Promise<BurstResult> {
    const { database } = this.#open;
    try {
      database.begin();
      this.#startMark = database.writeMark;
      running.mark = this.#startMark;
      running.undoes = "transaction";
      this.#current = work;
      const stop = runLua(this.#context.world, running.invocation, () => this.#mayGoOn(), answer);
      this.#took(this.#stopped(work, running, stop instanceof Promise ? await stop : stop));
      return this.#finish(false);
    } catch (error) {
      return this.#die(asMoonportError(error));
    }
  }

  /** Migrations and hooks, which have not run. Their failure is the answer to whoever woke the object. */
  async #wake(): Promise<BurstResult | undefined> {
    try {
      const hosts = await wakeObject({
        context: this.#context,
        open: this.#open,
        lua: this.#lua,
        wasAwake: this.#awakeAs !== undefined,
        run: (entry, host) => this.#runToEnd(entry, host),
        newHost: () => new CallHost(this.#context, this.#open, { kind: "system" }, "method", { isHook: true }),
      });
      for (const host of hosts) this.#keepEvents(host, this.#open.committedSeq + 1);
      return undefined;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#assertSound(error);
      this.#open.database.rollback();
      return { kind: "refused", error };
    }
  }

  async #runCalls(): Promise<void> {
    const { OBJECT_BURST_CALLS_MAX, OBJECT_BURST_MS, OBJECT_UNSHIPPED_BYTES_MAX } = this.#context.settings;
    const { clock } = this.#context.world;
    const isBehind = this.#open.isBehind(OBJECT_UNSHIPPED_BYTES_MAX);
    const untilMs = clock.monotonicMs() + OBJECT_BURST_MS;
    const { catalog } = this.#context;
    for (let count = 0; count < OBJECT_BURST_CALLS_MAX && !this.#ends; count++) {
      if (this.#mailbox.size === 0) return;
      // It waits in its place: should its time be up before it begins, it is answered there.
      for (let wait = this.#mayGoOn(); wait !== undefined; wait = this.#mayGoOn()) await wait;
      // Other classes serve meanwhile: whoever still waits is theirs.
      if (catalog.generation !== this.#generation) return;
      const nowMs = clock.monotonicMs();
      const isAlone = this.#timers.runAlone;
      const work = this.#mailbox.take(nowMs, isAlone && count > 0 ? isNoTimers : isForBurst);
      if (work === undefined) return;
      if (work.kind === "call") this.#context.counters.mailboxMs.record(nowMs - work.sinceMs);
      if (work.kind === "call" || work.kind === "destroy") {
        this.#current = work;
        // Awaited only when the call gives up its slice: a burst of short calls runs in one tick.
        const running = this.#perform(work, isBehind);
        this.#took(running instanceof Promise ? await running : running);
      } else if (work.kind === "row") this.#rows.push(work);
      else if (work.kind === "sent") this.#messagesSent(work);
      else {
        await this.#runTimers(work, isBehind);
        if (isAlone) return;
      }
      if (this.#waiting !== undefined || clock.monotonicMs() >= untilMs) return;
    }
  }

  #messagesSent(work: SentWork): void {
    this.#sents.push(work);
    for (const number of work.numbers) this.#open.tables.outbox.remove(number);
  }

  /** Each due timer is a call of its own. One that asks another object ends the burst; the rest is due again at once. */
  async #runTimers(work: TimersWork, isBehind: boolean): Promise<void> {
    const refusal = this.#refusal(isBehind);
    if (refusal !== undefined) return void this.#outcomes.push({ kind: "failed", work, error: refusal });
    for (const [index, timer] of this.#timers.begin(work).entries()) {
      for (let wait = this.#mayGoOn(); wait !== undefined; wait = this.#mayGoOn()) await wait;
      if (this.#ends) return;
      const call = this.#timers.callOf(timer, index === 0);
      if (call === undefined) continue;
      this.#current = call;
      const running = this.#perform(call, false);
      this.#took(running instanceof Promise ? await running : running);
      if (this.#waiting !== undefined) return;
    }
  }

  #took(performed: Performed): void {
    this.#current = undefined;
    if (performed.kind === "waits") this.#waiting = performed.call;
    else this.#outcomes.push(performed);
    this.#assertSound(performed.kind === "failed" ? performed.error : undefined);
  }

  #perform(work: CallWork | DestroyWork, isBehind: boolean): Performed | Promise<Performed> {
    if (work.kind === "destroy") {
      this.#ends = true;
      return { kind: "wrote", work, value: null, seq: this.#nextSeq() };
    }
    const refusal = this.#refusal(isBehind && work.access === "write");
    if (refusal !== undefined) return { kind: "failed", work, error: refusal };
    const known = this.#knownReply(work);
    if (known !== undefined) return known;
    const poison = this.#context.quarantine.refusal(this.#open.object, work.method);
    if (poison !== undefined) {
      if (work.timer !== undefined) this.#timers.failed(work.timer, poison);
      return { kind: "failed", work, error: poison };
    }
    const undoes = this.#protect();
    let running: RunningCall;
    try {
      running = this.#begin(work, undoes);
    } catch (error) {
      // A timer's method, or one that was called before a deploy, may be gone: that is its own fault alone.
      return this.#undo(work, { undoes }, asMoonportError(error));
    }
    const stop = runLua(this.#context.world, running.invocation, () => this.#mayGoOn());
    return stop instanceof Promise
      ? stop.then((late) => this.#stopped(work, running, late))
      : this.#stopped(work, running, stop);
  }

  #protect(): RunningCall["undoes"] {
    const { database } = this.#open;
    if (!database.wroteSince(this.#startMark)) return "transaction";
    database.savepoint();
    return "savepoint";
  }

  #keepWrites(running: RunningCall): void {
    if (running.undoes === "savepoint") this.#open.database.release();
  }

  #begin(work: CallWork, undoes: RunningCall["undoes"]): RunningCall {
    const { database, object } = this.#open;
    const isReading = work.access === "read";
    const hasWritten = (): boolean => database.wroteSince(running.mark) || host.destroys;
    const outgoing = new OutgoingCalls(this.#context, object, work, hasWritten);
    const host = new CallHost(this.#context, this.#open, work.caller, isReading ? "read" : "method", {
      callId: work.callId,
      outgoing: isReading ? undefined : outgoing,
    });
    const isKernel = isKernelCall(work.method, work.caller);
    const invocation = isKernel
      ? startEmit(work.args, host)
      : this.#lua.start({ kind: "method", name: work.method }, work.args, host);
    const running: RunningCall = { host, outgoing, invocation, mark: database.writeMark, undoes };
    return running;
  }

  #stopped(work: CallWork, running: RunningCall, stop: LuaStop): Performed {
    if (stop.kind !== "wait") return this.#conclude(work, running, stop);
    assert(isAsking(stop.request), "methods wait for other objects alone");
    // Nothing is written yet, or its host would not have let it wait.
    this.#keepWrites(running);
    return { kind: "waits", call: { work, lua: this.#lua, running, request: stop.request } };
  }

  /** Why a call does not run although its turn has come. */
  #refusal(isBehind: boolean): MoonportError | undefined {
    const object = this.#open.object.id;
    if (isBehind) {
      return MoonportError.of("storage_behind", `${object} has too many writes that have not landed`, {
        object,
        hint: "the bucket does not take writes as fast as they come; try again later",
        retryAfterMs: 1_000,
      });
    }
    return undefined;
  }

  /** A call id that was seen before: its recorded reply, or why it may not run again. */
  #knownReply(work: CallWork): Outcome | undefined {
    // A run of a timer is over when its row says so.
    if (work.callId === undefined || work.access === "read" || work.timer !== undefined) return undefined;
    try {
      const known = this.#open.recordedReply(work.callId, work.method, work.args, principalOf(work.caller));
      return known && { kind: "read", work, value: known.value, seq: known.seq };
    } catch (error) {
      return { kind: "failed", work, error: asMoonportError(error) };
    }
  }

  #conclude(work: CallWork, running: RunningCall, end: LuaEnd): Outcome {
    const { host, mark } = running;
    host.close();
    if (end.kind === "failed") return this.#undo(work, running, running.outgoing.failure(asMoonportError(end.error)));
    try {
      if (work.timer !== undefined) this.#timers.ended(work.timer);
      const wrote = this.#open.database.wroteSince(mark) || host.destroys;
      if (wrote) return this.#keep(work, running, end.value);
      this.#keepWrites(running);
      return { kind: "read", work, value: end.value, seq: undefined };
    } catch (error) {
      return this.#undo(work, running, asMoonportError(error));
    }
  }

  #keep(work: CallWork, running: RunningCall, value: PlainValue): Outcome {
    const { host } = running;
    const seq = this.#lastSeq + 1;
    const { callIds } = this.#open.tables;
    const { callId: id, method, args, timer } = work;
    const principal = principalOf(work.caller);
    const record =
      id === undefined || timer !== undefined
        ? undefined
        : callIds.prepare({ id, method, args, principal, reply: value, seq });
    this.#keepWrites(running);
    if (record !== undefined) callIds.add(record);
    this.#nextSeq();
    this.#ends = host.destroys;
    this.#keepEvents(host, seq);
    return { kind: "wrote", work, value, seq };
  }

  #keepEvents(host: CallHost, seq: number): void {
    for (const { number, name, data, atMs } of host.emitted) this.#events.push({ number, name, data, atMs, seq });
  }

  #undo(work: CallWork, { undoes }: Pick<RunningCall, "undoes">, error: MoonportError): Outcome {
    const { database } = this.#open;
    if (undoes === "savepoint") database.rollbackTo();
    else database.startOver();
    if (work.timer !== undefined) this.#timers.failed(work.timer, error);
    return { kind: "failed", work, error };
  }

  #nextSeq(): number {
    this.#seqs++;
    return this.#lastSeq;
  }

  /** That the transaction ends at, as far as it has come. */
  get #lastSeq(): number {
    return this.#open.committedSeq + this.#seqs;
  }

  #finish(preludeWrote: boolean): BurstResult {
    const { database } = this.#open;
    this.#assertSound(undefined);
    const callsWrote = this.#seqs > 0;
    // A first call that wrote nothing leaves no object behind, migrations included; one that waits has seen what they made.
    const isStillborn = this.#open.isUnwritten && !callsWrote && this.#waiting === undefined;
    if (isStillborn) {
      database.rollback();
      return this.#ended({
        isAwake: false,
        retryRow: false,
        notes: undefined,
        woken: this.#timers.woken(this.#lastSeq, this.#ends),
      });
    }
    const derived = callsWrote || preludeWrote || this.#rows.length > 0 ? this.#deriveRow() : undefined;
    const wrote = database.wroteSince(this.#startMark);
    if (wrote && this.#seqs === 0) this.#nextSeq();
    const notes = this.#seqs > 0 ? this.#lastWrites() : undefined;
    const woken = this.#timers.woken(this.#lastSeq, this.#ends);
    // A failed call leaves pages that are dirty though unchanged: committed, they would stand in the WAL and no flight take them.
    if (notes === undefined) database.rollback();
    else {
      database.commit();
      faultPoint("burst.committed", this.#open.object.id);
    }
    return this.#ended({ isAwake: true, retryRow: derived === "failed_first", notes, woken });
  }

  #lastWrites(): CommitNotes {
    if (this.#ends) this.#open.noteEnd();
    this.#open.writeRecords();
    const isToldToShard = this.#timers.wakes.some(({ teller }) => teller === "asker");
    return this.#open.notes(this.#seqs, isToldToShard);
  }

  /** Nothing is read of the file any more: a failure would be told as if nothing were kept. */
  #ended(fields: {
    isAwake: boolean;
    retryRow: boolean;
    notes: CommitNotes | undefined;
    woken: (PlainObject & Woken) | undefined;
  }): BurstResult {
    const { woken, ...result } = fields;
    this.#timers.kept();
    if (woken !== undefined) for (const work of this.#timers.wakes) this.#tell(work, woken);
    for (const work of this.#sents) this.#tell(work, null);
    return {
      kind: "committed",
      outcomes: this.#outcomes,
      wroteSeqs: this.#seqs,
      events: this.#events,
      ends: this.#ends,
      rows: this.#rows,
      waiting: this.#waiting,
      ...result,
    };
  }

  #tell(work: TimersWork | SentWork, value: PlainValue): void {
    const seq = this.#lastSeq;
    if (this.#seqs > 0) this.#outcomes.push({ kind: "wrote", work, value, seq });
    else this.#outcomes.push({ kind: "read", work, value, seq: undefined });
  }

  #deriveRow(): ReturnType<typeof deriveRow> | undefined {
    if (this.#ends || this.#lua.directory === undefined) return undefined;
    // Without a call that wrote, the row itself takes a seq: one seq is one state.
    return deriveRow(this.#context, this.#open, this.#lua, this.#open.committedSeq + Math.max(1, this.#seqs));
  }

  #runToEnd(entry: LuaEntry, host: CallHost): LuaEnd | Promise<LuaEnd> {
    const invocation = this.#lua.start(entry, [], host);
    const stop = runLua(this.#context.world, invocation, () => this.#mayGoOn());
    return stop instanceof Promise ? stop.then(assertEnded) : assertEnded(stop);
  }

  /** Reads beside the mailbox that are between two slices must not see what this call is about to write. */
  #mayGoOn(): Promise<void> | undefined {
    this.#assertUnbroken();
    return this.#readsUnderWay();
  }

  #assertUnbroken(): void {
    if (this.#brokenBy !== undefined) throw this.#brokenBy;
  }

  /** @param error of the call just run, which knows best what happened to the transaction */
  #assertSound(error: MoonportError | undefined): void {
    this.#assertUnbroken();
    if (!this.#open.database.doomed) return;
    throw error ?? MoonportError.of("call_doomed", "a statement ended the transaction");
  }

  /** Nothing of the burst is kept. The call that it died of hears why, the others may simply try again. */
  #die(error: MoonportError): BurstResult {
    this.#rollBackQuietly();
    const culprit = this.#brokenBy === undefined ? this.#culprit(error) : this.#current;
    const ran = this.#ran();
    const { wakes } = this.#timers;
    const again = this.#brokenBy === undefined && this.#timers.blamed(culprit, ran, error) ? wakes : [];
    for (const work of ran) {
      work.reject(work === culprit || isStorageFault(error) ? error : undone(this.#open.object.id, error));
    }
    for (const row of this.#rows) row.reject(error);
    const others = again.length > 0 ? this.#sents : [...wakes, ...this.#sents];
    for (const work of others) work.reject(undone(this.#open.object.id, error));
    this.#giveUpWaiting(error);
    return { kind: "broken", error, again };
  }

  /**
   * The call that ended the transaction, as far as that is certain: of its own statements its outcome says it, but what one has
   * left to be written may fail the savepoint of the next, or COMMIT.
   */
  #culprit(error: MoonportError): Outcome["work"] | undefined {
    const last = this.#outcomes.at(-1);
    if (last?.kind === "failed" && last.error === error) return last.work;
    const ran = this.#ran();
    return ran.length === 1 ? ran[0] : undefined;
  }

  #ran(): Outcome["work"][] {
    const ran = this.#outcomes.map(({ work }) => work);
    return this.#current === undefined ? ran : [...ran, this.#current];
  }

  #giveUpWaiting(error: MoonportError): void {
    if (this.#waiting === undefined) return;
    this.#waiting.running.invocation.abandon();
    this.#waiting.work.reject(isStorageFault(error) ? error : undone(this.#open.object.id, error));
  }

  #rollBackQuietly(): void {
    try {
      this.#open.database.rollback();
    } catch {
      // The connection is thrown away in any case.
    }
  }
}

/** A full or broken disk is everybody's to know: trying again at once will not help. */
function isStorageFault(error: MoonportError): boolean {
  return isOwn(error, "storage_full", "storage_readonly", "storage_failed", "storage_behind", "object_full");
}

function undone(object: string, cause: MoonportError): MoonportError {
  return MoonportError.of(
    "object_restarting",
    `the transaction that the call shared with others died: ${cause.message}`,
    {
      object,
      hint: "nothing of the call is kept; try again",
      cause,
      retryAfterMs: 100,
    },
  );
}
