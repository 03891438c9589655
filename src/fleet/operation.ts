/**
 * What may be asked of an object wherever it lives: how that travels between nodes, and how the node that owns the object does it.
 *
 * What callers gave and objects answered crosses as bytes of the values' own codec, so that it arrives as it was.
 */
import type { ObjectIdentity } from "../identity.js";
import type { Asker } from "../links/contract.js";
import type { Caller } from "../lua/contract.js";
import type { MoonportNode } from "../node.js";
import type { CallRequest, Restoration } from "../node-api.js";
import type { WakeTeller } from "../object/work.js";
import type { ReadingCall } from "../realtime/contract.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainValue, SqlValue } from "../values.js";
import type { World } from "../world/world.js";

export const ASK = "object.ask";

/** An operation on an object, as it travels. */
export type Operation =
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

/** The body of an {@link ASK}. */
export interface Asked {
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

/** The node that does it. */
export interface Doer {
  readonly node: MoonportNode;
  /** Its name in the fleet. */
  readonly name: string;
  readonly world: Pick<World, "clock">;
}

/**
 * Does it here, as far as the object is this node's.
 * @param waiter whose going frees a call's place in its mailbox
 * @throws MoonportError `moved` where the object is another node's, what the operation throws
 */
export function doHere(
  { node, name, world }: Doer,
  object: ObjectIdentity,
  operation: Operation,
  expiresMs: number,
  waiter?: Asker,
): Promise<unknown> {
  switch (operation.kind) {
    case "call": {
      const { kind: _, chain, args, ...call } = operation;
      const timeoutMs = Math.max(0, expiresMs - world.clock.monotonicMs());
      const request = { ...call, args: decodeValue(args) as PlainValue[], object, timeoutMs };
      // On its way to another node it becomes a value of that one's own.
      return node
        .callInChain({ ...request, ...(waiter && { waiter }) }, chain)
        .then(({ isShared: _, ...reply }) => reply);
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
      return node.inspect(object).then((inspection) => ({ ...inspection, node: name }));
    case "locate":
      return node.settle(object).then(() => name);
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

export function evaluation({ method, args }: ReadingCall, caller: Caller): Operation {
  return { kind: "evaluate", method, args: encoded([...args]), caller };
}

/** What callers gave and objects answered is within its bounds already. */
export function encoded(value: PlainValue): Uint8Array {
  return encodeValue(value, Number.POSITIVE_INFINITY, "what travels between nodes");
}
