/**
 * A database file that is to stand in an object's place: adapted to where it comes, and landed as a snapshot.
 */
import { MoonportError } from "../errors.js";
import type { Restoration } from "../node-api.js";
import { BucketLeg } from "../shipping/bucket-leg.js";
import type { Claim } from "../shipping/claim.js";
import type { Position } from "../shipping/manifest.js";
import type { SnapshotBody, SnapshotLoad } from "../shipping/object-load.js";
import { retryPauseMs } from "../shipping/retry-pause.js";
import { PageLedger } from "../shipping/wal/page-identity.js";
import type { UsedIds } from "../store/call-ids.js";
import { ObjectDatabase, PAGE_BYTES } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { PlainObject } from "../values.js";
import { sleep, yieldTurn } from "../world/world.js";
import type { ObjectContext } from "./object-context.js";
import type { EmittedEvent } from "./open-object.js";

export interface Place {
  /** The seq that it gets. */
  readonly seq: number;
  /** Number of the last event that was ever told of the object there; `after`: where only that it is a higher one is known. */
  readonly eventLast: number | { readonly after: number };
  /** Number of the last message that was ever sent from there; undefined where it is not known. */
  readonly messageLast: number | undefined;
  readonly timers: NonNullable<Restoration["timers"]>;
  readonly as:
    | { readonly kind: "restored"; readonly fromSeq: number; readonly fromMs: number | undefined }
    /** Another object, to which none of the calls, messages and events of the first one happened. */
    | {
        readonly kind: "fork";
        /** Of calls that happened to objects that stood under its key before. */
        readonly usedIds: UsedIds | undefined;
      };
}

/** One transaction emits fewer events, or messages, than this many times CALL_EVENTS_MAX: its call's, and its hooks'. */
const EMITTERS_MAX = 4;
const STEP_BYTES = 256 * 1024;

/** Makes the file at `path` fit its place. @returns the events that it now tells of */
export function adapt(context: ObjectContext, path: string, place: Place): readonly EmittedEvent[] {
  const { world, settings } = context;
  const database = ObjectDatabase.open(world.folder, path, settings, { mustExist: true });
  try {
    const tables = new ObjectTables(database, settings);
    database.begin();
    // What was full then has no other for what is told of this.
    const event = database.withSpareRoom(() => {
      const told = adjust(context, tables, place);
      database.commit();
      return told;
    });
    database.checkpointTruncate();
    return event === undefined ? [] : [event];
  } finally {
    database.close();
  }
}

/** In a transaction. @returns the event that it now tells of */
function adjust(context: ObjectContext, tables: ObjectTables, place: Place): EmittedEvent | undefined {
  // Those of then were followed by others, which are undone: between the two there would be a gap that nobody is told of.
  tables.events.startAfter(eventLastOf(context, tables, place));
  // What is on its way leaves the outbox by its number when it has arrived, and must not take another one along.
  tables.outbox.startAfter(place.messageLast ?? numbersGiven(context, place));
  tables.directoryRow.standsAt(place.seq);
  // Of a past in which it had been destroyed, it is what it was then.
  if (tables.meta.get("destroyed_ms") !== undefined) tables.meta.set("destroyed_ms", 0);
  if (place.timers === "drop") tables.timers.clear();
  if (place.as.kind === "restored") return restoredEvent(context, tables, place.seq, place.as);
  tables.outbox.clear();
  tables.callIds.forgetAll();
  if (place.as.usedIds !== undefined) tables.callIds.startAfter(place.as.usedIds);
  return undefined;
}

function eventLastOf(context: ObjectContext, { events }: ObjectTables, place: Place): number {
  const { eventLast } = place;
  if (typeof eventLast === "number") return eventLast;
  return Math.max(events.last, eventLast.after) + numbersGiven(context, place);
}

/** At most, of events or of messages, by all calls before. */
function numbersGiven({ settings }: ObjectContext, { seq }: Place): number {
  return seq * EMITTERS_MAX * settings.CALL_EVENTS_MAX;
}

