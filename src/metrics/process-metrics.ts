/**
 * What the process says of itself: CPU, memory, descriptors, lag of the event loop, garbage collection.
 *
 * A process has them once, however many nodes are in it, and pays for them (an observer of collections, a timer of 10 ms) only
 * from the first time that somebody asks.
 */
import { collectDefaultMetrics, Registry } from "prom-client";

let collected: Registry | undefined;

export function processMetrics(): Registry {
  if (collected === undefined) {
    collected = new Registry();
    collectDefaultMetrics({ register: collected });
  }
  return collected;
}
