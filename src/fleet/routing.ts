/**
 * The way of an ask to the node that owns its object, at most two hops away: here, where it is believed to be, or where that node
 * says that it is.
 *
 * It is tried again while it is certain that nothing happened, or while a repeat is safe, until its deadline: while an object moves
 * or its owner has died, whoever asks waits, and does not fail. What may have happened, and is not known to be safe to repeat, ends
 * as `outcome_unknown`.
 */
import { asMoonportError, type ErrorCode, isOwn, MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import type { Asker } from "../links/contract.js";
import type { CallReply } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { decodeValue } from "../store/value-codec.js";
import type { PlainValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";
import type { FleetMember } from "./fleet-member.js";
import { ASK, type Asked, type Doer, doHere, encoded, type Operation } from "./operation.js";
import { Pauses } from "./pauses.js";
import { HOPS_MAX, type Places } from "./place.js";

const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 500;

/** Nothing happened there. */
const HARMLESS: readonly ErrorCode[] = [
  "moved",
  "node_unreachable",
  "node_fenced",
  "node_stopping",
  "release_behind",
  "replicas_missing",
  "link_refused",
  "link_full",
];
/** It may have happened. */
const DOUBTFUL: readonly ErrorCode[] = ["link_broken"];

export interface Ask<T> {
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

export interface RoutingParts extends Doer {
  readonly world: World;
  readonly settings: Pick<Settings, "CALL_TIMEOUT_MS" | "OBJECT_ACK_GATE_MS" | "LINK_REQUEST_MS">;
  readonly fleet: FleetMember;
  readonly places: Places;
}

export class Routing {
  readonly #parts: RoutingParts;
  readonly #pauses: Pauses;

  constructor(parts: RoutingParts) {
    this.#parts = parts;
    const { world, fleet } = parts;
    this.#pauses = new Pauses(world);
    fleet.whenMembersChange(() => this.#pauses.endAll());
    fleet.whenStopping(() => this.#pauses.endAll());
  }

  /** What may be done twice. */
  read<T>(object: ObjectIdentity, operation: Operation): Promise<T> {
    return this.ask(this.reading<T>(object, operation));
  }

  /** What may not be done twice. */
  change<T>(object: ObjectIdentity, operation: Operation): Promise<T> {
    return this.ask({ ...this.reading<T>(object, operation), isRepeatable: false });
  }

  /** @param expiresMs monotonic. Default: CALL_TIMEOUT_MS from now */
  reading<T>(
    object: ObjectIdentity,
    operation: Operation,
    expiresMs = this.#nowMs() + this.#parts.settings.CALL_TIMEOUT_MS,
  ): Ask<T> {
    const here = (): Promise<T> => doHere(this.#parts, object, operation, expiresMs) as Promise<T>;
    return { object, operation, expiresMs, hops: 0, isRepeatable: true, here };
  }

  /** @throws MoonportError what the operation throws; `outcome_unknown`, or why it did not get through in time */
  async ask<T>(ask: Ask<T>): Promise<T> {
    const { world, fleet } = this.#parts;
    let inDoubt = false;
    for (let failures = 1; ; failures++) {
      try {
        return await this.#once(ask);
      } catch (thrown) {
        const error = asMoonportError(thrown);
        const isDoubtful = isOwn(error, ...DOUBTFUL);
        inDoubt ||= isDoubtful;
        const isSafe = isHarmless(error) || (isDoubtful && ask.isRepeatable);
        const pauseMs = backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, world.random.fraction());
        const isLate = fleet.isStopping || this.#nowMs() + pauseMs >= ask.expiresMs;
        if (!isSafe || isLate) throw told(error, ask, inDoubt);
        // Whose node has died may be another's now.
        if (await this.#pauses.wait(pauseMs)) failures = 0;
        if (fleet.isStopping || ask.asker?.isGone()) throw told(error, ask, inDoubt);
      }
    }
  }

  /** Of a peer: it tries again itself, so this node tries once. */
  async answer(asked: Asked, from: string, asker: Asker): Promise<unknown> {
    const { app, className, key, timeoutMs, hops, release, operation } = asked;
    const { node, places } = this.#parts;
    const object = identityOf(app, className, key);
    places.isNotAt(object, from);
    const expiresMs = this.#nowMs() + timeoutMs;
    // Who has been answered by a release is not answered by an older one a hop further on.
    if (release !== undefined && release > node.releasing.numberOf(app)) await node.releasing.atLeast(app, release);
    const here = (): Promise<unknown> => doHere(this.#parts, object, operation, expiresMs, asker);
    const answer = await this.#once({ object, operation, expiresMs, hops, isRepeatable: false, asker, here });
    return answer === undefined ? undefined : encoded(answer as PlainValue);
  }

  /** The node that the object is believed to be on; this one itself where it has it, or is to claim it. */
  believed(object: ObjectIdentity): string {
    const { node, name, places } = this.#parts;
    return node.holds(object) ? name : places.of(object);
  }

  /**
   * The last hop may have come by a guess that is out of date. An object that is not this node's is claimed by its home: here,
   * it would only have to be given away again, and whoever guesses so would bring it back for ever.
   * @throws MoonportError `moved`, `bucket_failed`
   */
  async refuseStray(object: ObjectIdentity): Promise<void> {
    const { node, name, places } = this.#parts;
    const home = places.homeOf(object);
    if (node.holds(object) || home === name || (await node.owns(object))) return;
    places.forget(object);
    throw believedOn(object, home);
  }

  /** One try: here, or one hop on. */
  async #once<T>(ask: Ask<T>): Promise<T> {
    const { object, hops } = ask;
    const { name: self, places } = this.#parts;
    await this.#whileItMoves(ask);
    const to = this.believed(object);
    if (to !== self && hops < HOPS_MAX) {
      try {
        return await this.#forward(ask, to);
      } catch (thrown) {
        // The object is this node's, which has forgotten its claim: the record knows.
        if (ownerNamedBy(asMoonportError(thrown), object) !== self) throw thrown;
      }
    }
    try {
      if (hops >= HOPS_MAX) await this.refuseStray(object);
      return await ask.here();
    } catch (thrown) {
      const error = asMoonportError(thrown);
      const owner = ownerNamedBy(error, object);
      if (owner === undefined || owner === self) throw error;
      places.learn(object, owner);
      if (hops >= HOPS_MAX) throw error;
      return this.#forward(ask, owner);
    }
  }

  /**
   * Whoever asks for an object that is on its way to another node is held here until it is there.
   * @throws MoonportError `deadline_exceeded`, `mailbox_full`; `moved` where this node may not send it on
   */
  async #whileItMoves({ object, hops, expiresMs }: Ask<unknown>): Promise<void> {
    const { node, world, places } = this.#parts;
    const moving = node.moving(object);
    if (moving === undefined) return;
    const over = new AbortController();
    const late = sleep(world, Math.max(0, expiresMs - this.#nowMs()), over.signal);
    const to = await Promise.race([moving, late]).finally(() => over.abort());
    if (this.#nowMs() >= expiresMs) {
      throw MoonportError.of("deadline_exceeded", `${object.id} was on its way to another node`, { object: object.id });
    }
    if (typeof to !== "string") return;
    places.learn(object, to);
    if (hops < HOPS_MAX) return;
    throw MoonportError.of("moved", `${object.id} has gone to ${to}`, { object: object.id, details: { node: to } });
  }

  async #forward<T>(ask: Ask<T>, to: string): Promise<T> {
    const { object, operation, expiresMs, hops, asker } = ask;
    const { app, className, key } = object;
    const { node, fleet, places, settings } = this.#parts;
    const timeoutMs = Math.max(1, expiresMs - this.#nowMs());
    const { OBJECT_ACK_GATE_MS, LINK_REQUEST_MS } = settings;
    // Over there the deadline is kept, and what began before it ends: here only an answer that never comes is given up.
    const options = { timeoutMs: timeoutMs + OBJECT_ACK_GATE_MS + LINK_REQUEST_MS, ...(asker && { asker }) };
    try {
      const peer = fleet.peer(to);
      const release = node.releasing.numberOf(app);
      const body: Asked = { app, className, key, timeoutMs, hops: hops + 1, release, operation };
      const answer = await fleet.ask(peer, ASK, body, options);
      const said = answer instanceof Uint8Array ? decodeValue(answer) : undefined;
      const named = operation.kind === "call" ? this.#naming(said as unknown as CallReply, to) : undefined;
      places.learn(object, named?.node?.name ?? to);
      if (named !== undefined) fleet.counters.forwardedCalls.count(undefined);
      return (named ?? said) as T;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (operation.kind === "call") fleet.counters.forwardedCalls.count(error);
      if (!isHarmless(error) || isAboutAnother(error, object)) throw error;
      const owner = ownerNamedBy(error, object);
      if (owner !== undefined) places.learn(object, owner);
      else places.forget(object);
      throw error;
    }
  }

  /** Says of another node's reply who gave it: that one, or whom it had to ask. */
  #naming(reply: CallReply, to: string): CallReply {
    const name = reply.node?.name ?? to;
    const url = this.#parts.fleet.member(name)?.clientAddress;
    return { ...reply, node: { name, ...(url !== undefined && { url }) } };
  }

  #nowMs(): number {
    return this.#parts.world.clock.monotonicMs();
  }
}

/** Whether it is certain that nothing happened. */
export function isHarmless(error: MoonportError): boolean {
  return isOwn(error, ...HARMLESS);
}

export function believedOn(object: ObjectIdentity, node: string): MoonportError {
  return MoonportError.of("moved", `${object.id} is believed to be on ${node}`, {
    object: object.id,
    details: { node },
  });
}

/** What a try came to says nothing of an earlier one that is in doubt, unless it tells what the call came to. */
function told(error: MoonportError, { object }: Ask<unknown>, inDoubt: boolean): MoonportError {
  if (!inDoubt || !(error.retryable || isOwn(error, ...DOUBTFUL))) return error;
  return MoonportError.of("outcome_unknown", `the answer of the node that owns ${object.id} was lost`, {
    object: object.id,
    hint: "ask again with the same call id to learn what became of it",
    cause: error,
  });
}

/** Where the object is that has moved; undefined where nobody says so. */
function ownerNamedBy(error: MoonportError, object: ObjectIdentity): string | undefined {
  if (!isOwn(error, "moved") || isAboutAnother(error, object)) return undefined;
  return typeof error.details?.node === "string" ? error.details.node : undefined;
}

/** What a method heard of an object that it asked, and let through, says nothing of where its own is. */
function isAboutAnother(error: MoonportError, object: ObjectIdentity): boolean {
  return error.object !== undefined && error.object !== object.id;
}
