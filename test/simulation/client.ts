/**
 * A client in a simulation: it calls through any node, repeats what may be repeated, and records what it asked and heard. What
 * it cannot know it says to be unknown.
 */
import { asMoonportError } from "../../src/errors.js";
import type { ObjectIdentity } from "../../src/identity.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import type { PlainValue } from "../../src/values.js";
import type { World } from "../../src/world/world.js";
import { sleep, uuidv7 } from "../../src/world/world.js";
import type { Ended, History, Operation } from "./history.js";
import { identityOfPath } from "./restored.js";

export interface ClientParts {
  readonly fleet: SimulatedFleet;
  /** Outside of all nodes. */
  readonly world: World;
  readonly random: SeededRandom;
  readonly history: History;
  readonly client: number;
  /** Whether calls carry ids, so that one whose outcome is unknown may be repeated. */
  readonly hasCallIds: boolean;
  /** Share of its reads that allow a copy to answer. */
  readonly replicaShare: number;
}

const TIMEOUT_MS = 4_000;
const METHODS = { append: "append", list: "all", write: "write", fill: "fill", read: "value", add: "add" } as const;
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

export class SimulatedClient {
  readonly #parts: ClientParts;
  /** Reads that a copy answered. */
  fromCopies = 0;

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** @param object `Class/key` */
  async perform(object: string, operation: Operation, through?: string): Promise<Ended> {
    const { history, client, fleet } = this.#parts;
    const end = history.begin(object, client, operation, () => fleet.time.nowMs);
    const ended = await this.#tries(identityOfPath(object), operation, through);
    end(ended);
    return ended;
  }

  async #tries(object: ObjectIdentity, operation: Operation, through: string | undefined): Promise<Ended> {
    const { world, fleet, random, hasCallIds } = this.#parts;
    const callId = uuidv7(world);
    const untilMs = fleet.time.nowMs + TIMEOUT_MS * 2;
    const isReading = operation.kind === "list" || operation.kind === "read";
    const isRepeatable = isReading || (hasCallIds && operation.kind !== "destroy");
    let mayHaveHappened = false;
    for (;;) {
      try {
        const value = await this.#try(object, operation, callId, through);
        return { kind: "ok", value };
      } catch (thrown) {
        const error = asMoonportError(thrown);
        if (!NOTHING_HAPPENED.has(error.code) && !isReading) mayHaveHappened = true;
        const isFinal = (!error.retryable && error.code !== "outcome_unknown") || (mayHaveHappened && !isRepeatable);
        if (isFinal) return { kind: mayHaveHappened ? "unknown" : "failed", code: `${error.code}: ${error.message}` };
        if (fleet.time.nowMs >= untilMs) return { kind: mayHaveHappened ? "unknown" : "failed", code: error.code };
      }
      await sleep(world, 10 + random.below(200));
    }
  }

  async #try(
    object: ObjectIdentity,
    operation: Operation,
    callId: string,
    through: string | undefined,
  ): Promise<PlainValue> {
    const { fleet, random, hasCallIds, replicaShare } = this.#parts;
    const names = [...fleet.nodes.keys()];
    const node = fleet.node(through ?? (names[random.below(names.length)] as string));
    if (operation.kind === "destroy") {
      await node.ask((api) => api.destroy(object));
      return null;
    }
    const isReading = operation.kind === "list" || operation.kind === "read";
    const mayBeCopy = isReading && replicaShare > 0 && random.fraction() < replicaShare;
    const { value, from } = await node.call({
      object,
      method: METHODS[operation.kind],
      args: argsOf(operation),
      caller: { kind: "client" },
      ...(hasCallIds && { callId }),
      timeoutMs: TIMEOUT_MS,
      ...(mayBeCopy && { consistency: "replica" }),
    });
    if (from === "replica") this.fromCopies++;
    return value;
  }
}

function argsOf(operation: Operation): PlainValue[] {
  switch (operation.kind) {
    case "append":
    case "write":
    case "fill":
      return [operation.value];
    case "add":
      return [operation.amount];
    case "list":
    case "read":
    case "destroy":
      return [];
  }
}
