/**
 * Keeps what the objects of this node owe: their next wake times reach their delay shards, their messages whom they are for.
 *
 * Promises:
 * - An object stands in the session's owing list before the bucket names a write that obliges, and until all it obliges to is
 *   done: whoever ends the session wakes it (W1).
 * - A shard that knows an earlier wake time is told of no later one: it wakes the object then, and is told in the answer.
 * - An object that owes nothing, or nothing new, costs nothing here.
 */
import { asMoonportError, assert } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DelayCounters } from "../metrics/delay-counters.js";
import type { Obligations, OwedMark } from "../object/obligations.js";
import type { Woken } from "../object/work.js";
import type { StoredMessage } from "../store/outbox.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { sleep } from "../world/world.js";
import { shardOf } from "./command.js";
import { type MessageParts, sendMessage } from "./outgoing-message.js";
import type { OwingList } from "./owing-list.js";

export interface OwedKeeperParts extends MessageParts {
  readonly owing: OwingList;
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
}

interface OwedWake {
  readonly epoch: number;
  readonly seq: number;
  readonly atMs: number;
  /** It stood in the file when that was opened: whoever's list it is on has not been given up yet. */
  readonly isFound: boolean;
}

/** A wake time that a shard is known to have. */
interface Registered {
  readonly epoch: number;
  readonly atMs: number;
}

const MESSAGES_PAGE = 64;
const REGISTERED_MAX = 100_000;
const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 5_000;
/** This node serves nothing any more. */
const OVER_HERE = new Set(["node_fenced", "node_stopping"]);

export class OwedKeeper implements Obligations {
  readonly #parts: OwedKeeperParts;
  readonly #owed = new Map<string, Owed>();
  /** In order of last use. */
  readonly #registered = new Map<string, Registered>();
  /** How many wakes of an object are being answered. */
  readonly #waking = new Map<string, number>();
  #idle: Deferred<void> | undefined;
  #isStopped = false;

  constructor(parts: OwedKeeperParts) {
    this.#parts = parts;
  }

  opened(object: ObjectIdentity, epoch: number, mark: OwedMark): void {
    if (mark.messagesThrough > 0) {
      const owed = this.#of(object);
      owed.foundThrough = Math.max(owed.foundThrough, mark.messagesThrough);
    }
    this.#take(object, epoch, mark, true);
  }

  listed(object: ObjectIdentity, epoch: number, mark: OwedMark | undefined): Promise<void> | undefined {
    const owed = this.#owed.get(object.id);
    const isOwing =
      (owed !== undefined && (owed.sendThrough > 0 || owed.wake?.isFound === false)) ||
      (mark !== undefined &&
        (mark.messagesThrough > 0 || (!mark.isToldToShard && this.#mustTell(object, epoch, mark))));
    return isOwing ? this.#parts.owing.add(object.id) : undefined;
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
    const owed = this.#owed.get(object.id);
    if (owed === undefined) this.#parts.owing.release(object.id);
    else this.#settle(owed);
  }

  /** Somebody has the object run its timers. What it comes to says when it wants to be woken next. */
  async waking(object: ObjectIdentity, run: () => Promise<Woken>): Promise<Woken> {
    const { id } = object;
    // The shard gives up the time that it has when it gets the answer.
    this.#registered.delete(id);
    this.#waking.set(id, (this.#waking.get(id) ?? 0) + 1);
    try {
      const woken = await run();
      const owed = this.#owed.get(id);
      if (owed?.wake !== undefined && !isAfter(owed.wake, woken)) owed.wake = undefined;
      if (owed !== undefined) this.#settle(owed);
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

  owes({ id }: ObjectIdentity): boolean {
    return this.#owed.has(id);
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
    this.#registered.clear();
    this.#parts.owing.sessionEnded();
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  abandon(): void {
    this.#isStopped = true;
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
      };
      this.#owed.set(object.id, owed);
    }
    return owed;
  }

  #mustTell({ id }: ObjectIdentity, epoch: number, { nextDueMs }: OwedMark): boolean {
    if (nextDueMs === undefined) return false;
    const registered = this.#registered.get(id);
    return registered === undefined || registered.epoch !== epoch || nextDueMs < registered.atMs;
  }

  #tell(owed: Owed): void {
    // While it is being woken the answer may say it all.
    if (owed.isTelling || owed.wake === undefined || this.#waking.has(owed.object.id)) return;
    owed.isTelling = true;
    void this.#telling(owed).finally(() => {
      owed.isTelling = false;
      this.#settle(owed);
    });
  }

  async #telling(owed: Owed): Promise<void> {
    const { world, scheduler } = this.#parts;
    const { id } = owed.object;
    for (let failures = 0; owed.wake !== undefined && this.#isKept(owed); ) {
      const { wake } = owed;
      try {
        const { epoch, seq, atMs } = wake;
        faultPoint("wake.registers", id);
        await scheduler.append(shardOf(id), { kind: "wake", object: id, epoch, seq, atMs });
        faultPoint("wake.registered", id);
        this.#note(id, wake);
        if (owed.wake === wake) owed.wake = undefined;
        failures = 0;
      } catch (thrown) {
        const error = asMoonportError(thrown);
        if (this.#isStopped) return;
        world.log.warn({ object: id, code: error.code }, `a wake time is not registered yet: ${error.message}`);
        await sleep(world, this.#pauseMs(++failures));
      }
    }
  }

  #note(id: string, { epoch, atMs }: Registered): void {
    // Being woken meanwhile, it may have been told something else.
    if (this.#waking.has(id)) return;
    this.#registered.delete(id);
    this.#registered.set(id, { epoch, atMs });
    if (this.#registered.size <= REGISTERED_MAX) return;
    const [oldest] = this.#registered.keys();
    if (oldest !== undefined) this.#registered.delete(oldest);
  }

  #send(owed: Owed): void {
    if (owed.isSending) return;
    owed.isSending = true;
    void this.#sending(owed).finally(() => {
      owed.isSending = false;
      this.#settle(owed);
    });
  }

