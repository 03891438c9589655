/** Delayed work of one node, put together: its shards' drivers, what its objects owe, what ended sessions owed. */
import type { Bucket } from "../bucket/bucket.js";
import type { RowDebts } from "../directory/row-debts.js";
import type { ObjectIdentity } from "../identity.js";
import type { DelayCounters } from "../metrics/delay-counters.js";
import type { Obligations } from "../object/obligations.js";
import type { Waker, Woken } from "../object/work.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import { ArgumentStore } from "./argument-store.js";
import { DelayDriver } from "./delay-driver.js";
import { DelayOperations, type DelayOperationsParts } from "./delay-operations.js";
import type { DriverPort } from "./driver-port.js";
import { OwedKeeper, type OwedKeeperParts } from "./owed-keeper.js";
import { OwedSessions, type OwedSessionsParts } from "./owed-sessions.js";
import { OwingList } from "./owing-list.js";
import { Scheduler } from "./scheduler.js";
import { Slots } from "./slots.js";

export interface NodeDelayParts
  extends Pick<OwedKeeperParts, "messages" | "sent">,
    Pick<OwedSessionsParts, "session" | "isDead">,
    Pick<DelayOperationsParts, "checkMethod"> {
  readonly world: World;
  readonly settings: Settings;
  readonly bucket: Bucket;
  readonly counters: DelayCounters;
  readonly port: DriverPort;
  /** Whether this node is the partition's home. */
  readonly isHomeOf: (partition: number) => boolean;
}

export class NodeDelay {
  readonly operations: DelayOperations;
  readonly #keeper: OwedKeeper;
  readonly #owing: OwingList;
  readonly #driver: DelayDriver;
  readonly #sessions: OwedSessions;
  readonly #scheduler: Scheduler;

  constructor(parts: NodeDelayParts) {
    const { world, settings, bucket, counters, port, session } = parts;
    const store = new ArgumentStore(bucket);
    const slots = new Slots(settings.DELAY_CONCURRENCY);
    this.#owing = new OwingList({ world, bucket, session });
    this.#scheduler = new Scheduler({ world, settings, port, arguments: store });
    this.operations = new DelayOperations({ ...parts, scheduler: this.#scheduler });
    this.#driver = new DelayDriver({ world, settings, port, counters, slots, arguments: store });
    this.#keeper = new OwedKeeper({ ...parts, owing: this.#owing, scheduler: this.#scheduler });
    this.#sessions = new OwedSessions({
      ...parts,
      owing: this.#owing,
      isHome: parts.isHomeOf,
      owes: (object) => this.#keeper.owes(object),
      wake: (object) => port.takeUp(object),
    });
  }

  get obligations(): Obligations {
    return this.#keeper;
  }

  get rowDebts(): RowDebts {
    return this.#keeper;
  }

  /** W1: the record is about to name writes that only journals held. */
  readonly beforeTail = (object: ObjectIdentity): Promise<void> | undefined => this.#owing.add(object.id);

  /** The node serves. */
  start(): void {
    this.#driver.look();
    this.#sessions.look();
  }

  /** Other members are there than before, or a session has ended. */
  membersChanged(): void {
    this.#driver.look();
    this.#sessions.look();
  }

  /** A call reached a shard on this node. */
  touched(shard: number): void {
    this.#driver.touched(shard);
  }

  /** This node has an object run its timers. */
  waking(object: ObjectIdentity, waker: Waker, run: () => Promise<Woken>): Promise<Woken> {
    return waker === "shard" ? this.#keeper.waking(object, run) : this.#keeper.takingUp(object, run);
  }

  /** The object gets other content by another way than its own commits, with timers and messages of its own (W1). */
  async renewed<T>(object: ObjectIdentity, renew: () => Promise<T>): Promise<T> {
    await this.#owing.add(object.id);
    try {
      return await renew();
    } finally {
      this.#sessions.wake(object);
    }
  }

  lapsed(): void {
    this.#driver.lapsed();
    this.#keeper.sessionEnded();
  }

  /** Begins nothing more; resolves when what is under way has ended and nothing is owed. */
  async settle(): Promise<void> {
    this.#sessions.stop();
    await this.#driver.stop();
    await this.#keeper.settled();
  }

  /** After everything has landed. */
  async stop(): Promise<void> {
    this.#driver.abandon();
    this.#scheduler.stop();
    this.#keeper.abandon();
    await this.#owing.stop();
  }
}
