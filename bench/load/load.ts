/** What the process that makes the calls is told, and what all its ways of making them have in common. */
import type { Round, RoundBounds } from "../support/measure.js";

export type Operation =
  /** A method of `Work`, going round these keys. */
  | { readonly kind: "write" | "look" | "look_anew"; readonly keys: readonly string[] }
  /** `units/writes.lua`. */
  | { readonly kind: "unit"; readonly key: string; readonly objects: number };

export interface LoadSpec {
  /**
   * `ws`: the light client over one WebSocket with MessagePack; `ws each`: a socket for each call in flight; `client`:
   * moonport/client over one; `http`: a kept connection for each call in flight.
   */
  readonly door: "ws" | "ws each" | "client" | "http";
  /** `http://127.0.0.1:7070` */
  readonly url: string;
  readonly operation: Operation;
  readonly inFlight: number;
  /** Whether each call has an id; moonport/client always gives one. */
  readonly ids: boolean;
}

export interface Load {
  round(bounds: RoundBounds): Promise<Round>;
  close(): Promise<void>;
}

/** Neighbours in the order of calls are not neighbours in the order of creation. */
const STRIDE = 617;

export function placeOf(index: number, count: number): number {
  return (index * STRIDE) % count;
}
