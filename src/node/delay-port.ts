/** How a node's delayed work reaches its own objects, and all others. */

import type { DriverPort } from "../delay/driver-port.js";
import { DELAY_SHARD } from "../delay/shard-class.js";
import { assert } from "../errors.js";
import { identityOf, type ObjectIdentity, partitionOf, SYSTEM_APP } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { CallReply, CallRequest } from "../node-api.js";
import type { CallRouter } from "../node-options.js";
import type { InnerCall } from "../object/inner-call.js";
import type { WakeTeller, Woken } from "../object/work.js";
import type { Manifest } from "../shipping/manifest.js";
import { callNative, type NativeClasses } from "../units/native.js";
import type { PlainValue } from "../values.js";

export interface DelayPortParts {
  /** Undefined where the node is alone. */
  readonly router: () => CallRouter | undefined;
  readonly isHomeOf: (partition: number) => boolean;
  readonly holds: (object: ObjectIdentity) => boolean;
  readonly manifest: (object: ObjectIdentity) => Promise<Manifest | undefined>;
  readonly call: (request: CallRequest) => Promise<CallReply>;
  /** As `call`, while the node is stopping too, and without a word to the shard's driver. */
  readonly callHere: (request: CallRequest) => Promise<CallReply>;
  readonly callObject: (call: InnerCall) => Promise<PlainValue>;
  readonly wake: (object: ObjectIdentity, teller: WakeTeller) => Promise<Woken>;
  readonly native: NativeClasses;
  readonly depthMax: number;
}

const CALLER: Caller = { kind: "system" };

export function delayPort(parts: DelayPortParts): DriverPort {
  const requestOf = (shard: number, method: string, args: PlainValue[]): CallRequest => {
    return { object: shardObject(shard), method, args, caller: CALLER };
  };
  return {
    isHome: (shard) => parts.isHomeOf(partitionOf(shardObject(shard).id)),
    holds: (shard) => parts.holds(shardObject(shard)),
    exists: async (shard) => {
      const manifest = await parts.manifest(shardObject(shard));
      return manifest !== undefined && !manifest.destroyed;
    },
    ask: async (shard, method, args) => {
      const request = requestOf(shard, method, args);
      const router = parts.router();
      return (await (router === undefined ? parts.call(request) : router.call(request))).value;
    },
    here: async (shard, method, args) => (await parts.callHere(requestOf(shard, method, args))).value,
    call: (call) => (isNative(parts, call) ? callHost(parts, call) : parts.callObject(call)),
    wake: (object, teller) => parts.router()?.wake(object, teller) ?? parts.wake(object, teller),
  };
}

/** The number of a delay shard; undefined for any other object. */
export function shardNumberOf({ app, className, key }: ObjectIdentity): number | undefined {
  return app === SYSTEM_APP && className === DELAY_SHARD ? Number(key) : undefined;
}

function shardObject(shard: number): ObjectIdentity {
  return identityOf(SYSTEM_APP, DELAY_SHARD, String(shard));
}

function isNative({ native }: DelayPortParts, { object }: InnerCall): boolean {
  return Object.hasOwn(native, object.className);
}

/** A native class keeps no record of ids: `callId` is its own to make a repeat harmless with. */
function callHost(
  { native, depthMax }: DelayPortParts,
  { object, method, args, caller, callId }: InnerCall,
): Promise<PlainValue> {
  const { app, className, key } = object;
  assert(callId !== undefined, "what is delivered carries an id");
  const call = { className, key, method, args };
  const { signal } = new AbortController();
  return callNative(native[className] ?? {}, call, { app, key, caller, callId, signal }, depthMax);
}
