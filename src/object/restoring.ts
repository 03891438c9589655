/**
 * An object's past put to use: told, restored in its place, taken to another key, given out as a file.
 *
 * What was is made in a folder of its own, beside everything that goes on with the object. Only the step in which it takes
 * an object's place runs alone, in that object's turn (O1); it lands as one flight under a new epoch, so that it happens whole
 * or not at all, and what it replaces becomes the past like any other.
 */
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { ExportedDatabase, HistoryEra, ObjectHistory, PointInTime, Restoration, Restored } from "../node-api.js";
import type { AssembledState, StateLimit } from "../shipping/assemble-state.js";
import type { Claim } from "../shipping/claim.js";
import { type Era, ObjectPast } from "../shipping/history.js";
import { databasePath } from "../shipping/layout.js";
import { hasContent, type Manifest } from "../shipping/manifest.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { retentionMs } from "../shipping/retention.js";
import { deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import type { ObjectContext } from "./object-context.js";
import type { Objects } from "./objects.js";
import { lastEvent, type OpenObject } from "./open-object.js";
import { adapt, land, type Place, partsOf } from "./replacement.js";
import type { Replacing } from "./work.js";

const FOLDER = "restoring";
/** Each takes a database's room on the disk. */
const RUNNING_MAX = 4;
const ERAS_DEFAULT = 100;
const ERAS_MAX = 10_000;

/** A file with what an object was. */
interface Made {
  readonly path: string;
  readonly state: AssembledState;
}

export class Restoring {
  readonly #context: ObjectContext;
  readonly #objects: Objects;
  #running = 0;
  #files = 0;

  constructor(context: ObjectContext, objects: Objects) {
    this.#context = context;
    this.#objects = objects;
  }

  /** What an earlier life left. */
  start(): void {
    this.#context.world.folder.removeTree(FOLDER);
  }

  /** @throws MoonportError `object_not_found` for a key that was never written */
  async history(object: ObjectIdentity, limit = ERAS_DEFAULT): Promise<ObjectHistory> {
    const { settings, bucket } = this.#context;
    const standing = await this.#standing(object);
    const { first, last } = await this.#pastOf(object, standing).eras(Math.min(limit, ERAS_MAX));
    return {
      object: object.id,
      retentionMs: retentionMs(settings, bucket),
      seq: standing.seq,
      destroyed: !hasContent(standing),
      ...(first && { from: { seq: first.fromSeq, ...(first.fromMs !== undefined && { atMs: first.fromMs }) } }),
      eras: last.map(eraInfo),
    };
  }

  /** @throws MoonportError `not_in_history`, `object_not_found`, `object_corrupt`, `outcome_unknown`, `node_full` */
  restore(object: ObjectIdentity, { at, timers = "keep" }: Restoration): Promise<Restored> {
    return this.#made(object, at, ({ path, state }) =>
      this.#replace(object, path, state, (open, before) => ({
        seq: before.seq + 1,
        eventLast: open === undefined ? { after: before.eventLast } : lastEvent(open),
        messageLast: open?.tables.outbox.lastEver,
        timers,
        as: { kind: "restored", fromSeq: state.position.seq, fromMs: state.cutMs },
      })),
    );
  }

  /** @throws MoonportError as {@link restore}, `object_exists` */
  fork(
    object: ObjectIdentity,
    { at, timers = "keep" }: Partial<Restoration>,
    target: ObjectIdentity,
  ): Promise<Restored> {
    return this.#made(object, at, ({ path, state }) =>
      this.#replace(target, path, state, (open, before) => {
        if (open?.isUnwritten !== true) throw exists(target);
        const { seq, eventLast, usedIds } = before;
        return { seq: seq + 1, eventLast, messageLast: 0, timers, as: { kind: "fork", usedIds } };
      }).catch((error: unknown) => {
        // It lives on another node; to whoever asks for a fork, `moved` would say that the first one does.
        throw isOwn(error, "moved") ? exists(target) : error;
      }),
    );
  }

  /** @throws MoonportError as {@link restore} */
  async export(object: ObjectIdentity, at: PointInTime | undefined): Promise<ExportedDatabase> {
    const { world, settings } = this.#context;
    const { path, state } = await this.#make(object, at);
    const release = (): void => this.#drop(path);
    try {
      // The file of a program that opens it alone: what is not in it stands in no WAL beside it.
      const database = world.folder.openDatabase(path, { mustExist: true });
      database.pragma("journal_mode = DELETE");
      database.close();
      return {
        seq: state.position.seq,
        ...(state.cutMs !== undefined && { atMs: state.cutMs }),
        bytes: world.folder.stat(path)?.sizeBytes ?? 0,
        parts: releasing(partsOf(world, path, settings.SNAPSHOT_PART_BYTES), release),
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** @param placeOf where it comes; what it throws leaves the object as it is */
  async #replace(
    object: ObjectIdentity,
    path: string,
    { position, cutMs }: AssembledState,
    placeOf: (open: OpenObject | undefined, before: Manifest) => Place,
  ): Promise<Restored> {
    const reply = deferred<Restored>();
    this.#objects.replace(object, {
      run: async (open, replacing) => {
        const { claims } = this.#context;
        const before = (open?.claim ?? (await claims.claim(object))).manifest;
        const place = placeOf(open, before);
        faultPoint("restore.made", object.id);
        const events = adapt(this.#context, path, place);
        replacing.begin();
        const claim = await this.#claimAnew(object, before);
        faultPoint("restore.claimed", object.id);
        await this.#land(claim, path, place, replacing);
        this.#context.log.info(
          { object: object.id, seq: place.seq, fromSeq: position.seq },
          "its content was replaced",
        );
        for (const { number, name, data } of events) {
          this.#context.observe({ kind: "event", object: object.id, number, name, data });
        }
        this.#context.landed({ object, seq: place.seq, events, destroyed: false });
        reply.resolve({
          object: object.id,
          epoch: claim.manifest.epoch,
          seq: place.seq,
          fromSeq: position.seq,
          ...(cutMs !== undefined && { fromMs: cutMs }),
        });
      },
      reject: reply.reject,
    });
    return await reply.promise;
  }

  /** Under a new epoch: what may still be on its way under the old one meets nothing that counts. */
  async #claimAnew(object: ObjectIdentity, before: Manifest): Promise<Claim> {
    const { claims } = this.#context;
    claims.forget(object);
    const claim = await claims.claim(object);
    if (claim.manifest.seq === before.seq) return claim;
    throw MoonportError.of("moved", `${object.id} was written by another node`, { object: object.id });
  }

  async #land(claim: Claim, path: string, { seq }: Place, { signal }: Replacing): Promise<void> {
    await land(this.#context, claim, path, seq, signal);
    faultPoint("restore.landed", claim.object.id);
    try {
      this.#keepLocally(claim.object, path);
    } catch (thrown) {
      // It is durable: whoever opens it next has it from the bucket.
      const fields = { object: claim.object.id, error: asMoonportError(thrown).message };
      this.#context.log.warn(fields, "what was restored could not be kept on this node's disk");
    }
  }

  #keepLocally(object: ObjectIdentity, path: string): void {
    const { world, localCopies } = this.#context;
    const bytes = world.folder.stat(path)?.sizeBytes ?? 0;
    const local = databasePath(object);
    removeLocalFile(world, local);
    world.folder.ensureDirectory(local.slice(0, local.lastIndexOf("/")));
    world.folder.rename(path, local);
    localCopies.closed(local, bytes);
  }

  async #made<T>(object: ObjectIdentity, at: PointInTime | undefined, use: (made: Made) => Promise<T>): Promise<T> {
    const made = await this.#make(object, at);
    try {
      return await use(made);
    } finally {
      this.#drop(made.path);
    }
  }

  /** @param at absent: as it stands. The file is the caller's to {@link #drop}. */
  async #make(object: ObjectIdentity, at: PointInTime | undefined): Promise<Made> {
    if (this.#running >= RUNNING_MAX) {
      throw MoonportError.of("node_full", `${RUNNING_MAX} databases of the past are being made`, {
        retryAfterMs: 1_000,
      });
    }
    this.#running++;
    const path = `${FOLDER}/${++this.#files}.db`;
    try {
      const standing = await this.#standing(object);
      const state = await this.#assemble(object, standing, path, at);
      return { path, state };
    } catch (error) {
      this.#drop(path);
      throw error;
    }
  }

  #drop(path: string): void {
    this.#running--;
    removeLocalFile(this.#context.world, path);
  }

  async #assemble(
    object: ObjectIdentity,
    standing: Manifest,
    path: string,
    at: PointInTime = { seq: standing.seq },
  ): Promise<AssembledState> {
    const { world } = this.#context;
    const past = this.#pastOf(object, standing);
    const isToCome = "seq" in at ? at.seq > standing.seq : at.atMs > world.clock.wallMs();
    const limit: StateLimit = "seq" in at ? at : { timeMs: at.atMs };
    const state = isToCome ? undefined : await past.assemble(world.folder, path, limit);
    if (state !== undefined) return state;
    throw await this.#notInHistory(object, standing, at, isToCome);
  }

  async #notInHistory(
    object: ObjectIdentity,
    standing: Manifest,
    at: PointInTime,
    isToCome: boolean,
  ): Promise<MoonportError> {
    const { first } = await this.#pastOf(object, standing).eras(0);
    const when = "seq" in at ? `seq ${at.seq}` : iso(at.atMs);
    const from = first && `seq ${first.fromSeq}${first.fromMs === undefined ? "" : ` (${iso(first.fromMs)})`}`;
    const to = `seq ${standing.seq}${hasContent(standing) ? "" : ", where it was destroyed"}`;
    const what = from === undefined ? "nothing of it is kept" : `it is kept from ${from} to ${to}`;
    const why = isToCome ? "is yet to come" : "is not in its history";
    return MoonportError.of("not_in_history", `${when} of ${object.id} ${why}: ${what}`, {
      object: object.id,
      hint: "moonport history shows what can be restored",
      details: { ...(first && { fromSeq: first.fromSeq, fromMs: first.fromMs }), toSeq: standing.seq },
    });
  }

  async #standing(object: ObjectIdentity): Promise<Manifest> {
    await this.#objects.cover(object);
    const manifest = await this.#objects.manifest(object);
    if (manifest !== undefined && manifest.seq > 0) return manifest;
    throw MoonportError.of("object_not_found", `${object.id} was never written`, { object: object.id });
  }

  #pastOf(object: ObjectIdentity, standing: Manifest): ObjectPast {
    return new ObjectPast(this.#context.bucket, object, standing);
  }
}

