/**
 * Writes whose history is on a real S3 server: how long they take beside a bare PUT by the same client, how many requests they
 * come to, and what those cost at a list price. Each for flights that leave at once and for flights that are held back.
 */
import type { RequestCounts } from "../../src/bucket/request-counts.js";
import type { ObjectIdentity } from "../../src/identity.js";
import { BenchNode, removeFolder, scratchFolder, workObject, workObjects, writeAll } from "../support/bench-node.js";
import type { Amount, Case, Comparison, Group } from "../support/case.js";
import { type Round, type RoundBounds, roundOfCalls } from "../support/measure.js";
import { dollarsFor, kindsText, requestsBetween, requestsSum } from "../support/s3-prices.js";
import type { S3Server } from "../support/s3-server.js";

const OBJECTS = 1_000;
const FILES_OPEN_MAX = 3_000;
/** Neighbours in the order of calls are not neighbours in the order of creation. */
const STRIDE = 617;
/** A flight takes some milliseconds, and compactions have to come round. */
const ROUND_MS_MIN = 2_000;
const WARM_UP_WRITES = 640;
const HOT_IN_FLIGHT = [1, 64] as const;
const FLUSHES_MS = [0, 50] as const;
/** Flights under way at once, as a node bounds them. */
const FLIGHTS = 32;

interface Row {
  readonly name: string;
  readonly spread: "hot" | "1000";
  readonly inFlight: number;
  readonly flushMs: (typeof FLUSHES_MS)[number];
}

/** What the measured rounds of a row asked of the bucket. */
interface Asked {
  writes: number;
  flights: number;
  requests: RequestCounts | undefined;
}

export class S3Cost implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  readonly #server: S3Server;
  readonly #folders: string[] = [];
  readonly #nodes = new Map<number, BenchNode>();
  readonly #asked = new Map<string, Asked>();
  readonly #many = workObjects("many", OBJECTS);
  /** Mean body of a PUT, by writes in flight on the hot object. */
  readonly #putBytes = new Map<number, number>();

  constructor(parent: string, server: S3Server) {
    this.#parent = parent;
    this.#server = server;
    const rows = FLUSHES_MS.flatMap((flushMs) => rowsOf(flushMs));
    this.cases = [this.#put(1, 1), this.#put(64, 1), this.#put(1, FLIGHTS), ...rows.map((row) => this.#write(row))];
  }

  async open(selected: readonly Case[]): Promise<void> {
    const names = selected.map(({ name }) => name);
    for (const flushMs of FLUSHES_MS) {
      const node = await this.#openNode(flushMs);
      for (const inFlight of HOT_IN_FLIGHT) {
        await writeAll(node, new Array<ObjectIdentity>(WARM_UP_WRITES).fill(hotObject(inFlight)));
      }
      if (rowsOf(flushMs).some(({ name, spread }) => spread === "1000" && names.includes(name))) {
        await writeAll(node, this.#many);
      }
    }
    for (const inFlight of HOT_IN_FLIGHT) this.#putBytes.set(inFlight, await this.#measurePutBytes(inFlight));
  }

  async close(): Promise<void> {
    for (const node of this.#nodes.values()) await node.close();
    for (const folder of this.#folders) removeFolder(folder);
  }

  /** Of the rows that have run. */
  amounts(): Amount[] {
    return [...this.#asked].flatMap(([name, { writes, flights, requests }]) =>
      requests === undefined ? [] : [priceOf(name, writes, flights, requests)],
    );
  }

  #put(writes: number, inFlight: number): Case {
    return {
      name: putName(writes, inFlight),
      isFloor: true,
      msMin: ROUND_MS_MIN,
      round: (bounds) => {
        const { bucket } = this.#node(0);
        const bytes = new Uint8Array(this.#putBytes.get(writes) ?? 0);
        return roundOfCalls(bounds, inFlight, (index) =>
          bucket.write([{ key: `floor/${writes}-${index % inFlight}`, bytes }]),
        );
      },
    };
  }

  #write(row: Row): Case {
    return {
      name: row.name,
      against: floorsOf(row),
      msMin: ROUND_MS_MIN,
      round: (bounds) => this.#round(row, bounds),
    };
  }

  async #round({ name, spread, inFlight, flushMs }: Row, bounds: RoundBounds): Promise<Round> {
    const node = this.#node(flushMs);
    const [before, flightsBefore] = [requestsOf(node), flightsOf(node)];
    const at = (index: number): ObjectIdentity =>
      spread === "hot" ? hotObject(inFlight) : (this.#many[(index * STRIDE) % OBJECTS] as ObjectIdentity);
    const round = await roundOfCalls(bounds, inFlight, (index) => node.write(at(index), index));
    const asked = this.#asked.get(name);
    // The first round warms up.
    if (asked === undefined) this.#asked.set(name, { writes: 0, flights: 0, requests: undefined });
    else {
      const requests = requestsBetween(before, requestsOf(node));
      asked.requests = asked.requests === undefined ? requests : requestsSum(asked.requests, requests);
      asked.writes += round.calls;
      asked.flights += flightsOf(node) - flightsBefore;
    }
    return round;
  }

  async #measurePutBytes(inFlight: number): Promise<number> {
    const node = this.#node(0);
    const before = requestsOf(node);
    await roundOfCalls({ ms: 1_000, calls: 10_000 }, inFlight, (index) => node.write(hotObject(inFlight), index));
    const { bytesSent, put } = requestsBetween(before, requestsOf(node));
    return Math.round(bytesSent / put);
  }

  async #openNode(flushMs: number): Promise<BenchNode> {
    const folder = scratchFolder(this.#parent);
    this.#folders.push(folder);
    const bucket = await this.#server.bucketUrl(`flush-${flushMs}`);
    const settings = { OBJECT_FILES_OPEN_MAX: FILES_OPEN_MAX, BUCKET_FLUSH_MS: flushMs };
    const node = await BenchNode.open(folder, settings, bucket);
    this.#nodes.set(flushMs, node);
    return node;
  }

  #node(flushMs: number): BenchNode {
    const node = this.#nodes.get(flushMs);
    if (node === undefined) throw new Error("the node of this group is not open");
    return node;
  }
}

