/**
 * An object's file while it is open: the database with the kernel's tables in it, the cargo that reads its WAL, and the
 * shipper that lands what it commits.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { BucketLeg } from "../shipping/bucket-leg.js";
import type { Claim } from "../shipping/claim.js";
import { databasePath } from "../shipping/layout.js";
import { ObjectCargo } from "../shipping/object-cargo.js";
import type { ObjectLoad, SegmentLoad } from "../shipping/object-load.js";
import { bringToPosition, type LocalFile, removeLocalFile } from "../shipping/open-file.js";
import { QuorumShipper } from "../shipping/quorum-shipper.js";
import { type FlightHold, type Landed, type Load, Shipper, type ShipperParts } from "../shipping/shipper.js";
import type { Shipping } from "../shipping/shipping.js";
import type { RowStanding } from "../store/directory-row.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { PlainValue } from "../values.js";
import type { Logger } from "../world/logger.js";
import type { World } from "../world/world.js";
import type { ObjectContext } from "./object-context.js";
import type { OwedMark } from "./obligations.js";
import { ObjectAnswers } from "./remembered-answers.js";

export interface EmittedEvent {
  readonly number: number;
  readonly name: string;
  readonly data: PlainValue;
  /** Wall clock of its call's start, milliseconds. */
  readonly atMs: number;
  readonly seq: number;
}

/** What of a commit is told outside, once it is durable. */
export interface CommitNotes {
  /** Absent where it changes nothing of what the object owes. */
  readonly owed: OwedMark | undefined;
  /** Absent where the directory row stands as it did. */
  readonly row: RowStanding | undefined;
}

export interface OpenObjectEvents {
  landed(open: OpenObject, carried: ObjectLoad["carried"]): void;
  broken(open: OpenObject, error: MoonportError): void;
}

/** Standings of one row that may wait for their landing; those of the bursts that ride one flight are rarely more. */
const UNLANDED_ROWS_MAX = 32;

export class OpenObject {
  readonly object: ObjectIdentity;
  readonly path: string;
  readonly claim: Claim;
  readonly database: ObjectDatabase;
  readonly tables: ObjectTables;
  readonly answers: ObjectAnswers;
  readonly cargo: ObjectCargo;
  readonly shipper: Shipping;
  readonly #context: ObjectContext;
  readonly #events: OpenObjectEvents;
  /** Last committed seq. */
  #committedSeq: number;
  /** Standings of the directory row that are committed and not yet landed, in order of their seqs (G1). */
  #unlandedRows: RowStanding[] = [];
  /** Events committed and not yet landed, for whoever watches the node (G1). */
  #unlandedEvents: EmittedEvent[] = [];
  /** What commits that are not durable yet oblige to, in their order. */
  #owed: OwedMark[] = [];
  /** Whether it has owed anything in this opening: whoever keeps its promises is asked before the bucket names more. */
  #mayOwe = false;

  /**
   * Claims the object, brings its file to the manifest's position and opens it.
   * @throws MoonportError `moved`, `bucket_failed`, `object_corrupt`, `storage_*`
   */
  static async open(context: ObjectContext, object: ObjectIdentity, events: OpenObjectEvents): Promise<OpenObject> {
    const claim = await context.claims.claim(object);
    const path = databasePath(object);
    // From before it is checked: what is deleted in the meantime would be made anew, empty, and served as the object.
    context.localCopies.opened(path);
    try {
      const { ledger, origin } = await bringToPosition(context.world, context.bucket, claim);
      return OpenObject.#at(context, claim, ledger, origin, events);
    } catch (error) {
      const left = context.world.folder.stat(path);
      if (left !== undefined) context.localCopies.closed(path, left.sizeBytes);
      throw error;
    }
  }

