/** What came of verifying a bucket. Everything is counted; of what is named one by one, so many that memory stays bounded. */

/** The first so many of each kind are named. */
const NAMED_MAX = 1_000;

export interface Named<T> {
  readonly count: number;
  /** The first of them, in the order of the walk. */
  readonly first: readonly T[];
}

export interface DamagedObject {
  readonly object: string;
  /** Where the damage is, in the bucket. */
  readonly key: string;
  readonly reason: string;
}

export interface UnreadObject {
  readonly object: string;
  readonly reason: string;
}

export interface ObjectGarbage {
  readonly object: string;
  readonly bodies: number;
  readonly bytes: number;
}

export interface VerifyReport {
  /** False: it was told to stop before the end. */
  readonly complete: boolean;
  /** All that were looked at; the following five are parts of it. */
  readonly objects: number;
  readonly restorable: number;
  /** Claimed, and nothing ever written to them. */
  readonly unwritten: number;
  readonly destroyed: number;
  readonly damaged: Named<DamagedObject>;
  readonly unread: Named<UnreadObject>;
  /** Of all databases that were rebuilt. */
  readonly databaseBytes: number;
  /** Of past manifests: those whose states can all be had, and others. */
  readonly past: {
    readonly restorable: number;
    readonly damaged: Named<DamagedObject>;
    readonly unread: Named<UnreadObject>;
  };
  /** Bodies that no manifest will ever name. */
  readonly garbage: { readonly bodies: number; readonly bytes: number; readonly objects: Named<ObjectGarbage> };
  /** Bodies that no manifest names yet, or that were cut off on their way. */
  readonly underWay: number;
  /** Keys that belong to nothing. */
  readonly strays: Named<string>;
}

export class NamedList<T> implements Named<T> {
  readonly first: T[] = [];
  count = 0;

  add(item: T): void {
    this.count++;
    if (this.first.length < NAMED_MAX) this.first.push(item);
  }
}
