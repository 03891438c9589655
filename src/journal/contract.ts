/** The journal of a node as owners and claimers see it, whether it is their own or a peer's behind a link. */
import type {
  CoverageNotice,
  EntryAnswer,
  EntryMessage,
  JournalEntry,
  NoticeAnswer,
  PromiseAnswer,
  PromiseRequest,
} from "../cluster/journal-rules.js";
import type { MoonportError } from "../errors.js";

/** A segment's bytes (shipping/wal/segment). */
export type Payload = Uint8Array;

export interface JournalPort {
  /**
   * The payload stays as it is until it answers. Answers once the state that it speaks of is durable (fdatasync).
   * @throws MoonportError `journal_full`, `storage_*`
   */
  append(object: string, message: EntryMessage<Payload>): Promise<EntryAnswer>;
  /** Undefined where the journal knows nothing of the object (J6). */
  notice(object: string, notice: CoverageNotice): Promise<NoticeAnswer | undefined>;
  /** @param part of its entries; default all; `have` says how far all of them go */
  promise(object: string, request: PromiseRequest, part?: TailPart): Promise<PromiseAnswer<Payload>>;
  /** As so many calls of `promise`, in their order; what fails for one fails for that one. Never rejects. */
  promiseMany(asked: readonly AskedPromise[]): Promise<readonly (PromiseAnswer<Payload> | MoonportError)[]>;
}

export interface AskedPromise extends PromiseRequest {
  readonly object: string;
  readonly part?: TailPart;
}

/**
 * The entries beyond a seq, as many as `bytesMax` holds, and one at least. To what is promised it makes no difference: asked for
 * again by the same claimer, a tail is the same (J1, J5).
 */
export interface TailPart {
  readonly afterSeq: number;
  readonly bytesMax: number;
}

/** An object whose entries a journal holds: what a survivor takes over when the owner's session has died. */
export interface HeldTail {
  readonly object: string;
  readonly tailEpoch: number;
  readonly have: number;
}

/** Which entries of one object: those of the line of `epoch`, beyond `afterSeq`, that end at or below `throughSeq`. */
export interface EntryRange {
  readonly epoch: number;
  readonly afterSeq: number;
  readonly throughSeq: number;
}

export interface HeldEntries {
  /** The bucket covers this seq; entries through it are gone. */
  readonly base: number;
  /** In order, without a hole; none where the journal has none that go so far. */
  readonly entries: readonly JournalEntry<Payload>[];
}
