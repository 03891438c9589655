/**
 * The shipper of one resident object: it numbers flights, gives out tickets, and keeps trying until what is committed
 * has landed.
 *
 * Promises:
 * - G2: a ticket taken while flight N is under way is released by flight N+1, which takes its cargo after the ticket was
 *   given. One flight too many, never one too few.
 * - G4: a waiter that is not released within OBJECT_ACK_GATE_MS fails; the flight goes on.
 * - A load that failed is retried as it is, byte for byte, until it has landed or is known to have lost: an attempt whose
 *   answer was lost may land later, and a different second attempt could then not tell what the bucket holds.
 *   A cut that cannot be made is tried again in the same way; it has no number, so tickets wait for the one that is made.
 * - A flight may be held back so that more writes ride along (BUCKET_FLUSH_MS, BUCKET_FLUSH_BYTES), never beyond that bound,
 *   and not while somebody drains. Where none is, it waits a moment for those whom the last one has answered (company).
 * - After OBJECT_SHIP_FAILURES_MAX failures in a row it stops, leaving the object dirty; the next write, or a read that
 *   waits at the gate, starts it again, and whoever looks after idle objects has it try once now and then.
 *
 * It knows neither SQLite nor buckets: cargo and leg come from outside.
 */
import type { WaitHistogram } from "../metrics/histogram.js";
import type { Settings } from "../settings/settings.js";
import { type Deferred, deferred } from "../world/deferred.js";
import type { Timer, World } from "../world/world.js";
import { Company } from "./company.js";
import { GateQueue, type GateWaiter } from "./gate-queue.js";
import type { Lane, Permit, PermitPool } from "./permits.js";
import { type RetrySettings, retryPauseMs } from "./retry-pause.js";
import type { Shipping, ShippingState } from "./shipping.js";

/** What one flight carries. */
export interface Load {
  /** Last seq it covers. */
  readonly toSeq: number;
  readonly bytes: number;
  readonly carried: "segment" | "snapshot" | "tombstone" | "record";
}

export type Taken<L extends Load> =
  | {
      readonly kind: "load";
      readonly load: L;
      /** What follows it has to be a load of its own: the flight after it leaves at once, and that one releases. */
      readonly isPart?: true;
    }
  /** Everything committed has landed already. */
  | { readonly kind: "nothing" }
  /** The cut cannot be made inside an open transaction; {@link Shipper.transactionEnded} tries again. */
  | { readonly kind: "after_transaction" }
  /** The cut cannot be made now; it is tried again, after the pauses of a load that failed. */
  | { readonly kind: "failed"; readonly error: Error };

export interface Cargo<L extends Load> {
  /** Takes everything committed and not yet taken, in one tick (G2). A throw ends the residency. */
  take(): Taken<L>;
}

export type LegResult =
  | { readonly kind: "landed" }
  | {
      readonly kind: "lost";
      readonly error: Error;
      /** It may have landed before whatever stands in its place now. */
      readonly inDoubt: boolean;
    };

/** Brings a load to where it is durable. Rejects when it failed or is in doubt: then the same load is tried again. */
export interface Leg<L extends Load> {
  /** @param waiting replies that wait for this load, or for what follows it */
  land(load: L, waiting: number): Promise<LegResult>;
}

export interface Landed<L extends Load> {
  readonly load: L;
  readonly flight: number;
  readonly ticketsReleased: number;
  readonly sinceCommitMs: number;
}

export interface ShipperEvents<L extends Load> {
  /** Called after the tickets were released. */
  landed(landed: Landed<L>): void;
  /** A try failed; `stopped` when it was the last one for now. */
  failed(error: Error, failures: number, stopped: boolean): void;
  /** The object cannot go on shipping: it lost its ownership, or its file cannot be read. Waiters have been failed. */
  broken(error: Error): void;
}

interface Flight<L extends Load> {
  readonly number: number;
  readonly load: L;
  readonly isPart: boolean;
  readonly oldestCommitMs: number;
  failures: number;
}

type Phase<L extends Load> =
  | { readonly kind: "idle" }
  /** Held back for more to ride along: until so many wait at the gate, at the latest until the timer. */
  | { readonly kind: "held"; readonly timer: Timer; readonly fullAt: number }
  | { readonly kind: "scheduled" }
  | { readonly kind: "after_transaction"; readonly permit: Permit | undefined }
  | { readonly kind: "flying"; readonly flight: Flight<L> }
  /** Without a flight: the cut has failed. */
  | { readonly kind: "backing_off"; readonly flight: Flight<L> | undefined; readonly timer: Timer }
  | { readonly kind: "stopped"; readonly flight: Flight<L> | undefined }
  | { readonly kind: "ended"; readonly cause: Error };

