/**
 * A node of a fleet as its doors see it: every operation on an object happens where the object lives.
 *
 * What comes in here goes to the object's owner, at most two hops away, and is tried again while it is certain that nothing
 * happened, or while its call id makes a repeat safe, until its deadline: while an object moves or its owner has died, callers
 * wait, they do not fail.
 */
import type { AppSource } from "../app-source.js";
import type { RequestCounts } from "../bucket/request-counts.js";
import type { DelayApi, ObjectTimers } from "../delay/contract.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity, PARTITION_COUNT, partitionOf } from "../identity.js";
import type { Asker, Peers } from "../links/contract.js";
import type { Caller } from "../lua/contract.js";
import type { NodeRecord } from "../membership/contract.js";
import type { FleetMeasures, MeasuredNode, NodeGauges } from "../metrics/measured.js";
import type { NodeCounters } from "../metrics/node-counters.js";
import { MoonportNode } from "../node.js";
import type {
  CallReply,
  CallRequest,
  Drained,
  DrainRequest,
  ExportedDatabase,
  Inspection,
  NodeApi,
  NodeInfo,
  NodeStatus,
  ObjectHistory,
  PointInTime,
  Recovered,
  Restoration,
  Restored,
  RingInfo,
} from "../node-api.js";
import type { CallRouter, FleetParts, NodeOptions } from "../node-options.js";
import type { InnerCall } from "../object/inner-call.js";
import type { Position } from "../object/replica-copy.js";
import type { DeferredOutcome, WakeTeller, Woken } from "../object/work.js";
import type { LiveApi, ReadingCall, Sink, SubscribeRequest, Subscription, ViewRequest } from "../realtime/contract.js";
import type { LiveSource } from "../realtime/live-source.js";
import type { ReleasePeers, ReleaseQuestion } from "../release/peers.js";
import type { Settings } from "../settings/settings.js";
import { PermitPool } from "../shipping/permits.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainValue, SqlRows, SqlValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";
import { FleetMember, type FleetOptions } from "./fleet-member.js";
import { FleetSource } from "./fleet-source.js";
import type { FeedAsked } from "./following.js";
import { Pauses } from "./pauses.js";
import { HOPS_MAX, Places } from "./place.js";

const ASK = "object.ask";
const LIVE = "object.live";
const DRAIN = "fleet.drain";
const RELEASE = "release.ask";
const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 500;

/** Nothing happened there. */
const HARMLESS = new Set([
  "moved",
  "node_unreachable",
  "node_fenced",
  "node_stopping",
  "release_behind",
  "replicas_missing",
  "link_refused",
  "link_full",
]);
/** It may have happened. */
const DOUBTFUL = new Set(["link_broken"]);

/** An operation on an object, as it travels. */
type Operation =
  | (Omit<CallRequest, "object" | "signal" | "waiter" | "timeoutMs" | "args" | "consistency"> & {
      readonly kind: "call";
      /** Encoded: a link's own MessagePack does not keep every key of users' values. */
      readonly args: Uint8Array;
      readonly chain: readonly string[];
    })
  | { readonly kind: "store_get"; readonly key: string }
  | { readonly kind: "store_list"; readonly prefix: string }
  | { readonly kind: "sql"; readonly statement: string; readonly parameters: readonly SqlValue[] }
  | { readonly kind: "events"; readonly after: number; readonly limit: number }
  | {
      readonly kind: "evaluate";
      readonly method: string;
      /** As those of a call. */
      readonly args: Uint8Array;
      readonly caller: Caller;
    }
  | { readonly kind: "inspect" | "recover" | "tell_row" }
  | { readonly kind: "history"; readonly limit?: number }
  | { readonly kind: "restore"; readonly restoration: Restoration }
  | { readonly kind: "fork"; readonly restoration: Partial<Restoration>; readonly key: string }
  /** Which node has it, or would claim it. */
  | { readonly kind: "locate" }
  | { readonly kind: "destroy" }
  /** How far its owner has committed it, for a copy beside this journal. */
  | { readonly kind: "position"; readonly journal: string }
  | { readonly kind: "timers" }
  | { readonly kind: "wake"; readonly teller: WakeTeller };

