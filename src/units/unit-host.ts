/**
 * What a unit's code may ask of its host. Random numbers and UUIDs follow from the request's id: a repeat of the request makes
 * the same calls with the same arguments.
 */
import { createHash } from "node:crypto";
import type { Caller, CodeHost } from "../lua/contract.js";
import { seededRandom } from "../object/seeded-random.js";
import type { World } from "../world/world.js";

export class UnitHost implements CodeHost {
  readonly caller: Caller;
  readonly callId: string;
  readonly startedMs: number;
  readonly #log: World["log"];
  readonly #unit: string;
  readonly #seed: string;
  readonly #random: () => number;
  #uuids = 0;

  constructor(world: Pick<World, "clock" | "log">, unit: string, caller: Caller, callId: string) {
    this.caller = caller;
    this.callId = callId;
    this.startedMs = world.clock.wallMs();
    this.#log = world.log;
    this.#unit = unit;
    this.#seed = `${unit}\n${callId}`;
    this.#random = seededRandom(new Uint8Array(digest(this.#seed, 0)));
  }

  /** A unit has no transaction that could stay open: it may wait for anything. */
  mayWait(): void {}

  random(): number {
    return this.#random();
  }

  uuid(): string {
    const hex = digest(this.#seed, ++this.#uuids).toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }

  log(level: "debug" | "info" | "warn" | "error", text: string): void {
    this.#log[level]({ unit: this.#unit, callId: this.callId }, text);
  }
}

function digest(seed: string, ordinal: number): Buffer {
  return createHash("sha256").update(`${ordinal}\n${seed}`, "utf8").digest();
}