type ShipperSettings = Pick<Settings, "OBJECT_ACK_GATE_MS" | "OBJECT_COMPANY_MS" | "OBJECT_SHIP_FAILURES_MAX"> &
  RetrySettings;

/** How long a flight may be held back so that more writes ride along. */
export interface FlightHold {
  /** Since the oldest commit that it will carry. */
  readonly boundMs: number;
  /** So much waits already that it leaves at once. */
  isFull(): boolean;
  /** Whether somebody waits for it beyond those who have a ticket of this shipper. */
  isAwaited?(): boolean;
}

export interface ShipperParts<L extends Load> {
  readonly world: Pick<World, "clock" | "timers" | "random">;
  readonly settings: ShipperSettings;
  /** Absent where a flight costs nothing worth holding it back for. */
  readonly hold?: FlightHold;
  /** Absent where the leg bounds itself (the embedded bucket groups all that arrives together). */
  readonly permits?: PermitPool;
  /** Told how long each reply waited at the gate. */
  readonly gateMs?: WaitHistogram;
  readonly cargo: Cargo<L>;
  readonly leg: Leg<L>;
  readonly events: ShipperEvents<L>;
}

export class Shipper<L extends Load> implements Shipping {
  readonly #parts: ShipperParts<L>;
  readonly #gate: GateQueue;
  readonly #company: Company;
  #phase: Phase<L> = { kind: "idle" };
  /** Number of the last flight that took its cargo. */
  #lastFlight = 0;
  /** In a row. */
  #cutFailures = 0;
  /** Commit time of the oldest write that no flight has taken; undefined when all are taken. */
  #oldestUntakenMs: number | undefined;
  #permitAsked: Permit | undefined;
  #drains: Deferred<void>[] = [];

  constructor(parts: ShipperParts<L>) {
    this.#parts = parts;
    this.#company = new Company(parts.settings.OBJECT_COMPANY_MS);
    this.#gate = new GateQueue(parts.world, parts.settings.OBJECT_ACK_GATE_MS, parts.gateMs);
  }

  /** Nothing dirty, nothing flying: what a reader sees now is durable. */
  get clean(): boolean {
    return this.#oldestUntakenMs === undefined && this.#phase.kind === "idle";
  }

  get durable(): boolean {
    return this.clean;
  }

  get waiting(): number {
    return this.#gate.size;
  }

  get state(): ShippingState {
    switch (this.#phase.kind) {
      case "idle":
        return "idle";
      case "backing_off":
        return "backing_off";
      case "stopped":
        return "stopped";
      default:
        return "flying";
    }
  }

  /** Bytes of the load that has been taken and has not landed. */
  get bytesUnderWay(): number {
    switch (this.#phase.kind) {
      case "flying":
      case "backing_off":
      case "stopped":
        return this.#phase.flight?.load.bytes ?? 0;
      default:
        return 0;
    }
  }

