/**
 * One resident object: its mailbox, the one task that drains it, and its file while that is open.
 *
 * Promises:
 * - O1: one call at a time; a method runs to its end before the next starts.
 * - G3: the task never waits on a gate; it hands outcome and ticket on and takes the next call. A call that asks another
 *   object is the exception that O1 demands: until it has its answer nothing else of the mailbox runs, reads beside it do.
 * - A residency in doubt (failed commit, doomed transaction, lost ownership) is broken: nothing more is served from that
 *   file, calls that waited get a retryable error, the next call activates the object afresh.
 */
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import type { StoredMessage } from "../store/outbox.js";
import type { Deadlines } from "../world/deadlines.js";
import { deferred } from "../world/deferred.js";
import { sleep, yieldTurn } from "../world/world.js";
import { Asking } from "./asking.js";
import { Burst, type BurstResult, type WaitingCall } from "./burst.js";
import { Ending } from "./ending.js";
import type { FileHolder } from "./file-pool.js";
import { Mailbox } from "./mailbox.js";
import type { ObjectContext } from "./object-context.js";
import { OpenObject } from "./open-object.js";
import { ReadsBeside } from "./reads-beside.js";
import { TimerFaults } from "./timer-faults.js";
import {
  attach,
  type CallWork,
  fenced,
  isRepeatOf,
  isReplace,
  notDurableYet,
  outcomeUnknown,
  type ReplaceWork,
  rowThroughGate,
  tellThroughGate,
  type Work,
  waitedInVain,
} from "./work.js";

type State =
  | { readonly kind: "closed" }
  | { readonly kind: "opening"; readonly opened: Promise<void>; readonly done: Promise<OpenObject> }
  | { readonly kind: "open"; readonly open: OpenObject }
  /** Destroyed: nothing runs any more. */
  | { readonly kind: "ending"; readonly open: OpenObject; readonly ending: Ending }
  /** What was committed still ships; then the file is thrown away. */
  | { readonly kind: "breaking"; readonly done: Promise<void> }
  /** Other content takes its place: nothing else runs. The file is absent where it could not be opened, or is closed by now. */
  | { readonly kind: "replacing"; readonly open: OpenObject | undefined; readonly done: Promise<void> };

const CLOSED: State = { kind: "closed" };

/** What a read beside the mailbox does with the open file. */
export type ReadWork<T> = (open: OpenObject) => T | Promise<T>;

type CommittedBurst = Extract<BurstResult, { kind: "committed" }>;

type EndedRead<T> =
  | { readonly kind: "returned"; readonly value: T }
  | { readonly kind: "failed"; readonly error: unknown };

export class ResidentObject implements FileHolder {
  readonly object: ObjectIdentity;
  lastUsedMs: number;
  readonly #context: ObjectContext;
  readonly #used: (resident: ResidentObject) => void;
  readonly #mailbox: Mailbox<Work>;
  #state: State = CLOSED;
  /** Version of the class whose migrations and hooks have run in this residency. */
  #awakeAs: string | undefined;
  #isPumping = false;
  /** Why nothing new is taken in: the object goes to another node. */
  #leaving: MoonportError | undefined;
  #burst: Burst | undefined;
  /** Set while a call waits for another object's answer. */
  #asking: Asking | undefined;
  readonly #reads: ReadsBeside;
  #activityWaiters: (() => void)[] = [];
  readonly #timerFaults = new TimerFaults();
  readonly #abandoned = new AbortController();

