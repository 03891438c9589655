/**
 * Native classes: host code that units call as they call objects, `Mailer("x"):send(...)`.
 *
 * They run outside of any transaction and keep no record of call ids; `callId` is theirs to make a repeat harmless with.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { Caller, ObjectCall } from "../lua/contract.js";
import { nearest } from "../nearest.js";
import { plainCopy } from "../plain-copy.js";
import type { PlainValue } from "../values.js";

export interface NativeContext {
  readonly app: string;
  /** Of `Mailer("x")`: "x". */
  readonly key: string;
  readonly caller: Caller;
  /** The same when the unit's request is repeated under its id. */
  readonly callId: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** What it throws reaches the Lua code: a MoonportError as it is, anything else as `native_failed`. */
export type NativeMethod = (args: readonly PlainValue[], context: NativeContext) => unknown;

/**
 * Anything with methods of the shape of {@link NativeMethod}, by the names that Lua calls them: an object literal or an
 * instance of a class. What they return is a plain value or a promise of one.
 */
export type NativeClass = object;
export type NativeClasses = Readonly<Record<string, NativeClass>>;

/** @throws MoonportError `method_not_found`, `native_failed`, `bad_value`, or what the method threw */
export async function callNative(
  native: NativeClass,
  { className, method, args }: ObjectCall,
  context: NativeContext,
  depthMax: number,
): Promise<PlainValue> {
  const found = methodOf(native, method);
  if (found === undefined) {
    const guess = nearest(method, methodNames(native));
    throw MoonportError.of(
      "method_not_found",
      `the native class ${className} has no method "${method}"`,
      guess === undefined ? {} : { hint: `did you mean ${guess}?` },
    );
  }
  try {
    return plainCopy(await found.call(native, args, context), `${className}:${method}`, depthMax);
  } catch (thrown) {
    if (thrown instanceof MoonportError) throw thrown;
    const { message } = asMoonportError(thrown);
    throw MoonportError.of("native_failed", `${className}:${method}: ${message}`, { cause: thrown });
  }
}

function methodOf(native: NativeClass, method: string): NativeMethod | undefined {
  if (method in Object.prototype) return undefined;
  const found = (native as Readonly<Record<string, unknown>>)[method];
  return typeof found === "function" ? (found as NativeMethod) : undefined;
}

function methodNames(native: NativeClass): string[] {
  const names = new Set<string>();
  for (
    let part: object | null = native;
    part !== null && part !== Object.prototype;
    part = Object.getPrototypeOf(part)
  ) {
    for (const name of Object.getOwnPropertyNames(part)) if (methodOf(native, name) !== undefined) names.add(name);
  }
  return [...names];
}
