/**
 * A node of a fleet as its doors see it: every operation on an object happens where the object lives.
 *
 * This is the composition: the node itself, its membership, and what takes one to the other. Calls go by {@link FleetCalls}, all
 * else that concerns an object by {@link Routing}; what belongs to this machine alone is the node's own.
 */
import type { AppSource } from "../app-source.js";
import type { RequestCounts } from "../bucket/request-counts.js";
import type { DelayApi, ObjectTimers } from "../delay/contract.js";
import { assert, MoonportError } from "../errors.js";
import { type ObjectIdentity, partitionOf } from "../identity.js";
import type { Peers } from "../links/contract.js";
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
import type { DeferredOutcome, WakeTeller, Woken } from "../object/work.js";
import type { LiveApi, Sink, SubscribeRequest, Subscription, ViewRequest } from "../realtime/contract.js";
import type { ReleaseQuestion } from "../release/peers.js";
import { PermitPool } from "../shipping/permits.js";
import type { PlainValue, SqlRows, SqlValue } from "../values.js";
import { DRAIN, type DrainAsked, Draining } from "./draining.js";
import { FleetCalls } from "./fleet-calls.js";
import { FleetMember, type FleetOptions } from "./fleet-member.js";
import { FleetSource } from "./fleet-source.js";
import type { FeedAsked } from "./following.js";
import { ASK, type Asked, evaluation } from "./operation.js";
import { fleetStatusOf, nodesOf, placeInRing, ringOf } from "./overview.js";
import { LIVE, PeerFeeds } from "./peer-feeds.js";
import { Places } from "./place.js";
import { joinReleases, RELEASE } from "./release-peers.js";
import { Routing } from "./routing.js";

export class FleetNode implements NodeApi, LiveApi, MeasuredNode, CallRouter {
  readonly #node: MoonportNode;
  readonly #fleet: FleetMember;
  readonly #places: Places;
  readonly #routing: Routing;
  readonly #calls: FleetCalls;
  readonly #draining: Draining;
  readonly #feeds: PeerFeeds;

