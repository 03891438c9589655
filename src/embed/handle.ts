/**
 * One object as an embedding program holds it: what a client's handle has, and more, since the program is the node's host.
 * Making one asks nothing of the node and keeps nothing of the object awake.
 *
 * Types alone, apart from what is behind them: a program that uses them needs the types of no other package.
 */
import type { ObjectHandle } from "../client/object-handle.js";
import type { Sent } from "../client/send.js";
import type { Subscription } from "../client/subscription.js";
import type { View } from "../client/view.js";
import type { ObjectTimers } from "../delay/contract.js";
import type { Inspection } from "../node-api.js";
import type { RemoteMethods } from "../typed-methods.js";
import type { CallOptions, SendOptions, SubscribeOptions, ViewOptions } from "./options.js";

type Parameters<Methods, Method extends keyof Methods> = Methods[Method] extends (...args: infer Args) => unknown
  ? Readonly<Args>
  : never;
type Reply<Methods, Method extends keyof Methods> = Methods[Method] extends (...args: never[]) => infer Value
  ? Awaited<Value>
  : never;

export interface EmbeddedHandle<Methods> extends ObjectHandle<Methods> {
  /** `app/Class/key`. */
  readonly id: string;
  /**
   * Calls a method; resolves with its reply once that is durable. Nothing is tried again by itself: what fails with a
   * `retryable` error may be called again with the `callId` that the error names, and runs once.
   * @param args what JSON has, and Uint8Array; they are copied
   * @throws MoonportError, or the signal's reason; docs/errors.md lists the codes
   */
  call<Method extends Extract<keyof Methods, string>>(
    method: Method,
    args?: Parameters<Methods, Method>,
    options?: CallOptions,
  ): Promise<Reply<Methods, Method>>;
  /**
   * Has a method called later, exactly once; resolves when that is certain (docs/timers.md).
   * @throws MoonportError `id_conflict`, `bad_option`, `method_not_found`; or the signal's reason
   */
  send<Method extends Extract<keyof Methods, string>>(
    method: Method,
    args?: Parameters<Methods, Method>,
    options?: SendOptions,
  ): Promise<Sent>;
  /** Its timers and their last runs. @throws MoonportError `object_not_found` */
  timers(): Promise<ObjectTimers>;
  /**
   * The object's events as a `for await` loop reads them; leaving the loop ends it. What lands after it is `ready` is in it.
   * @throws MoonportError `bad_option`, `bad_value`; everything else comes out of the loop and of `ready`
   */
  subscribe(options?: SubscribeOptions): Subscription;
  /**
   * A reading method's value as a loop reads it: now, and each time that a landed write changed it. A slow loop misses
   * values, never the last one.
   * @throws MoonportError as `subscribe`
   */
  view<Method extends Extract<keyof Methods, string>>(
    method: Method,
    args?: Parameters<Methods, Method>,
    options?: ViewOptions,
  ): View<Reply<Methods, Method>>;
  /** Where the object stands. @throws MoonportError */
  inspect(): Promise<Inspection>;
  /** Ends the object; resolves when that is durable. A later write starts it anew. @throws MoonportError `object_not_found` */
  destroy(): Promise<void>;
}

/** A handle with the methods of the class on it: `lot.bid("ada", 25)` is `lot.call("bid", ["ada", 25])`. */
export type MoonportObject<Methods> = EmbeddedHandle<Methods> &
  RemoteMethods<Omit<Methods, keyof EmbeddedHandle<Methods>>>;
