/**
 * A node of a fleet as its doors see it: every operation on an object happens where the object lives.
 *
 * What comes in here goes to the object's owner, at most two hops away, and is tried again while it is certain that nothing
 * happened, or while its call id makes a repeat safe, until its deadline: while an object moves or its owner has died, callers
 * wait, they do not fail.
 */
import { asMoonportError, assert, MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../identity.js";
import type { Peers } from "../links/contract.js";
import { MoonportNode } from "../node.js";
import type { CallReply, CallRequest, Inspection, NodeApi } from "../node-api.js";
import type { CallRouter, FleetParts, NodeOptions } from "../node-options.js";
import type { InnerCall } from "../object/inner-call.js";
import type { DeferredOutcome } from "../object/work.js";
import type { LiveApi, Sink, SubscribeRequest, Subscription, ViewRequest } from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainValue, SqlRows, SqlValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";
import { FleetMember, type FleetOptions } from "./fleet-member.js";
import { Places } from "./place.js";

const ASK = "object.ask";
const HOPS_MAX = 2;
const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 500;

/** Nothing happened there. */
const HARMLESS = new Set([
  "moved",
  "node_unreachable",
  "node_fenced",
  "node_stopping",
  "replicas_missing",
  "link_refused",
  "link_full",
]);
/** It may have happened. */
const DOUBTFUL = new Set(["link_broken"]);

/** An operation on an object, as it travels. */
type Operation =
  | (Omit<CallRequest, "object" | "signal" | "waiter" | "timeoutMs" | "args"> & {
      readonly kind: "call";
      /** Encoded: a link's own MessagePack does not keep every key of users' values. */
      readonly args: Uint8Array;
      readonly chain: readonly string[];
    })
  | { readonly kind: "store_get"; readonly key: string }
  | { readonly kind: "store_list"; readonly prefix: string }
  | { readonly kind: "sql"; readonly statement: string; readonly parameters: readonly SqlValue[] }
  | { readonly kind: "inspect" | "recover" | "tell_row" }
  | { readonly kind: "destroy" };

interface Asked {
  readonly app: string;
  readonly className: string;
  readonly key: string;
  readonly timeoutMs: number;
  /** Hops that it has made. */
  readonly hops: number;
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
  readonly here: () => Promise<T>;
}

type FleetNodeSettings = Pick<Settings, "CALL_TIMEOUT_MS">;

export class FleetNode implements NodeApi, LiveApi, CallRouter {
  readonly #node: MoonportNode;
  readonly #fleet: FleetMember;
  readonly #world: World;
  readonly #settings: FleetNodeSettings;
  readonly #places: Places;

  /**
   * Opens the node and joins it to its fleet.
   * @throws MoonportError what {@link MoonportNode.open} throws, `fleet_mismatch`, `address_in_use`
   */
  static async open(options: NodeOptions, fleetOptions: FleetOptions): Promise<FleetNode> {
    let ready: FleetNode | undefined;
    let member: FleetMember | undefined;
    const handle = (peers: Peers): void => {
      peers.handle(ASK, (body) => {
        if (ready !== undefined) return ready.#askedByPeer(body as Asked);
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
    return ready;
  }

  private constructor(node: MoonportNode, fleet: FleetMember, world: World, settings: FleetNodeSettings) {
    this.#node = node;
    this.#fleet = fleet;
    this.#world = world;
    this.#settings = settings;
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

  call(request: CallRequest): Promise<CallReply> {
    return this.#call(request, []);
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

  destroy(object: ObjectIdentity): Promise<void> {
    return this.#ask({ ...this.#reading<void>(object, { kind: "destroy" }), isRepeatable: false });
  }

  /** Claims an object of which too few journals are left; what only the lost ones had is lost. For operators. */
  recover(object: ObjectIdentity): Promise<{ readonly seq: number }> {
    return this.#read(object, { kind: "recover" });
  }

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
  runUnit: NodeApi["runUnit"] = (request) => this.#node.runUnit(request);
  classes: NodeApi["classes"] = () => this.#node.classes();
  units: NodeApi["units"] = () => this.#node.units();
  status: NodeApi["status"] = () => this.#node.status();
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
    const { object, method, args, caller, callId, timeoutMs, mustRead } = request;
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
      here: () => this.#node.callInChain(request, chain),
    });
  }

  #read<T>(object: ObjectIdentity, operation: Operation): Promise<T> {
    return this.#ask(this.#reading<T>(object, operation));
  }

  #reading<T>(object: ObjectIdentity, operation: Operation): Ask<T> {
    const expiresMs = this.#nowMs() + this.#settings.CALL_TIMEOUT_MS;
    const here = (): Promise<T> => this.#do(object, operation, expiresMs) as Promise<T>;
    return { object, operation, expiresMs, hops: 0, isRepeatable: true, here };
  }

  async #askedByPeer({ app, className, key, timeoutMs, hops, operation }: Asked): Promise<unknown> {
    const object = identityOf(app, className, key);
    const expiresMs = this.#nowMs() + timeoutMs;
    const here = (): Promise<unknown> => this.#do(object, operation, expiresMs);
    const answer = await this.#once({ object, operation, expiresMs, hops, isRepeatable: false, here });
    return answer === undefined ? undefined : encoded(answer as PlainValue);
  }

  #do(object: ObjectIdentity, operation: Operation, expiresMs: number): Promise<unknown> {
    const node = this.#node;
    switch (operation.kind) {
      case "call": {
        const { kind: _, chain, args, ...call } = operation;
        const timeoutMs = Math.max(0, expiresMs - this.#nowMs());
        return node.callInChain({ ...call, args: decodeValue(args) as PlainValue[], object, timeoutMs }, chain);
      }
      case "store_get":
        return node.storeGet(object, operation.key);
      case "store_list":
        return node.storeList(object, operation.prefix);
      case "sql":
        return node.sql(object, operation.statement, operation.parameters);
      case "inspect":
        return node.inspect(object);
      case "recover":
        return node.recover(object);
      case "tell_row":
        return node.tellRow(object);
      case "destroy":
        return node.destroy(object);
    }
  }

  async #ask<T>(ask: Ask<T>): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await this.#once(ask);
      } catch (thrown) {
        const error = asMoonportError(thrown);
        const isSafe = HARMLESS.has(error.code) || (DOUBTFUL.has(error.code) && ask.isRepeatable);
        const pauseMs = backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#world.random.fraction());
        if (!isSafe || this.#nowMs() + pauseMs >= ask.expiresMs) throw this.#told(error, ask);
        await sleep(this.#world, pauseMs);
      }
    }
  }

  #told(error: MoonportError, { object }: Ask<unknown>): MoonportError {
    if (!DOUBTFUL.has(error.code)) return error;
    return MoonportError.of("outcome_unknown", `the answer of the node that owns ${object.id} was lost`, {
      object: object.id,
      hint: "ask again with the same call id to learn what became of it",
      cause: error,
    });
  }

  /** One try: here, or one hop on. */
  async #once<T>(ask: Ask<T>): Promise<T> {
    const { object, hops } = ask;
    const to = this.#isHere(object) ? this.#fleet.node : this.#places.of(object);
    if (to !== this.#fleet.node && hops < HOPS_MAX) return this.#forward(ask, to);
    try {
      return await ask.here();
    } catch (thrown) {
      const error = asMoonportError(thrown);
      const owner = error.code === "moved" ? error.details?.node : undefined;
      if (typeof owner !== "string" || owner === this.#fleet.node) throw error;
      this.#places.learn(object, owner);
      if (hops >= HOPS_MAX) throw error;
      return this.#forward(ask, owner);
    }
  }

  async #forward<T>(ask: Ask<T>, to: string): Promise<T> {
    const { object, operation, expiresMs, hops } = ask;
    const { app, className, key } = object;
    const timeoutMs = Math.max(1, expiresMs - this.#nowMs());
    const address = this.#fleet.member(to)?.address;
    try {
      if (address === undefined) throw MoonportError.of("node_unreachable", `${to} is no member of the fleet now`);
      const body: Asked = { app, className, key, timeoutMs, hops: hops + 1, operation };
      const answer = await this.#fleet.ask({ node: to, address }, ASK, body, { timeoutMs });
      this.#places.learn(object, to);
      return (answer instanceof Uint8Array ? decodeValue(answer) : undefined) as T;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!HARMLESS.has(error.code)) throw error;
      const owner = error.code === "moved" ? error.details?.node : undefined;
      if (typeof owner === "string") this.#places.learn(object, owner);
      else this.#places.forget(object);
      throw error;
    }
  }

  #isHere(object: ObjectIdentity): boolean {
    return this.#node.holds(object);
  }

  #nowMs(): number {
    return this.#world.clock.monotonicMs();
  }
}

/** What callers gave and objects answered is within its bounds already. */
function encoded(value: PlainValue): Uint8Array {
  return encodeValue(value, Number.POSITIVE_INFINITY, "what travels between nodes");
}

function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
