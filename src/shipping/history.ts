/**
 * An object's past, as the bucket keeps it: which states can be had again, and the database of one of them.
 *
 * The past is a chain of manifests in the order of their seqs: past ones, each of which stood until another took its place,
 * and the one that stands. Within each, every flight that it names is a state. What a compaction took over in fewer pieces
 * stands finer in the manifest before; so of the states that a manifest names, those beyond the one before it count.
 *
 * It only reads, and holds a page of names at a time.
 */
import type { BucketReader } from "../bucket/bucket.js";
import { isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Folder } from "../world/folder.js";
import { type AssembledState, assembleWithin, type StateLimit } from "./assemble-state.js";
import { ObjectKeys } from "./layout.js";
import { decodeManifest, hasContent, type Manifest } from "./manifest.js";
import { type ListedPast, pastIn } from "./retention.js";
import { segmentsOf } from "./wal/bundle.js";
import { decodeSegment } from "./wal/segment.js";

export type HistoryReader = Pick<BucketReader, "get" | "readStream" | "list">;

/** What stood for a while, or stands. */
export interface Era {
  readonly manifest: Manifest;
  /** The first seq of it that counts, and the last. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** States that count, as many as it names: what journals held one by one is named as one, and can be had one by one. */
  readonly states: number;
  /** Wall clock of the first of them, milliseconds; unknown where it was made before that was kept, or is damaged. */
  readonly fromMs: number | undefined;
  /** Until then it stood; absent of what stands. */
  readonly untilMs?: number;
  /** It was ended by the object's destruction. */
  readonly isEnd: boolean;
}

/** Where in the chain a wanted state is. */
interface Place {
  /** The first that stood beyond it; absent: the one that stands. */
  readonly past: ListedPast | undefined;
  readonly before: ListedPast | undefined;
}

export class ObjectPast {
  readonly #bucket: HistoryReader;
  readonly #object: ObjectIdentity;
  readonly #keys: ObjectKeys;
  readonly #standing: Manifest;

  /** @param standing as it is now; what is made of it later is not looked at */
  constructor(bucket: HistoryReader, object: ObjectIdentity, standing: Manifest) {
    this.#bucket = bucket;
    this.#object = object;
    this.#keys = new ObjectKeys(object);
    this.#standing = standing;
  }