interface Asked {
  readonly app: string;
  readonly className: string;
  readonly key: string;
  readonly timeoutMs: number;
  /** Hops that it has made. */
  readonly hops: number;
  /** Of the app, that the asking node serves. */
  readonly release?: number;
  readonly operation: Operation;
}

interface Ask<T> {
  readonly object: ObjectIdentity;
  readonly operation: Operation;
  /** Monotonic. */
  readonly expiresMs: number;
  readonly hops: number;
  /** Whether doing it twice is the same as doing it once. */
  readonly isRepeatable: boolean;
  /** Undefined where nobody could tell whether whoever asks has gone. */
  readonly asker?: Asker | undefined;
  readonly here: () => Promise<T>;
}

type FleetNodeSettings = Pick<
  Settings,
  "CALL_TIMEOUT_MS" | "DRAIN_MS" | "OBJECT_ACK_GATE_MS" | "LINK_REQUEST_MS" | "NODE_TTL_MS" | "TAKEOVER_CONCURRENCY"
>;

export class FleetNode implements NodeApi, LiveApi, MeasuredNode, CallRouter {
  readonly #node: MoonportNode;
  readonly #fleet: FleetMember;
  readonly #world: World;
  readonly #settings: FleetNodeSettings;
  readonly #places: Places;
  readonly #pauses: Pauses;

