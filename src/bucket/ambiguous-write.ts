/**
 * The rule for a conditional write that may have happened: never believe, read back.
 *
 * A write whose answer was lost, or which timed out, may have landed, may land later, or may never land. What stands at
 * its key decides: our bytes, which carry a random id that no other write has, mean that it landed; somebody else's
 * that its condition can never hold again; the old version that nobody knows yet, so the *same* write goes out again
 * until the version moves. Reporting a loss any earlier would let a late landing contradict it (O5).
 */
import { isOwn, MoonportError } from "../errors.js";
import { faultPoint } from "../world/fault-point.js";
import { sleep, type World } from "../world/world.js";
import {
  type Bucket,
  type BucketObject,
  bucketError,
  mayHaveLanded,
  type Version,
  type WriteCondition,
  type WriteHint,
  type WriteOutcome,
} from "./bucket.js";

export interface ResolvableWrite {
  readonly key: string;
  /** The same at every try; holds a random id of its own. */
  readonly bytes: Uint8Array;
  readonly condition: WriteCondition;
  /** Whether bytes found at the key are exactly this write's. */
  readonly recognise: (bytes: Uint8Array) => boolean;
  /** What must be there before the write is: in the same transaction in an atomic bucket, ahead of it in another. Their keys belong to this write alone. */
  readonly beside?: readonly { readonly key: string; readonly bytes: Uint8Array }[];
}

export interface ResolveOptions {
  /** Ends the tries; the write in doubt then stays in doubt. */
  readonly signal?: AbortSignal;
  /** No further try begins after this monotonic time. Default: none. */
  readonly untilMs?: number;
  /** An earlier call for this same write ended in doubt. */
  readonly inDoubt?: boolean;
  /** Default 20. */
  readonly firstPauseMs?: number;
  /** Default 2,000. */
  readonly pauseMaxMs?: number;
}

export type ResolvedWrite =
  | { readonly kind: "landed"; readonly version: Version }
  /** It did not land and never will. */
  | { readonly kind: "lost" }
  /**
   * A try was in doubt, and now somebody else's write stands there: no try can land any more, but ours may have landed
   * before theirs. Whoever must know looks at what they wrote.
   */
  | { readonly kind: "superseded"; readonly current: BucketObject | undefined };

/**
 * Writes until it is known what became of it.
 * @throws MoonportError `bucket_failed`: with outcome `refused` when nothing happened, with outcome `unknown` when the
 *   time was up or the signal came while a try was in doubt (it may land yet: call again with `inDoubt`)
 */
export async function writeResolved(
  bucket: Bucket,
  world: Pick<World, "clock" | "timers" | "random">,
  write: ResolvableWrite,
  options: ResolveOptions = {},
): Promise<ResolvedWrite> {
  let inDoubt = options.inDoubt ?? false;
  for (let tries = 0; ; tries += 1) {
    try {
      return await tryWrite(bucket, write, inDoubt);
    } catch (error) {
      if (!mayHaveLanded(error)) throw error;
      inDoubt = true;
      await sleep(world, pauseMs(tries, options, world.random.fraction()), options.signal);
      if (options.signal?.aborted || world.clock.monotonicMs() >= (options.untilMs ?? Number.POSITIVE_INFINITY)) {
        throw error;
      }
    }
  }
}

/**
 * One try of it.
 * @param inDoubt whether an earlier try of this same write ended in doubt
 * @throws MoonportError `bucket_failed`, with outcome `refused` when nothing happened, with outcome `unknown` when it may
 *   land yet, or an earlier try may: then the same write must be tried again, with `inDoubt`
 */
export async function tryWrite(
  bucket: Bucket,
  write: ResolvableWrite,
  inDoubt: boolean,
  hint?: WriteHint,
): Promise<ResolvedWrite> {
  let cause: unknown;
  try {
    const outcome = await writeWithBeside(bucket, write, hint);
    if (outcome.kind === "landed") return { kind: "landed", version: outcome.versions.at(-1) as Version };
    if (!inDoubt) return { kind: "lost" };
  } catch (error) {
    if (!inDoubt && !mayHaveLanded(error)) throw error;
    cause = error;
  }
  const known = await readBack(bucket, write);
  if (known) return known;
  throw bucketError("unknown", `it is not known whether the write of ${write.key} landed`, {
    cause,
    ...retryAfterOf(cause),
  });
}

function writeWithBeside(bucket: Bucket, write: ResolvableWrite, hint?: WriteHint): Promise<WriteOutcome> {
  const { key, bytes, condition, beside = [] } = write;
  const last = { key, bytes, condition };
  if (bucket.atomic) return bucket.write([...beside, last], hint);
  return writeAhead(bucket, beside).then(() => bucket.write([last], hint));
}

function retryAfterOf(error: unknown): { readonly retryAfterMs?: number } {
  const { retryAfterMs } = error instanceof MoonportError ? error : {};
  return retryAfterMs === undefined ? {} : { retryAfterMs };
}

/** Whatever goes wrong here, the write itself was not sent. */
async function writeAhead(bucket: Bucket, beside: NonNullable<ResolvableWrite["beside"]>): Promise<void> {
  try {
    for (const write of beside) {
      await bucket.write([write]);
      faultPoint("leg.bodyWritten", write.key);
    }
  } catch (error) {
    if (!(error instanceof MoonportError)) throw error;
    throw bucketError("refused", `what belongs beside the write is not there: ${error.message}`, {
      cause: error,
      ...retryAfterOf(error),
    });
  }
}

/** What stands at the key, when that settles the matter. */
async function readBack(bucket: Bucket, write: ResolvableWrite): Promise<ResolvedWrite | undefined> {
  let current: BucketObject | undefined;
  try {
    current = await bucket.get(write.key);
  } catch (error) {
    if (isOwn(error, "bucket_failed")) return undefined;
    throw error;
  }
  const before = "absent" in write.condition ? undefined : write.condition.version;
  if (current?.version === before) return undefined;
  if (current && write.recognise(current.bytes)) return { kind: "landed", version: current.version };
  return { kind: "superseded", current };
}

function pauseMs(tries: number, options: ResolveOptions, fraction: number): number {
  const { firstPauseMs = 20, pauseMaxMs = 2_000 } = options;
  return Math.min(firstPauseMs * 2 ** Math.min(tries, 30), pauseMaxMs) * (0.5 + fraction / 2);
}
