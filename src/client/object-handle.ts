/** One object as a client sees it: calls, subscriptions and live views of it, and its methods by name. */
import {
  abortSignal,
  callback,
  checkOptions,
  filledText,
  listOf,
  type OptionRule,
  type OptionRules,
  oneOf,
} from "../check-options.js";
import type { ObjectTimers } from "../delay/contract.js";
import { MoonportError } from "../errors.js";
import type { Consistency } from "../node-api.js";
import { plainCopy } from "../plain-copy.js";
import type { ReadingCall, SubscribeFrom } from "../realtime/contract.js";
import type { RemoteMethods } from "../typed-methods.js";
import type { PlainValue } from "../values.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import type { FrameTarget } from "../wire/frames.js";
import type { Calls } from "./calls.js";
import { amount, type ClientOptions } from "./options.js";
import { commandOf, type SendOptions, type Sent } from "./send.js";
import { LiveSubscription, type Subscription } from "./subscription.js";
import { LiveView, type View } from "./view.js";
import type { Watches } from "./watch.js";

export interface CallOptions {
  /** Aborted: the call rejects with the signal's reason; if it has not begun, it does not run. */
  readonly signal?: AbortSignal;
  /** How long the call may take in all, milliseconds. Default: the client's. */
  readonly timeoutMs?: number;
  /** The id to call under, to ask again for the outcome of an earlier call. Default: a new UUIDv7. */
  readonly callId?: string;
  /** `"replica"`: of a reading method, a copy on the node that is asked may answer. Default: the object's owner does. */
  readonly consistency?: Consistency;
}

/** A reading method and its arguments. */
export interface Snapshot {
  readonly snapshot: string;
  readonly args?: readonly unknown[];
}

export interface SubscribeOptions {
  /**
   * Where to begin: with the next event, with those after event number `after`, or with a reading method's value, followed by
   * the events that it does not contain. Default `"now"`.
   */
  readonly from?: "now" | { readonly after: number } | Snapshot;
  /** Only events of these names; numbers count all of them. */
  readonly names?: readonly string[];
  /** Given after a gap, in place of what is no longer kept. Default: the snapshot to begin with, if there is one. */
  readonly snapshotAfterGap?: Snapshot;
  /** Aborted: the loop ends. */
  readonly signal?: AbortSignal;
}

export interface ViewOptions {
  /** Told when the method failed; the view then goes on. Without it the loop throws what the class refused. */
  readonly onError?: (error: MoonportError) => void;
  /** Aborted: the loop ends. */
  readonly signal?: AbortSignal;
}

/** Methods of a class that no types are known of. */
export interface AnyMethods {
  [method: string]: (...args: unknown[]) => PlainValue;
}

type Arguments<Method> = Method extends (...args: infer Args) => unknown ? Readonly<Args> : never;
type Result<Method> = Method extends (...args: never[]) => infer Value ? Awaited<Value> : never;
type Name<Methods> = Extract<keyof Methods, string>;

export interface ObjectHandle<Methods> {
  /** @throws MoonportError what the class threw, or why the call failed; or the signal's reason */
  call<Method extends Name<Methods>>(
    method: Method,
    args?: Arguments<Methods[Method]>,
    options?: CallOptions,
  ): Promise<Result<Methods[Method]>>;
  /**
   * Has a method called later, exactly once; resolves when that is certain (docs/timers.md).
   * @throws MoonportError `id_conflict`, `bad_option`, `method_not_found`, `forbidden`; or the signal's reason
   */
  send<Method extends Name<Methods>>(
    method: Method,
    args?: Arguments<Methods[Method]>,
    options?: SendOptions,
  ): Promise<Sent>;
  /** Its timers and their last runs. For operators. @throws MoonportError `forbidden`, `object_not_found` */
  timers(): Promise<ObjectTimers>;
  /** Begins at once, not with the loop. */
  subscribe(options?: SubscribeOptions): Subscription;
  /** A reading method's value, and its new value after each write that changed it. */
  view<Method extends Name<Methods>>(
    method: Method,
    args?: Arguments<Methods[Method]>,
    options?: ViewOptions,
  ): View<Result<Methods[Method]>>;
}

/** A handle with the methods of the class on it. */
export type RemoteObject<Methods> = ObjectHandle<Methods> & RemoteMethods<Omit<Methods, keyof ObjectHandle<Methods>>>;

/** What a handle works with: the client's own parts. */
export interface HandleContext {
  readonly options: ClientOptions;
  readonly calls: Calls;
  readonly watches: Watches;
  /** @throws MoonportError once the client has closed */
  assertOpen(): void;
}

/** Deeper values than any node may be set to take. */
const DEPTH_MAX = 1_000;

export class ClientObject implements ObjectHandle<AnyMethods> {
  readonly #context: HandleContext;
  readonly #target: FrameTarget;

  constructor(context: HandleContext, target: FrameTarget) {
    this.#context = context;
    this.#target = target;
  }

  async call(method: string, args: readonly unknown[] = [], options: CallOptions = {}): Promise<PlainValue> {
    const { assertOpen, calls, options: defaults } = this.#context;
    assertOpen();
    checkOptions("call", options, CALL_RULES);
    options.signal?.throwIfAborted();
    return await calls.start({
      target: this.#target,
      method,
      args: plainArguments(args),
      callId: options.callId,
      timeoutMs: options.timeoutMs ?? defaults.timeoutMs,
      signal: options.signal,
      consistency: options.consistency,
    });
  }