  /**
   * Opens the node and joins it to its fleet.
   * @throws MoonportError what {@link MoonportNode.open} throws, `fleet_mismatch`, `address_in_use`
   */
  static async open(options: NodeOptions, fleetOptions: FleetOptions): Promise<FleetNode> {
    let ready: FleetNode | undefined;
    let member: FleetMember | undefined;
    const handle = (peers: Peers): void => {
      fleetOptions.handle?.(peers);
      peers.handle(ASK, (body, from, asker) => {
        if (ready !== undefined) return ready.#askedByPeer(body as Asked, from.node, asker);
        throw MoonportError.of("node_unreachable", `${fleetOptions.node} does not serve yet`);
      });
      peers.handle(DRAIN, (body) => {
        if (ready !== undefined) return ready.#drainHere((body as { readonly undo?: boolean }).undo === true);
        throw MoonportError.of("node_unreachable", `${fleetOptions.node} does not serve yet`);
      });
      peers.handleStream(LIVE, (body, from) => {
        if (ready !== undefined) return ready.#feedForPeer(body as FeedAsked, from.node);
        throw MoonportError.of("node_unreachable", `${fleetOptions.node} does not serve yet`);
      });
      peers.handle(RELEASE, (body) => {
        if (ready !== undefined) return ready.#node.releasing.answer(body as ReleaseQuestion);
        throw MoonportError.of("node_unreachable", `${fleetOptions.node} does not serve yet`);
      });
    };
    const fleet = async (parts: FleetParts): Promise<FleetMember> => {
      member = await FleetMember.join(parts, { ...fleetOptions, handle });
      return member;
    };
    const node = await MoonportNode.open({ ...options, fleet });
    assert(member !== undefined, "a node that has opened has joined");
    ready = new FleetNode(node, member, options.world, options.settings);
    node.routeCalls(ready);
    node.routeLive(ready.#liveSource());
    ready.#joinReleases();
    return ready;
  }

  private constructor(node: MoonportNode, fleet: FleetMember, world: World, settings: FleetNodeSettings) {
    this.#node = node;
    this.#fleet = fleet;
    this.#world = world;
    this.#settings = settings;
    this.#pauses = new Pauses(world);
    fleet.whenMembersChange(() => this.#pauses.endAll());
    fleet.whenStopping(() => this.#pauses.endAll());
    this.#places = new Places({
      self: fleet.node,
      isMember: (name) => fleet.member(name) !== undefined,
      homeOf: (partition) => fleet.homeOf(partition),
    });
  }

  /** The node itself: what belongs to this machine alone. */
  get local(): MoonportNode {
    return this.#node;
  }

  get fleet(): FleetMember {
    return this.#fleet;
  }

  stop(): Promise<void> {
    return this.#node.stop();
  }

  leave(): Promise<void> {
    return this.#node.leave();
  }

  call(request: CallRequest): Promise<CallReply> {
    return request.consistency === "replica" ? this.#callNearby(request) : this.#call(request, []);
  }

  /** A call from an object of this node to another, wherever that lives. */
  async callFromObject({ expiresMs, chain, ...call }: InnerCall): Promise<PlainValue> {
    const timeoutMs = Math.max(0, expiresMs - this.#nowMs());
    return (await this.#call({ ...call, timeoutMs }, chain)).value;
  }

  /** Of a unit: what runs elsewhere is durable when its outcome is known. */
  async callDeferred(request: CallRequest): Promise<DeferredOutcome> {
    if (this.#isHere(request.object)) return this.#node.callDeferred(request);
    const settled = Promise.resolve();
    try {
      const { value } = await this.call(request);
      return { result: { kind: "returned", value }, settled };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (error.code === "outcome_unknown") return { result: { kind: "failed", error }, settled: rejected(error) };
      return { result: { kind: "failed", error }, settled };
    }
  }

  storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    return this.#read(object, { kind: "store_get", key });
  }

  storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    return this.#read(object, { kind: "store_list", prefix });
  }

  sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    return this.#read(object, { kind: "sql", statement, parameters });
  }

  inspect(object: ObjectIdentity): Promise<Inspection> {
    return this.#read(object, { kind: "inspect" });
  }

  timers(object: ObjectIdentity): Promise<ObjectTimers> {
    return this.#read(object, { kind: "timers" });
  }

  wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken> {
    return this.#read(object, { kind: "wake", teller });
  }

  get delay(): DelayApi {
    return this.#node.delay;
  }

  destroy(object: ObjectIdentity): Promise<void> {
    return this.#ask({ ...this.#reading<void>(object, { kind: "destroy" }), isRepeatable: false });
  }

  history(object: ObjectIdentity, limit?: number): Promise<ObjectHistory> {
    return this.#read(object, { kind: "history", ...(limit !== undefined && { limit }) });
  }

  restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored> {
    return this.#ask({ ...this.#reading<Restored>(object, { kind: "restore", restoration }), isRepeatable: false });
  }

  /** Done by the owner of the object whose past it is: only that knows all of what was acknowledged. */
  fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored> {
    const operation: Operation = { kind: "fork", restoration, key };
    return this.#ask({ ...this.#reading<Restored>(object, operation), isRepeatable: false });
  }

  /** @throws MoonportError `moved` naming the node to ask: a file does not travel between nodes */
  async exportDatabase(object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase> {
    await this.#assertHere(object);
    return this.#node.exportDatabase(object, at);
  }

  /** Claims an object of which too few journals are left; what only the lost ones had is lost. For operators. */
  recover(object: ObjectIdentity): Promise<Recovered> {
    return this.#read(object, { kind: "recover" });
  }

  /** Wherever the object lives and moves to. */
  subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    return this.#node.subscribe(request, sink);
  }

  view(request: ViewRequest, sink: Sink): Promise<Subscription> {
    return this.#node.view(request, sink);
  }

  tellRow(object: ObjectIdentity): Promise<void> {
    return this.#read(object, { kind: "tell_row" });
  }

  isHome(object: ObjectIdentity): boolean {
    return this.#fleet.homeOf(partitionOf(object.id)) === this.#fleet.node;
  }

  /** A directory's shards are asked wherever they live. */
  find: NodeApi["find"] = (request) => this.#node.find(request);
  directory: NodeApi["directory"] = (app, className) => this.#node.directory(app, className);
  rebuildDirectory: NodeApi["rebuildDirectory"] = (app, className) => this.#node.rebuildDirectory(app, className);
  deploy: NodeApi["deploy"] = (request) => this.#node.deploy(request);
  rollback: NodeApi["rollback"] = (request) => this.#node.rollback(request);
  releases: NodeApi["releases"] = (app) => this.#node.releases(app);

  async nodes(): Promise<readonly NodeInfo[]> {
    return this.#fleet.seen().map(({ record, standing }) => {
      const { ttlMs: _, ...shown } = record;
      return { ...shown, standing, own: record.session === this.#fleet.session };
    });
  }

