/**
 * The same calls through the doors: a node in a process of its own, calls from another over loopback, beside bare echoes that
 * are asked in the same way.
 */

import type { LoadSpec, Operation } from "../load/load.js";
import type { LoadCommands } from "../load/load-child.js";
import type { ServerCommands } from "../load/server-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import { type Case, type Comparison, type Group, ONE_IN_FLIGHT } from "../support/case.js";
import { Child } from "../support/child.js";
import { cpuPerCall, type Round, type RoundBounds } from "../support/measure.js";

const OBJECTS = 1_000;
const WARM_UP_WRITES = 64;
/** A process that has just started runs slow code until it knows what is called often: with one in flight for half a minute. */
const WARM_UP: readonly { readonly inFlight: number; readonly ms: number }[] = [
  { inFlight: 64, ms: 2_000 },
  { inFlight: 1, ms: 1_000 },
];
const FIVE = 5;
const UNIT_KEY = "unit";

type Door = LoadSpec["door"];
type Spread = "hot" | "1000";
type Method = Exclude<Operation["kind"], "unit">;

interface Answering {
  readonly server: Child<ServerCommands>;
  readonly url: string;
}

export class Doors implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #manyKeys = Array.from({ length: OBJECTS }, (_, index) => `many-${index}`);
  #folder = "";
  #load: Child<LoadCommands> | undefined;
  #node: Answering | undefined;
  #echo: Answering | undefined;
  #hotObjects = 0;

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = [
      ...[1, 64, 256].map((inFlight) => this.#echoed("ws", inFlight)),
      this.#echoed("ws each", 64),
      ...[1, 64].map((inFlight) => this.#echoed("http", inFlight)),
      ...[1, 64, 256].flatMap((inFlight) => this.#socketCalls("hot", inFlight)),
      ...[64, 256].flatMap((inFlight) => this.#socketCalls("1000", inFlight)),
      ...(["hot", "1000"] as const).flatMap((spread) => [
        this.#calls("ws each", "write", spread, 64, true),
        this.#calls("ws each", "look", spread, 64),
      ]),
      this.#calls("http", "write", "hot", 1),
      this.#calls("http", "look", "hot", 1),
      ...(["hot", "1000"] as const).flatMap((spread) => [
        this.#calls("http", "write", spread, 64),
        this.#calls("http", "look", spread, 64),
      ]),
      this.#calls("http", "write", "hot", 64, true),
      this.#calls("http", "look_anew", "hot", 64),
      this.#unit(1, [{ figure: "p50", floors: [nameOf("http", "write", "hot", 1, false)] }]),
      this.#unit(FIVE, [
        { figure: "p50", floors: [nameOf("http", "write", "hot", 1, false)] },
        { figure: "p50", floors: [unitName(1)] },
      ]),
    ];
  }

  async open(selected: readonly Case[]): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    this.#load = new Child<LoadCommands>("load/load-child.js");
    this.#node = await started((server) => server.ask("node", this.#folder));
    this.#echo = await started((server) => server.ask("echo", null));
    const names = selected.map(({ name }) => name);
    if (names.some((name) => name.includes("1000"))) await this.#node.server.ask("write", this.#manyKeys);
    const unitKeys = Array.from({ length: FIVE }, (_, index) => `${UNIT_KEY}-${index + 1}`);
    if (names.some((name) => name.includes("unit"))) await this.#node.server.ask("write", unitKeys);
    if (selected.length === 0) return;
    await this.#warmUp(this.#node, [await this.#freshObject()]);
    await this.#warmUp(this.#echo, ["echo"]);
  }

  async close(): Promise<void> {
    await this.#load?.close();
    await this.#node?.server.close();
    await this.#echo?.server.close();
    removeFolder(this.#folder);
  }

  /** Writes without ids and with, reads that may be remembered and those that run, and the first two by the client. */
  #socketCalls(spread: Spread, inFlight: number): Case[] {
    return [
      this.#calls("ws", "write", spread, inFlight),
      this.#calls("ws", "write", spread, inFlight, true),
      this.#calls("ws", "look", spread, inFlight),
      this.#calls("ws", "look_anew", spread, inFlight),
      this.#calls("client", "write", spread, inFlight, true),
      this.#calls("client", "look", spread, inFlight, true),
    ];
  }

  #calls(door: Door, method: Method, spread: Spread, inFlight: number, ids = false): Case {
    return {
      name: nameOf(door, method, spread, inFlight, ids),
      against: floorsOf(door, method, spread, inFlight),
      ...(inFlight === 1 && ONE_IN_FLIGHT),
      round: async (bounds) => {
        const keys = spread === "hot" ? [await this.#freshObject()] : this.#manyKeys;
        return this.#round(this.#node, { door, operation: { kind: method, keys }, inFlight, ids }, bounds);
      },
    };
  }

  #unit(objects: number, against: readonly Comparison[]): Case {
    const operation: Operation = { kind: "unit", key: UNIT_KEY, objects };
    return {
      name: unitName(objects),
      against,
      ...ONE_IN_FLIGHT,
      round: (bounds) => this.#round(this.#node, { door: "http", operation, inFlight: 1, ids: true }, bounds),
    };
  }

  #echoed(door: Door, inFlight: number): Case {
    const operation: Operation = { kind: "write", keys: ["echo"] };
    return {
      name: echoName(door, inFlight),
      isFloor: true,
      ...(inFlight === 1 && ONE_IN_FLIGHT),
      round: (bounds) => this.#round(this.#echo, { door, operation, inFlight, ids: false }, bounds),
    };
  }

  async #warmUp(answering: Answering, keys: readonly string[]): Promise<void> {
    const operation: Operation = { kind: "write", keys };
    for (const { inFlight, ms } of WARM_UP) {
      await this.#round(answering, { door: "ws", operation, inFlight, ids: false }, { ms, calls: 200_000 });
    }
  }

  /** A hot object is a fresh one each round, so that rounds are alike. */
  async #freshObject(): Promise<string> {
    const key = `hot-${this.#hotObjects++}`;
    await this.#node?.server.ask("write", new Array<string>(WARM_UP_WRITES).fill(key));
    return key;
  }

  async #round(answering: Answering | undefined, spec: Omit<LoadSpec, "url">, bounds: RoundBounds): Promise<Round> {
    if (this.#load === undefined || answering === undefined)
      throw new Error("the processes of this group are not there");
    const { server, url } = answering;
    await this.#load.ask("open", { ...spec, url });
    const before = await server.ask("cpu", null);
    const { mainCpuUs: loadCpuUs, ...round } = await this.#load.ask("round", bounds);
    const after = await server.ask("cpu", null);
    await this.#load.ask("close", null);
    return {
      ...round,
      ...cpuPerCall(before, after, round.calls),
      ...(loadCpuUs !== undefined && { loadCpuUs }),
    };
  }
}

