/**
 * Shipping with journals: what an object commits goes to the journals of its set at once, and into the bucket behind that,
 * many flights together. A reply is released by whichever has its write first: W journals, or the bucket (O2).
 *
 * Promises:
 * - G2: a ticket is the last committed seq; it is released when everything through that seq is durable.
 * - Nothing that a journal was sent is dropped here before a record that covers it is known to have won: a journal that is
 *   behind gets it again.
 * - Without W acknowledgements within FLIGHT_HEDGE_MS the bucket gets it at once. What no segment can carry goes there alone.
 * - The record names another set only together with everything that is committed, and until that write is resolved both sets
 *   must agree (O3).
 */
import { EntryRun } from "../cluster/entry-run.js";
import type { EntryAnswer } from "../cluster/journal-rules.js";
import type { Member, ReplicaSet } from "../cluster/ownership.js";
import { noteAnswer, noteSetSent, noteWon, openBook, type ReleaseBook } from "../cluster/release-rule.js";
import { assert, MoonportError } from "../errors.js";
import type { WaitHistogram } from "../metrics/histogram.js";
import type { Settings } from "../settings/settings.js";
import { faultPoint } from "../world/fault-point.js";
import type { Timer, World } from "../world/world.js";
import type { RecordWatch } from "./bucket-leg.js";
import type { Claim } from "./claim.js";
import type { FleetView } from "./fleet-view.js";
import { GateQueue, type GateWaiter } from "./gate-queue.js";
import { type Manifest, ownershipOf } from "./manifest.js";
import type { ObjectCargo } from "./object-cargo.js";
import type { ObjectLoad, SegmentLoad } from "./object-load.js";
import { type Backlog, ReplicaStream, type ReplicaStreamParts } from "./replica-stream.js";
import type { FlightHold, Landed, Load, Shipper, ShipperEvents } from "./shipper.js";
import type { Shipping, ShippingState } from "./shipping.js";

type QuorumSettings = ReplicaStreamParts["settings"] &
  Pick<Settings, "OBJECT_ACK_GATE_MS" | "OBJECT_UNSHIPPED_BYTES_MAX" | "FLIGHT_HEDGE_MS" | "COVER_MS" | "COVER_BYTES">;

/** What became durable, by whichever way. */
export interface Released extends Load {
  readonly flight: number;
  readonly ticketsReleased: number;
  readonly sinceCommitMs: number;
}

export interface QuorumShipperEvents {
  released(released: Released): void;
  /** The bucket has it too. */
  covered(load: ObjectLoad): void;
  failed: ShipperEvents<ObjectLoad>["failed"];
  broken: ShipperEvents<ObjectLoad>["broken"];
}

export interface QuorumShipperParts {
  readonly world: World;
  readonly settings: QuorumSettings;
  readonly fleet: FleetView;
  readonly claim: Claim;
  readonly cargo: ObjectCargo;
  readonly committedSeq: () => number;
  readonly gateMs?: WaitHistogram;
  readonly events: QuorumShipperEvents;
  /** The way into the bucket. */
  readonly bucketShipper: (
    hold: FlightHold,
    watch: RecordWatch,
    events: ShipperEvents<ObjectLoad>,
  ) => Shipper<ObjectLoad>;
}

/** Sent to journals, and not yet released. */
interface Flight {
  readonly number: number;
  readonly toSeq: number;
  readonly bytes: number;
  readonly committedMs: number;
}

export class QuorumShipper implements Shipping {
  readonly #parts: QuorumShipperParts;
  readonly #gate: GateQueue;
  readonly #bucket: Shipper<ObjectLoad>;
  readonly #book: ReleaseBook;
  #backlog: Backlog = EntryRun.of();
  #backlogBytes = 0;
  #streams: ReplicaStream[] = [];
  #flights: Flight[] = [];
  #lastFlight = 0;
  #departure: Timer | undefined;
  #oldestUnsentMs: number | undefined;
  #hedge: Timer | undefined;
  /** The bucket is not to hold back what it has to take. */
  #inHaste = false;
  /** Through this seq the bucket is asked to release: journals cannot, or have not in time. */
  #askedOfBucket = 0;
  #wantedSet: ReplicaSet | undefined;
  /** Named by a record that is on its way and has not won yet. */
  #sentSet: ReplicaSet | undefined;
  #ended: Error | undefined;