function eraInfo({ manifest, fromSeq, toSeq, states, fromMs, untilMs, isEnd }: Era): HistoryEra {
  return {
    epoch: manifest.epoch,
    fromSeq,
    toSeq,
    states,
    ...(fromMs !== undefined && { fromMs }),
    ...(untilMs !== undefined && { untilMs }),
    destroyed: isEnd,
    ...(manifest.snapshot && { snapshotSeq: manifest.snapshot.seq }),
  };
}

function exists({ id }: ObjectIdentity): MoonportError {
  return MoonportError.of("object_exists", `${id} exists`, {
    object: id,
    hint: "fork to another key, or destroy that object first",
  });
}

/** Of what is no date any more, how many milliseconds it is after 1970. */
function iso(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

/** The parts, once; `release` is called when they are at their end, or are not wanted any more, be it before the first. */
function releasing(parts: AsyncGenerator<Uint8Array>, release: () => void): AsyncIterable<Uint8Array> {
  let isReleased = false;
  const end = (): void => {
    if (!isReleased) release();
    isReleased = true;
  };
  const iterator: AsyncIterator<Uint8Array> = {
    async next() {
      const result = await parts.next().catch((error: unknown) => {
        end();
        throw error;
      });
      if (result.done === true) end();
      return result;
    },
    async return() {
      await parts.return(undefined);
      end();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
