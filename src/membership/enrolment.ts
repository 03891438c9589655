/**
 * How a session of this node gets into the bucket, and says there that it has ended (M3, M4): by compare-and-swap over what
 * stands under the node's name.
 *
 * It promises that a session which is replaced is over first. A record that names this node's own journal is an earlier
 * session of this very data folder: whoever has the folder holds its lock, so the process of that session is gone, and it is
 * written over at once; so is one whose process is known to have ended (M6). Any other may belong to a process that lives,
 * elsewhere, under the same name, or to a disk that was lost; nobody can tell. Its record is made `closing`, so that it cannot be renewed, and written over when
 * its process has said that it has ended, or when its time is up in any case.
 */
import { type ResolvableWrite, type ResolvedWrite, writeResolved } from "../bucket/ambiguous-write.js";
import { type Bucket, bucketError, type ProcessMarks, type Version } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { Logger } from "../world/logger.js";
import { sleep, uuidv7, type World } from "../world/world.js";
import type { NodeRecord } from "./contract.js";
import { decodeRecord, encodeRecord, freshNodeKey, type Phase, type StoredRecord, stored } from "./node-record.js";
import { type Found, RecordReader } from "./reading.js";

export interface EnrolmentOptions {
  readonly world: Pick<World, "clock" | "timers" | "random">;
  readonly bucket: Bucket;
  readonly log: Logger;
  readonly marginMs: number;
  /** All but the session, which is made here. */
  readonly self: Omit<NodeRecord, "session">;
  /** A process that had a session before gives way to whoever took its name since; one that starts takes it. */
  readonly isFirst: boolean;
  readonly signal: AbortSignal;
}

export interface Enrolled {
  readonly record: NodeRecord;
  readonly key: string;
  readonly version: Version;
  /** When the write that is known to have landed was begun. */
  readonly startedMs: number;
  /** The session that stood there before. */
  readonly before: string | undefined;
}

interface Standing extends Found {
  readonly key: string;
}

/** A record that was made `closing` here. */
interface Closing {
  readonly session: string;
  readonly overAtMs: number;
}

type Step =
  | { readonly kind: "write"; readonly over: Standing | undefined }
  | { readonly kind: "close"; readonly standing: Standing }
  | { readonly kind: "wait" }
  | { readonly kind: "give_way"; readonly to: string };

const RACES_MAX = 16;
const LOOKS_PER_TTL = 10;

/**
 * Ends with a session in the bucket, whose time has begun.
 * @throws MoonportError `node_replaced`, `bucket_failed`, `bucket_unusable` (a record that is none)
 */
export async function enrol(options: EnrolmentOptions): Promise<Enrolled> {
  const { world, bucket, self, log, signal } = options;
  const record: NodeRecord = { ...self, session: uuidv7(world) };
  let closing: Closing | undefined;
  for (let races = 0; races < RACES_MAX && !signal.aborted; ) {
    const standing = await lookUp(options);
    const step = nextStep(standing, record, options.isFirst, closing, world.clock.monotonicMs(), bucket.marks);
    switch (step.kind) {
      case "give_way":
        throw await givenWay(options, step.to, standing);
      case "wait":
        await sleep(world, self.ttlMs / LOOKS_PER_TTL, signal);
        break;
      case "close":
        log.info(
          { node: self.node, session: step.standing.stored.record.session },
          "ending an earlier node of this name",
        );
        closing = (await close(options, step.standing, record.session)) ?? closing;
        races += 1;
        break;
      case "write": {
        const enrolled = await write(options, record, step.over);
        if (enrolled !== undefined) return enrolled;
        races += 1;
      }
    }
  }
  throw bucketError("refused", `the record of ${self.node} changes too fast, or the node is stopping`);
}

/** What to do about what stands under the node's name. */
function nextStep(
  standing: Standing | undefined,
  record: NodeRecord,
  isFirst: boolean,
  closing: Closing | undefined,
  nowMs: number,
  marks: ProcessMarks | undefined,
): Step {
  if (standing === undefined) return { kind: "write", over: undefined };
  const { phase, record: theirs } = standing.stored;
  const isOwn = theirs.journal === record.journal;
  const isGone = isOwn || (theirs.mark !== undefined && marks?.hasEnded(theirs.mark) === true);
  if (phase.kind === "ended") return { kind: "write", over: standing };
  if (!isFirst && phase.kind === "closing") return { kind: "give_way", to: phase.by };
  if (!isFirst && !isOwn) return { kind: "give_way", to: theirs.session };
  if (isGone) return { kind: "write", over: standing };
  if (closing === undefined) return { kind: "close", standing };
  // Another process ends it too, or has its place already: the later one has the name.
  const isClosedHere = phase.kind === "closing" && phase.by === record.session && theirs.session === closing.session;
  if (!isClosedHere) return { kind: "give_way", to: phase.kind === "closing" ? phase.by : theirs.session };
  return nowMs >= closing.overAtMs ? { kind: "write", over: standing } : { kind: "wait" };
}

