/** A client in a simulation: it calls through any node, repeats what may be repeated, and records what it asked and heard. */
import type { ObjectIdentity } from "../../src/identity.js";
import type { SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { uuidv7 } from "../../src/world/world.js";
import type { Ended, History, Operation } from "./history.js";
import { type PersistParts, persist, TIMEOUT_MS } from "./persist.js";
import { identityOfPath } from "./restored.js";

export interface ClientParts extends PersistParts {
  readonly history: History;
  readonly client: number;
  /** Whether calls carry ids, so that one whose outcome is unknown may be repeated. */
  readonly hasCallIds: boolean;
  /** Share of its reads that allow a copy to answer. */
  readonly replicaShare: number;
}

const METHODS = { append: "append", list: "all", write: "write", fill: "fill", read: "value", add: "add" } as const;

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
    const { world, hasCallIds } = this.#parts;
    const callId = uuidv7(world);
    const { ended } = await persist(this.#parts, {
      ask: (node) => this.#ask(node, object, operation, callId),
      isReading: isReading(operation),
      isRepeatable: isReading(operation) || (hasCallIds && operation.kind !== "destroy"),
      through,
    });
    return ended;
  }

  async #ask(node: SimulatedNode, object: ObjectIdentity, operation: Operation, callId: string): Promise<PlainValue> {
    if (operation.kind === "destroy") {
      await node.ask((api) => api.destroy(object));
      return null;
    }
    const { hasCallIds, replicaShare, random } = this.#parts;
    const mayBeCopy = isReading(operation) && replicaShare > 0 && random.fraction() < replicaShare;
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

function isReading({ kind }: Operation): boolean {
  return kind === "list" || kind === "read";
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
