/**
 * How those outside ask in a simulation: through any node, and again while that changes nothing, for some time. What cannot be
 * known is said to be unknown.
 */
import { asMoonportError } from "../../src/errors.js";
import type { SimulatedFleet, SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import { sleep, type World } from "../../src/world/world.js";
import type { Ended } from "./history.js";

export interface PersistParts {
  readonly fleet: SimulatedFleet;
  /** Outside of all nodes. */
  readonly world: World;
  readonly random: SeededRandom;
}

export interface Asked {
  readonly ask: (node: SimulatedNode) => Promise<unknown>;
  readonly isReading: boolean;
  /** Whether it may be asked again although it may have happened. */
  readonly isRepeatable: boolean;
  /** Always this node. Default: any. */
  readonly through?: string | undefined;
}

export const TIMEOUT_MS = 4_000;

/** Codes after which it is certain that nothing happened. */
const NOTHING_HAPPENED = new Set([
  "node_unreachable",
  "moved",
  "node_fenced",
  "replicas_missing",
  "mailbox_full",
  "object_restarting",
  "node_stopping",
  "node_full",
  "deadline_exceeded",
  "storage_behind",
  "not_durable_yet",
  "bucket_failed",
  "link_full",
  "object_not_found",
]);

/** Its outcome, and how often it was asked. */
export async function persist(
  { fleet, world, random }: PersistParts,
  { ask, isReading, isRepeatable, through }: Asked,
): Promise<{ readonly ended: Ended; readonly tries: number }> {
  const untilMs = fleet.time.nowMs + TIMEOUT_MS * 2;
  let mayHaveHappened = false;
  for (let tries = 1; ; tries++) {
    try {
      const names = [...fleet.nodes.keys()];
      const node = fleet.node(through ?? (names[random.below(names.length)] as string));
      return { ended: { kind: "ok", value: await ask(node) }, tries };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!NOTHING_HAPPENED.has(error.code) && !isReading) mayHaveHappened = true;
      const kind = mayHaveHappened ? "unknown" : "failed";
      const isFinal = (!error.retryable && error.code !== "outcome_unknown") || (mayHaveHappened && !isRepeatable);
      if (isFinal) return { ended: { kind, code: `${error.code}: ${error.message}` }, tries };
      if (fleet.time.nowMs >= untilMs) return { ended: { kind, code: error.code }, tries };
    }
    await sleep(world, 10 + random.below(200));
  }
}