  /**
   * The database as it was at `limit`, in a file.
   * @returns nothing when the object did not exist then, or what it was is not kept; no file is left then
   * @throws MoonportError `object_corrupt`, `bucket_failed`, `storage_*`, `not_in_history` where only a state before it is kept
   */
  async assemble(folder: Folder, path: string, limit: StateLimit): Promise<AssembledState | undefined> {
    const { past, before } = await this.#find(limit);
    const manifest = past === undefined ? this.#standing : await this.#load(past);
    const source = { bucket: this.#bucket, folder, keys: this.#keys };
    const found = hasContent(manifest) ? await assembleWithin({ ...source, manifest }, path, limit) : undefined;
    if (found !== undefined && (before === undefined || found.position.seq > before.seq)) {
      if (found.mergedToSeq === undefined) return found;
      folder.remove(path);
      throw this.#merged(found.position.seq, found.mergedToSeq);
    }
    if (before === undefined) return undefined;
    // As yet it stood as it did at the end of what came before, unless that end was the object's.
    folder.remove(path);
    if (before.isEnd && baseSeq(manifest) > before.seq) return undefined;
    return await assembleWithin({ ...source, manifest: await this.#load(before) }, path, { seq: before.seq });
  }

  /**
   * The first state that can be had, and the newest eras, in order. What is collected meanwhile is left out, and so is what cannot
   * be read: whoever asks may be after what stood before the damage.
   * @param erasMax the one that stands not counted
   */
  async eras(erasMax: number): Promise<{ readonly first: Era | undefined; readonly last: readonly Era[] }> {
    let oldest: ListedPast | undefined;
    const newest: ListedPast[] = [];
    for await (const past of this.#past()) {
      oldest ??= past;
      newest.push(past);
      // One more, for what comes before the first of them.
      if (newest.length > erasMax + 1) newest.shift();
    }
    const last: Era[] = [];
    for (const [index, past] of [...newest, undefined].entries()) {
      const before = newest[index - 1];
      if (index === 0 && past !== oldest) continue;
      const era = await this.#eraOf(past, before);
      if (era !== undefined) last.push(era);
    }
    const isFirstAmongThem = newest[0] === oldest;
    const first = isFirstAmongThem || oldest === undefined ? last[0] : await this.#eraOf(oldest, undefined);
    return { first, last };
  }

  /** @param past absent: of what stands */
  async #eraOf(past: ListedPast | undefined, before: ListedPast | undefined): Promise<Era | undefined> {
    const manifest = past === undefined ? this.#standing : await unlessDamaged(this.#loadIfThere(past));
    if (manifest === undefined) return undefined;
    const seqs = statesOf(manifest).filter((seq) => before === undefined || seq > before.seq);
    const [fromSeq] = seqs;
    if (fromSeq === undefined) return undefined;
    const continues = before !== undefined && !(before.isEnd && baseSeq(manifest) > before.seq);
    return {
      manifest,
      fromSeq,
      toSeq: manifest.seq,
      states: seqs.length,
      fromMs: continues ? before.untilMs : await unlessDamaged(this.#beganMs(manifest)),
      ...(past !== undefined && { untilMs: past.untilMs }),
      isEnd: past?.isEnd === true,
    };
  }

  async #beganMs({ snapshot, segments }: Manifest): Promise<number | undefined> {
    if (snapshot !== undefined) return snapshot.cutMs;
    const [first] = segments;
    const body = first && (first.body ?? (await this.#bucket.get(this.#keys.segment(first)))?.bytes);
    return body && decodeSegment(segmentsOf(body)[0] as Uint8Array).cutMs;
  }

  async #find(limit: StateLimit): Promise<Place> {
    let before: ListedPast | undefined;
    for await (const past of this.#past()) {
      const reaches = "seq" in limit ? past.seq >= limit.seq : past.untilMs > limit.timeMs;
      if (reaches) return { past, before };
      before = past;
    }
    return { past: undefined, before };
  }

  async *#past(): AsyncGenerator<ListedPast> {
    for (let after: string | undefined; ; ) {
      const page = await this.#bucket.list(this.#keys.past, after === undefined ? {} : { after });
      yield* pastIn(page.keys);
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  async #load(past: ListedPast): Promise<Manifest> {
    const manifest = await this.#loadIfThere(past);
    if (manifest !== undefined) return manifest;
    throw MoonportError.of("not_in_history", `what ${this.#object.id} was then has just been deleted`, {
      object: this.#object.id,
      hint: "it is older than PITR_RETENTION_MS",
    });
  }

  #merged(fromSeq: number, toSeq: number): MoonportError {
    return MoonportError.of(
      "not_in_history",
      `between seq ${fromSeq} and ${toSeq} of ${this.#object.id} nothing is kept`,
      {
        object: this.#object.id,
        hint: `ask for seq ${fromSeq} or ${toSeq}; states in between are older than PITR_RETENTION_MS and were merged`,
      },
    );
  }

  async #loadIfThere({ key }: ListedPast): Promise<Manifest | undefined> {
    const found = await this.#bucket.get(key);
    return found && decodeManifest(this.#object.id, found.bytes);
  }
}

/** Nothing of what is damaged. @throws MoonportError `bucket_failed` */
async function unlessDamaged<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isOwn(error, "object_corrupt")) return undefined;
    throw error;
  }
}

/** The seqs at which a manifest has a state, in order. */
function statesOf({ snapshot, segments }: Manifest): number[] {
  const ends = segments.map(({ toSeq }) => toSeq);
  return snapshot === undefined ? ends : [snapshot.seq, ...ends];
}

/** After which a manifest's own content begins. */
function baseSeq({ snapshot, segments }: Manifest): number {
  return snapshot?.seq ?? (segments[0]?.fromSeq ?? Number.POSITIVE_INFINITY) - 1;
}