  /** @param used called at every use, so that the residents stay in order of last use */
  constructor(
    context: ObjectContext,
    object: ObjectIdentity,
    deadlines: Deadlines,
    used: (resident: ResidentObject) => void,
  ) {
    this.#context = context;
    this.#used = used;
    this.object = object;
    this.#mailbox = new Mailbox({
      object: object.id,
      max: context.settings.OBJECT_MAILBOX_MAX,
      deadlines,
      refusal: (work, nowMs) => waitedInVain(object.id, work, nowMs),
    });
    this.#reads = new ReadsBeside({
      object: object.id,
      waitingMax: context.settings.OBJECT_MAILBOX_MAX,
      idle: () => this.#activityEnded(),
    });
    this.lastUsedMs = context.world.clock.monotonicMs();
  }

  get mailboxCalls(): number {
    return this.#mailbox.size;
  }

  /** For doors: somebody whose call may wait here has gone. */
  get callerGone(): () => void {
    return this.#mailbox.callerGone;
  }

  /** The open file, if calls may run on it now. */
  get openFile(): OpenObject | undefined {
    return this.#state.kind === "open" ? this.#state.open : undefined;
  }

  /** Whether its file is closed and nobody is about to open it. */
  get isAtRest(): boolean {
    return this.#state.kind === "closed" && !this.#isPumping;
  }

  /** Whether what stands in the bucket and what is committed here are about to become one: neither tells what is. */
  get isChanging(): boolean {
    const { kind } = this.#state;
    return kind === "ending" || kind === "breaking" || kind === "replacing";
  }

  /** Resolves when that is over; at once where it is not so. @throws MoonportError `not_durable_yet` */
  async settled(): Promise<void> {
    const state = this.#state;
    if (state.kind === "ending") await this.#endReached(state.ending);
    else if (state.kind === "breaking" || state.kind === "replacing") await state.done;
  }

  /** Resolves when everything that is committed now is durable. @throws MoonportError `not_durable_yet` */
  landed(): Promise<void> | undefined {
    return this.#state.kind === "open" ? this.#throughReadGate(this.#state.open) : undefined;
  }

  /**
   * Messages that have not left an object that was destroyed, in their order; undefined of any other, which is asked by a read.
   * @throws MoonportError when its file does not open
   */
  async lastMessages(limit: number): Promise<readonly StoredMessage[] | undefined> {
    if (this.#state.kind === "opening") await this.#state.opened;
    if (this.#state.kind !== "ending") return undefined;
    return this.#state.ending.messages(limit);
  }

  /** They have left an object that was destroyed: its file changes no more. @returns false when it is no such object */
  lastMessagesLeft(numbers: readonly number[]): boolean {
    if (this.#state.kind !== "ending") return false;
    this.#state.ending.messagesLeft(numbers);
    return true;
  }

  /** Puts work into the mailbox; a repeat of the call that runs joins it instead. @throws MoonportError `mailbox_full` */
  submit(work: Work): void {
    if (this.#leaving !== undefined) throw this.#leaving;
    if (work.kind === "call" && this.#attaches(work)) return;
    this.#touch();
    this.#mailbox.put(work);
    this.#pump();
  }

  #attaches(work: CallWork): boolean {
    const running = this.#asking?.work ?? this.#burst?.running;
    if (running === undefined || !isRepeatOf(running, work)) return false;
    return attach(running, work, this.#context.settings.OBJECT_MAILBOX_MAX);
  }

  /**
   * Runs a read beside the mailbox, and answers once what it saw is durable (G1): in the same tick where nothing is in the
   * way, which is the common case.
   * @throws MoonportError `mailbox_full`, `not_durable_yet`, whatever opening or the read itself throws
   */
  read<T>(work: ReadWork<T>): T | Promise<T> {
    if (this.#leaving !== undefined) throw this.#leaving;
    if (this.#state.kind !== "open" || this.#mustWaitForWriter()) return this.#readLater(work);
    this.#touch();
    return this.#runRead(work, this.#state.open);
  }

  /**
   * As {@link read}, of a file in which the class's migrations and hooks have run; `undefined` where they have not, or not any
   * more once a writer had been waited for: another file may be opened in its place.
   */
  readAwake<T>(lua: LuaClass, work: ReadWork<T>): T | undefined | Promise<T | undefined> {
    if (this.#leaving !== undefined) throw this.#leaving;
    if (this.#state.kind !== "open" || this.#awakeAs !== lua.version) return undefined;
    this.#touch();
    if (!this.#mustWaitForWriter()) return this.#runRead(work, this.#state.open);
    return this.#reads.writerEnded().then(() => this.readAwake(lua, work));
  }

  tryCloseFile(): boolean {
    const state = this.#state;
    if (state.kind !== "open" || this.#isPumping || this.#reads.any || this.#mailbox.size > 0) return false;
    if (!state.open.shipper.clean) return false;
    const settled = state.open.cargo.settleFile();
    if (settled === "in_use") return false;
    if (settled === "settled") this.#keepFile(state.open);
    this.#closeNow(state.open, residencyEnded(this.object.id));
    if (settled === "failed") this.#discardFile(state.open);
    return true;
  }

  /** Whether nothing would be lost if this object were forgotten now; closes its file on the way. */
  tryLeave(): boolean {
    if (this.#isPumping || this.#mailbox.size > 0 || this.#reads.anyWaits) return false;
    if (this.#state.kind !== "closed" && !this.tryCloseFile()) return false;
    this.#mailbox.close();
    return true;
  }

  /** Where shipping has stopped, one more try: what is committed lands though nobody calls any more. */
  shipAgain(): void {
    if (this.#state.kind === "open" || this.#state.kind === "ending") this.#state.open.shipper.tryAgain();
  }

  /** Waits for the mailbox to empty and everything to land, then closes. Rejects when shipping fails. */
  async drain(): Promise<void> {
    while (this.#isPumping || this.#reads.any) await this.#activityEnds();
    switch (this.#state.kind) {
      case "closed":
        return;
      case "opening":
        await this.#state.done.catch(() => undefined);
        return this.drain();
      case "breaking":
      case "replacing":
        return this.#state.done;
      case "ending":
        return this.#state.open.shipper.drain();
      case "open":
        await this.#state.open.shipper.drain();
        if (this.#isPumping || this.#reads.any) return this.drain();
        this.tryCloseFile();
    }
  }

  /**
   * The object goes to another node: what runs ends, everything lands in the bucket, the file closes; nothing that waits runs
   * here any more. Rejects when something does not land.
   */
  async leave(cause: MoonportError): Promise<void> {
    this.#leaving = cause;
    for (const work of this.#mailbox.takeAll()) work.reject(cause);
    await this.drain();
    if (this.#state.kind !== "closed") throw residencyEnded(this.object.id);
  }

  /** It stays after all. */
  stay(): void {
    this.#leaving = undefined;
  }

  /** The node goes away without waiting any longer: waiters hear that the outcome is unknown. */
  abandon(cause: MoonportError): void {
    for (const work of this.#mailbox.takeAll()) work.reject(cause);
    this.#asking?.end(cause);
    this.#burst?.breakWith(cause);
    this.#abandoned.abort();
    if (this.#state.kind === "open" || this.#state.kind === "ending") this.#closeNow(this.#state.open, cause);
    if (this.#state.kind === "replacing") this.#state.open?.close(cause);
  }

  /** The node's session is over: as if another owner had been found, at whatever moment. */
  lose(cause: MoonportError): void {
    switch (this.#state.kind) {
      case "open":
      case "ending":
        this.#state.open.shipper.end(cause);
        return this.#lost(this.#state.open, cause);
      case "opening":
        // It ends by itself: what was claimed under the session that is over is not opened.
        return;
      case "replacing":
      case "breaking":
      case "closed":
        for (const work of this.#mailbox.takeAll()) work.reject(cause);
    }
  }

  // The task

  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    void this.#drainMailbox();
  }

  async #drainMailbox(): Promise<void> {
    // Calls that arrive in one turn of the loop ride one burst.
    await yieldTurn(this.#context.world);
    try {
      while (this.#mailbox.size > 0) {
        await this.#runNext();
        if (this.#mailbox.size > 0) await yieldTurn(this.#context.world);
      }
    } catch (error) {
      this.#refuseWaiting(error);
    } finally {
      this.#isPumping = false;
      this.#activityEnded();
    }
    if (this.#mailbox.size > 0) this.#pump();
  }

  async #runNext(): Promise<void> {
    const replacing = this.#mailbox.take(this.#context.world.clock.monotonicMs(), isReplace);
    if (replacing !== undefined) return await this.#replace(replacing);
    const opened = this.#opened();
    const open = opened instanceof Promise ? await opened : opened;
    // Those that waited for the file may have waited in vain.
    if (this.#mailbox.size > 0) await this.#runBurst(open);
  }

  /** The file does not open, or its class's hooks fail. Other content may be just what it lacks: whoever brings it stays. */
  #refuseWaiting(error: unknown): void {
    const coded = asMoonportError(error);
    for (const work of this.#mailbox.takeAll()) {
      if (work.kind === "replace" && error instanceof MoonportError) this.#mailbox.put(work);
      else work.reject(coded);
    }
  }

  async #replace(work: ReplaceWork): Promise<void> {
    const ended = deferred();
    const { session } = this.#context.fleet;
    try {
      const open = await this.#landedFile();
      this.#state = { kind: "replacing", open, done: ended.promise };
      await work.run(open, {
        begin: () => this.#giveUpFile(ended.promise),
        signal: this.#abandoned.signal,
      });
    } catch (error) {
      work.reject(asMoonportError(error));
    }
    if (this.#state.kind === "replacing") this.#stays(this.#state.open, session);
    ended.resolve();
    this.#reads.letRun();
  }

  /** Nothing, or not yet, stands in the file's place. Under another session than it was claimed under it is not served. */
  #stays(open: OpenObject | undefined, session: string): void {
    this.#state = open === undefined ? CLOSED : { kind: "open", open };
    if (open !== undefined && !this.#isUnder(session)) this.lose(fenced());
  }

  /** The file, everything in it landed and nobody reading it; nothing where its history is damaged. */
  async #landedFile(): Promise<OpenObject | undefined> {
    let open: OpenObject;
    try {
      open = await this.#opened();
    } catch (error) {
      if (isOwn(error, "object_corrupt")) return undefined;
      throw error;
    }
    await open.shipper.drain();
    for (let wait = this.#reads.untilNone(); wait !== undefined; wait = this.#reads.untilNone()) await wait;
    if (this.#state.kind === "open" && this.#state.open === open) return open;
    throw residencyEnded(this.object.id);
  }

  #giveUpFile(done: Promise<void>): void {
    if (this.#state.kind !== "replacing" || this.#state.open === undefined) return;
    const { open } = this.#state;
    this.#awakeAs = undefined;
    this.#closeNow(open, residencyEnded(this.object.id));
    this.#state = { kind: "replacing", open: undefined, done };
    this.#discardFile(open);
  }

  async #runBurst(open: OpenObject): Promise<void> {
    for (let wait = this.#reads.untilNone(); wait !== undefined; wait = this.#reads.untilNone()) await wait;
    // Lost while it was waited for: whoever stands in the mailbox has it opened afresh.
    if (this.openFile !== open) return;
    const lua = this.#context.catalog.classOf(this.object.app, this.object.className);
    const burst = this.#newBurst(open, lua);
    let waiting = await this.#transact(open, lua, burst, () => burst.run());
    while (waiting !== undefined) waiting = await this.#goOn(open, waiting);
  }

  #newBurst(open: OpenObject, lua: LuaClass): Burst {
    const readsUnderWay = () => this.#reads.untilNone();
    return new Burst(this.#context, open, lua, this.#mailbox, this.#awakeAs, this.#timerFaults, readsUnderWay);
  }

  /** The call that waits gets its answer and goes on; nothing else of the mailbox runs before it has ended (O1). */
  async #goOn(open: OpenObject, waiting: WaitingCall): Promise<WaitingCall | undefined> {
    const { lua, running, request, work } = waiting;
    let cause: MoonportError | undefined;
    try {
      // Of a file that was lost right after its transaction nothing leaves any more.
      if (this.openFile === open) {
        this.#asking = new Asking(this.#context, open, waiting);
        const answer = await this.#asking.answer();
        this.#asking = undefined;
        running.outgoing.took(request, answer);
        for (let wait = this.#reads.untilNone(); wait !== undefined; wait = this.#reads.untilNone()) await wait;
        if (this.openFile === open) {
          const burst = this.#newBurst(open, lua);
          return await this.#transact(open, lua, burst, () => burst.goOn(waiting, answer));
        }
        if (answer.kind === "failed") cause = answer.error;
      }
      work.reject(residencyEnded(this.object.id, cause));
    } catch (error) {
      work.reject(asMoonportError(error));
    }
    this.#asking = undefined;
    running.invocation.abandon();
    return undefined;
  }

  async #transact(
    open: OpenObject,
    lua: LuaClass,
    burst: Burst,
    run: () => Promise<BurstResult>,
  ): Promise<WaitingCall | undefined> {
    this.#burst = burst;
    const result = await run();
    this.#burst = undefined;
    // One that was broken while it waited for a read has not asked again.
    this.#reads.writerWentOn();
    this.#touch();
    try {
      this.#settleBurst(open, lua, result);
      return result.kind === "committed" ? result.waiting : undefined;
    } finally {
      // Lost between the burst's last look and now: it took its end for its own, and nobody else has closed the file.
      if (burst.brokenBy !== undefined && result.kind !== "broken") this.#break(open, burst.brokenBy);
      this.#reads.letRun();
    }
  }

  /** After the transaction: what was committed goes to the shipper, and every caller to the gate. */
  #settleBurst(open: OpenObject, lua: LuaClass, result: BurstResult): void {
    if (result.kind === "committed") {
      try {
        this.#keep(open, lua, result);
      } catch (error) {
        this.#doubt(open, result, asMoonportError(error));
      }
    } else if (result.kind === "refused") {
      open.shipper.transactionEnded();
      throw result.error;
    } else {
      // First, so that a cut which waits for the transaction's end asks nothing of the connection.
      this.#break(open, result.error);
      open.shipper.transactionEnded();
      const isOver = this.#leaving !== undefined || this.#abandoned.signal.aborted;
      for (const work of result.again) {
        if (isOver) work.reject(this.#leaving ?? residencyEnded(this.object.id, result.error));
        else this.#mailbox.put(work);
      }
    }
  }

  #keep(open: OpenObject, lua: LuaClass, result: CommittedBurst): void {
    const isNewlyAwake = result.isAwake && this.#awakeAs !== lua.version;
    this.#awakeAs = result.isAwake ? lua.version : undefined;
    if (result.notes !== undefined) open.commit(result.wroteSeqs, result.events, result.notes);
    // Whether the directory has heard of it is not written down anywhere: an object that wakes tells its row again.
    if (lua.directory !== undefined && (isNewlyAwake || result.rows.length > 0)) open.tellRow();
    for (const row of result.rows) rowThroughGate(open, row);
    if (result.ends) this.#endWith(open);
    if (result.retryRow) this.#retryRowLater();
    for (const outcome of result.outcomes) tellThroughGate(open, outcome, this.#context.fleet);
    open.shipper.transactionEnded();
  }

  /** It is committed, and something failed since: what came of it is as unknown as if the node had died here. */
  #doubt(open: OpenObject, { outcomes, rows }: CommittedBurst, error: MoonportError): void {
    open.shipper.transactionEnded();
    this.#break(open, error);
    const { id } = this.object;
    for (const { kind, work } of outcomes) {
      work.reject(kind === "wrote" ? outcomeUnknown(id, error) : residencyEnded(id, error));
    }
    for (const row of rows) row.reject(error);
  }

  #retryRowLater(): void {
    const { world, settings } = this.#context;
    world.timers.after(settings.DIRECTORY_RETRY_MS, () => {
      // Only while it is here and stays: the next activation derives the row anyway.
      if (this.#state.kind === "open" && this.#mailbox.size === 0 && this.#leaving === undefined)
        this.submit({ kind: "row", resolve() {}, reject() {} });
    });
  }

  // The file

  #opened(): Promise<OpenObject> | OpenObject {
    switch (this.#state.kind) {
      case "open":
        return this.#state.open;
      case "opening":
        return this.#state.done;
      case "ending":
        return this.#endReached(this.#state.ending).then(() => this.#opened());
      case "breaking":
      case "replacing":
        return this.#state.done.then(() => this.#opened());
      case "closed":
        return this.#open();
    }
  }

  #open(): Promise<OpenObject> {
    const opening = this.#openFile();
    const done = opening.then(
      ({ open, session }) => {
        // In one step with the state: whoever ends a session finds a file that is open, or one that comes to this.
        if (!this.#isUnder(session)) {
          const cause = fenced();
          open.close(cause);
          return this.#notOpened(cause);
        }
        if (open.isDestroyed) {
          this.#endWith(open);
          return this.#opened();
        }
        this.#state = { kind: "open", open };
        // Whoever looked at all open files when other nodes came or went did not find this one.
        open.renewSet();
        return open;
      },
      (error) => this.#notOpened(error),
    );
    const opened = opening.then(
      () => {},
      () => {},
    );
    this.#state = { kind: "opening", opened, done };
    return done;
  }

  /** @returns with the session under which it was claimed */
  async #openFile(): Promise<{ readonly open: OpenObject; readonly session: string }> {
    await this.#context.files.acquire(this);
    const { session } = this.#context.fleet;
    const open = await OpenObject.open(this.#context, this.object, {
      landed: (open, carried) => {
        if (carried === "tombstone") this.#hasEnded(open);
        else this.#context.files.offer(this);
      },
      broken: (open, error) => this.#lost(open, error),
    });
    return { open, session };
  }

  /** A session that has lapsed keeps its name until there is another one. */
  #isUnder(session: string): boolean {
    const { fleet } = this.#context;
    return session === fleet.session && fleet.isValid();
  }

  #notOpened(error: unknown): never {
    this.#state = CLOSED;
    this.#context.files.release(this);
    throw error;
  }

  #closeNow(open: OpenObject, cause: MoonportError): void {
    if (this.#state.kind === "ending") this.#state.ending.closed();
    this.#state = CLOSED;
    open.close(cause);
    this.#context.files.release(this);
  }

  /** The object was destroyed: its last flight carries the tombstone, once the messages that it has sent have left. */
  #endWith(open: OpenObject): void {
    const ending = new Ending(open);
    this.#state = { kind: "ending", open, ending };
    this.#awakeAs = undefined;
    ending.begin();
    this.#takeWordOfMessages();
  }

  /** The end waits for it, and in the mailbox it would wait for the end. */
  #takeWordOfMessages(): void {
    for (const work of this.#mailbox.takeAll()) {
      if (work.kind !== "sent") this.#mailbox.put(work);
      else {
        this.lastMessagesLeft(work.numbers);
        work.resolve({ value: null });
      }
    }
  }

  /** Resolves when nothing of it is left. @throws MoonportError `not_durable_yet` when that takes too long */
  async #endReached({ open, reached }: Ending): Promise<void> {
    const { world, settings } = this.#context;
    await this.#throughReadGate(open);
    const over = new AbortController();
    const late = sleep(world, settings.OBJECT_ACK_GATE_MS, over.signal).then(() => {
      if (!over.signal.aborted) throw notDurableYet(this.object.id, undefined);
    });
    await Promise.race([reached, late]).finally(() => over.abort());
  }

  #hasEnded(open: OpenObject): void {
    this.#context.claims.ended(this.object);
    this.#closeNow(open, residencyEnded(this.object.id));
    this.#discardFile(open);
    this.#reads.letRun();
  }

  /** The file is in doubt: what it had committed before is still shipped from its WAL, then it is thrown away. */
  #break(open: OpenObject, error: MoonportError): void {
    // It was lost to its last cut, or the node has gone away in the midst of a burst: nobody has anything of the file any more.
    if (this.#state.kind === "closed") return;
    const { log, counters } = this.#context;
    counters.residenciesBroken++;
    log.warn({ object: this.object.id, code: error.code }, `residency broken: ${error.message}`);
    this.#awakeAs = undefined;
    const done = this.#shipRest(open).then(() => {
      this.#closeNow(open, residencyEnded(this.object.id));
      this.#discardFile(open);
    });
    this.#state = { kind: "breaking", done };
    for (const work of this.#mailbox.takeAll()) work.reject(residencyEnded(this.object.id, error));
  }

  async #shipRest(open: OpenObject): Promise<void> {
    open.cargo.distrustConnection();
    try {
      await open.shipper.drain();
    } catch (error) {
      const fields = { object: this.object.id, error: (error as Error).message };
      this.#context.log.error(fields, "committed writes could not be shipped before the file was given up");
      this.#context.claims.forget(this.object);
    }
  }

  /** The longest unused files make room for it. A disk that does not let them go has to be looked after; objects close all the same. */
  #keepFile({ path, database }: OpenObject): void {
    try {
      this.#context.localCopies.closed(path, database.sizeBytes());
    } catch (error) {
      this.#context.log.warn(
        { object: this.object.id, error: (error as Error).message },
        "no room made for local files",
      );
    }
  }

  /** A disk that is full or read-only may refuse this too; the next activation then fails and says so. */
  #discardFile(open: OpenObject): void {
    try {
      open.removeFile();
    } catch (error) {
      this.#context.log.warn({ object: this.object.id, error: (error as Error).message }, "local file not removed");
    }
  }

  /** The shipper gave up for good: another owner, or a WAL that cannot be read. */
  #lost(open: OpenObject, error: MoonportError): void {
    this.#context.claims.forget(this.object);
    this.#awakeAs = undefined;
    for (const work of this.#mailbox.takeAll()) work.reject(residencyEnded(this.object.id, error));
    this.#asking?.end(error);
    if (this.#burst !== undefined) return this.#burst.breakWith(error);
    if (this.#state.kind === "breaking") return;
    this.#context.counters.residenciesBroken++;
    this.#closeNow(open, error);
    this.#discardFile(open);
    this.#reads.letRun();
  }

  // Reads beside the mailbox

  async #readLater<T>(work: ReadWork<T>): Promise<T> {
    this.#touch();
    await this.#opened();
    if (this.#mustWaitForWriter()) await this.#reads.writerEnded();
    return this.read(work);
  }

  #runRead<T>(work: ReadWork<T>, open: OpenObject): T | Promise<T> {
    this.#reads.began();
    let running: T | Promise<T>;
    try {
      running = work(open);
    } catch (error) {
      return this.#readEnded<T>(open, { kind: "failed", error });
    }
    if (!(running instanceof Promise)) return this.#readEnded(open, { kind: "returned", value: running });
    return running.then(
      (value) => this.#readEnded<T>(open, { kind: "returned", value }),
      (error: unknown) => this.#readEnded<T>(open, { kind: "failed", error }),
    );
  }

  /** Tells what a read came to, once what it saw is durable. */
  #readEnded<T>(open: OpenObject, ended: EndedRead<T>): T | Promise<T> {
    // Asked first: whoever waits for an open file may be given this one as soon as the read is over.
    const gate = this.#throughReadGate(open);
    this.#reads.ended();
    const tell = (): T => {
      // Another owner may have written since: what no journal vouches for is told under a valid session only (E4).
      if (!this.#context.fleet.isValid()) throw fenced();
      if (ended.kind === "failed") throw ended.error;
      return ended.value;
    };
    return gate === undefined ? tell() : gate.then(tell);
  }

  #mustWaitForWriter(): boolean {
    return this.#reads.writerWaits || this.#burst?.hasWritten === true;
  }

  /** Resolves when the task comes to rest or the last read under way ends. */
  #activityEnds(): Promise<void> {
    return new Promise((resolve) => void this.#activityWaiters.push(resolve));
  }

  #activityEnded(): void {
    if (this.#activityWaiters.length > 0) {
      const waiters = this.#activityWaiters;
      this.#activityWaiters = [];
      for (const wake of waiters) wake();
    }
    this.#context.files.offer(this);
  }

  #throughReadGate(open: OpenObject): Promise<void> | undefined {
    if (open.shipper.durable) return undefined;
    return new Promise((resolve, reject) => {
      open.shipper.readGate({
        release: resolve,
        fail: (cause) => reject(notDurableYet(this.object.id, cause)),
      });
    });
  }

  #touch(): void {
    this.lastUsedMs = this.#context.world.clock.monotonicMs();
    this.#context.files.touch(this);
    this.#used(this);
  }
}

function residencyEnded(object: string, cause?: MoonportError): MoonportError {
  return MoonportError.of("object_restarting", `the residency of ${object} ended before the call's turn came`, {
    object,
    hint: "try again: the next call activates it afresh",
    cause,
    retryAfterMs: 100,
  });
}