  async send(method: string, args: readonly unknown[] = [], options: SendOptions = {}): Promise<Sent> {
    const { assertOpen, calls, options: defaults } = this.#context;
    assertOpen();
    const command = commandOf(options);
    const plain = plainArguments(args);
    options.signal?.throwIfAborted();
    const target = this.#target;
    const sent = calls.start({
      target,
      method,
      args: plain,
      // A repeat under the id that it has is the same command.
      instead: {
        changes: true,
        frame: ({ callId, ...fields }) => ({
          type: "send",
          ...fields,
          ...target,
          method,
          args: plain,
          command: { id: callId, ...command },
        }),
      },
      callId: options.id,
      timeoutMs: options.timeoutMs ?? defaults.timeoutMs,
      signal: options.signal,
    });
    return (await sent) as PlainValue & Sent;
  }

  async timers(): Promise<ObjectTimers> {
    const { assertOpen, calls, options } = this.#context;
    assertOpen();
    const target = this.#target;
    const timers = await calls.start({
      target,
      method: "timers",
      args: [],
      instead: { changes: false, frame: ({ callId: _, ...fields }) => ({ type: "timers", ...fields, ...target }) },
      callId: undefined,
      timeoutMs: options.timeoutMs,
      signal: undefined,
    });
    return timers as PlainValue & ObjectTimers;
  }

  subscribe(options: SubscribeOptions = {}): Subscription {
    const { assertOpen, watches, options: defaults } = this.#context;
    assertOpen();
    return subscribeWith(watches, this.#target, defaults.eventsBufferedMax, options);
  }

  view(method: string, args: readonly unknown[] = [], options: ViewOptions = {}): View<PlainValue> {
    const { assertOpen, watches } = this.#context;
    assertOpen();
    return viewWith(watches, this.#target, method, args, options);
  }
}

/** What `subscribe` does with its options, over whatever the watches are connected to. @throws MoonportError `bad_option`, `bad_value` */
export function subscribeWith(
  watches: Watches,
  target: FrameTarget,
  bufferMax: number,
  options: SubscribeOptions,
): Subscription {
  checkOptions("subscribe", options, SUBSCRIBE_RULES);
  const { names, signal, snapshotAfterGap } = options;
  const from = subscribeFrom(options.from ?? "now");
  const beginning = from.kind === "snapshot" ? from.reading : undefined;
  const afterGap = snapshotAfterGap === undefined ? beginning : readingOf(snapshotAfterGap);
  return new LiveSubscription({ target, from, names, snapshotAfterGap: afterGap, bufferMax, signal }, watches);
}

/** As {@link subscribeWith}, for `view`. */
export function viewWith(
  watches: Watches,
  target: FrameTarget,
  method: string,
  args: readonly unknown[],
  options: ViewOptions,
): View<PlainValue> {
  checkOptions("view", options, VIEW_RULES);
  const { onError, signal } = options;
  return new LiveView({ target, reading: { method, args: plainArguments(args) }, onError, signal }, watches);
}

const snapshot: OptionRule = { is: '{ snapshot: "method", args: [...] }', accepts: isSnapshot };

const callId: OptionRule = {
  is: CALL_ID_GRAMMAR,
  accepts: (value) => typeof value === "string" && isCallId(value),
};

const CALL_RULES: OptionRules<CallOptions> = {
  signal: abortSignal,
  timeoutMs: amount,
  callId,
  consistency: oneOf("replica"),
};
const SUBSCRIBE_RULES: OptionRules<SubscribeOptions> = {
  from: {
    is: '"now", { after: number } or { snapshot: "method", args: [...] }',
    accepts: (value) => value === "now" || isAfter(value) || isSnapshot(value),
  },
  names: listOf(filledText, "a list of event names"),
  snapshotAfterGap: snapshot,
  signal: abortSignal,
};
const VIEW_RULES: OptionRules<ViewOptions> = { onError: callback, signal: abortSignal };

function isSnapshot(value: unknown): value is Snapshot {
  const { snapshot: method, args = [] } = (value ?? {}) as Partial<Record<keyof Snapshot, unknown>>;
  return typeof method === "string" && Array.isArray(args);
}

function isAfter(value: unknown): value is { readonly after: number } {
  const { after } = (value ?? {}) as { readonly after?: unknown };
  return Number.isSafeInteger(after) && (after as number) >= 0;
}

function subscribeFrom(from: NonNullable<SubscribeOptions["from"]>): SubscribeFrom {
  if (from === "now") return { kind: "now" };
  if ("after" in from) return { kind: "after", number: from.after };
  return { kind: "snapshot", reading: readingOf(from) };
}

function readingOf({ snapshot: method, args = [] }: Snapshot): ReadingCall {
  return { method, args: plainArguments(args) };
}

export function plainArguments(args: readonly unknown[]): PlainValue[] {
  if (!Array.isArray(args)) {
    throw MoonportError.of("bad_value", "the arguments are no array", { hint: 'call("bid", ["ada", 25])' });
  }
  return args.map((arg, index) => plainCopy(arg, `argument ${index + 1}`, DEPTH_MAX));
}
