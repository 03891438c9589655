/** Delayed work of one node, put together: its shards' drivers, what its objects owe, what ended sessions owed. */
import type { Bucket } from "../bucket/bucket.js";
import type { RowDebts } from "../directory/row-debts.js";
import { asMoonportError, isOwn } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DelayCounters } from "../metrics/delay-counters.js";
import type { Obligations } from "../object/obligations.js";
import type { WakeTeller, Woken } from "../object/work.js";
import type { Settings } from "../settings/settings.js";
import { delayShardsOf } from "../shipping/fleet.js";
import type { World } from "../world/world.js";
import { ArgumentStore } from "./argument-store.js";
import { DelayDriver } from "./delay-driver.js";
import { DelayOperations, type DelayOperationsParts } from "./delay-operations.js";
import type { DriverPort } from "./driver-port.js";
import { OwedKeeper, type OwedKeeperParts } from "./owed-keeper.js";
import { OwedSessions, type OwedSessionsParts } from "./owed-sessions.js";
import { OwingList } from "./owing-list.js";
import { Scheduler } from "./scheduler.js";
import type { ShardMap } from "./shard-map.js";
import { Slots } from "./slots.js";
import { Wakings } from "./wakings.js";

export interface NodeDelayParts
  extends Pick<OwedKeeperParts, "messages" | "sent">,
    Pick<OwedSessionsParts, "session" | "isDead">,
    Pick<DelayOperationsParts, "checkMethod" | "checkClass"> {
  readonly world: World;
  readonly settings: Settings;
  readonly bucket: Bucket;
  readonly counters: DelayCounters;
  readonly shards: ShardMap;
  readonly port: DriverPort;
  /** Whether this node is the partition's home. */
  readonly isHomeOf: (partition: number) => boolean;
}

export class NodeDelay {
  readonly operations: DelayOperations;
  readonly #keeper: OwedKeeper;
  readonly #owing: OwingList;
  readonly #driver: DelayDriver;
  readonly #wakings: Wakings;
  readonly #sessions: OwedSessions;
  readonly #scheduler: Scheduler;
  readonly #shards: ShardMap;
  readonly #bucket: Bucket;
  readonly #log: World["log"];

  constructor(parts: NodeDelayParts) {
    const { world, settings, bucket, counters, port, session } = parts;
    const store = new ArgumentStore(bucket);
    const { shards } = parts;
    this.#shards = shards;
    this.#bucket = bucket;
    this.#log = world.log;
    const slots = new Slots(settings.DELAY_CONCURRENCY);
    this.#owing = new OwingList({ world, bucket, session });
    this.#scheduler = new Scheduler({ world, settings, port, arguments: store, shards });
    this.operations = new DelayOperations({ ...parts, scheduler: this.#scheduler });
    this.#driver = new DelayDriver({ world, settings, port, counters, slots, arguments: store, shards });
    this.#keeper = new OwedKeeper({ ...parts, owing: this.#owing, scheduler: this.#scheduler });
    this.#wakings = new Wakings({
      world,
      settings,
      keeper: this.#keeper,
      wake: async (object) => void (await port.wake(object, "owner")),
    });
    this.#sessions = new OwedSessions({
      ...parts,
      keeper: this.#keeper,
      wakings: this.#wakings,
      isHome: parts.isHomeOf,
    });
  }

  get obligations(): Obligations {
    return this.#keeper;
  }

  get rowDebts(): RowDebts {
    return this.#keeper;
  }

  /** The node serves. */
  start(): void {
    this.#driver.look();
    this.#sessions.look();
  }

  /** Other members are there than before, or a session has ended. */
  membersChanged(): void {
    this.#driver.look();
    this.#sessions.look();
    void this.#lookForShards();
  }

  /** A node that joined may have raised their number. */
  async #lookForShards(): Promise<void> {
    try {
      if (this.#shards.adopt(await delayShardsOf(this.#bucket))) this.#driver.look();
    } catch (thrown) {
      // The next change of members looks again; until then what comes new goes by the number that is known.
      this.#log.warn({ code: asMoonportError(thrown).code }, "the number of delay shards was not read");
    }
  }

  /** A call reached a shard on this node. */
  touched(shard: number): void {
    this.#driver.touched(shard);
  }

  /** A shard is not this node's any more. */
  lost(shard: number): void {
    this.#driver.lost(shard);
  }

  /** This node has an object run its timers. */
  waking(object: ObjectIdentity, teller: WakeTeller, run: () => Promise<Woken>): Promise<Woken> {
    return this.#keeper.waking(object, teller, run);
  }

  /** The object gets other content by another way than its own commits: its timers and messages are taken up. */
  async renewed<T>(object: ObjectIdentity, renew: () => Promise<T>): Promise<T> {
    try {
      const result = await renew();
      this.#wakings.begin(object);
      return result;
    } catch (error) {
      if (isOwn(error, "outcome_unknown")) this.#wakings.begin(object);
      throw error;
    }
  }

  /** The record is about to name writes that only journals held: as {@link Obligations.listed}. */
  beforeTail(object: ObjectIdentity): Promise<void> | undefined {
    return this.#keeper.renews(object);
  }

  /** The claim that it was listed for has ended, won, lost or in doubt: what it owes nobody knows until it was woken. */
  tailEnded(object: ObjectIdentity): void {
    this.#wakings.begin(object);
    this.#keeper.named(object);
  }

  /** Nothing of {@link tailEnded} is woken before they are made. */
  claimsFirst(claims: () => Promise<void>): Promise<void> {
    return this.#wakings.claimsFirst(claims);
  }

  lapsed(): void {
    this.#driver.lapsed();
    this.#keeper.sessionEnded();
  }

  /** Begins nothing more; resolves when what is under way has ended. */
  async rest(): Promise<void> {
    this.#sessions.stop();
    this.#wakings.stop();
    await this.#driver.stop();
  }

  /** Resolves when nothing is owed: of a node that anybody calls that may never be. */
  settled(): Promise<void> {
    return this.#keeper.settled();
  }

  /** After everything has landed. */
  async stop(): Promise<void> {
    this.#driver.abandon();
    this.#scheduler.stop();
    this.#keeper.abandon();
    await this.#owing.stop();
  }
}
