/**
 * A node without objects, for what a door does by itself: limits, mapping of errors, encoding. It records each call and
 * answers with what the test says; without a word it echoes the arguments.
 */
import type { DelayApi, ObjectTimers, SendRequest } from "../../src/delay/contract.js";
import { MoonportError } from "../../src/errors.js";
import type { ObjectIdentity } from "../../src/identity.js";
import type {
  CallReply,
  CallRequest,
  ClassInfo,
  DirectoryStatus,
  Drained,
  DrainRequest,
  ExportedDatabase,
  FindRequest,
  FleetStatus,
  FoundPage,
  Inspection,
  NodeApi,
  NodeInfo,
  NodeStatus,
  ObjectHistory,
  PointInTime,
  QuarantineEntry,
  Restoration,
  Restored,
  RingInfo,
  UnitInfo,
  UnitRequest,
  UnitResponse,
} from "../../src/node-api.js";
import type {
  AppReleases,
  Deployed,
  DeployRequest,
  DeployTerms,
  Release,
  RollbackRequest,
} from "../../src/release/contract.js";
import type { PlainValue, SqlRows, SqlValue } from "../../src/values.js";

function fakeRelease({ by, message = "" }: DeployTerms): Release {
  return { number: 1, id: "a-deployment", bundle: "0".repeat(64), files: 1, bytes: 1, atMs: 0, by, message };
}

export class FakeNode implements NodeApi {
  readonly calls: CallRequest[] = [];
  readonly unitRequests: UnitRequest[] = [];
  readonly finds: FindRequest[] = [];
  unitAnswer: (request: UnitRequest) => Promise<UnitResponse> | UnitResponse = () => ({
    status: 200,
    headers: { "content-type": "application/json; charset=utf-8" },
    body: "null",
  });
  readonly stores = new Map<string, Map<string, PlainValue>>();
  readonly destroyed: string[] = [];
  readonly restorations: {
    readonly object: string;
    readonly restoration: Partial<Restoration>;
    readonly key?: string;
  }[] = [];
  readonly deployed: DeployRequest[] = [];
  readonly rolledBack: RollbackRequest[] = [];
  quarantined: QuarantineEntry[] = [];
  readonly sent: SendRequest[] = [];
  readonly delay: DelayApi = {
    send: async (request) => {
      this.sent.push(request);
      return { id: request.id ?? "made" };
    },
    list: async () => [],
    get: async () => undefined,
    cancel: async () => "unknown",
    move: async () => "unknown",
    retry: async () => false,
    log: async () => [],
    tallies: async () => [],
  };

  async timers(): Promise<ObjectTimers> {
    return { timers: [], runs: [] };
  }
  fleet: NodeInfo[] = [];
  fleetStatus: FleetStatus | undefined;
  ready = true;
  writesLand = true;
  answer: (request: CallRequest) => Promise<CallReply> | CallReply = ({ args }) => ({ value: [...args] });

  async call(request: CallRequest): Promise<CallReply> {
    this.calls.push(request);
    return await this.answer(request);
  }

