/** The object behind a {@link MoonportObject}: what is asked of it, checked and brought to the node. */
import { type AnyMethods, plainArguments, subscribeWith, viewWith } from "../client/object-handle.js";
import { commandOf, type SendOutcome, type Sent } from "../client/send.js";
import type { Subscription } from "../client/subscription.js";
import type { View } from "../client/view.js";
import type { ObjectTimers, OutcomeTarget, SendRequest } from "../delay/contract.js";
import { MoonportError } from "../errors.js";
import { checkMethodName, type ObjectIdentity } from "../identity.js";
import type { CallRequest, Inspection, NodeApi } from "../node-api.js";
import type { LiveApi } from "../realtime/contract.js";
import type { PlainValue } from "../values.js";
import type { FrameTarget } from "../wire/frames.js";
import { uuidv7, type World } from "../world/world.js";
import { orAborted } from "./aborted.js";
import type { EmbeddedHandle } from "./handle.js";
import { inTime } from "./in-time.js";
import { localWatches } from "./local-watches.js";
import {
  type CallOptions,
  callerOf,
  checkCallOptions,
  type SendOptions,
  type SubscribeOptions,
  type ViewOptions,
} from "./options.js";

/** What embedded objects need of the node they belong to. */
export interface EmbeddedContext {
  readonly node: NodeApi & LiveApi;
  readonly world: World;
  /** Aborted when the node closes. */
  readonly closing: AbortSignal;
}

/** Items that a subscription holds for its reader before it asks the node to pause. */
const ITEMS_BUFFERED_MAX = 1_000;

export class EmbeddedObject implements EmbeddedHandle<AnyMethods> {
  readonly id: string;
  readonly #context: EmbeddedContext;
  readonly #object: ObjectIdentity;

  constructor(context: EmbeddedContext, object: ObjectIdentity) {
    this.id = object.id;
    this.#context = context;
    this.#object = object;
  }

  async call(method: string, args: readonly unknown[] = [], options: CallOptions = {}): Promise<PlainValue> {
    checkCallOptions(options);
    checkMethodName(method);
    const { node, world } = this.#context;
    const { as, callId = uuidv7(world), timeoutMs, signal, consistency } = options;
    const request: CallRequest = {
      object: this.#object,
      method,
      args: plainArguments(args),
      caller: callerOf(as),
      callId,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(signal !== undefined && { signal }),
      ...(consistency !== undefined && { consistency }),
    };
    const { value, isShared } = await orAborted(signal, () =>
      inTime(world, { timeoutMs, callId, object: this.id }, () => node.call(request)),
    );
    return isShared ? structuredClone(value) : value;
  }

  async send(method: string, args: readonly unknown[] = [], options: SendOptions = {}): Promise<Sent> {
    const { as, ...given } = options;
    const { outcome, ...command } = commandOf(given);
    checkMethodName(method);
    const { node } = this.#context;
    const { app, className, key } = this.#object;
    const { id, claims } = callerOf(as);
    const request: SendRequest = {
      app,
      className,
      key,
      method,
      args: plainArguments(args),
      caller: { ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) },
      ...command,
      ...(outcome !== undefined && { outcome: outcomeOf(outcome) }),
    };
    return await orAborted(options.signal, () => node.delay.send(request));
  }

  timers(): Promise<ObjectTimers> {
    return this.#context.node.timers(this.#object);
  }

  subscribe({ as, ...options }: SubscribeOptions = {}): Subscription {
    this.#assertOpen();
    const { node, world } = this.#context;
    const watches = localWatches(node, world, this.#object, callerOf(as));
    return subscribeWith(watches, this.#target, ITEMS_BUFFERED_MAX, this.#untilClosing(options));
  }

  view(method: string, args: readonly unknown[] = [], { as, ...options }: ViewOptions = {}): View<PlainValue> {
    this.#assertOpen();
    checkMethodName(method);
    const { node, world } = this.#context;
    const watches = localWatches(node, world, this.#object, callerOf(as));
    return viewWith(watches, this.#target, method, args, this.#untilClosing(options));
  }

  inspect(): Promise<Inspection> {
    return this.#context.node.inspect(this.#object);
  }

  destroy(): Promise<void> {
    return this.#context.node.destroy(this.#object);
  }

  get #target(): FrameTarget {
    const { app, className, key } = this.#object;
    return { app, class: className, key };
  }

  /** A loop ends with the node it reads from. */
  #untilClosing<Options extends { readonly signal?: AbortSignal }>(options: Options): Options {
    const { closing } = this.#context;
    const { signal } = options;
    return {
      ...options,
      signal: signal instanceof AbortSignal ? AbortSignal.any([signal, closing]) : (signal ?? closing),
    };
  }

  #assertOpen(): void {
    if (this.#context.closing.aborted) throw MoonportError.of("node_stopping", "this Moonport is closed");
  }
}

function outcomeOf({ class: className, ...told }: SendOutcome): OutcomeTarget {
  return { className, ...told };
}