function rowsOf(flushMs: Row["flushMs"]): Row[] {
  const held = flushMs === 0 ? "" : ` flush ${flushMs}`;
  return [
    { name: `s3 write hot 1 in flight${held}`, spread: "hot", inFlight: 1, flushMs },
    { name: `s3 write hot 64 in flight${held}`, spread: "hot", inFlight: 64, flushMs },
    { name: `s3 write 1000 256 in flight${held}`, spread: "1000", inFlight: 256, flushMs },
  ];
}

/** One for each row: what a row leaves in a manifest decides when the next one compacts. */
function hotObject(inFlight: number): ObjectIdentity {
  return workObject(`hot-${inFlight}`);
}

/** On one object a write waits for a flight; over many, flights share what the server can take. */
function floorsOf({ spread, inFlight }: Row): Comparison[] {
  if (spread === "hot") return [{ figure: "p50", floors: [putName(inFlight, 1)] }];
  return [{ figure: "rate", floors: [putName(1, FLIGHTS)] }];
}

function putName(writes: number, inFlight: number): string {
  const flights = inFlight === 1 ? "" : ` ${inFlight} in flight`;
  return `s3 put as for ${writes} write${writes === 1 ? "" : "s"}${flights}`;
}

function priceOf(name: string, writes: number, flights: number, requests: RequestCounts): Amount {
  const kinds = kindsText(requests, (count) => (count / writes) * 1_000);
  const kilobytes = requests.bytesSent / requests.put / 1_024;
  return {
    name: `${name}: a million landed writes`,
    value: (dollarsFor(requests) / writes) * 1_000_000,
    digits: 3,
    unit: "dollars",
    note: `requests per 1,000: ${kinds}; ${(writes / flights).toFixed(1)} writes a flight; ${kilobytes.toFixed(1)} KB a PUT; ${requests.errors} failed`,
  };
}

function flightsOf({ node }: BenchNode): number {
  return Object.values(node.counters.flights).reduce((sum, { landed }) => sum + landed, 0);
}

/** @throws Error for a bucket that counts none */
export function requestsOf({ bucket }: BenchNode): RequestCounts {
  if (bucket.requests === undefined) throw new Error(`${bucket.name} does not count its requests`);
  return bucket.requests;
}