function restoredEvent(
  { world }: ObjectContext,
  { events }: ObjectTables,
  seq: number,
  { fromSeq, fromMs }: Extract<Place["as"], { kind: "restored" }>,
): EmittedEvent {
  const atMs = world.clock.wallMs();
  const name = "restored";
  const data: PlainObject = fromMs === undefined ? { seq: fromSeq } : { seq: fromSeq, atMs: fromMs };
  return { number: events.append(name, data, atMs), name, data, atMs, seq };
}

/**
 * Lands the file at `path` as the object's content at `seq`.
 * @throws MoonportError `moved`, `bucket_failed` when nothing happened, `outcome_unknown`: then the claim is given up, too
 */
export async function land(
  context: ObjectContext,
  claim: Claim,
  path: string,
  seq: number,
  signal: AbortSignal,
): Promise<void> {
  const { world, settings, bucket, log, permits, obligations } = context;
  const load = await snapshotOf(context, path, seq);
  // What its timers and messages are by then is known when it is opened: who ends the session has it opened (W1).
  const before = (): Promise<void> | undefined => obligations.renews(claim.object);
  const leg = new BucketLeg(world, bucket, claim, log, settings, { before });
  const permit = permits?.request("waited");
  await permit?.granted;
  try {
    for (let failures = 1; ; failures++) {
      const result = await leg.land(load).catch((error: unknown) => ({ kind: "failed" as const, error }));
      if (result.kind === "landed") return;
      // Said to have moved it would be asked for again, and undo what was written on top of it since.
      if (result.kind === "lost") throw result.inDoubt ? unknown(claim, result.error) : result.error;
      if (failures >= settings.OBJECT_SHIP_FAILURES_MAX || signal.aborted) throw unknown(claim, result.error);
      await sleep(world, retryPauseMs(failures, result.error, settings, world.random.fraction()), signal);
    }
  } catch (error) {
    // What was given up may land yet; under the old epoch it then meets nothing that counts.
    context.claims.forget(claim.object);
    throw error;
  } finally {
    permit?.release();
  }
}

function unknown({ object }: Claim, cause: unknown): MoonportError {
  return MoonportError.of("outcome_unknown", `it is not known whether ${object.id} has its other content by now`, {
    object: object.id,
    hint: "look at its history before it is tried again",
    cause,
  });
}

async function snapshotOf({ world, settings }: ObjectContext, path: string, seq: number): Promise<SnapshotLoad> {
  const { folder } = world;
  const bytes = folder.stat(path)?.sizeBytes ?? 0;
  const ledger = new PageLedger(PAGE_BYTES);
  const parts = (): AsyncIterable<Uint8Array> => partsOf(world, path, settings.SNAPSHOT_PART_BYTES);
  for await (const part of partsOf(world, path, STEP_BYTES)) ledger.append(part);
  const position: Position = { seq, identity: ledger.identity(), pages: ledger.pages, pageSize: PAGE_BYTES };
  const isSmall = bytes <= settings.SNAPSHOT_INLINE_BYTES_MAX;
  const body: SnapshotBody = isSmall
    ? { kind: "whole", bytes: folder.readFile(path) ?? new Uint8Array() }
    : { kind: "stream", parts };
  const cutMs = Math.max(0, Math.floor(world.clock.wallMs()));
  return { carried: "snapshot", toSeq: seq, bytes, cutMs, body, position: () => position, release: () => {} };
}

/** A file's bytes, a bounded number at a time and others' turn between. */
export async function* partsOf(
  world: Pick<ObjectContext["world"], "folder" | "timers">,
  path: string,
  partBytes: number,
): AsyncGenerator<Uint8Array> {
  const file = world.folder.open(path, "read");
  try {
    const bytes = file.sizeBytes();
    for (let offset = 0; offset < bytes; offset += partBytes) {
      const part = new Uint8Array(Math.min(partBytes, bytes - offset));
      file.read(part, 0, part.length, offset);
      yield part;
      await yieldTurn(world);
    }
  } finally {
    file.close();
  }
}
