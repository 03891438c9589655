/**
 * The objects of a node: which are resident, who gets a call, who leaves.
 *
 * Residents are bounded by NODE_RESIDENT_MAX and leave after OBJECT_IDLE_MS without use. Leaving is shipping, closing and
 * forgetting; the claim stays with the session. A key that was never written answers reading methods from an empty
 * database, without claim or file.
 */
import { isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import { hasContent, type Manifest, ownershipOf } from "../shipping/manifest.js";
import { appliedMigrations } from "../store/migrations.js";
import type { StoredMessage } from "../store/outbox.js";
import type { PlainValue } from "../values.js";
import { Deadlines } from "../world/deadlines.js";
import { deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { sleep, type Timer } from "../world/world.js";
import type { ObjectContext } from "./object-context.js";
import type { Position } from "./replica-copy.js";
import { type ReadWork, ResidentObject } from "./resident-object.js";
import {
  type CallWork,
  type DeferredOutcome,
  fenced,
  type ReplaceWork,
  type Reply,
  type WakeTeller,
  type Woken,
} from "./work.js";

export type CallInput = Omit<CallWork, "kind" | "resolve" | "reject" | "deferred" | "timer">;

/** An object on its way to another node, and who waits here for it to get there. */
interface Moving {
  /** The node that it went to; undefined when it stays, or nobody knows where it goes. */
  readonly done: Promise<string | undefined>;
  held: number;
}

export class Objects {
  readonly #context: ObjectContext;
  /** In order of last use. */
  readonly #residents = new Map<string, ResidentObject>();
  readonly #deadlines: Deadlines;
  /** Those on their way to another node, by id. */
  readonly #moving = new Map<string, Moving>();
  #newest: ResidentObject | undefined;
  #sweep: Timer | undefined;
  #isClosing = false;
  readonly #abandoned = new AbortController();

  constructor(context: ObjectContext) {
    this.#context = context;
    this.#deadlines = new Deadlines(context.world);
  }

  get residents(): number {
    return this.#residents.size;
  }

  /** Calls in mailboxes, and finished replies at gates. */
  get waiting(): { readonly mailboxCalls: number; readonly gateReplies: number } {
    let [mailboxCalls, gateReplies] = [0, 0];
    for (const resident of this.#residents.values()) {
      mailboxCalls += resident.mailboxCalls;
      gateReplies += resident.openFile?.shipper.waiting ?? 0;
    }
    return { mailboxCalls, gateReplies };
  }

  /** Those of a class whose files are open, with how many migrations they have applied. */
  *migrationsApplied(app: string, className: string): Generator<{ readonly object: string; readonly applied: number }> {
    for (const { object, openFile } of this.#residents.values()) {
      if (object.app !== app || object.className !== className || openFile === undefined) continue;
      yield { object: object.id, applied: appliedMigrations(openFile.tables.meta) };
    }
  }

  start(): void {
    this.#context.localCopies.scan();
    this.#armSweep();
  }

  resident(object: ObjectIdentity): ResidentObject | undefined {
    return this.#residents.get(object.id);
  }

  /** The object's record in the bucket, as last known to this session or as it stands there. */
  async manifest(object: ObjectIdentity): Promise<Manifest | undefined> {
    return this.#context.claims.peek(object);
  }

  /**
   * Whether the object has content, committed here or standing in the bucket.
   * @throws MoonportError `moved`, `node_fenced`, `bucket_failed`, `replicas_missing`
   */
  async exists(object: ObjectIdentity): Promise<boolean> {
    let exists: boolean;
    do {
      await this.#residents.get(object.id)?.settled();
      exists = this.#isWrittenHere(object) ?? (await this.#isWritten(object));
      // It may have begun to end meanwhile: then its record tells of neither before nor after.
    } while (this.#residents.get(object.id)?.isChanging === true);
    // Another owner may have written since: that nothing is there is told under a valid session only (E4).
    if (!exists && !this.#context.fleet.isValid()) throw fenced();
    return exists;
  }

  /**
   * How far the object is committed now, for a node that would read it from a copy: told when all of that has landed, and while the
   * session is valid, as a read of it would be (R1, G1, E4).
   * @param journal of the node that asks
   * @returns undefined where a call has to find out: it has no content, is not this session's, or the bucket lags behind and that
   * journal is none of its set
   * @throws MoonportError `not_durable_yet`, `node_fenced`
   */
  async position(object: ObjectIdentity, journal: string): Promise<Omit<Position, "version"> | undefined> {
    await this.#residents.get(object.id)?.settled();
    const resident = this.#residents.get(object.id);
    const claim = this.#context.claims.held(object);
    if (claim === undefined || resident?.isChanging === true) return undefined;
    const open = resident?.openFile;
    // While its file is closed the bucket has all of it.
    const seq = open?.committedSeq ?? claim.manifest.seq;
    const isWritten = open === undefined ? hasContent(claim.manifest) : !open.isUnwritten;
    const { epoch } = claim.manifest;
    await resident?.landed();
    if (!this.#context.fleet.isValid()) throw fenced();
    const covered = claim.manifest.seq >= seq;
    const isReachable = covered || ownershipOf(claim.manifest).set.some((member) => member.journal === journal);
    return isWritten && isReachable ? { epoch, seq, covered } : undefined;
  }

  /** Undefined while its file is not open. */
  #isWrittenHere(object: ObjectIdentity): boolean | undefined {
    const open = this.#residents.get(object.id)?.openFile;
    return open && !open.isUnwritten;
  }

  async #isWritten(object: ObjectIdentity): Promise<boolean> {
    const { claims } = this.#context;
    const found = await this.manifest(object);
    // Its journals may hold what the bucket does not have yet: only its owner knows.
    const isShared = found !== undefined && ownershipOf(found).set.length > 0 && !ownershipOf(found).clean;
    if (isShared && claims.held(object) === undefined) await claims.claim(object);
    // What was found may be older than what was claimed and committed here meanwhile.
    const manifest = claims.held(object)?.manifest ?? found;
    return this.#isWrittenHere(object) ?? (manifest !== undefined && !manifest.destroyed && manifest.pages > 0);
  }

  /** Through the mailbox. @throws MoonportError */
  call(object: ObjectIdentity, input: CallInput): Promise<Reply> {
    const reply = deferred<Reply>();
    this.#submit(object, callWork(input, undefined, reply.resolve, reply.reject));
    return reply.promise;
  }

  /** Through the mailbox, answered before it is durable. @throws MoonportError when nothing came of the call */
  async callDeferred(object: ObjectIdentity, input: CallInput): Promise<DeferredOutcome> {
    const outcome = deferred<DeferredOutcome>();
    const failed = (error: MoonportError): void => {
      if (isOwn(error, "outcome_unknown")) outcome.resolve(inDoubt(error));
      else outcome.reject(error);
    };
    this.#submit(
      object,
      callWork(input, outcome.resolve, () => {}, failed),
    );
    return outcome.promise;
  }

  /** @throws MoonportError `object_not_found` */
  async destroy(object: ObjectIdentity): Promise<void> {
    if (!(await this.exists(object))) {
      throw MoonportError.of("object_not_found", `${object.id} does not exist`, { object: object.id });
    }
    const reply = deferred<Reply>();
    this.#admit(object).submit({ kind: "destroy", resolve: reply.resolve, reject: reply.reject });
    await reply.promise;
  }

  /** The object derives its row and tells it, once it is durable. @throws MoonportError */
  tellRow(object: ObjectIdentity): Promise<void> {
    const told = deferred();
    this.#admit(object).submit({ kind: "row", resolve: told.resolve, reject: told.reject });
    return told.promise;
  }

  /** Resolves when every directory row that is committed has landed, or cannot. */
  async rowsLanded(): Promise<void> {
    const rows = [...this.#residents.values()].flatMap(({ openFile }) => (openFile?.hasUnlandedRow ? [openFile] : []));
    await Promise.all(
      rows.map(
        ({ shipper }) => new Promise<void>((resolve) => shipper.readGate({ release: resolve, fail: () => resolve() })),
      ),
    );
  }

  /** Has an object that exists run its due timers; resolves when what they did is durable. @throws MoonportError */
  async runTimers(object: ObjectIdentity, teller: WakeTeller, expiresMs: number): Promise<Woken> {
    const reply = deferred<Reply>();
    this.#admit(object).submit({ kind: "timers", teller, expiresMs, resolve: reply.resolve, reject: reply.reject });
    return (await reply.promise).value as PlainValue & Woken;
  }

  /** The first messages of an object's outbox, of one that was destroyed and waits for them too. @throws MoonportError */
  async messages(object: ObjectIdentity, limit: number): Promise<readonly StoredMessage[]> {
    const last = await this.#residents.get(object.id)?.lastMessages(limit);
    if (last !== undefined) return last;
    if (!(await this.exists(object))) return [];
    return this.read(object, (open) => open.tables.outbox.read(0, limit));
  }

  /** Messages of these numbers leave the object's outbox; resolves when that is durable. @throws MoonportError */
  async messagesSent(object: ObjectIdentity, numbers: readonly number[]): Promise<void> {
    if (this.#residents.get(object.id)?.lastMessagesLeft(numbers)) return;
    const reply = deferred<Reply>();
    this.#admit(object).submit({ kind: "sent", numbers, resolve: reply.resolve, reject: reply.reject });
    await reply.promise;
  }

  /**
   * Everything that is committed now is in the bucket: what journals hold as well.
   * @throws MoonportError when it does not land
   */
  async cover(object: ObjectIdentity): Promise<void> {
    const open = this.#residents.get(object.id)?.openFile;
    if (open === undefined || open.shipper.clean) return;
    const covered = deferred();
    // Others' writes wait meanwhile, or it might never be.
    this.replace(object, { run: async () => covered.resolve(), reject: covered.reject });
    await covered.promise;
  }

  /** In its turn, alone. @throws MoonportError `mailbox_full`, `node_full` */
  replace(object: ObjectIdentity, work: Omit<ReplaceWork, "kind">): void {
    this.#admit(object).submit({ kind: "replace", ...work });
  }

  /** Beside the mailbox, of an object that exists. */
  read<T>(object: ObjectIdentity, work: ReadWork<T>): T | Promise<T> {
    return this.#admit(object).read(work);
  }

  /** A reading method, beside the mailbox; `undefined` where something must be migrated or woken first. */
  readAwake<T>(object: ObjectIdentity, lua: LuaClass, work: ReadWork<T>): T | undefined | Promise<T | undefined> {
    return this.#residents.get(object.id)?.readAwake(lua, work);
  }

  /**
   * Everything lands and closes; rejects with the first object that could not. While it is the bucket that fails, it goes on
   * until {@link abandon}: what does not land now is lost.
   */
  async drain(): Promise<void> {
    this.#isClosing = true;
    this.#sweep?.cancel();
    const { world, settings } = this.#context;
    let failed: unknown;
    for (let failures = await this.#drainOnce(); failures.length > 0; failures = await this.#drainOnce()) {
      failed ??= failures.find((error) => !isOfBucket(error));
      if (!failures.some(isOfBucket) || this.#abandoned.signal.aborted) break;
      await sleep(world, settings.OBJECT_SHIP_BACKOFF_MAX_MS, this.#abandoned.signal);
    }
    if (failed !== undefined) throw failed;
    this.#residents.clear();
  }

  async #drainOnce(): Promise<unknown[]> {
    const results = await Promise.allSettled([...this.#residents.values()].map((resident) => resident.drain()));
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  /** Gives up whatever is left: its callers hear that the outcome is unknown. */
  abandon(cause: MoonportError): void {
    this.#isClosing = true;
    this.#abandoned.abort();
    this.#sweep?.cancel();
    this.#deadlines.stop();
    for (const resident of this.#residents.values()) resident.abandon(cause);
    this.#residents.clear();
  }

  /** The session is over: nothing is served from any file any more. What was committed and not released is in doubt. */
  loseAll(cause: MoonportError): void {
    for (const resident of this.#residents.values()) resident.lose(cause);
  }

  /**
   * Gives an object to whoever claims it next. Calls that wait for it here fail with `moved`, which is safe to repeat; those
   * that run end first. @param to the node that is to have it, for their hint
   */
  async handOver(object: ObjectIdentity, to: string | undefined): Promise<boolean> {
    const ended = deferred<string | undefined>();
    this.#moving.set(object.id, { done: ended.promise, held: 0 });
    let hasGone = false;
    try {
      hasGone = await this.#giveAway(object, to);
      return hasGone;
    } finally {
      this.#moving.delete(object.id);
      ended.resolve(hasGone ? to : undefined);
    }
  }

  /**
   * Waits until an object has got to another node: asked for meanwhile, that one would find an owner that lives, and this one
   * would claim it back. Undefined for an object that is not on its way.
   * @returns the node that it went to; undefined when it stays. @throws MoonportError `mailbox_full`
   */
  moving(object: ObjectIdentity): Promise<string | undefined> | undefined {
    const moving = this.#moving.get(object.id);
    if (moving === undefined) return undefined;
    if (moving.held >= this.#context.settings.OBJECT_MAILBOX_MAX) {
      throw MoonportError.of(
        "mailbox_full",
        `${object.id} goes to another node, and ${moving.held} calls wait for that`,
        {
          object: object.id,
          retryAfterMs: 1_000,
        },
      );
    }
    moving.held++;
    return moving.done;
  }

  async #giveAway(object: ObjectIdentity, to: string | undefined): Promise<boolean> {
    const resident = this.#residents.get(object.id);
    if (resident !== undefined) {
      const details = to === undefined ? {} : { node: to };
      const cause = MoonportError.of("moved", `${object.id} goes to another node`, { object: object.id, details });
      try {
        await resident.leave(cause);
      } catch (error) {
        resident.stay();
        throw error;
      }
      if (!resident.tryLeave()) {
        resident.stay();
        return false;
      }
      this.#residents.delete(object.id);
    }
    faultPoint("handover.landed", object.id);
    await this.#context.claims.release(object);
    faultPoint("handover.released", object.id);
    return true;
  }

  /** When it was last used; undefined for one that is not resident. */
  lastUsedMs(object: ObjectIdentity): number | undefined {
    return this.#residents.get(object.id)?.lastUsedMs;
  }

  /**
   * The set of journals that each object should have may be another one now.
   * @param recordsMax of those that are stale so many are renewed @returns how many were, when those of closed files are. Never rejects.
   */
  async renewSets(recordsMax = Number.POSITIVE_INFINITY): Promise<number> {
    let renewed = 0;
    for (const { openFile } of this.#residents.values()) {
      if (renewed < recordsMax && openFile?.renewSet() === true) renewed++;
    }
    const inUse = (id: string): boolean => this.#residents.get(id)?.isAtRest === false;
    return renewed + (await this.#context.claims.renewSets(inUse, recordsMax - renewed));
  }

  #submit(object: ObjectIdentity, work: CallWork): void {
    const resident = this.#admit(object);
    resident.submit(work);
    faultPoint("call.waits", object.id);
    work.waiter?.whenGone(resident.callerGone);
  }

  #admit(object: ObjectIdentity): ResidentObject {
    // A request that looked into the bucket first may come only now; it must open no file behind the drain's back.
    if (this.#isClosing) throw MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
    const known = this.#residents.get(object.id);
    if (known !== undefined) return known;
    if (this.#residents.size >= this.#context.settings.NODE_RESIDENT_MAX) this.#makeRoom();
    const resident = new ResidentObject(this.#context, object, this.#deadlines, (used) => this.#used(used));
    this.#residents.set(object.id, resident);
    this.#newest = resident;
    return resident;
  }

  #makeRoom(): void {
    for (const [id, resident] of this.#residents) {
      if (!resident.tryLeave()) continue;
      this.#residents.delete(id);
      return;
    }
    throw MoonportError.of("node_full", `all ${this.#residents.size} resident objects are in use`, {
      hint: "raise NODE_RESIDENT_MAX if the machine has the memory for it",
      retryAfterMs: 1_000,
    });
  }

  #used(resident: ResidentObject): void {
    if (resident === this.#newest || !this.#residents.delete(resident.object.id)) return;
    this.#residents.set(resident.object.id, resident);
    this.#newest = resident;
  }

  #armSweep(): void {
    const everyMs = Math.max(10, this.#context.settings.OBJECT_IDLE_MS / 4);
    this.#sweep = this.#context.world.timers.after(everyMs, () => {
      this.#leaveIdle();
      this.#context.claims.trim((id) => this.#residents.has(id));
      this.#armSweep();
    });
  }

  /** The longest unused come first, so the walk ends at the first one that is young enough. */
  #leaveIdle(): void {
    const { clock } = this.#context.world;
    const idleSinceMs = clock.monotonicMs() - this.#context.settings.OBJECT_IDLE_MS;
    for (const [id, resident] of this.#residents) {
      if (resident.lastUsedMs > idleSinceMs) return;
      if (resident.tryLeave()) this.#residents.delete(id);
      else resident.shipAgain();
    }
  }
}

/** Something may have come of it, and will not be settled. */
function inDoubt(error: MoonportError): DeferredOutcome {
  const settled = Promise.reject(error);
  settled.catch(() => {});
  return { result: { kind: "failed", error }, settled };
}

function isOfBucket(error: unknown): boolean {
  return isOwn(error, "bucket_failed");
}

/** Field by field, so that every call has the same shape: a spread of the input cost a twentieth of a hot write. */
function callWork(
  input: CallInput,
  deferred: CallWork["deferred"],
  resolve: CallWork["resolve"],
  reject: CallWork["reject"],
): CallWork {
  return {
    kind: "call",
    method: input.method,
    access: input.access,
    args: input.args,
    caller: input.caller,
    callId: input.callId,
    waiter: input.waiter,
    sinceMs: input.sinceMs,
    expiresMs: input.expiresMs,
    chain: input.chain,
    timer: undefined,
    deferred,
    resolve,
    reject,
  };
}