  async #sending(owed: Owed): Promise<void> {
    const { world, messages, sent } = this.#parts;
    const { object } = owed;
    for (let failures = 0; owed.sendThrough > 0 && this.#isKept(owed); ) {
      const through = owed.sendThrough;
      try {
        const ready = (await messages(object, MESSAGES_PAGE)).filter(({ number }) => number <= through);
        if (ready.length === 0) {
          if (owed.sendThrough === through) owed.sendThrough = 0;
          continue;
        }
        faultPoint("message.sends", object.id);
        await this.#sendAll(owed, ready);
        faultPoint("message.sent", object.id);
        await sent(
          object,
          ready.map(({ number }) => number),
        );
        owed.handled.clear();
        failures = 0;
      } catch (thrown) {
        const error = asMoonportError(thrown);
        if (this.#isStopped) return;
        if (error.code === "moved") return void this.#handOn(owed);
        if (OVER_HERE.has(error.code)) return void this.#owed.delete(object.id);
        world.log.warn({ object: object.id, code: error.code }, `its messages wait: ${error.message}`);
        await sleep(world, this.#pauseMs(++failures));
      }
    }
  }

  /** Another node has it by now, and is to know what it owes; until then it stays on this session's list. */
  async #handOn(owed: Owed): Promise<void> {
    const { world, port, owing } = this.#parts;
    const { object } = owed;
    this.#owed.delete(object.id);
    for (let failures = 1; !this.#isStopped; failures++) {
      try {
        await port.wake(object);
        if (!this.#owed.has(object.id)) owing.release(object.id);
        return;
      } catch (thrown) {
        if (this.#isStopped || OVER_HERE.has(asMoonportError(thrown).code)) return;
        await sleep(world, this.#pauseMs(failures));
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
    const { id } = owed.object;
    if (this.#owed.get(id) !== owed) return;
    if (owed.wake !== undefined || owed.isTelling || owed.sendThrough > 0 || owed.isSending) return;
    this.#owed.delete(id);
    this.#parts.owing.release(id);
    if (this.#owed.size > 0 || this.#idle === undefined) return;
    this.#idle.resolve();
    this.#idle = undefined;
  }

  #isKept(owed: Owed): boolean {
    return !this.#isStopped && this.#owed.get(owed.object.id) === owed;
  }

  #pauseMs(failures: number): number {
    assert(failures > 0, "a pause follows a failure");
    return backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#parts.world.random.fraction());
  }
}

function isAfter(wake: OwedWake, { epoch, seq }: Woken): boolean {
  return wake.epoch > epoch || (wake.epoch === epoch && wake.seq > seq);
}
