/** What a node is made of; only the composition root and its callers know all of it. */
import type { AppSource } from "./app-source.js";
import type { Bucket } from "./bucket/bucket.js";
import type { ObjectIdentity } from "./identity.js";
import type { EntryRange, HeldEntries } from "./journal/contract.js";
import type { ClaimReason } from "./metrics/fleet-counters.js";
import type { CallReply, CallRequest } from "./node-api.js";
import type { InnerCall } from "./object/inner-call.js";
import type { DeferredOutcome, WakeTeller, Woken } from "./object/work.js";
import type { Observer } from "./observation.js";
import type { Settings } from "./settings/settings.js";
import type { Claims } from "./shipping/claims.js";
import type { FleetView } from "./shipping/fleet-view.js";
import type { NativeClasses } from "./units/native.js";
import type { OutboundOptions } from "./units/outbound.js";
import type { PlainValue } from "./values.js";
import type { Watchdog } from "./world/watchdog/watchdog.js";
import type { World } from "./world/world.js";

/** What a node gives to the fleet that it joins. */
export interface FleetParts {
  readonly world: World;
  readonly bucket: Bucket;
  readonly settings: Settings;
  /** Name of the fleet, from its record in the bucket. */
  readonly fleet: string;
}

/** Told of what happens to the node's session and to its peers. */
export interface FleetHooks {
  readonly claims: Claims;
  /** Nothing may be answered under the session any more: every object closes. */
  lapsed(): void;
  /** Other nodes are there than before: sets of journals may have to change. */
  membersChanged(): void;
  /** Renews sets of journals that are not as they should be, so many at most. @returns how many. Never rejects. */
  renewSets(recordsMax: number): Promise<number>;
  /** Somebody's session has ended. */
  sessionEnded(): void;
  /** Of what is claimed by it, nothing takes up what it owes before all of it is claimed. */
  claimsFirst(claims: () => Promise<void>): Promise<void>;
  /** Gives an object up for `to`. False when it stays, because it is in use; rejects when something of it does not land. */
  handOver(object: ObjectIdentity, to: string | undefined): Promise<boolean>;
  /** When the object was last used here, monotonic; undefined for one that is not resident. */
  lastUsedMs(object: ObjectIdentity): number | undefined;
}

/** A fleet that this node is a member of. */
export interface JoinedFleet extends FleetView {
  /** Whether this node is the first of the partition's order. */
  isHomeOf(partition: number): boolean;
  /** What this node's journal holds of an object; undefined where that is of another line than the range's. */
  ownEntries(object: string, range: EntryRange): Promise<HeldEntries | undefined>;
  begin(hooks: FleetHooks): void;
  /** An object has become this node's; without a reason it was before, and had been forgotten. */
  claimed(object: ObjectIdentity, reason: ClaimReason | undefined): void;
  /**
   * Gives up every object, cleanly, for the others, and takes no new ones while others are there.
   * @returns whether nothing is left; false when `untilMs` (monotonic) has come before
   */
  leave(untilMs: number): Promise<boolean>;
  /** Ends the session. */
  stop(): Promise<void>;
}

/** Where calls go that objects and units of this node make. */
export interface CallRouter {
  call(request: CallRequest): Promise<CallReply>;
  /** Has an object run its due timers where it lives. */
  wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken>;
  callFromObject(call: InnerCall): Promise<PlainValue>;
  callDeferred(request: CallRequest): Promise<DeferredOutcome>;
  /** Asks an object, wherever it lives, to tell its directory row again. */
  tellRow(object: ObjectIdentity): Promise<void>;
  /** Whether the object is to live on this node. */
  isHome(object: ObjectIdentity): boolean;
}

export interface NodeOptions {
  /** Its folder is the data folder. */
  readonly world: World;
  readonly bucket: Bucket;
  readonly apps: readonly AppSource[];
  /** Apps that are served as the bucket's releases say, once it has one; until then from `apps`. Default: none. */
  readonly followsReleases?: readonly string[];
  readonly settings: Settings;
  /** `refuse`: a class that does not load stops the start (`start`). `report`: the others load, the fault is observed (`dev`). */
  readonly onClassError: "refuse" | "report";
  readonly observer?: Observer;
  /** Ends the process when its main thread hangs. Default: none. */
  readonly watchdog?: Watchdog;
  /** Host code that units call like objects, by class name; no Lua class may have one of the names. */
  readonly native?: NativeClasses;
  /** Joins the node to others, once its bucket is there. Without it the node is alone. */
  readonly fleet?: (parts: FleetParts) => Promise<JoinedFleet>;
  /** Where units may reach the network, and by what. Without it, nowhere. */
  readonly outbound?: OutboundOptions;
}