async function started(start: (server: Child<ServerCommands>) => Promise<string>): Promise<Answering> {
  const server = new Child<ServerCommands>("load/server-child.js");
  return { server, url: await start(server) };
}

function nameOf(door: Door, method: Method, spread: Spread, inFlight: number, ids: boolean): string {
  const withIds = ids && door !== "client" ? " ids" : "";
  return `${door} ${METHOD_NAMES[method]} ${spread} ${inFlight} in flight${withIds}`;
}

const METHOD_NAMES: Readonly<Record<Method, string>> = { write: "write", look: "read", look_anew: "read anew" };

function unitName(objects: number): string {
  return objects === 1 ? "http unit one write" : "http unit five writes";
}

function echoName(door: Door, inFlight: number): string {
  return `${door} echo ${inFlight} in flight`;
}

/** The client goes over the same socket as the light one: it is held against the same echo. */
function floorsOf(door: Door, method: Method, spread: Spread, inFlight: number): Comparison[] {
  const echo = echoName(door === "client" ? "ws" : door, inFlight);
  if (method !== "write") return [{ figure: "rate", floors: [echo] }];
  if (inFlight === 1) return [{ figure: "p50", floors: ["bucket put", echo] }];
  const file = spread === "hot" ? "sqlite transaction" : "sqlite transaction 1000 files";
  return [
    { figure: "rate", floors: [echo] },
    { figure: "rate", floors: [file] },
    { figure: "rate", floors: ["bucket put 64 in flight"] },
  ];
}