  async ring(object?: ObjectIdentity): Promise<RingInfo> {
    const { ring } = this.#fleet;
    const homes = (partition: number) => ({ partition, homes: ring.homesOf(partition) });
    if (object === undefined) return { partitions: Array.from({ length: PARTITION_COUNT }, (_, at) => homes(at)) };
    const session = await this.#node.ownerOf(object);
    const owner = session === undefined ? undefined : this.#fleet.nodeOf(session);
    const partitions = [homes(partitionOf(object.id))];
    return { partitions, object: object.id, ...(owner !== undefined && { owner }) };
  }

  async drain({ node = this.#fleet.node, undo = false }: DrainRequest): Promise<Drained> {
    const { members } = this.#fleet;
    if (!members.some((member) => member.node === node)) {
      throw MoonportError.of("bad_option", `no node that lives is called ${node}`, {
        hint: `the fleet has ${members.map((member) => member.node).join(", ")}`,
      });
    }
    if (node === this.#fleet.node) return this.#drainHere(undo);
    const { DRAIN_MS, LINK_REQUEST_MS } = this.#settings;
    const timeoutMs = DRAIN_MS + LINK_REQUEST_MS;
    return (await this.#fleet.ask({ node, address: this.#addressOf(node) }, DRAIN, { undo }, { timeoutMs })) as Drained;
  }

  async #drainHere(undo: boolean): Promise<Drained> {
    const { node } = this.#fleet;
    if (undo) {
      this.#fleet.remain();
      return { node, left: this.#fleet.held };
    }
    if (this.#fleet.takers.length === 0) {
      throw MoonportError.of("bad_option", `nobody is there to take the objects of ${node}`);
    }
    await this.#fleet.leave(this.#nowMs() + this.#settings.DRAIN_MS);
    return { node, left: this.#fleet.held };
  }

  async status(): Promise<NodeStatus> {
    const { node, session, address } = this.#fleet.self;
    const whyInvalid = this.#fleet.whyInvalid();
    const standing = { valid: whyInvalid === undefined, ...(whyInvalid !== undefined && { whyInvalid }) };
    const nodes = this.#fleet.members.length;
    const { isLeaving } = this.#fleet;
    return { ...(await this.#node.status()), fleet: { node, session, address, nodes, isLeaving, ...standing } };
  }

  get session(): string {
    return this.#node.session;
  }

  get counters(): NodeCounters {
    return this.#node.counters;
  }

  get bucketRequests(): RequestCounts | undefined {
    return this.#node.bucketRequests;
  }

  get fleetMeasures(): FleetMeasures {
    return this.#fleet.measures;
  }

  gauges(): NodeGauges {
    return this.#node.gauges();
  }

  reload(apps: readonly AppSource[]): void {
    this.#node.reload(apps);
  }

  get unlanded(): Error | undefined {
    return this.#node.unlanded;
  }

  /** Tells the other nodes where clients reach this one. */
  serveClientsAt(address: string): void {
    this.#fleet.serveClientsAt(address);
  }

  runUnit: NodeApi["runUnit"] = (request) => this.#node.runUnit(request);
  classes: NodeApi["classes"] = () => this.#node.classes();
  units: NodeApi["units"] = () => this.#node.units();
  quarantine: NodeApi["quarantine"] = () => this.#node.quarantine();
  clearQuarantine: NodeApi["clearQuarantine"] = (object, method) => this.#node.clearQuarantine(object, method);

  #call(request: CallRequest, chain: readonly string[]): Promise<CallReply> {
    // The common case first, and without a promise more: the object is this node's.
    if (this.#isHere(request.object)) {
      return this.#node
        .callInChain(request, chain)
        .catch((error: unknown) => this.#callElsewhere(request, chain, asMoonportError(error)));
    }
    return this.#callElsewhere(request, chain, undefined);
  }

  #callElsewhere(
    request: CallRequest,
    chain: readonly string[],
    failed: MoonportError | undefined,
  ): Promise<CallReply> {
    if (failed !== undefined && !HARMLESS.has(failed.code)) throw failed;
    const { object, method, args, caller, callId, timeoutMs } = request;
    // What no copy may answer for being a write is refused where the class is known.
    const mustRead = request.consistency === "replica" ? true : request.mustRead;
    const operation: Operation = {
      kind: "call",
      method,
      args: encoded([...args]),
      caller,
      chain,
      ...(callId !== undefined && { callId }),
      ...(mustRead !== undefined && { mustRead }),
    };
    return this.#ask({
      object,
      operation,
      expiresMs: this.#nowMs() + (timeoutMs ?? this.#settings.CALL_TIMEOUT_MS),
      hops: 0,
      isRepeatable: callId !== undefined || this.#node.isReading(object, method),
      asker: request.waiter ?? (request.signal && askerOf(request.signal)),
      here: () => this.#node.callInChain(request, chain),
    });
  }

  /** Of a reading method: a copy answers that is no older than what its owner had committed when it was asked. */
  async #callNearby(request: CallRequest): Promise<CallReply> {
    const { object, method } = request;
    const isElsewhere = !this.#isHere(object) && this.#places.of(object) !== this.#fleet.node;
    if (!isElsewhere || !this.#node.isReading(object, method)) return this.#call(request, []);
    const expiresMs = this.#nowMs() + (request.timeoutMs ?? this.#settings.CALL_TIMEOUT_MS);
    const asker = request.waiter ?? (request.signal && askerOf(request.signal));
    const operation: Operation = { kind: "position", journal: this.#fleet.self.journal };
    const asking = { ...this.#reading<Position | undefined>(object, operation, expiresMs), asker };
    const position = await this.#ask(asking);
    const reply = position && (await this.#node.callCopy(request, position));
    if (position === undefined) this.#node.counters.replicaReads.owner++;
    return reply ?? this.#call({ ...request, timeoutMs: Math.max(0, expiresMs - this.#nowMs()) }, []);
  }

  #joinReleases(): void {
    const { releasing } = this.#node;
    const { node: self } = this.#fleet;
    const others = (): readonly NodeRecord[] => this.#fleet.members.filter(({ node }) => node !== self);
    const peers: ReleasePeers = {
      self,
      others: () => others().map(({ node, releases = [] }) => ({ node, releases })),
      ask: (node, question) =>
        this.#fleet.ask({ node, address: this.#addressOf(node) }, RELEASE, question) as Promise<never>,
    };
    releasing.joinPeers(peers, (served) => this.#fleet.tellReleases(served));
    this.#fleet.whenMembersChange(() => releasing.seen(others().flatMap(({ releases = [] }) => releases)));
  }

  #liveSource(): LiveSource {
    const { node, links } = this.#fleet;
    const source = new FleetSource({
      world: this.#world,
      settings: this.#settings,
      self: node,
      own: this.#node.source,
      feeds: this.#node.feeds,
      places: this.#places,
      turns: new PermitPool(this.#settings.TAKEOVER_CONCURRENCY, 0),
      isHere: (object) => this.#isHere(object),
      isValid: () => this.#fleet.isValid(),
      openFeed: (to, asked) => links.openStream({ node: to, address: this.#addressOf(to) }, LIVE, asked),
      events: (object, after, limit) => this.#read(object, { kind: "events", after, limit }),
      evaluate: (object, reading, caller) => this.#read(object, evaluation(reading, caller)),
    });
    this.#fleet.whenMembersChange(() => source.membersChanged());
    return source;
  }

  /** What lands of an object that is believed to be here, or `moved` to where it is believed to be. */
  #feedForPeer({ app, className, key, hops }: FeedAsked, from: string): AsyncIterable<unknown> {
    const object = identityOf(app, className, key);
    this.#places.isNotAt(object, from);
    const to = this.#isHere(object) ? this.#fleet.node : this.#places.of(object);
    if (to !== this.#fleet.node && hops < HOPS_MAX) throw believedOn(object, to);
    return this.#lastHopFeed(object);
  }

  async *#lastHopFeed(object: ObjectIdentity): AsyncIterable<unknown> {
    await this.#refuseStray(object);
    yield* this.#node.feeds.open(object, "landings");
  }

  /**
   * The last hop may have come by a guess that is out of date. An object that is not this node's is claimed by its home: here,
   * it would only have to be given away again, and whoever guesses so would bring it back for ever.
   * @throws MoonportError `moved`, `bucket_failed`
   */
  async #refuseStray(object: ObjectIdentity): Promise<void> {
    const home = this.#places.homeOf(object);
    if (this.#isHere(object) || home === this.#fleet.node || (await this.#node.owns(object))) return;
    this.#places.forget(object);
    throw believedOn(object, home);
  }

  /** @throws MoonportError `node_unreachable` */
  #addressOf(node: string): string {
    const address = this.#fleet.member(node)?.address;
    if (address === undefined) throw MoonportError.of("node_unreachable", `${node} is no member of the fleet now`);
    return address;
  }

  async #assertHere(object: ObjectIdentity): Promise<void> {
    if (this.#isHere(object)) return;
    const node = await this.#read<string>(object, { kind: "locate" });
    if (node === this.#fleet.node) return;
    const clientAddress = this.#fleet.member(node)?.clientAddress;
    throw MoonportError.of("moved", `${object.id} lives on ${node}`, {
      object: object.id,
      details: { node, ...(clientAddress !== undefined && { clientAddress }) },
      hint: clientAddress === undefined ? `ask ${node}` : `ask ${node} at ${clientAddress}`,
    });
  }

  async #locate(object: ObjectIdentity): Promise<string> {
    await this.#node.settle(object);
    return this.#fleet.node;
  }

  #read<T>(object: ObjectIdentity, operation: Operation): Promise<T> {
    return this.#ask(this.#reading<T>(object, operation));
  }

  #reading<T>(
    object: ObjectIdentity,
    operation: Operation,
    expiresMs = this.#nowMs() + this.#settings.CALL_TIMEOUT_MS,
  ): Ask<T> {
    const here = (): Promise<T> => this.#do(object, operation, expiresMs) as Promise<T>;
    return { object, operation, expiresMs, hops: 0, isRepeatable: true, here };
  }

  async #askedByPeer(asked: Asked, from: string, asker: Asker): Promise<unknown> {
    const { app, className, key, timeoutMs, hops, release, operation } = asked;
    const object = identityOf(app, className, key);
    this.#places.isNotAt(object, from);
    const expiresMs = this.#nowMs() + timeoutMs;
    // Who has been answered by a release is not answered by an older one a hop further on.
    if (release !== undefined && release > this.#node.releasing.numberOf(app)) {
      await this.#node.releasing.atLeast(app, release);
    }
    const here = (): Promise<unknown> => this.#do(object, operation, expiresMs, asker);
    const answer = await this.#once({ object, operation, expiresMs, hops, isRepeatable: false, asker, here });
    return answer === undefined ? undefined : encoded(answer as PlainValue);
  }

  /** @param waiter whose going frees a call's place in its mailbox */
  #do(object: ObjectIdentity, operation: Operation, expiresMs: number, waiter?: Asker): Promise<unknown> {
    const node = this.#node;
    switch (operation.kind) {
      case "call": {
        const { kind: _, chain, args, ...call } = operation;
        const timeoutMs = Math.max(0, expiresMs - this.#nowMs());
        const request = { ...call, args: decodeValue(args) as PlainValue[], object, timeoutMs };
        return node.callInChain({ ...request, ...(waiter && { waiter }) }, chain);
      }
      case "store_get":
        return node.storeGet(object, operation.key);
      case "store_list":
        return node.storeList(object, operation.prefix);
      case "sql":
        return node.sql(object, operation.statement, operation.parameters);
      case "events":
        return node.source.events(object, operation.after, operation.limit);
      case "evaluate": {
        const { method, args, caller } = operation;
        return node.source.evaluate(object, { method, args: decodeValue(args) as PlainValue[] }, caller);
      }
      case "inspect":
        return node.inspect(object).then((inspection) => ({ ...inspection, node: this.#fleet.node }));
      case "locate":
        return this.#locate(object);
      case "position":
        return node.position(object, operation.journal);
      case "recover":
        return node.recover(object);
      case "tell_row":
        return node.tellRow(object);
      case "history":
        return node.history(object, operation.limit);
      case "restore":
        return node.restore(object, operation.restoration);
      case "fork":
        return node.fork(object, operation.restoration, operation.key);
      case "destroy":
        return node.destroy(object);
      case "timers":
        return node.timers(object);
      case "wake":
        return node.wake(object, operation.teller);
    }
  }

  async #ask<T>(ask: Ask<T>): Promise<T> {
    let inDoubt = false;
    for (let failures = 1; ; failures++) {
      try {
        return await this.#once(ask);
      } catch (thrown) {
        const error = asMoonportError(thrown);
        inDoubt ||= DOUBTFUL.has(error.code);
        const isSafe = HARMLESS.has(error.code) || (DOUBTFUL.has(error.code) && ask.isRepeatable);
        const pauseMs = backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#world.random.fraction());
        const isLate = this.#fleet.isStopping || this.#nowMs() + pauseMs >= ask.expiresMs;
        if (!isSafe || isLate) throw this.#told(error, ask, inDoubt);
        // Whose node has died may be another's now.
        if (await this.#pauses.wait(pauseMs)) failures = 0;
        if (this.#fleet.isStopping || ask.asker?.isGone()) throw this.#told(error, ask, inDoubt);
      }
    }
  }

  /** What a try came to says nothing of an earlier one that is in doubt, unless it tells what the call came to. */
  #told(error: MoonportError, { object }: Ask<unknown>, inDoubt: boolean): MoonportError {
    if (!inDoubt || !(error.retryable || DOUBTFUL.has(error.code))) return error;
    return MoonportError.of("outcome_unknown", `the answer of the node that owns ${object.id} was lost`, {
      object: object.id,
      hint: "ask again with the same call id to learn what became of it",
      cause: error,
    });
  }

  /** One try: here, or one hop on. */
  async #once<T>(ask: Ask<T>): Promise<T> {
    const { object, hops } = ask;
    await this.#whileItMoves(ask);
    const to = this.#isHere(object) ? this.#fleet.node : this.#places.of(object);
    if (to !== this.#fleet.node && hops < HOPS_MAX) {
      try {
        return await this.#forward(ask, to);
      } catch (thrown) {
        // The object is this node's, which has forgotten its claim: the record knows.
        if (ownerNamedBy(asMoonportError(thrown)) !== this.#fleet.node) throw thrown;
      }
    }
    try {
      if (hops >= HOPS_MAX) await this.#refuseStray(object);
      return await ask.here();
    } catch (thrown) {
      const error = asMoonportError(thrown);
      const owner = ownerNamedBy(error);
      if (owner === undefined || owner === this.#fleet.node) throw error;
      this.#places.learn(object, owner);
      if (hops >= HOPS_MAX) throw error;
      return this.#forward(ask, owner);
    }
  }

  /**
   * Whoever asks for an object that is on its way to another node is held here until it is there.
   * @throws MoonportError `deadline_exceeded`, `mailbox_full`; `moved` where this node may not send it on
   */
  async #whileItMoves({ object, hops, expiresMs }: Ask<unknown>): Promise<void> {
    const moving = this.#node.moving(object);
    if (moving === undefined) return;
    const over = new AbortController();
    const late = sleep(this.#world, Math.max(0, expiresMs - this.#nowMs()), over.signal);
    const to = await Promise.race([moving, late]).finally(() => over.abort());
    if (this.#nowMs() >= expiresMs) {
      throw MoonportError.of("deadline_exceeded", `${object.id} was on its way to another node`, { object: object.id });
    }
    if (typeof to !== "string") return;
    this.#places.learn(object, to);
    if (hops < HOPS_MAX) return;
    throw MoonportError.of("moved", `${object.id} has gone to ${to}`, { object: object.id, details: { node: to } });
  }

  async #forward<T>(ask: Ask<T>, to: string): Promise<T> {
    const { object, operation, expiresMs, hops, asker } = ask;
    const { app, className, key } = object;
    const timeoutMs = Math.max(1, expiresMs - this.#nowMs());
    const { OBJECT_ACK_GATE_MS, LINK_REQUEST_MS } = this.#settings;
    // Over there the deadline is kept, and what began before it ends: here only an answer that never comes is given up.
    const options = { timeoutMs: timeoutMs + OBJECT_ACK_GATE_MS + LINK_REQUEST_MS, ...(asker && { asker }) };
    try {
      const address = this.#addressOf(to);
      const release = this.#node.releasing.numberOf(app);
      const body: Asked = { app, className, key, timeoutMs, hops: hops + 1, release, operation };
      const answer = await this.#fleet.ask({ node: to, address }, ASK, body, options);
      const said = answer instanceof Uint8Array ? decodeValue(answer) : undefined;
      const named = operation.kind === "call" ? this.#naming(said as unknown as CallReply, to) : undefined;
      this.#places.learn(object, named?.node?.name ?? to);
      if (named !== undefined) this.#fleet.counters.forwardedCalls.count(undefined);
      return (named ?? said) as T;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (operation.kind === "call") this.#fleet.counters.forwardedCalls.count(error);
      if (!HARMLESS.has(error.code)) throw error;
      const owner = ownerNamedBy(error);
      if (owner !== undefined) this.#places.learn(object, owner);
      else this.#places.forget(object);
      throw error;
    }
  }

  /** Says of another node's reply who gave it: that one, or whom it had to ask. */
  #naming(reply: CallReply, to: string): CallReply {
    const name = reply.node?.name ?? to;
    const url = this.#fleet.member(name)?.clientAddress;
    return { ...reply, node: { name, ...(url !== undefined && { url }) } };
  }

  #isHere(object: ObjectIdentity): boolean {
    return this.#node.holds(object);
  }

  #nowMs(): number {
    return this.#world.clock.monotonicMs();
  }
}

/** Listened to once, however often it is asked. */
function askerOf(signal: AbortSignal): Asker {
  let tell = (): void => {};
  signal.addEventListener("abort", () => tell(), { once: true });
  return {
    isGone: () => signal.aborted,
    whenGone: (told) => {
      tell = told;
      if (signal.aborted) told();
    },
  };
}

function evaluation({ method, args }: ReadingCall, caller: Caller): Operation {
  return { kind: "evaluate", method, args: encoded([...args]), caller };
}

/** What callers gave and objects answered is within its bounds already. */
function encoded(value: PlainValue): Uint8Array {
  return encodeValue(value, Number.POSITIVE_INFINITY, "what travels between nodes");
}

function believedOn(object: ObjectIdentity, node: string): MoonportError {
  return MoonportError.of("moved", `${object.id} is believed to be on ${node}`, {
    object: object.id,
    details: { node },
  });
}

/** Where an object is that has moved; undefined where nobody says so. */
function ownerNamedBy({ code, details }: MoonportError): string | undefined {
  return code === "moved" && typeof details?.node === "string" ? details.node : undefined;
}

function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
