/** A put through the embedded bucket's worker: what every write of a single node waits for at least. */
import path from "node:path";
import type { Version } from "../../src/bucket/bucket.js";
import { SqliteBucket } from "../../src/bucket/sqlite-bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import { type Case, type Group, ONE_IN_FLIGHT } from "../support/case.js";
import { roundOfCalls } from "../support/measure.js";

/** What a flight of a small write has: measured on the rows of this benchmark. */
const SEGMENT_BYTES = 300;
const MANIFEST_BYTES = 700;

export class BucketPuts implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  #folder = "";
  #bucket: SqliteBucket | undefined;
  readonly #versions = new Map<string, Version>();
  #segments = 0;

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = [{ ...this.#puts("bucket put", 1), ...ONE_IN_FLIGHT }, this.#puts("bucket put 64 in flight", 64)];
  }

  async open(): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    const world = realWorld(this.#folder, silentLogger);
    this.#bucket = new SqliteBucket(world, resolveSettings(), path.join(this.#folder, "bucket.sqlite"));
    await this.#bucket.start();
  }

  async close(): Promise<void> {
    await this.#bucket?.stop();
    removeFolder(this.#folder);
  }

  #puts(name: string, inFlight: number): Case {
    return {
      name,
      isFloor: true,
      round: (bounds) => roundOfCalls(bounds, inFlight, (index) => this.#put(`${name}-${index % inFlight}`)),
    };
  }

  /** A segment and the manifest that names it, by compare-and-swap, in one transaction. */
  async #put(object: string): Promise<void> {
    const key = `objects/${object}/manifest`;
    const version = this.#versions.get(key);
    const outcome = await this.#bucket?.write([
      { key: `objects/${object}/e1/${this.#segments++}.seg`, bytes: new Uint8Array(SEGMENT_BYTES) },
      { key, bytes: new Uint8Array(MANIFEST_BYTES), condition: version === undefined ? { absent: true } : { version } },
    ]);
    if (outcome?.kind !== "landed") throw new Error(`a put of ${key} did not land`);
    this.#versions.set(key, outcome.versions[1] as Version);
  }
}