  /**
   * Opens the node and joins it to its fleet.
   * @throws MoonportError what {@link MoonportNode.open} throws, `fleet_mismatch`, `address_in_use`
   */
  static async open(options: NodeOptions, fleetOptions: FleetOptions): Promise<FleetNode> {
    let ready: FleetNode | undefined;
    let member: FleetMember | undefined;
    const serving = (): FleetNode => {
      if (ready !== undefined) return ready;
      throw MoonportError.of("node_unreachable", `${fleetOptions.node} does not serve yet`);
    };
    const handle = (peers: Peers): void => {
      fleetOptions.handle?.(peers);
      peers.handle(ASK, (body, from, asker) => serving().#routing.answer(body as Asked, from.node, asker));
      peers.handle(DRAIN, (body) => serving().#draining.here(body as DrainAsked));
      peers.handleStream(LIVE, (body, from) => serving().#feeds.open(body as FeedAsked, from.node));
      peers.handle(RELEASE, (body) => serving().#node.releasing.answer(body as ReleaseQuestion));
    };
    const fleet = async (parts: FleetParts): Promise<FleetMember> => {
      member = await FleetMember.join(parts, { ...fleetOptions, handle });
      return member;
    };
    const node = await MoonportNode.open({ ...options, fleet });
    assert(member !== undefined, "a node that has opened has joined");
    ready = new FleetNode(node, member, options);
    node.routeCalls(ready);
    node.routeLive(ready.#liveSource(options));
    joinReleases(node.releasing, member);
    return ready;
  }

  private constructor(node: MoonportNode, fleet: FleetMember, { world, settings }: NodeOptions) {
    this.#node = node;
    this.#fleet = fleet;
    const { node: name } = fleet;
    const places = new Places({
      self: name,
      isMember: (member) => fleet.member(member) !== undefined,
      homeOf: (partition) => fleet.homeOf(partition),
    });
    this.#places = places;
    const routing = new Routing({ node, name, world, settings, fleet, places });
    this.#routing = routing;
    this.#calls = new FleetCalls({ node, fleet, routing, world, settings });
    this.#draining = new Draining(fleet, world, settings);
    this.#feeds = new PeerFeeds({ self: name, places, routing, feeds: node.feeds });
  }

  #liveSource({ world, settings }: NodeOptions): FleetSource {
    const fleet = this.#fleet;
    const source = new FleetSource({
      world,
      settings,
      self: fleet.node,
      own: this.#node.source,
      feeds: this.#node.feeds,
      places: this.#places,
      turns: new PermitPool(settings.TAKEOVER_CONCURRENCY, 0),
      isHere: (object) => this.#node.holds(object),
      isValid: () => fleet.isValid(),
      openFeed: (to, asked) => fleet.links.openStream(fleet.peer(to), LIVE, asked),
      events: (object, after, limit) => this.#routing.read(object, { kind: "events", after, limit }),
      evaluate: (object, reading, caller) => this.#routing.read(object, evaluation(reading, caller)),
    });
    fleet.whenMembersChange(() => source.membersChanged());
    return source;
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
    return this.#calls.call(request);
  }

  /** A call from an object of this node to another, wherever that lives. */
  callFromObject(call: InnerCall): Promise<PlainValue> {
    return this.#calls.fromObject(call);
  }

  callDeferred(request: CallRequest): Promise<DeferredOutcome> {
    return this.#calls.deferred(request);
  }

  storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    return this.#routing.read(object, { kind: "store_get", key });
  }

  storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    return this.#routing.read(object, { kind: "store_list", prefix });
  }

  sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    return this.#routing.read(object, { kind: "sql", statement, parameters });
  }

  inspect(object: ObjectIdentity): Promise<Inspection> {
    return this.#routing.read(object, { kind: "inspect" });
  }

  timers(object: ObjectIdentity): Promise<ObjectTimers> {
    return this.#routing.read(object, { kind: "timers" });
  }

  wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken> {
    return this.#routing.read(object, { kind: "wake", teller });
  }

  get delay(): DelayApi {
    return this.#node.delay;
  }

  destroy(object: ObjectIdentity): Promise<void> {
    return this.#routing.change(object, { kind: "destroy" });
  }

  history(object: ObjectIdentity, limit?: number): Promise<ObjectHistory> {
    return this.#routing.read(object, { kind: "history", ...(limit !== undefined && { limit }) });
  }

  restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored> {
    return this.#routing.change(object, { kind: "restore", restoration });
  }

  /** Done by the owner of the object whose past it is: only that knows all of what was acknowledged. */
  fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored> {
    return this.#routing.change(object, { kind: "fork", restoration, key });
  }

  /** @throws MoonportError `moved` naming the node to ask: a file does not travel between nodes */
  async exportDatabase(object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase> {
    await this.#assertHere(object);
    return this.#node.exportDatabase(object, at);
  }

  /** Claims an object of which too few journals are left; what only the lost ones had is lost. For operators. */
  recover(object: ObjectIdentity): Promise<Recovered> {
    return this.#routing.read(object, { kind: "recover" });
  }

  /** Wherever the object lives and moves to. */
  subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    return this.#node.subscribe(request, sink);
  }

  view(request: ViewRequest, sink: Sink): Promise<Subscription> {
    return this.#node.view(request, sink);
  }

  tellRow(object: ObjectIdentity): Promise<void> {
    return this.#routing.read(object, { kind: "tell_row" });
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
    return nodesOf(this.#fleet);
  }

  async ring(object?: ObjectIdentity): Promise<RingInfo> {
    if (object === undefined) return ringOf(this.#fleet);
    return placeInRing(this.#fleet, object, await this.#node.ownerOf(object));
  }

  drain(request: DrainRequest): Promise<Drained> {
    return this.#draining.drain(request);
  }

  async status(): Promise<NodeStatus> {
    const fleet = fleetStatusOf(this.#fleet);
    const status = await this.#node.status();
    return { ...status, ready: status.ready && fleet.journalBroken === undefined, fleet };
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

  async #assertHere(object: ObjectIdentity): Promise<void> {
    if (this.#node.holds(object)) return;
    const node = await this.#routing.read<string>(object, { kind: "locate" });
    if (node === this.#fleet.node) return;
    const clientAddress = this.#fleet.member(node)?.clientAddress;
    throw MoonportError.of("moved", `${object.id} lives on ${node}`, {
      object: object.id,
      details: { node, ...(clientAddress !== undefined && { clientAddress }) },
      hint: clientAddress === undefined ? `ask ${node}` : `ask ${node} at ${clientAddress}`,
    });
  }
}
