/**
 * Keeps what the objects of this node owe: their next wake times reach their delay shards, their messages whom they are for.
 * Of directory rows it keeps which are still to be told; src/directory tells them.
 *
 * Promises:
 * - An object stands in the session's owing list before the bucket names a write that obliges, and until all it obliges to is
 *   done: whoever ends the session wakes it (W1). One that is known to owe nothing stays there while more is about to be named,
 *   and while somebody is about to have it say what it owes.
 * - A shard that knows an earlier wake time is told of no later one: it wakes the object then, and is told in the answer.
 * - An object that owes nothing, or nothing new, costs nothing here.
 */

import type { RowDebts } from "../directory/row-debts.js";
import { asMoonportError, assert, type ErrorCode, isOwn, type MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DelayCounters } from "../metrics/delay-counters.js";
import type { Obligations, ObligingWrites, OwedMark } from "../object/obligations.js";
import type { WakeTeller, Woken } from "../object/work.js";
import { RecentMap } from "../recent-map.js";
import type { StoredMessage } from "../store/outbox.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { sleep } from "../world/world.js";
import { type MessageParts, sendMessage } from "./outgoing-message.js";
import type { OwingList } from "./owing-list.js";
import type { ShardMap } from "./shard-map.js";

export interface OwedKeeperParts extends MessageParts {
  readonly owing: OwingList;
  readonly shards: ShardMap;
  readonly counters: DelayCounters;
  /** The first messages of an object's outbox. @throws MoonportError `moved` when it is another node's */
  readonly messages: (object: ObjectIdentity, limit: number) => Promise<readonly StoredMessage[]>;
  /** They leave the outbox, durably. @throws MoonportError */
  readonly sent: (object: ObjectIdentity, numbers: readonly number[]) => Promise<void>;
}

/** What one object owes now. */
interface Owed {
  readonly object: ObjectIdentity;
  /** To be told to the shard. */
  wake: OwedWake | undefined;
  isTelling: boolean;
  /** Messages through this number are to be sent; 0: none. */
  sendThrough: number;
  /** Messages through this number may have been tried by an earlier residency. */
  foundThrough: number;
  isSending: boolean;
  /** Messages that are done with, and have not left the outbox yet. */
  readonly handled: Set<number>;
  /** To be told to the directory. `found`: it stood in the file when that was opened, as a wake time may. */
  row: "told" | "found" | "changed";
}

interface OwedWake {
  readonly epoch: number;
  readonly seq: number;
  readonly atMs: number;
  /** It stood in the file when that was opened: whoever's list it is on has not been given up yet. */
  readonly isFound: boolean;
}

/** A wake time that a shard has, or is being told until it has it. */
interface Registered {
  readonly epoch: number;
  readonly atMs: number;
}

const MESSAGES_PAGE = 64;
const REGISTERED_MAX = 100_000;
const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 5_000;
/** The object is another node's, or will be: this one gives its objects away. */
const ELSEWHERE: readonly ErrorCode[] = ["moved", "node_stopping"];

export class OwedKeeper implements Obligations, RowDebts {
  readonly #parts: OwedKeeperParts;
  readonly #owed = new Map<string, Owed>();
  /** Objects of which the bucket is about to name more: what they owe by then they will be known to owe only after it. */
  readonly #named = new Set<string>();
  /** Objects that are to be woken, and how often: what they owe will be known only then. */
  readonly #held = new Map<string, number>();
  /** In order of last use. */
  readonly #registered = new RecentMap<string, Registered>(REGISTERED_MAX);
  /** How many wakes of an object are being answered. */
  readonly #waking = new Map<string, number>();
  #idle: Deferred<void> | undefined;
  readonly #stopped = new AbortController();

  constructor(parts: OwedKeeperParts) {
    this.#parts = parts;
  }