/** What stands under the name. Of several, which starts at the same time can make, one that has not ended; then the first. */
async function lookUp({ world, bucket, self }: EnrolmentOptions): Promise<Standing | undefined> {
  const { found, error } = await new RecordReader({ world, bucket, patienceMs: self.ttlMs, node: self.node }).fresh();
  if (error !== undefined) throw error;
  const standing = [...found]
    .filter(([, { stored: one }]) => one.phase.kind !== "removed")
    .map(([key, one]) => ({ key, ...one }));
  const endedLast = (one: Standing): number => Number(one.stored.phase.kind === "ended");
  return standing.sort((left, right) => endedLast(left) - endedLast(right) || (left.key < right.key ? -1 : 1))[0];
}

async function write(
  options: EnrolmentOptions,
  record: NodeRecord,
  over: Standing | undefined,
): Promise<Enrolled | undefined> {
  const { world, self, marginMs } = options;
  const key = over?.key ?? freshNodeKey(self.node, world);
  const startedMs = world.clock.monotonicMs();
  const result = await put(options, key, stored(record, { kind: "open" }, world), over?.version);
  if (result.kind !== "landed") return undefined;
  if (world.clock.monotonicMs() >= startedMs + record.ttlMs - marginMs) {
    throw bucketError("refused", `writing ${key} took longer than a session lives`);
  }
  return { record, key, version: result.version, startedMs, before: over?.stored.record.session };
}

/** @returns undefined when something else stands there by now */
async function close(options: EnrolmentOptions, standing: Standing, by: string): Promise<Closing | undefined> {
  const { world, marginMs } = options;
  const { record } = standing.stored;
  const result = await put(options, standing.key, stored(record, { kind: "closing", by }, world), standing.version);
  if (result.kind !== "landed") return undefined;
  // No renewal landed after this: whatever the session knows of began before.
  return { session: record.session, overAtMs: world.clock.monotonicMs() + record.ttlMs + marginMs };
}

/** Tells whoever waits for this session's end that it has ended, and says to whom the name went. */
async function givenWay(options: EnrolmentOptions, to: string, standing: Standing | undefined): Promise<MoonportError> {
  const { self } = options;
  const theirs = standing?.stored.record;
  if (standing !== undefined && theirs?.journal === self.journal) {
    await endRecord(options, standing.key, theirs.session);
  }
  return replacedError(self.node, to);
}

/** @param session whose name it is now */
export function replacedError(node: string, session: string): MoonportError {
  return MoonportError.of("node_replaced", `another process has taken the name ${node}`, {
    hint: "give every node of the fleet a name of its own, and start this one again",
    details: { node, session },
  });
}

export interface Place extends Pick<EnrolmentOptions, "world" | "bucket"> {
  readonly self: Pick<NodeRecord, "ttlMs">;
  readonly signal?: AbortSignal;
}

/**
 * Says of a session that it has ended, if its record still stands at the key; then others need not wait for its time to be up.
 * The key is not deleted: a delete that lands late would take the record of a session that came after.
 * @throws MoonportError `bucket_failed`
 */
export async function endRecord(place: Place, key: string, session: string): Promise<void> {
  await changePhase(place, key, { kind: "ended" }, ({ record, phase }) => {
    return record.session === session && (phase.kind === "open" || phase.kind === "closing");
  });
}

/** @throws MoonportError `bucket_failed` @returns whether the record at the key is in that phase through this write */
export async function changePhase(
  place: Place,
  key: string,
  phase: Phase,
  isMeant: (standing: StoredRecord, version: Version) => boolean,
): Promise<boolean> {
  for (let races = 0; races < RACES_MAX; races++) {
    const found = await place.bucket.get(key);
    if (found === undefined) return false;
    const before = decodeRecord(key, found.bytes);
    if (!isMeant(before, found.version)) return false;
    const result = await put(place, key, stored(before.record, phase, place.world), found.version);
    if (result.kind === "landed") return true;
  }
  return false;
}

/** Until it is known what became of it, though not for longer than a session would live. */
function put(place: Place, key: string, next: StoredRecord, version: Version | undefined): Promise<ResolvedWrite> {
  const { world, bucket, self, signal } = place;
  const write: ResolvableWrite = {
    key,
    bytes: encodeRecord(next),
    condition: version === undefined ? { absent: true } : { version },
    recognise: (bytes) => decodeRecord(key, bytes).rid === next.rid,
  };
  const untilMs = world.clock.monotonicMs() + self.ttlMs;
  return writeResolved(bucket, world, write, { untilMs, ...(signal !== undefined && { signal }) });
}
