/** What the delivery of delayed work needs of its node; a test gives its own. */
import type { ObjectIdentity } from "../identity.js";
import type { InnerCall } from "../object/inner-call.js";
import type { WakeTeller, Woken } from "../object/work.js";
import type { PlainValue } from "../values.js";

/** Which shards this node has to see to. */
export interface ShardHomes {
  /** Whether it is this node that keeps the shard awake; of several that believe so one serves it. */
  isHome(shard: number): boolean;
}

export interface DriverPort extends ShardHomes {
  /** Whether the shard is this node's now. */
  holds(shard: number): boolean;
  /** Whether it was ever written. @throws MoonportError `bucket_failed` */
  exists(shard: number): Promise<boolean>;
  /** Calls a method of the shard wherever it lives. @throws MoonportError */
  ask(shard: number, method: string, args: PlainValue[]): Promise<PlainValue>;
  /** As `ask`, here alone. @throws MoonportError `moved` when the shard is another node's */
  here(shard: number, method: string, args: PlainValue[]): Promise<PlainValue>;
  /** Calls an object wherever it lives. @throws MoonportError */
  call(call: InnerCall): Promise<PlainValue>;
  /** Has an object run its due timers and take up what it owes, wherever it lives. @throws MoonportError */
  wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken>;
}