  opened(object: ObjectIdentity, epoch: number, mark: OwedMark): void {
    // Of an earlier opening that broke, nobody will say so any more.
    this.#named.delete(object.id);
    if (mark.messagesThrough > 0) {
      const owed = this.#of(object);
      owed.foundThrough = Math.max(owed.foundThrough, mark.messagesThrough);
    }
    this.#take(object, epoch, mark, true);
  }

  listed(object: ObjectIdentity, epoch: number, writes: ObligingWrites): Promise<void> | undefined {
    if (!this.#oblige(object, epoch, writes)) return undefined;
    this.#named.add(object.id);
    return this.#parts.owing.add(object.id);
  }

  named(object: ObjectIdentity): void {
    if (this.#named.delete(object.id)) this.#release(object.id);
  }

  renews({ id }: ObjectIdentity): Promise<void> | undefined {
    this.#named.add(id);
    return this.#parts.owing.add(id);
  }

  /** It stays on the list until {@link letGo}, whatever is known of it. As {@link listed}. */
  hold({ id }: ObjectIdentity): Promise<void> | undefined {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    return this.#parts.owing.add(id);
  }

  /** Once for each {@link hold}. */
  letGo({ id }: ObjectIdentity): void {
    const left = (this.#held.get(id) ?? 1) - 1;
    if (left > 0) return void this.#held.set(id, left);
    this.#held.delete(id);
    this.#release(id);
  }

  #oblige(object: ObjectIdentity, epoch: number, { mark, changesRow }: ObligingWrites): boolean {
    const owed = this.#owed.get(object.id);
    if (changesRow || owed?.row === "changed") return true;
    if (owed !== undefined && (owed.sendThrough > 0 || owed.wake?.isFound === false)) return true;
    if (mark === undefined) return false;
    return mark.messagesThrough > 0 || (!mark.isToldToShard && this.#mustTell(object, epoch, mark));
  }

  offered(object: ObjectIdentity, isFound: boolean): void {
    if (this.#isStopped) return;
    const owed = this.#of(object);
    if (owed.row !== "changed") owed.row = isFound ? "found" : "changed";
  }

  told({ id }: ObjectIdentity): void {
    const owed = this.#owed.get(id);
    if (owed === undefined) return;
    owed.row = "told";
    this.#settle(owed);
  }

  landed(object: ObjectIdentity, epoch: number, mark: OwedMark): void {
    this.#take(object, epoch, mark, false);
  }

  #take(object: ObjectIdentity, epoch: number, mark: OwedMark, isFound: boolean): void {
    if (this.#isStopped) return;
    const { nextDueMs, messagesThrough, seq } = mark;
    if (!mark.isToldToShard && nextDueMs !== undefined && this.#mustTell(object, epoch, mark)) {
      const owed = this.#of(object);
      owed.wake = { epoch, seq, atMs: nextDueMs, isFound };
      this.#tell(owed);
    }
    if (messagesThrough > 0) {
      const owed = this.#of(object);
      owed.sendThrough = Math.max(owed.sendThrough, messagesThrough);
      this.#send(owed);
    }
    this.#release(object.id);
  }

  /** Somebody has the object run its timers. What it comes to says when it wants to be woken next. */
  async waking(object: ObjectIdentity, teller: WakeTeller, run: () => Promise<Woken>): Promise<Woken> {
    const { id } = object;
    if (teller === "owner") {
      const woken = await run();
      if (this.#owed.has(id)) await this.#parts.owing.add(id);
      return woken;
    }
    // The shard gives up the time that it has when it gets the answer.
    this.#registered.delete(id);
    this.#waking.set(id, (this.#waking.get(id) ?? 0) + 1);
    try {
      const woken = await run();
      const owed = this.#owed.get(id);
      if (owed?.wake !== undefined && !isAfter(owed.wake, woken)) owed.wake = undefined;
      this.#release(id);
      // Before the answer leaves: whoever asked may then forget the object.
      if (this.#owed.has(id)) await this.#parts.owing.add(id);
      return woken;
    } finally {
      const left = (this.#waking.get(id) ?? 1) - 1;
      if (left > 0) this.#waking.set(id, left);
      else this.#waking.delete(id);
      const owed = this.#owed.get(id);
      if (owed !== undefined) this.#tell(owed);
    }
  }

  /** Resolves when nothing is owed any more. */
  settled(): Promise<void> {
    if (this.#owed.size === 0) return Promise.resolve();
    this.#idle ??= deferred();
    return this.#idle.promise;
  }

  /** The session is over; under the next one each object is opened anew. */
  sessionEnded(): void {
    this.#owed.clear();
    this.#named.clear();
    this.#registered.clear();
    this.#parts.owing.sessionEnded();
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  abandon(): void {
    this.#stopped.abort();
    this.#idle?.resolve();
  }

  #of(object: ObjectIdentity): Owed {
    let owed = this.#owed.get(object.id);
    if (owed === undefined) {
      owed = {
        object,
        wake: undefined,
        isTelling: false,
        sendThrough: 0,
        foundThrough: 0,
        isSending: false,
        handled: new Set<number>(),
        row: "told",
      };
      this.#owed.set(object.id, owed);
    }
    return owed;
  }

  #mustTell({ id }: ObjectIdentity, epoch: number, { nextDueMs }: OwedMark): boolean {
    if (nextDueMs === undefined) return false;
    const registered = this.#registered.peek(id);
    return registered === undefined || registered.epoch !== epoch || nextDueMs < registered.atMs;
  }

  #tell(owed: Owed): void {
    // While it is being woken the answer may say it all.
    if (owed.isTelling || owed.wake === undefined || this.#waking.has(owed.object.id)) return;
    owed.isTelling = true;
    void this.#telling(owed).then(() => this.#settle(owed));
  }

  async #telling(owed: Owed): Promise<void> {
    const { world, scheduler, shards } = this.#parts;
    const { id } = owed.object;
    try {
      for (let failures = 0; owed.wake !== undefined && this.#isKept(owed); ) {
        const { wake } = owed;
        try {
          const { epoch, seq, atMs } = wake;
          // Not after the answer: that may come behind the shard's next question, which gives this time up.
          this.#note(id, wake);
          faultPoint("wake.registers", id);
          await scheduler.append(shards.shardOf(id), { kind: "wake", object: id, epoch, seq, atMs });
          faultPoint("wake.registered", id);
          if (owed.wake === wake) owed.wake = undefined;
          failures = 0;
        } catch (thrown) {
          const error = asMoonportError(thrown);
          if (this.#isStopped) return;
          world.log.warn({ object: id, code: error.code }, `a wake time is not registered yet: ${error.message}`);
          await sleep(world, this.#pauseMs(++failures), this.#stopped.signal);
        }
      }
    } finally {
      // In one step with the last look: what is owed from here on begins it again.
      owed.isTelling = false;
    }
  }

  #note(id: string, { epoch, atMs }: Registered): void {
    // Being woken meanwhile, it may have been told something else.
    if (this.#waking.has(id)) return;
    this.#registered.set(id, { epoch, atMs });
  }

  #send(owed: Owed): void {
    if (owed.isSending) return;
    owed.isSending = true;
    void this.#sending(owed).then(() => this.#settle(owed));
  }

  async #sending(owed: Owed): Promise<void> {
    const { messages, sent } = this.#parts;
    const { object } = owed;
    try {
      for (let failures = 0; owed.sendThrough > 0 && this.#isKept(owed); ) {
        const through = owed.sendThrough;
        try {
          const ready = (await messages(object, MESSAGES_PAGE)).filter(({ number }) => number <= through);
          if (ready.length === 0) {
            if (owed.sendThrough === through) owed.sendThrough = 0;
            continue;
          }
          faultPoint("message.sends", object.id);
          // What the node of a shard says there it says of itself: this object may be here all the same.
          const failure = await this.#sendAll(owed, ready).then(() => undefined, asMoonportError);
          if (failure !== undefined) {
            await this.#pause(object, failure, ++failures);
            continue;
          }
          faultPoint("message.sent", object.id);
          await sent(
            object,
            ready.map(({ number }) => number),
          );
          owed.handled.clear();
          failures = 0;
        } catch (thrown) {
          const error = asMoonportError(thrown);
          if (isOwn(error, ...ELSEWHERE) && !this.#isStopped) await this.#handOn(owed);
          else await this.#pause(object, error, ++failures);
        }
      }
    } finally {
      // In one step with the last look: what is owed from here on begins it again.
      owed.isSending = false;
    }
  }

  /** Over at once when the node stops. */
  async #pause({ id }: ObjectIdentity, { code, message }: MoonportError, failures: number): Promise<void> {
    if (this.#isStopped) return;
    const { world } = this.#parts;
    world.log.warn({ object: id, code }, `its messages wait: ${message}`);
    await sleep(world, this.#pauseMs(failures), this.#stopped.signal);
  }

  /** Another node has it by now, or takes it, and is to know what it owes; until then it stays on this session's list. */
  async #handOn(owed: Owed): Promise<void> {
    const { world, port } = this.#parts;
    for (let failures = 1; this.#isKept(owed); failures++) {
      const through = owed.sendThrough;
      try {
        // Should it come back meanwhile, that is noted anew.
        owed.sendThrough = 0;
        return void (await port.wake(owed.object, "owner"));
      } catch {
        owed.sendThrough = Math.max(owed.sendThrough, through);
        await sleep(world, this.#pauseMs(failures), this.#stopped.signal);
      }
    }
  }

  /** In the order of sending for each target. @throws MoonportError when one could not be handed over */
  async #sendAll(owed: Owed, messages: readonly StoredMessage[]): Promise<void> {
    const byTarget = new Map<string, StoredMessage[]>();
    for (const message of messages) {
      const target = `${message.className}/${message.key}`;
      const others = byTarget.get(target);
      if (others === undefined) byTarget.set(target, [message]);
      else others.push(message);
    }
    const sending = [...byTarget.values()].map(async (group) => {
      for (const message of group) {
        if (owed.handled.has(message.number)) continue;
        await sendMessage(this.#parts, owed.object, message, message.number <= owed.foundThrough);
        owed.handled.add(message.number);
        this.#parts.counters.messagesSent++;
      }
    });
    await Promise.all(sending);
  }

  #settle(owed: Owed): void {
    // Under the next session it is another one's.
    if (this.#owed.get(owed.object.id) === owed) this.#release(owed.object.id);
  }

  /** Whoever owes nothing any more is forgotten, and may leave the list. */
  #release(id: string): void {
    if (this.#isStopped) return;
    const owed = this.#owed.get(id);
    if (owed !== undefined && isOwing(owed)) return;
    this.#owed.delete(id);
    if (!this.#named.has(id) && !this.#held.has(id)) this.#parts.owing.release(id);
    if (this.#owed.size > 0 || this.#idle === undefined) return;
    this.#idle.resolve();
    this.#idle = undefined;
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  #isKept(owed: Owed): boolean {
    return !this.#isStopped && this.#owed.get(owed.object.id) === owed;
  }

  #pauseMs(failures: number): number {
    assert(failures > 0, "a pause follows a failure");
    return backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#parts.world.random.fraction());
  }
}

function isOwing({ wake, isTelling, sendThrough, isSending, row }: Owed): boolean {
  return wake !== undefined || isTelling || sendThrough > 0 || isSending || row !== "told";
}

function isAfter(wake: OwedWake, { epoch, seq }: Woken): boolean {
  return wake.epoch > epoch || (wake.epoch === epoch && wake.seq > seq);
}