  committed(): void {
    this.#oldestUntakenMs ??= this.#parts.world.clock.monotonicMs();
    if (this.#phase.kind === "held" && this.#parts.hold?.isFull() === true) this.#letGo(this.#phase.timer);
    this.#wake();
  }

  ticket(waiter: GateWaiter): void {
    if (this.#phase.kind === "ended") return waiter.fail(this.#phase.cause);
    this.#gate.wait(this.#coveringFlight(), waiter);
    this.#permitAsked?.promote();
    this.#leaveWhenFull();
    this.#wake();
  }

  readGate(waiter: GateWaiter): void {
    if (this.clean) waiter.release();
    else this.ticket(waiter);
  }

  /** What is held back leaves now; what waits for a permit goes first if anybody waits for it. */
  hurry(): void {
    if (this.#phase.kind === "held") this.#letGo(this.#phase.timer);
    else if (this.#lane() === "waited") this.#permitAsked?.promote();
  }

  tryAgain(): void {
    if (this.#phase.kind === "stopped") this.#again(this.#phase.flight);
  }

  transactionEnded(): void {
    if (this.#phase.kind !== "after_transaction") return;
    const { permit } = this.#phase;
    this.#phase = { kind: "scheduled" };
    this.#depart(permit);
  }

  drain(): Promise<void> {
    if (this.clean) return Promise.resolve();
    if (this.#phase.kind === "ended") return Promise.reject(this.#phase.cause);
    const drained = deferred();
    this.#drains.push(drained);
    this.hurry();
    this.#wake();
    return drained.promise;
  }

  end(cause: Error): void {
    if (this.#phase.kind === "ended") return;
    if (this.#phase.kind === "backing_off" || this.#phase.kind === "held") this.#phase.timer.cancel();
    if (this.#phase.kind === "after_transaction") this.#phase.permit?.release();
    this.#permitAsked?.release();
    this.#phase = { kind: "ended", cause };
    this.#gate.failAll(cause);
    this.#settleDrains(cause);
  }

  /** The flight whose landing proves everything committed so far durable. */
  #coveringFlight(): number {
    const { kind } = this.#phase;
    const underWay =
      kind === "flying" || ((kind === "backing_off" || kind === "stopped") && this.#phase.flight !== undefined);
    // With something untaken the next flight carries it; else the one under way is the last that matters.
    return underWay && this.#oldestUntakenMs === undefined ? this.#lastFlight : this.#lastFlight + 1;
  }

  #wake(): void {
    if (this.#phase.kind === "stopped") {
      const { flight } = this.#phase;
      if (flight !== undefined) flight.failures = 0;
      this.#cutFailures = 0;
      this.#again(flight);
    } else if (this.#phase.kind === "idle" && this.#oldestUntakenMs !== undefined) {
      this.#schedule();
    }
  }

  /** Starts a flight when it need not be held back. */
  #schedule(): void {
    const { hold, world } = this.#parts;
    const oldestMs = this.#oldestUntakenMs;
    if (hold === undefined || oldestMs === undefined || this.#drains.length > 0 || hold.isFull()) return this.#start();
    const heldMs = oldestMs + hold.boundMs - world.clock.monotonicMs();
    if (heldMs <= 0) return this.#start();
    const timer = world.timers.after(heldMs, () => this.#start());
    this.#phase = { kind: "held", timer, fullAt: Number.POSITIVE_INFINITY };
  }

  /** After a landing that left writes behind: see {@link Company}. @param answered who it is about to release */
  #scheduleInCompany(answered: number, tookMs: number): void {
    const isHeldBack = this.#parts.hold !== undefined || this.#drains.length > 0 || answered === 0;
    const waitMs = isHeldBack ? 0 : this.#company.waitMs(tookMs);
    if (waitMs === 0) return this.#schedule();
    const fullAt = this.#gate.size;
    const timer = this.#parts.world.timers.after(waitMs, () => {
      if (this.#gate.size < fullAt - answered / 2) this.#company.missed();
      this.#start();
    });
    this.#phase = { kind: "held", timer, fullAt };
  }

  #leaveWhenFull(): void {
    if (this.#phase.kind === "held" && this.#gate.size >= this.#phase.fullAt) this.#letGo(this.#phase.timer);
  }

  #letGo(timer: Timer): void {
    timer.cancel();
    this.#start();
  }

  /** Once the work that is ready now has run, so that a burst rides one flight. */
  #start(): void {
    this.#phase = { kind: "scheduled" };
    this.#parts.world.timers.soon(() => {
      if (this.#phase.kind !== "scheduled") return;
      void this.#withPermit().then((permit) => this.#depart(permit));
    });
  }

  #lane(): Lane {
    const isAwaited = this.#gate.size > 0 || this.#drains.length > 0 || this.#parts.hold?.isAwaited?.() === true;
    return isAwaited ? "waited" : "background";
  }

  async #withPermit(): Promise<Permit | undefined> {
    if (this.#parts.permits === undefined) return undefined;
    const permit = this.#parts.permits.request(this.#lane());
    this.#permitAsked = permit;
    await permit.granted;
    this.#permitAsked = undefined;
    return permit;
  }

  /** The cut: from here on a commit belongs to the next flight. */
  #depart(permit: Permit | undefined): void {
    if (this.#phase.kind !== "scheduled") return void permit?.release();
    let taken: Taken<L>;
    try {
      taken = this.#parts.cargo.take();
    } catch (error) {
      permit?.release();
      return this.#break(error as Error);
    }
    if (taken.kind === "after_transaction") {
      this.#phase = { kind: "after_transaction", permit };
      return;
    }
    if (taken.kind === "failed") {
      permit?.release();
      return this.#failed(undefined, taken.error, ++this.#cutFailures);
    }
    this.#cutFailures = 0;
    const isPart = taken.kind === "load" && taken.isPart === true;
    const oldestCommitMs = this.#oldestUntakenMs ?? this.#parts.world.clock.monotonicMs();
    this.#oldestUntakenMs = isPart ? oldestCommitMs : undefined;
    // A part has no number: tickets are for what follows it.
    if (!isPart) this.#lastFlight++;
    if (taken.kind === "nothing") {
      permit?.release();
      this.#arrived(this.#lastFlight, 0);
      return;
    }
    void this.#fly({ number: this.#lastFlight, load: taken.load, isPart, oldestCommitMs, failures: 0 }, permit);
  }

  #again(flight: Flight<L> | undefined): void {
    if (flight === undefined) this.#start();
    else void this.#retry(flight);
  }

  async #retry(flight: Flight<L>): Promise<void> {
    this.#phase = { kind: "flying", flight };
    await this.#fly(flight, await this.#withPermit());
  }

  async #fly(flight: Flight<L>, permit: Permit | undefined): Promise<void> {
    if (this.#phase.kind === "ended") return void permit?.release();
    this.#phase = { kind: "flying", flight };
    const { clock } = this.#parts.world;
    const begunMs = clock.monotonicMs();
    let outcome: LegResult | { readonly kind: "failed"; readonly error: Error };
    try {
      outcome = await this.#parts.leg.land(flight.load, this.#gate.size);
    } catch (error) {
      outcome = { kind: "failed", error: error as Error };
    }
    permit?.release();
    // end() may have run while the leg was under way; its waiters have been told.
    if (this.#hasEnded()) return;
    try {
      if (outcome.kind === "failed") this.#failed(flight, outcome.error, ++flight.failures);
      else if (outcome.kind === "lost") this.#break(outcome.error);
      else this.#landed(flight, clock.monotonicMs() - begunMs);
    } catch (error) {
      // A fault of what follows from a flight concerns this object: its residency ends, and not the process.
      this.#break(error as Error);
    }
  }

  /** @param tookMs the try that landed it */
  #landed(flight: Flight<L>, tookMs: number): void {
    if (flight.isPart) this.#start();
    const ticketsReleased = flight.isPart ? 0 : this.#arrived(flight.number, tookMs);
    const sinceCommitMs = this.#parts.world.clock.monotonicMs() - flight.oldestCommitMs;
    this.#parts.events.landed({ load: flight.load, flight: flight.number, ticketsReleased, sinceCommitMs });
  }

  /** The air is free: first the phase, so that whoever is released sees the shipper as it now is. Returns how many were. */
  #arrived(flightNumber: number, tookMs: number): number {
    if (this.#oldestUntakenMs === undefined) this.#phase = { kind: "idle" };
    else this.#scheduleInCompany(this.#gate.countThrough(flightNumber), tookMs);
    const released = this.#gate.releaseThrough(flightNumber);
    if (this.clean) this.#settleDrains(undefined);
    return released;
  }

  /** @param failures in a row, of the flight or of cuts */
  #failed(flight: Flight<L> | undefined, error: Error, failures: number): void {
    const { settings, world } = this.#parts;
    const stopped = failures >= settings.OBJECT_SHIP_FAILURES_MAX;
    if (stopped) {
      this.#phase = { kind: "stopped", flight };
    } else {
      const pauseMs = retryPauseMs(failures, error, settings, world.random.fraction());
      this.#phase = { kind: "backing_off", flight, timer: world.timers.after(pauseMs, () => this.#again(flight)) };
    }
    this.#parts.events.failed(error, failures, stopped);
    if (stopped) this.#settleDrains(error);
  }

  #break(error: Error): void {
    if (this.#phase.kind === "ended") return;
    this.end(error);
    this.#parts.events.broken(error);
  }

  #hasEnded(): boolean {
    return this.#phase.kind === "ended";
  }

  #settleDrains(error: Error | undefined): void {
    const drains = this.#drains;
    this.#drains = [];
    for (const drain of drains) error === undefined ? drain.resolve() : drain.reject(error);
  }
}
