/**
 * The file of an object that another node owns: made from what the bucket holds, and brought on by what the bucket or this node's
 * journal has beyond that.
 *
 * It is always one state of the object's line, whole, and knows which: the seq, and the epoch whose owner vouches for it. It is
 * never believed after a restart. Whoever brings it on sees to it that SQLite does not have it open meanwhile.
 */
import { PAGE_BYTES } from "../store/object-database.js";
import { type World, yieldTurn } from "../world/world.js";
import { assembleState, bodiesOf, type StateSource } from "./assemble-state.js";
import { hasContent, type Manifest, ownershipOf } from "./manifest.js";
import { removeLocalFile, removeSideFiles } from "./open-file.js";
import { segmentsOf } from "./wal/bundle.js";
import { GrowingFile } from "./wal/growing-file.js";
import { PageLedger } from "./wal/page-identity.js";
import { decodeSegment } from "./wal/segment.js";

/** Between two turns of the loop. */
const STEP_BYTES = 256 * 1024;

export class CopyFile {
  readonly path: string;
  readonly #object: string;
  readonly #ledger: PageLedger;
  #line: number;
  #seq: number;
  /** Under which the last of the content was written. */
  #epoch: number;

  /**
   * What the manifest names; an empty file where that is nothing, which is no database before it was brought on.
   * @throws MoonportError `object_corrupt`, `storage_*`, `bucket_failed`; nothing is left on the disk then
   */
  static async restore(source: StateSource, path: string): Promise<CopyFile> {
    const { manifest, folder } = source;
    if (hasContent(manifest)) return new CopyFile(path, manifest, await assembleState(source, path));
    removeLocalFile({ folder }, path);
    folder.open(path, "write").close();
    return new CopyFile(path, manifest, new PageLedger(PAGE_BYTES));
  }

  private constructor(path: string, manifest: Manifest, ledger: PageLedger) {
    const { object, seq, snapshot, segments } = manifest;
    this.path = path;
    this.#object = object;
    this.#ledger = ledger;
    this.#line = ownershipOf(manifest).tailEpoch;
    this.#seq = seq;
    this.#epoch = segments.at(-1)?.epoch ?? snapshot?.epoch ?? 0;
  }

  /** Epoch of the claim in whose line it is known to stand. */
  get line(): number {
    return this.#line;
  }

  get seq(): number {
    return this.#seq;
  }

  get bytes(): number {
    return this.#ledger.pages * this.#ledger.pageSize;
  }

  /**
   * What brings it to the state that the manifest names, in order; undefined where it does not go on from here, and the copy has
   * to be made anew. @throws MoonportError `object_corrupt`, `bucket_failed`
   */
  async wayTo(source: StateSource): Promise<readonly Uint8Array[] | undefined> {
    const { manifest } = source;
    if (manifest.seq <= this.#seq) {
      return manifest.seq === this.#seq && manifest.identity === this.#ledger.identity() ? [] : undefined;
    }
    const first = manifest.segments.findIndex(({ toSeq }) => toSeq > this.#seq);
    if (first < 0) return undefined;
    const way: Uint8Array[] = [];
    for await (const { value } of bodiesOf(source, manifest.segments.slice(first))) {
      for (const segment of segmentsOf(value)) way.push(segment);
    }
    // Of what lies in one body it may have taken some from a journal.
    const start = way.findIndex((bytes) => decodeSegment(bytes).toSeq > this.#seq);
    const next = way[start];
    return next !== undefined && this.#isContinuedBy(next) ? way.slice(start) : undefined;
  }

  /**
   * @param line the epoch whose owner vouches for the last of it
   * @throws MoonportError `object_corrupt`, `storage_*`; the file is good for nothing then
   */
  async bringOn(world: Pick<World, "folder" | "timers">, segments: readonly Uint8Array[], line: number): Promise<void> {
    if (segments.length > 0) await this.#apply(world, segments);
    this.#line = line;
  }

  async #apply(world: Pick<World, "folder" | "timers">, segments: readonly Uint8Array[]): Promise<void> {
    // SQLite would replay them over what is written here.
    removeSideFiles(world, this.path);
    const file = world.folder.open(this.path, "update");
    try {
      const parts = { file, path: this.path, object: this.#object, ledger: this.#ledger };
      const growing = new GrowingFile(parts, this.#seq, this.#epoch);
      let bytes = 0;
      for (const segment of segments) {
        growing.add(segment);
        bytes += segment.length;
        if (bytes < STEP_BYTES) continue;
        bytes = 0;
        await yieldTurn(world);
      }
      file.truncate(this.bytes);
      this.#seq = growing.seq;
      this.#epoch = growing.epoch;
    } finally {
      file.close();
    }
  }

  #isContinuedBy(bytes: Uint8Array): boolean {
    const { fromSeq, identityBefore } = decodeSegment(bytes);
    return fromSeq === this.#seq + 1 && identityBefore === this.#ledger.identity();
  }
}