  constructor(parts: QuorumShipperParts) {
    this.#parts = parts;
    const { world, settings, claim } = parts;
    this.#gate = new GateQueue(world, settings.OBJECT_ACK_GATE_MS, parts.gateMs);
    this.#book = openBook(ownershipOf(claim.manifest));
    this.#bucket = parts.bucketShipper(this.#hold(), this.#recordWatch(), {
      landed: (landed) => this.#covered(landed),
      failed: (error, failures, stopped) => parts.events.failed(error, failures, stopped),
      broken: (error) => this.#break(error),
    });
    this.#streamTo(ownershipOf(claim.manifest).set);
  }

  get durable(): boolean {
    return this.#book.released >= this.#parts.committedSeq();
  }

  get clean(): boolean {
    return this.#bucket.clean;
  }

  get waiting(): number {
    return this.#gate.size;
  }

  get state(): ShippingState {
    return this.durable ? "idle" : this.#bucket.state;
  }

  get bytesUnderWay(): number {
    return Math.max(this.#backlogBytes, this.#bucket.bytesUnderWay);
  }

  /** Whether the next record is to be written though nothing of the content changed. */
  get recordOwed(): boolean {
    return this.#wantedSet !== undefined;
  }

  committed(): void {
    const { world } = this.#parts;
    this.#oldestUnsentMs ??= world.clock.monotonicMs();
    // Once the work that is ready now has run, so that a burst rides one flight.
    this.#departure ??= world.timers.soon(() => this.#depart());
    this.#bucket.committed();
  }

  ticket(waiter: GateWaiter): void {
    if (this.#ended !== undefined) return waiter.fail(this.#ended);
    this.#gate.wait(this.#parts.committedSeq(), waiter);
    this.#bucket.tryAgain();
    if (this.#isAwaited()) this.#bucket.hurry();
    this.#armHedge();
  }

  readGate(waiter: GateWaiter): void {
    if (this.durable) waiter.release();
    else this.ticket(waiter);
  }

  tryAgain(): void {
    this.#bucket.tryAgain();
  }

  transactionEnded(): void {
    this.#bucket.transactionEnded();
  }

  drain(): Promise<void> {
    return this.#bucket.drain();
  }

  end(cause: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = cause;
    this.#departure?.cancel();
    this.#hedge?.cancel();
    for (const stream of this.#streams) stream.end();
    this.#bucket.end(cause);
    this.#gate.failAll(cause);
  }

  /** The set that the record names once everything that is on its way has won. */
  get dueSet(): ReplicaSet {
    return this.#wantedSet ?? this.#sentSet ?? ownershipOf(this.#parts.claim.manifest);
  }

  /** Other journals are to count from now on, as soon as a record that names them has won. */
  changeSet(wanted: ReplicaSet): void {
    if (this.#ended !== undefined || sameSet(wanted, this.dueSet)) return;
    this.#wantedSet = wanted;
    this.#haste();
  }

  // To the journals

  #depart(): void {
    this.#departure = undefined;
    if (this.#ended !== undefined) return;
    try {
      if (this.#parts.cargo.takeSegment().kind !== "snapshot_owed") return;
      this.#askBucket();
      this.#bucket.committed();
    } catch (error) {
      this.#break(error as Error);
    }
  }

  /** A segment was taken from the file, for journals and bucket. */
  send({ entry: { fromSeq, toSeq }, body }: SegmentLoad): void {
    const committedMs = this.#oldestUnsentMs ?? this.#parts.world.clock.monotonicMs();
    this.#oldestUnsentMs = undefined;
    this.#flights.push({ number: ++this.#lastFlight, toSeq, bytes: body.length, committedMs });
    const entry = { afterSeq: fromSeq - 1, toSeq, payload: body };
    const last = this.#backlog.lastSeq;
    if (last !== undefined && last < entry.afterSeq) {
      // A snapshot goes ahead of it, and covers what is here: until it has, journals have a gap before this.
      this.#backlog = EntryRun.of(entry);
      this.#backlogBytes = body.length;
    } else {
      this.#backlog = this.#backlog.appended(entry);
      this.#backlogBytes += body.length;
    }
    for (const stream of this.#streams) stream.send();
    if (this.#backlogBytes >= this.#parts.settings.COVER_BYTES) this.#bucket.hurry();
  }

  #streamTo(members: readonly Member[]): void {
    const { world, settings, fleet, claim } = this.#parts;
    const kept = this.#streams.filter(({ member }) => members.some((other) => isSameMember(other, member)));
    for (const stream of this.#streams) if (!kept.includes(stream)) stream.end();
    const added = members.filter((member) => !kept.some((stream) => isSameMember(stream.member, member)));
    const streams = added.map((member) => {
      return new ReplicaStream(member, {
        world,
        settings,
        object: claim.object.id,
        epoch: this.#book.epoch,
        journal: fleet.journalOf(member),
        backlog: () => this.#backlog,
        covered: () => this.#book.covered,
        answered: (answer) => this.#answered(answer),
      });
    });
    // A set names the owner's own journal first. What others get has further to go, and leaves before this disk is asked.
    const rankOf = ({ member }: ReplicaStream): number => members.findIndex((other) => isSameMember(other, member));
    this.#streams = [...kept, ...streams].sort((one, other) => rankOf(other) - rankOf(one));
    for (const stream of streams) stream.send();
  }

  #answered(answer: EntryAnswer): void {
    if (this.#ended !== undefined) return;
    if (answer.kind === "refused") {
      const { object, manifest } = this.#parts.claim;
      const details = { epoch: manifest.epoch, winningEpoch: answer.promised };
      this.#break(
        MoonportError.of("moved", `${object.id} was claimed by another node`, { object: object.id, details }),
      );
      return;
    }
    faultPoint("flight.acknowledged", this.#parts.claim.object.id);
    try {
      const before = this.#book.released;
      const released = noteAnswer(this.#book, answer);
      if (released > before) this.#release(released);
    } catch (error) {
      // As with a flight to the bucket: what follows from this object's landing ends no other's.
      this.#break(error as Error);
    }
  }

  #release(throughSeq: number, carried: Released["carried"] = "segment"): void {
    faultPoint("flight.released", this.#parts.claim.object.id);
    let count = 0;
    while (count < this.#flights.length && (this.#flights[count] as Flight).toSeq <= throughSeq) count++;
    const flights = this.#flights.splice(0, count);
    const ticketsReleased = this.#gate.releaseThrough(throughSeq);
    const last = flights.at(-1);
    const nowMs = this.#parts.world.clock.monotonicMs();
    this.#parts.events.released({
      toSeq: throughSeq,
      flight: last?.number ?? this.#lastFlight,
      ticketsReleased,
      sinceCommitMs: nowMs - (flights[0]?.committedMs ?? nowMs),
      bytes: flights.reduce((sum, flight) => sum + flight.bytes, 0),
      carried,
    });
  }

  // Into the bucket

  #hold(): FlightHold {
    const { COVER_MS, COVER_BYTES } = this.#parts.settings;
    return {
      boundMs: COVER_MS,
      isFull: () => this.#inHaste || this.#book.acksToLand === 0 || this.#backlogBytes >= COVER_BYTES,
      isAwaited: () => this.#isAwaited(),
    };
  }

  /** Whether callers wait for the bucket: to be released by it, or for room to write. */
  #isAwaited(): boolean {
    if (this.#backlogBytes >= this.#parts.settings.OBJECT_UNSHIPPED_BYTES_MAX) return true;
    return this.#gate.size > 0 && (this.#book.acksToLand === 0 || this.#book.released < this.#askedOfBucket);
  }

  #askBucket(): void {
    this.#askedOfBucket = this.#parts.committedSeq();
    this.#inHaste = true;
    this.#bucket.hurry();
  }

  #haste(): void {
    this.#inHaste = true;
    this.#bucket.committed();
  }

  #recordWatch(): RecordWatch {
    return {
      nextSet: (load) => this.#nextSet(load),
      setSent: (next) => {
        this.#sentSet = ownershipOf(next);
        noteSetSent(this.#book, ownershipOf(next));
        const members = [...ownershipOf(this.#parts.claim.manifest).set, ...ownershipOf(next).set];
        this.#streamTo(
          members.filter((member, index) => members.findIndex((one) => isSameMember(one, member)) === index),
        );
      },
      won: (next) => this.#won(next),
    };
  }

  #nextSet(load: ObjectLoad): ReplicaSet | undefined {
    const wanted = this.#wantedSet;
    // What was committed since the cut stands in no journal of the new set: the next record will do.
    if (wanted === undefined || load.toSeq !== this.#parts.committedSeq() || load.carried === "tombstone")
      return undefined;
    this.#wantedSet = undefined;
    return wanted;
  }

  #won(next: Manifest): void {
    const record = ownershipOf(next);
    this.#sentSet = undefined;
    const before = this.#book.released;
    const gone = this.#streams.filter(({ member }) => !record.set.some((other) => isSameMember(other, member)));
    noteWon(this.#book, record);
    this.#dropCovered(next.seq);
    // Those that leave the set are told the coverage, or their files would stay for ever.
    for (const stream of gone) stream.notice();
    this.#streamTo(record.set);
    for (const stream of this.#streams) stream.coveredMore();
    if (this.#backlog.length === 0) for (const stream of this.#streams) stream.notice();
    if (this.#book.released > before) this.#release(this.#book.released, next.destroyed ? "tombstone" : "segment");
  }

  #dropCovered(seq: number): void {
    const kept = this.#backlog.droppedThrough(seq);
    for (let index = 0; index < this.#backlog.length - kept.length; index++) {
      this.#backlogBytes -= this.#backlog.at(index).payload.length;
    }
    this.#backlog = kept;
  }

  #covered({ load }: Landed<ObjectLoad>): void {
    this.#inHaste = this.#wantedSet !== undefined;
    this.#parts.events.covered(load);
    if (this.#wantedSet !== undefined && this.#ended === undefined) this.#bucket.committed();
  }

  // Both

  #armHedge(): void {
    if (this.#hedge !== undefined) return;
    const { world, settings } = this.#parts;
    this.#hedge = world.timers.after(settings.FLIGHT_HEDGE_MS, () => {
      this.#hedge = undefined;
      if (this.#ended !== undefined || this.durable) return;
      const oldestMs = this.#flights[0]?.committedMs ?? 0;
      if (world.clock.monotonicMs() - oldestMs >= settings.FLIGHT_HEDGE_MS) this.#askBucket();
      this.#armHedge();
    });
  }

  #break(error: Error): void {
    if (this.#ended !== undefined) return;
    this.end(error);
    this.#parts.events.broken(error);
  }
}

/** By both: whose journal counts says its identity, but a node that has it under another name is reached by that one alone. */
function isSameMember(one: Member, other: Member): boolean {
  return one.node === other.node && one.journal === other.journal;
}

function sameSet(one: ReplicaSet, other: ReplicaSet): boolean {
  assert(one.set.length === one.quorum.copies, "a replica set has as many members as copies");
  if (one.quorum.acksToLand !== other.quorum.acksToLand || one.set.length !== other.set.length) return false;
  return one.set.every((member) => other.set.some((known) => isSameMember(known, member)));
}
