/**
 * Whether everything in a bucket can be restored: walks all its objects, proves a bounded number of them at a time, and says
 * what is damaged, what is left over and what belongs to nothing.
 *
 * It only reads, and may run beside the nodes whose bucket it is. Memory does not grow with the bucket.
 */
import type { BucketReader } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { decodeManifest, type Manifest } from "../shipping/manifest.js";
import type { World } from "../world/world.js";
import { leftBehind } from "./left-behind.js";
import { type Proof, proveObject, provePast } from "./prove-object.js";
import { type DamagedObject, NamedList, type ObjectGarbage, type UnreadObject, type VerifyReport } from "./report.js";
import { placesIn, type Scope, type SeenObject, walk } from "./walk.js";

export interface VerifyOptions {
  /** Started. */
  readonly bucket: BucketReader;
  /** Its folder takes one database for each object that is being proved, and is left empty. */
  readonly world: World;
  readonly settings: Settings;
  readonly scope: Scope;
  /** Whether what they were is proved, too. */
  readonly past: boolean;
  /** Objects that are proved at once. */
  readonly jobs: number;
  /** Called after each object. */
  readonly onProgress?: (progress: Progress) => void;
  /** Ends it early, with a report of what was done. */
  readonly signal?: AbortSignal;
}

export interface Progress {
  readonly objects: number;
  readonly damaged: number;
  /** How far it has come, from 0 to 1; absent where there are too many classes to tell. */
  readonly share?: number;
}

/** @throws MoonportError `bucket_failed` when the bucket cannot be listed, `storage_*` when the folder does not take the files */
export async function verifyBucket(options: VerifyOptions): Promise<VerifyReport> {
  const verification = new Verification(options);
  return await verification.run();
}

class Verification {
  readonly #options: VerifyOptions;
  readonly #tally = new Tally();
  #failure: { readonly error: unknown } | undefined;

  constructor(options: VerifyOptions) {
    this.#options = options;
  }

  async run(): Promise<VerifyReport> {
    const { bucket, scope, jobs, onProgress } = this.#options;
    const placeOf = onProgress === undefined ? undefined : await placesIn(bucket, scope);
    const seen = walk(bucket, scope);
    const told = ({ object }: SeenObject): void => {
      const share = placeOf?.(object);
      onProgress?.({ ...this.#tally.progress(), ...(share !== undefined && { share }) });
    };
    const workers = Array.from({ length: jobs }, (_, number) => this.#work(seen, `verify-${number}.db`, told));
    await Promise.all(workers);
    if (this.#failure !== undefined) throw this.#failure.error;
    return this.#tally.report(!this.#isStopped);
  }

  /** Takes objects until there are no more, or it is told to stop, or another worker failed. Never rejects. */
  async #work(seen: ReturnType<typeof walk>, path: string, told: (one: SeenObject) => void): Promise<void> {
    try {
      while (this.#failure === undefined && !this.#isStopped) {
        const { value, done } = await seen.next();
        if (done === true) return;
        if (value.kind === "stray") this.#tally.strays.add(value.key);
        else await this.#take(value, path);
        if (value.kind === "object" && value.isLast) told(value);
      }
    } catch (error) {
      this.#failure ??= { error };
    }
  }

  async #take(seen: SeenObject, path: string): Promise<void> {
    const { bucket } = this.#options;
    const { object, keys, bodies, isLast } = seen;
    const proof = isLast ? await proveObject({ ...this.#options, path }, object, keys) : undefined;
    if (proof !== undefined) this.#tally.add(object.id, proof);
    if (this.#options.past) await this.#takePast(seen, path);
    const manifest = proof === undefined ? await this.#manifestOf(seen) : manifestIn(proof);
    if (manifest === undefined || bodies.length === 0) return;
    this.#tally.addLeft(object.id, await leftBehind(bucket, keys, bodies, manifest));
  }

  async #takePast({ object, keys, past }: SeenObject, path: string): Promise<void> {
    for (const key of past) {
      if (this.#isStopped) return;
      this.#tally.addPast(object.id, await provePast({ ...this.#options, path }, object, keys, key));
    }
  }

  /** Nothing where it cannot be read: that is told when the object is proved. */
  async #manifestOf({ object, keys }: SeenObject): Promise<Manifest | undefined> {
    try {
      const found = await this.#options.bucket.get(keys.manifest);
      return found && decodeManifest(object.id, found.bytes);
    } catch (error) {
      if (error instanceof MoonportError) return undefined;
      throw error;
    }
  }

  get #isStopped(): boolean {
    return this.#options.signal?.aborted === true;
  }
}

function manifestIn(proof: Proof): Manifest | undefined {
  return "manifest" in proof ? proof.manifest : undefined;
}

class Tally {
  readonly strays = new NamedList<string>();
  readonly #damaged = new NamedList<DamagedObject>();
  readonly #unread = new NamedList<UnreadObject>();
  readonly #littered = new NamedList<ObjectGarbage>();
  readonly #past = {
    restorable: 0,
    damaged: new NamedList<DamagedObject>(),
    unread: new NamedList<UnreadObject>(),
  };
  readonly #counts = { restorable: 0, unwritten: 0, destroyed: 0 };
  readonly #garbage = { bodies: 0, bytes: 0 };
  #databaseBytes = 0;
  #underWay = 0;

  add(object: string, proof: Proof): void {
    switch (proof.kind) {
      case "damaged":
        return this.#damaged.add({ object, key: proof.key, reason: proof.reason });
      case "unread":
        return this.#unread.add({ object, reason: proof.reason });
      case "stopped":
        return;
      default:
        this.#counts[proof.kind]++;
        this.#databaseBytes += proof.manifest.pages * proof.manifest.pageSize;
    }
  }

  addPast(object: string, proof: Awaited<ReturnType<typeof provePast>>): void {
    if (proof.kind === "damaged") this.#past.damaged.add({ object, key: proof.key, reason: proof.reason });
    else if (proof.kind === "unread") this.#past.unread.add({ object, reason: proof.reason });
    else if (proof.kind === "restorable") this.#past.restorable++;
  }

  addLeft(object: string, { bodies, bytes, underWay }: Awaited<ReturnType<typeof leftBehind>>): void {
    this.#underWay += underWay;
    if (bodies === 0) return;
    this.#garbage.bodies += bodies;
    this.#garbage.bytes += bytes;
    this.#littered.add({ object, bodies, bytes });
  }

  progress(): Progress {
    return { objects: this.#objects, damaged: this.#damaged.count + this.#past.damaged.count };
  }

  report(complete: boolean): VerifyReport {
    return {
      complete,
      objects: this.#objects,
      ...this.#counts,
      damaged: this.#damaged,
      unread: this.#unread,
      databaseBytes: this.#databaseBytes,
      past: this.#past,
      garbage: { ...this.#garbage, objects: this.#littered },
      underWay: this.#underWay,
      strays: this.strays,
    };
  }

  get #objects(): number {
    const { restorable, unwritten, destroyed } = this.#counts;
    return restorable + unwritten + destroyed + this.#damaged.count + this.#unread.count;
  }
}