  async storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    return this.stores.get(object.id)?.get(key);
  }

  async storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    return [...(this.stores.get(object.id) ?? [])].filter(([key]) => key.startsWith(prefix));
  }

  async sql(_object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    return { columns: ["statement", "parameter"], rows: parameters.map((parameter) => [statement, parameter]) };
  }

  async inspect(object: ObjectIdentity): Promise<Inspection> {
    return {
      object: object.id,
      state: "resident",
      epoch: 1,
      seq: 4,
      landedSeq: 3,
      flying: true,
      shipping: "flying",
      mailboxCalls: 0,
      migrationsApplied: 0,
      segments: 2,
      databaseBytes: 8192,
      tables: ["bids"],
      timers: 0,
      outbox: 0,
      events: { count: 0, last: 0 },
    };
  }

  readonly drains: DrainRequest[] = [];

  async ring(object?: ObjectIdentity): Promise<RingInfo> {
    const partitions = [{ partition: 7, homes: ["n1", "n2"] }];
    return object === undefined ? { partitions } : { partitions, object: object.id, owner: "n2" };
  }

  async drain(request: DrainRequest): Promise<Drained> {
    this.drains.push(request);
    return { node: request.node ?? "n1", left: 0 };
  }

  async recover(object: ObjectIdentity): Promise<{ object: string; seq: number }> {
    return { object: object.id, seq: 4 };
  }

  async destroy(object: ObjectIdentity): Promise<void> {
    if (this.destroyed.includes(object.id)) throw MoonportError.of("object_not_found", `${object.id} is destroyed`);
    this.destroyed.push(object.id);
  }

  async history(object: ObjectIdentity, limit = 100): Promise<ObjectHistory> {
    const era = { epoch: 1, fromSeq: 1, toSeq: 4, states: limit, destroyed: false };
    return { object: object.id, retentionMs: 5, seq: 4, destroyed: false, from: { seq: 1, atMs: 7 }, eras: [era] };
  }

  async restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored> {
    this.restorations.push({ object: object.id, restoration });
    return { object: object.id, epoch: 2, seq: 5, fromSeq: 3, fromMs: 7 };
  }

  async fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored> {
    this.restorations.push({ object: object.id, restoration, key });
    return { object: `${object.app}/${object.className}/${key}`, epoch: 1, seq: 1, fromSeq: 3 };
  }

  async exportDatabase(_object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase> {
    if (at !== undefined && "seq" in at && at.seq > 4) throw MoonportError.of("not_in_history", "it is yet to come");
    const text = JSON.stringify(at ?? "now");
    const parts = [...text].map((sign) => Buffer.from(sign));
    const source = (async function* () {
      yield* parts;
    })();
    return { seq: 4, atMs: 7, bytes: text.length, parts: source };
  }

  async runUnit(request: UnitRequest): Promise<UnitResponse> {
    this.unitRequests.push(request);
    return await this.unitAnswer(request);
  }

  async find(request: FindRequest): Promise<FoundPage> {
    this.finds.push(request);
    return { rows: [{ key: "lot-42", row: { top: 25 } }], after: "AbC", count: 1 };
  }

  async directory(app: string, className: string): Promise<DirectoryStatus> {
    const counts = { rows: 1, current: 1, stale: 0, complete: true, waiting: 0, lagMs: 0 };
    return { app, className, columns: { top: "integer" }, index: [], ...counts };
  }

  async rebuildDirectory(app: string, className: string): Promise<DirectoryStatus> {
    const walk = { why: "rebuild", state: "running", objects: 0, failed: 0, progress: 0 } as const;
    return { ...(await this.directory(app, className)), walk };
  }

  async units(): Promise<readonly UnitInfo[]> {
    return [{ app: "default", name: "echo", version: "v1" }];
  }

  async classes(): Promise<readonly ClassInfo[]> {
    return [{ app: "default", name: "Echo", version: "v1", methods: [{ name: "say", kind: "write" }] }];
  }

  async quarantine(): Promise<readonly QuarantineEntry[]> {
    return this.quarantined;
  }

  async clearQuarantine({ id }: ObjectIdentity, method: string): Promise<boolean> {
    const known = this.quarantined.length;
    this.quarantined = this.quarantined.filter((one) => one.object !== id || one.method !== method);
    return this.quarantined.length < known;
  }

  async deploy({ app, files, ...terms }: DeployRequest): Promise<Deployed> {
    this.deployed.push({ app, files, ...terms });
    return { release: fakeRelease(terms), changed: true, nodes: [] };
  }

  async rollback(request: RollbackRequest): Promise<Deployed> {
    this.rolledBack.push(request);
    return { release: fakeRelease(request), changed: true, nodes: [] };
  }

  async releases(app: string): Promise<AppReleases> {
    return { app, releases: [], nodes: [{ source: "folder" }] };
  }

  async nodes(): Promise<readonly NodeInfo[]> {
    return this.fleet;
  }

  async status(): Promise<NodeStatus> {
    return {
      version: "0.0.0",
      session: "session-of-the-fake",
      ready: this.ready,
      writesLand: this.writesLand,
      sinceLandedMs: 34_000,
      bucket: "memory:",
      residents: 0,
      openFiles: 0,
      subscriptions: 0,
      watchedObjects: 0,
      classes: 1,
      classErrors: [],
      releases: [],
      ...(this.fleetStatus && { fleet: this.fleetStatus }),
    };
  }
}