  static #at(
    context: ObjectContext,
    claim: Claim,
    ledger: LocalFile["ledger"],
    origin: LocalFile["origin"],
    events: OpenObjectEvents,
  ): OpenObject {
    const { world, settings, running } = context;
    const mustExist = origin !== "new";
    const database = ObjectDatabase.open(world.folder, databasePath(claim.object), settings, { mustExist, running });
    try {
      // Whoever has put another file in its place since: what is written to it would be taken for the object's.
      if (mustExist && database.pageCount() !== claim.manifest.pages) throw changedMeanwhile(claim.object.id);
      return new OpenObject(context, claim, database, ledger, events);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  private constructor(
    context: ObjectContext,
    claim: Claim,
    database: ObjectDatabase,
    ledger: LocalFile["ledger"],
    events: OpenObjectEvents,
  ) {
    const { world, settings } = context;
    this.#context = context;
    this.#events = events;
    this.object = claim.object;
    this.path = database.path;
    this.claim = claim;
    this.database = database;
    this.tables = new ObjectTables(database, settings, printSeed(claim));
    this.answers = new ObjectAnswers(context.answers);
    this.#committedSeq = claim.manifest.seq;
    this.cargo = new ObjectCargo({
      world,
      settings,
      claim,
      database,
      ledger,
      images: context.images.imagesOf(),
      committedSeq: () => this.#committedSeq,
      ...(claim.manifest.replicas !== undefined && {
        recordOwed: () => this.#quorumShipper().recordOwed,
        segmentTaken: (load: SegmentLoad) => this.#quorumShipper().send(load),
      }),
    });
    this.shipper = claim.manifest.replicas === undefined ? this.#bucketShipping() : this.#quorumShipping();
    this.#takeUpOwed();
  }

  /** Whatever an earlier residency left undone: nobody may know of it. */
  #takeUpOwed(): void {
    const mark = this.#owedAt(this.#committedSeq, false);
    this.#mayOwe = mark.nextDueMs !== undefined || mark.messagesThrough > 0;
    this.#context.obligations.opened(this.object, this.claim.manifest.epoch, mark);
  }

  #owedAt(seq: number, isToldToShard: boolean): OwedMark {
    const { timers, outbox } = this.tables;
    return {
      seq,
      nextDueMs: this.isDestroyed ? undefined : timers.nextDueMs(),
      messagesThrough: outbox.last,
      isToldToShard,
    };
  }

  /** W1: before the bucket names what obliges, the object stands in the owing list. */
  readonly #listed = ({ carried }: ObjectLoad): Promise<void> | undefined => {
    const endsRow = carried === "tombstone" && this.tables.directoryRow.standing() !== undefined;
    const changesRow = endsRow || this.hasUnlandedRow;
    this.#mayOwe ||= changesRow;
    if (!this.#mayOwe) return undefined;
    const { obligations } = this.#context;
    return obligations.listed(this.object, this.claim.manifest.epoch, { mark: this.#owed.at(-1), changesRow });
  };

  /** This node is alone: the bucket releases. */
  #bucketShipping(): Shipping {
    const { bucket, settings, counters, traffic } = this.#context;
    const isLone = () => traffic.isLone();
    return this.#shipperTo(new BucketLeg(...this.#legParts(), { before: this.#listed, isLone }), {
      ...(!bucket.atomic && settings.BUCKET_FLUSH_MS > 0 && { hold: this.#hold() }),
      gateMs: counters.gateMs,
      events: {
        landed: (landed) => {
          this.#released(landed.load.toSeq, landed);
          this.#landed(landed.load);
        },
        failed: (error, failures, stopped) => this.#failed(error, failures, stopped),
        broken: (error) => this.#events.broken(this, asMoonportError(error)),
      },
    });
  }

  /** Journals release, and the bucket follows. */
  #quorumShipping(): QuorumShipper {
    const { world, settings, counters, fleet } = this.#context;
    return new QuorumShipper({
      world,
      settings,
      fleet,
      claim: this.claim,
      cargo: this.cargo,
      committedSeq: () => this.#committedSeq,
      gateMs: counters.gateMs,
      bucketShipper: (hold, watch, events) =>
        this.#shipperTo(new BucketLeg(...this.#legParts(), { watch, before: this.#listed }), { hold, events }),
      events: {
        released: (released) => this.#released(released.toSeq, { ...released, load: released }),
        covered: (load) => this.#landed(load),
        failed: (error, failures, stopped) => this.#failed(error, failures, stopped),
        broken: (error) => this.#events.broken(this, asMoonportError(error)),
      },
    });
  }

  #quorumShipper(): QuorumShipper {
    assert(this.shipper instanceof QuorumShipper, "an object with replicas ships to journals");
    return this.shipper;
  }

  #legParts(): [World, Bucket, Claim, Logger, Settings] {
    const { world, bucket, log, settings } = this.#context;
    return [world, bucket, this.claim, log, settings];
  }

  #shipperTo(leg: BucketLeg, parts: Pick<ShipperParts<ObjectLoad>, "hold" | "gateMs" | "events">): Shipper<ObjectLoad> {
    const { world, settings, permits } = this.#context;
    return new Shipper<ObjectLoad>({ world, settings, ...(permits && { permits }), cargo: this.cargo, leg, ...parts });
  }

  #hold(): FlightHold {
    const { BUCKET_FLUSH_MS, BUCKET_FLUSH_BYTES, OBJECT_ACK_GATE_MS } = this.#context.settings;
    // Callers wait at the gate meanwhile: the flight itself needs part of that time.
    return {
      boundMs: Math.min(BUCKET_FLUSH_MS, OBJECT_ACK_GATE_MS / 2),
      isFull: () => this.cargo.untakenBytes() >= BUCKET_FLUSH_BYTES,
    };
  }

  get committedSeq(): number {
    return this.#committedSeq;
  }

  /** Whether nothing was ever committed to it (or nothing since it was destroyed). */
  get isUnwritten(): boolean {
    return this.#committedSeq === this.claim.manifest.seq && this.claim.manifest.pages === 0;
  }

  /** Whether more than `bytesMax` is committed and has not landed. */
  isBehind(bytesMax: number): boolean {
    return !this.shipper.clean && this.cargo.walBytes() + this.shipper.bytesUnderWay > bytesMax;
  }

  /**
   * Right before COMMIT, while a read that fails still undoes all of it.
   * @param toldNextDue whoever had timers run is told when the next is due
   */
  notes(seqs: number, toldNextDue: boolean): CommitNotes {
    const { owingChange, directoryRow } = this.tables;
    return {
      owed: owingChange.happened ? this.#owedAt(this.#committedSeq + seqs, toldNextDue) : undefined,
      row: directoryRow.hasChanged ? directoryRow.standing() : undefined,
    };
  }

  /** After COMMIT: nothing is read any more. */
  commit(seqs: number, events: readonly EmittedEvent[], { owed, row }: CommitNotes): void {
    this.#committedSeq += seqs;
    if (owed !== undefined) this.#noteOwed(owed);
    for (const event of events) this.#unlandedEvents.push(event);
    this.tables.directoryRow.hasChanged = false;
    if (row !== undefined) this.#keepRow(row);
    this.shipper.committed();
  }

  get hasUnlandedRow(): boolean {
    return this.#unlandedRows.length > 0;
  }

  /** Tells how the row stands; what has not landed is told when it has. */
  tellRow(): void {
    const standing = this.hasUnlandedRow ? undefined : this.tables.directoryRow.standing();
    if (standing !== undefined) this.#context.rows.stands(this.object, this.claim.manifest.epoch, standing, true);
  }

  #keepRow(standing: RowStanding): void {
    // While flights fail, those between the first and the last need not be told.
    if (this.#unlandedRows.length >= UNLANDED_ROWS_MAX) this.#unlandedRows.pop();
    this.#unlandedRows.push(standing);
  }

  #noteOwed(mark: OwedMark): void {
    this.tables.owingChange.take();
    this.#mayOwe = true;
    this.#owed.push(mark);
  }

  /** In the transaction that destroys the object: messages that have not left make it stay until they have. */
  noteEnd(): void {
    const { outbox, meta, callIds } = this.tables;
    if (outbox.last > 0) meta.set("destroyed_ms", Math.floor(this.#context.world.clock.wallMs()));
    callIds.noteEnd();
  }

  /** Whether it was destroyed, and is here for its messages alone. */
  get isDestroyed(): boolean {
    return (this.tables.meta.get("destroyed_ms") ?? 0) > 0;
  }

  /** The transaction just committed destroyed the object. */
  end(): void {
    const { used } = this.tables.callIds;
    const usedIds = used.throughMs > 0 || used.ids.length > 0 ? used : undefined;
    this.cargo.endAt({ toSeq: this.#committedSeq, eventLast: lastEvent(this), usedIds });
  }

  /** The last message of an object that was destroyed before has left. */
  endAfterMessages(): void {
    this.#committedSeq++;
    this.end();
    this.shipper.committed();
  }

  /** What a call of this id replied, if it ran. @throws MoonportError `id_conflict`, `id_expired` */
  recordedReply(
    callId: string,
    method: string,
    args: readonly PlainValue[],
    principal: string | undefined,
  ): { value: PlainValue; seq: number } | undefined {
    const found = this.tables.callIds.lookup(callId, method, args, principal);
    switch (found.kind) {
      case "unknown":
        return undefined;
      case "hit":
        return { value: found.reply, seq: found.seq };
      case "conflict":
        throw MoonportError.of(
          "id_conflict",
          `call id ${callId} was used for another method or other arguments, or by somebody else`,
          {
            hint: "make a fresh id for every call, and repeat one only with the same method and arguments",
          },
        );
      case "expired":
        throw this.#idExpired(callId, found);
    }
  }

  #idExpired(callId: string, { throughMs, hasRun }: { throughMs: number; hasRun: boolean }): MoonportError {
    const freshFromMs = Math.max(Math.floor(this.#context.world.clock.wallMs()), throughMs + 1);
    if (hasRun) {
      return MoonportError.of("id_expired", `the call of id ${callId} ran before the object was destroyed`, {
        hint: "what it replied is not kept any more; make a fresh id for every call",
        details: { callId, freshFromMs, hasRun },
      });
    }
    return MoonportError.of("id_expired", `call id ${callId} is older than what the object remembers`, {
      hint: "if it was sent before, whether it ran is no longer known: read the object's state; else make a fresh id",
      details: { callId, freshFromMs },
    });
  }

  /** Right before COMMIT. */
  writeRecords(): void {
    this.tables.callIds.write(this.#context.world.clock.wallMs());
  }

  /**
   * The set of its journals changes if it names one that is gone, or too few. What is on its way counts as if it had won: of a node
   * that was away for a moment the record may say nothing yet, and the one that leaves it out is about to.
   * @returns whether it changes
   */
  renewSet(): boolean {
    const { fleet } = this.#context;
    const wanted = fleet.replicasFor(this.object);
    if (wanted === undefined || !(this.shipper instanceof QuorumShipper)) return false;
    if (!fleet.mustRenew(this.shipper.dueSet)) return false;
    this.shipper.changeSet(wanted);
    return true;
  }

  /** Ends shipping and closes the file; what has not landed is given up, and its callers hear so. Idempotent. */
  close(cause: MoonportError): void {
    this.shipper.end(cause);
    this.answers.end();
    this.database.close();
    this.cargo.close();
  }

  removeFile(): void {
    this.#context.localCopies.opened(this.path);
    removeLocalFile(this.#context.world, this.path);
  }

  /** Everything through `seq` is durable: what is told of it may be told now (G1). */
  #released(seq: number, landed: Landed<Load>): void {
    const { object } = this;
    const events = this.#eventsThrough(seq);
    const { carried } = landed.load;
    for (const { number, name, data } of events) {
      this.#context.observe({ kind: "event", object: object.id, number, name, data });
    }
    if (carried === "segment" || carried === "snapshot") this.#observeFlight(landed, carried);
    if (carried !== "record") this.#context.counters.landed(carried, landed.load.bytes, landed.sinceCommitMs);
    this.#context.landed({ object, seq, events, destroyed: carried === "tombstone" });
    if (carried === "tombstone") this.#context.rows.gone(object, this.claim.manifest.epoch, seq);
    else if (this.hasUnlandedRow) this.#rowsLanded(seq);
    if (this.#owed.length > 0) this.#owedThrough(seq);
  }

  /** The last of the rows that are durable now is told. */
  #rowsLanded(seq: number): void {
    const isOpen = this.#unlandedRows.findIndex((row) => row.seq > seq);
    const landed = this.#unlandedRows.splice(0, isOpen < 0 ? this.#unlandedRows.length : isOpen);
    const last = landed.at(-1);
    if (last === undefined) return;
    // Journals have released it: it may not have been told yet when the bucket is about to have it (W1).
    this.#mayOwe = true;
    this.#context.rows.stands(this.object, this.claim.manifest.epoch, last, false);
  }

  /** Of what is durable now only the last mark counts. */
  #owedThrough(seq: number): void {
    let last: OwedMark | undefined;
    for (let mark = this.#owed[0]; mark !== undefined && mark.seq <= seq; mark = this.#owed[0]) {
      last = mark;
      this.#owed.shift();
    }
    if (last !== undefined) this.#context.obligations.landed(this.object, this.claim.manifest.epoch, last);
  }

  /** The bucket has it. */
  #landed({ carried }: ObjectLoad): void {
    if (this.#mayOwe) this.#context.obligations.named(this.object);
    this.#events.landed(this, carried);
  }

  #observeFlight(landed: Landed<Load>, carried: "segment" | "snapshot"): void {
    this.#context.observe({
      kind: "landed",
      object: this.object.id,
      epoch: this.claim.manifest.epoch,
      seq: landed.load.toSeq,
      flight: landed.flight,
      ticketsReleased: landed.ticketsReleased,
      sinceCommitMs: landed.sinceCommitMs,
      bytes: landed.load.bytes,
      carried,
    });
  }

  /** Takes the events that a landing through `seq` made durable. */
  #eventsThrough(seq: number): EmittedEvent[] {
    let count = 0;
    while (count < this.#unlandedEvents.length && (this.#unlandedEvents[count] as EmittedEvent).seq <= seq) count++;
    return this.#unlandedEvents.splice(0, count);
  }

  #failed(error: Error, failures: number, stopped: boolean): void {
    this.#context.counters.flightsFailed++;
    const { log, settings } = this.#context;
    const fields = { object: this.object.id, failures, error: error.message };
    // Told once: the single tries that follow while it is idle say nothing new.
    if (failures > settings.OBJECT_SHIP_FAILURES_MAX) log.debug(fields, "a flight failed again");
    else if (stopped)
      log.error(fields, "shipping stopped; the next write starts it, and until then it is tried at times");
    else log.warn(fields, "a flight failed and will be tried again");
  }
}

/** A file has not heard of the events of earlier lives, nor of those that it lost, until it is written the next time. */
export function lastEvent(open: OpenObject): number {
  return Math.max(open.tables.events.last, open.claim.manifest.eventLast);
}

function changedMeanwhile(object: string): MoonportError {
  return MoonportError.of("storage_failed", "the object's file was changed while it was opened", {
    object,
    hint: "nobody but the node may write in its data folder",
  });
}

/** Drawn with every manifest, and never told to callers. */
function printSeed({ manifest }: Claim): number {
  return Number.parseInt(manifest.rid.slice(-8), 16) | 0;
}
