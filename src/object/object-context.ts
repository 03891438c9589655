/** What all objects of a node share. Made by the composition root. */
import type { Bucket } from "../bucket/bucket.js";
import type { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DirectoryQuery } from "../lua/contract.js";
import type { NodeCounters } from "../metrics/node-counters.js";
import type { Observer } from "../observation.js";
import type { Landing } from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import type { Claims } from "../shipping/claims.js";
import type { FleetView } from "../shipping/fleet-view.js";
import type { PermitPool } from "../shipping/permits.js";
import type { PageImageCache } from "../shipping/wal/page-image-cache.js";
import type { RowStanding } from "../store/directory-row.js";
import type { PlainValue } from "../values.js";
import type { RunningRecord } from "../world/watchdog/running-record.js";
import type { World } from "../world/world.js";
import type { CallTraffic } from "./call-traffic.js";
import type { Catalog } from "./catalog.js";
import type { FilePool } from "./file-pool.js";
import type { InnerCall } from "./inner-call.js";
import type { LocalCopies } from "./local-copies.js";
import type { Obligations } from "./obligations.js";
import type { Quarantine } from "./quarantine.js";
import type { AnswerMemory } from "./remembered-answers.js";
import type { WaitGraph } from "./wait-graph.js";

/** Who asks the directory, and how long the answer is waited for. */
export interface FindAsker {
  readonly app: string;
  /** Monotonic. */
  readonly expiresMs: number;
}

export interface RowListener {
  /** @param isFound it stood so when the file was opened: it may have been told before */
  stands(object: ObjectIdentity, epoch: number, standing: RowStanding, isFound: boolean): void;
  /** The object was destroyed at `seq`. */
  gone(object: ObjectIdentity, epoch: number, seq: number): void;
}

export interface ObjectContext {
  readonly world: World;
  readonly settings: Settings;
  readonly log: World["log"];
  readonly bucket: Bucket;
  readonly claims: Claims;
  readonly fleet: FleetView;
  readonly catalog: Catalog;
  /** Absent where the bucket bounds itself. */
  readonly permits: PermitPool | undefined;
  readonly images: PageImageCache;
  readonly answers: AnswerMemory;
  readonly files: FilePool;
  readonly localCopies: LocalCopies;
  readonly observe: Observer;
  readonly counters: NodeCounters;
  readonly traffic: CallTraffic;
  readonly waits: WaitGraph;
  /** Told which class code runs. */
  readonly running: RunningRecord;
  readonly quarantine: Quarantine;
  readonly obligations: Obligations;
  /** A call from one object to another: through its mailbox and its gate. @throws MoonportError */
  call(call: InnerCall): Promise<PlainValue>;
  /** A question to a class's directory. @throws MoonportError */
  find(className: string, query: DirectoryQuery, asker: FindAsker): Promise<PlainValue>;
  /** Told how objects with a directory row stand, of what is durable only. */
  readonly rows: RowListener;
  /** Why an object that has applied more migrations than its class declares may not be served; undefined where it may. */
  whyBehind(object: ObjectIdentity, applied: number, declared: number): MoonportError | undefined;
  /** Told of every landed flight, after its replies were released. */
  landed(landing: Landing): void;
}
