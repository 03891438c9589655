import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { PermitPool } from "../../src/shipping/permits.js";
import { type Landed, type LegResult, type Load, Shipper, type Taken } from "../../src/shipping/shipper.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { temporaryFolder } from "../support/temporary-folder.js";

/** A shipper whose cargo is a counter and whose flights are landed, lost or failed by hand. */
class Harness {
  readonly time = new VirtualTime();
  readonly world = new VirtualWorld({ time: this.time, root: temporaryFolder() });
  readonly flights: { load: Load; answer: Deferred<LegResult> }[] = [];
  readonly landed: Landed<Load>[] = [];
  readonly failures: { failures: number; stopped: boolean }[] = [];
  readonly broken: Error[] = [];
  readonly heard: string[] = [];
  committedSeq = 0;
  takenSeq = 0;
  inTransaction = false;
  readonly shipper: Shipper<Load>;

  /** Why the cut cannot be made. */
  cutFault: Error | undefined;
  isFull = false;
  /** Whether the next load is a part of what is committed. */
  isPart = false;

  constructor(permits?: PermitPool, holdMs?: number, settings: Record<string, number> = {}) {
    this.shipper = new Shipper<Load>({
      world: this.world,
      settings: resolveSettings(settings),
      ...(permits && { permits }),
      ...(holdMs !== undefined && { hold: { boundMs: holdMs, isFull: () => this.isFull } }),
      cargo: { take: () => this.#take() },
      leg: {
        land: (load) => {
          const answer = deferred<LegResult>();
          this.flights.push({ load, answer });
          return answer.promise;
        },
      },
      events: {
        landed: (landed) => this.landed.push(landed),
        failed: (_, failures, stopped) => this.failures.push({ failures, stopped }),
        broken: (error) => this.broken.push(error),
      },
    });
  }

  /** One committed write whose caller is called `name`. */
  write(name: string): void {
    this.committedSeq++;
    this.shipper.committed();
    this.shipper.ticket(this.#waiter(name));
  }

  read(name: string): void {
    this.shipper.readGate(this.#waiter(name));
  }

  async answer(index: number, outcome: LegResult | Error = { kind: "landed" }): Promise<void> {
    await this.time.settle();
    const flight = this.flights[index];
    if (flight === undefined) throw new Error(`no flight ${index}`);
    if (outcome instanceof Error) flight.answer.reject(outcome);
    else flight.answer.resolve(outcome);
    await this.time.settle();
  }

  #take(): Taken<Load> {
    if (this.inTransaction) return { kind: "after_transaction" };
    if (this.takenSeq === this.committedSeq) return { kind: "nothing" };
    if (this.cutFault !== undefined) return { kind: "failed", error: this.cutFault };
    if (this.isPart) {
      this.isPart = false;
      return { kind: "load", load: { toSeq: 0, bytes: 1, carried: "segment" }, isPart: true };
    }
    this.takenSeq = this.committedSeq;
    return { kind: "load", load: { toSeq: this.takenSeq, bytes: 1, carried: "segment" } };
  }

  #waiter(name: string) {
    return {
      release: () => void this.heard.push(name),
      fail: (cause: Error | undefined) => void this.heard.push(`${name}: ${cause?.message ?? "expired"}`),
    };
  }
}

const refused = new Error("bucket says no");

describe("flights and tickets", () => {
  it("lets a burst of ten writes ride one flight and releases them together, in order", async () => {
    const harness = new Harness();
    for (let n = 0; n < 10; n++) harness.write(`w${n}`);
    await harness.time.settle();
    expect(harness.flights.map((flight) => flight.load.toSeq)).toEqual([10]);
    expect(harness.heard).toEqual([]);
    await harness.answer(0);
    expect(harness.heard).toEqual(["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"]);
    expect(harness.landed).toMatchObject([{ flight: 1, ticketsReleased: 10 }]);
  });

  it("covers a ticket taken while flight N runs by flight N+1, never by N", async () => {
    const harness = new Harness();
    harness.write("first");
    await harness.time.settle();
    harness.write("second");
    await harness.answer(0);
    expect(harness.heard).toEqual(["first"]);
    expect(harness.flights[1]?.load.toSeq).toBe(2);
    await harness.answer(1);
    expect(harness.heard).toEqual(["first", "second"]);
  });

  it("answers a read at once when nothing is dirty and nothing is flying", () => {
    const harness = new Harness();
    harness.read("read");
    expect(harness.heard).toEqual(["read"]);
  });

  it("holds a read behind the flight that carries the rest", async () => {
    const harness = new Harness();
    harness.write("write");
    harness.read("before departure");
    await harness.time.settle();
    harness.read("while flying");
    expect(harness.heard).toEqual([]);
    await harness.answer(0);
    expect(harness.heard).toEqual(["write", "before departure", "while flying"]);
  });

  it("holds a read behind the next flight when a write came after the running one departed", async () => {
    const harness = new Harness();
    harness.write("first");
    await harness.time.settle();
    harness.write("second");
    harness.read("read");
    await harness.answer(0);
    expect(harness.heard).toEqual(["first"]);
    await harness.answer(1);
    expect(harness.heard).toEqual(["first", "second", "read"]);
  });

  it("releases with what follows a part, which leaves as soon as the part has landed", async () => {
    const harness = new Harness(undefined, 60_000);
    harness.isPart = true;
    harness.isFull = true;
    harness.write("first");
    const drained = harness.shipper.drain();
    await harness.time.settle();
    harness.write("second");
    harness.isFull = false;
    await harness.answer(0, refused);
    await harness.time.advance(1_000);
    expect(harness.flights[1]?.load).toBe(harness.flights[0]?.load);
    await harness.answer(1);
    expect(harness.heard).toEqual([]);
    expect(harness.shipper.clean).toBe(false);
    expect(harness.flights[2]?.load.toSeq).toBe(2);
    await harness.answer(2);
    expect(harness.heard).toEqual(["first", "second"]);
    expect(harness.landed.map(({ ticketsReleased }) => ticketsReleased)).toEqual([0, 2]);
    await drained;
  });

  it("makes a cut that an open transaction forbids as soon as the transaction ends", async () => {
    const harness = new Harness();
    harness.write("write");
    harness.inTransaction = true;
    await harness.time.settle();
    expect(harness.flights).toEqual([]);
    harness.inTransaction = false;
    harness.shipper.transactionEnded();
    await harness.answer(0);
    expect(harness.heard).toEqual(["write"]);
  });
});

describe("failing flights", () => {
  it("fails a waiter at the gate's bound while the flight goes on and later lands", async () => {
    const harness = new Harness();
    harness.write("write");
    await harness.time.advance(9_999);
    expect(harness.heard).toEqual([]);
    await harness.time.advance(1);
    expect(harness.heard).toEqual(["write: expired"]);
    await harness.answer(0);
    expect(harness.landed).toMatchObject([{ flight: 1, ticketsReleased: 0 }]);
    expect(harness.shipper.clean).toBe(true);
  });

  it("waits at least as long as the bucket asks for, within the bound of all pauses", async () => {
    const harness = new Harness();
    const { BUCKET_PAUSE_MAX_MS } = resolveSettings();
    harness.write("w");
    for (const [flight, askedMs, waitsMs] of [
      [0, 7_000, 7_000],
      [1, 3_600_000, BUCKET_PAUSE_MAX_MS],
    ] as const) {
      await harness.answer(flight, MoonportError.of("bucket_failed", "slow down", { retryAfterMs: askedMs }));
      await harness.time.advance(waitsMs - 1);
      expect(harness.flights).toHaveLength(flight + 1);
      await harness.time.advance(1);
      expect(harness.flights).toHaveLength(flight + 2);
    }
  });

  it("retries the very same load after a failure, with a pause that grows", async () => {
    const harness = new Harness();
    harness.write("write");
    await harness.time.settle();
    await harness.answer(0, refused);
    expect(harness.shipper.state).toBe("backing_off");
    harness.write("later");
    await harness.time.advance(50);
    expect(harness.flights[1]?.load).toBe(harness.flights[0]?.load);
    await harness.answer(1);
    expect(harness.heard).toEqual(["write"]);
    // Its caller might come back.
    await harness.time.advance(5);
    await harness.answer(2);
    expect(harness.heard).toEqual(["write", "later"]);
  });

  it("tries a cut that cannot be made again, and releases with the one that is made", async () => {
    const harness = new Harness();
    harness.cutFault = new Error("no room");
    harness.write("write");
    await harness.time.settle();
    expect(harness.shipper.state).toBe("backing_off");
    harness.write("later");
    harness.cutFault = undefined;
    await harness.time.advance(200);
    await harness.answer(0);
    expect(harness.flights.map((flight) => flight.load.toSeq)).toEqual([2]);
    expect(harness.heard).toEqual(["write", "later"]);
    expect(harness.failures).toEqual([{ failures: 1, stopped: false }]);
  });

  it("stops after six cuts in a row that cannot be made, and is armed again by the next write", async () => {
    const harness = new Harness();
    harness.cutFault = new Error("no room");
    harness.write("left");
    const drained = expect(harness.shipper.drain()).rejects.toThrow("no room");
    await harness.time.advance(20_000);
    await drained;
    expect(harness.failures.at(-1)).toEqual({ failures: 6, stopped: true });
    harness.cutFault = undefined;
    harness.write("next");
    await harness.answer(0);
    expect(harness.shipper.clean).toBe(true);
    expect(harness.heard.at(-1)).toBe("next");
  });

  it("stops after six failures in a row and leaves the object dirty", async () => {
    const harness = new Harness();
    harness.write("write");
    await failUntilStopped(harness);
    expect(harness.failures.map((failure) => failure.stopped)).toEqual([false, false, false, false, false, true]);
    expect(harness.shipper.clean).toBe(false);
    await harness.time.advance(60_000);
    expect(harness.flights).toHaveLength(6);
  });

  it("is armed again by the next write, which lands behind the load that was left", async () => {
    const harness = new Harness();
    harness.write("left");
    await failUntilStopped(harness);
    harness.write("next");
    await harness.answer(6);
    await harness.answer(7);
    expect(harness.flights.slice(6).map((flight) => flight.load.toSeq)).toEqual([1, 2]);
    expect(harness.shipper.clean).toBe(true);
  });

  it("is armed again by a read that waits at the gate", async () => {
    const harness = new Harness();
    harness.write("left");
    await failUntilStopped(harness);
    await harness.time.advance(20_000);
    harness.heard.length = 0;
    harness.read("read");
    await harness.answer(6);
    expect(harness.heard).toEqual(["read"]);
  });

  it("tries once more when it is told to, and stops again if that fails too", async () => {
    const harness = new Harness();
    harness.write("left");
    await failUntilStopped(harness);
    harness.shipper.tryAgain();
    await harness.answer(6, new Error("bucket says no"));
    expect(harness.failures.at(-1)).toEqual({ failures: 7, stopped: true });
    await harness.time.advance(60_000);
    expect(harness.flights).toHaveLength(7);
    harness.shipper.tryAgain();
    await harness.answer(7);
    expect(harness.shipper.clean).toBe(true);
  });

  it("is told in vain to try again while it is not stopped", async () => {
    const harness = new Harness();
    harness.shipper.tryAgain();
    harness.write("write");
    await harness.time.settle();
    harness.shipper.tryAgain();
    await harness.answer(0);
    expect(harness.flights).toHaveLength(1);
    expect(harness.shipper.clean).toBe(true);
  });

  it("drains: armed again, and done when all has landed", async () => {
    const harness = new Harness();
    harness.write("left");
    await failUntilStopped(harness);
    const drained = harness.shipper.drain();
    await harness.answer(6);
    await expect(drained).resolves.toBeUndefined();
  });

  it("says that a drain failed when shipping stops again", async () => {
    const harness = new Harness();
    harness.write("left");
    const drained = harness.shipper.drain();
    const failed = expect(drained).rejects.toThrow("bucket says no");
    await failUntilStopped(harness);
    await failed;
  });

  it("fails every waiter and tells the object when its ownership is lost", async () => {
    const harness = new Harness();
    harness.write("write");
    await harness.time.settle();
    await harness.answer(0, { kind: "lost", error: MoonportError.of("moved", "claimed elsewhere"), inDoubt: false });
    expect(harness.heard).toEqual(["write: claimed elsewhere"]);
    expect(harness.broken).toHaveLength(1);
    harness.write("after");
    expect(harness.heard).toEqual(["write: claimed elsewhere", "after: claimed elsewhere"]);
  });
});

describe("permits", () => {
  it("keeps the reserved lane for flights that somebody waits on", async () => {
    const pool = new PermitPool(3, 1);
    const background = [pool.request("background"), pool.request("background"), pool.request("background")];
    expect(pool.held).toBe(2);
    pool.request("waited");
    expect(pool.held).toBe(3);
    background[0]?.release();
    // The third background request may not take the reserved permit that is now the only free one.
    expect(pool.held).toBe(2);
    background[1]?.release();
    expect(pool.held).toBe(2);
    expect(pool.waiting).toBe(0);
  });

  it("moves a background request up when a caller begins to wait on it", () => {
    const pool = new PermitPool(2, 1);
    pool.request("background");
    const second = pool.request("background");
    expect(pool.held).toBe(1);
    second.promote();
    expect(pool.held).toBe(2);
  });

  it("is held from the cut to the landing and given back while backing off", async () => {
    const pool = new PermitPool(2, 1);
    const harness = new Harness(pool);
    harness.write("write");
    await harness.time.settle();
    expect(pool.held).toBe(1);
    await harness.answer(0, refused);
    expect(pool.held).toBe(0);
    await harness.time.advance(50);
    expect(pool.held).toBe(1);
    await harness.answer(1);
    expect(pool.held).toBe(0);
  });
});

async function failUntilStopped(harness: Harness): Promise<void> {
  for (let attempt = 0; attempt < 6; attempt++) {
    await harness.time.advance(3_000);
    await harness.answer(harness.flights.length - 1, refused);
  }
}

describe("a flight that may be held back", () => {
  const held = (): Harness => new Harness(undefined, 100);

  it("leaves when its oldest write has waited that long, with all that came meanwhile", async () => {
    const harness = held();
    harness.write("a");
    await harness.time.advance(60);
    harness.write("b");
    await harness.time.advance(39);
    expect(harness.flights).toHaveLength(0);
    await harness.time.advance(1);
    await harness.answer(0);
    expect(harness.heard).toEqual(["a", "b"]);
    expect(harness.flights).toHaveLength(1);
  });

  it("counts from the oldest write that the flight before it did not take", async () => {
    const harness = held();
    harness.write("a");
    await harness.time.advance(100);
    harness.write("b");
    await harness.time.advance(70);
    await harness.answer(0);
    await harness.time.advance(29);
    expect(harness.flights).toHaveLength(1);
    await harness.time.advance(1);
    await harness.answer(1);
    expect(harness.heard).toEqual(["a", "b"]);
  });

  it("leaves at once when enough waits, and while somebody drains", async () => {
    const harness = held();
    harness.write("a");
    harness.isFull = true;
    harness.write("b");
    await harness.answer(0);
    expect(harness.heard).toEqual(["a", "b"]);
    harness.isFull = false;
    harness.write("c");
    const drained = harness.shipper.drain();
    await harness.answer(1);
    await drained;
    expect(harness.heard).toEqual(["a", "b", "c"]);
  });

  it("is given up with the residency, and its callers hear so", async () => {
    const harness = held();
    harness.write("a");
    harness.shipper.end(MoonportError.of("node_stopping", "gone"));
    await harness.time.advance(200);
    expect(harness.flights).toHaveLength(0);
    expect(harness.heard).toEqual(["a: gone"]);
  });
});

describe("a flight after one that others came too late for", () => {
  /** The first flight has taken a and b, and 8 ms; c came meanwhile. */
  async function landedWithoutC(settings: Record<string, number> = {}): Promise<Harness> {
    const harness = new Harness(undefined, undefined, settings);
    harness.write("a");
    harness.write("b");
    await harness.time.settle();
    harness.write("c");
    await harness.time.advance(8);
    await harness.answer(0);
    expect(harness.heard).toEqual(["a", "b"]);
    return harness;
  }

  it("waits for those whom that one has answered, and leaves as soon as they are back", async () => {
    const harness = await landedWithoutC();
    harness.write("a again");
    await harness.time.settle();
    expect(harness.flights).toHaveLength(1);
    harness.write("b again");
    await harness.answer(1);
    expect(harness.flights.map(({ load }) => load.toSeq)).toEqual([2, 5]);
    expect(harness.heard).toEqual(["a", "b", "c", "a again", "b again"]);
  });

  it("waits half as long as that one took at most", async () => {
    const harness = await landedWithoutC();
    harness.write("a again");
    await harness.time.advance(3);
    expect(harness.flights).toHaveLength(1);
    await harness.time.advance(1);
    await harness.answer(1);
    expect(harness.heard).toEqual(["a", "b", "c", "a again"]);
  });

  it("waits no longer than OBJECT_COMPANY_MS", async () => {
    const harness = await landedWithoutC({ OBJECT_COMPANY_MS: 2 });
    await harness.time.advance(1);
    expect(harness.flights).toHaveLength(1);
    await harness.time.advance(1);
    expect(harness.flights).toHaveLength(2);
    expect((await landedWithoutC({ OBJECT_COMPANY_MS: 0 })).flights).toHaveLength(2);
  });

  it("does not wait for a while once nobody has come back", async () => {
    const harness = await landedWithoutC();
    await harness.time.advance(4);
    for (let flight = 1; flight <= 17; flight++) {
      harness.write(`${flight}`);
      await harness.time.advance(8);
      await harness.answer(flight);
      expect(harness.flights).toHaveLength(flight === 17 ? 18 : flight + 2);
    }
  });

  it("leaves at once when somebody drains, and when that one left nobody behind", async () => {
    const harness = await landedWithoutC();
    const drained = harness.shipper.drain();
    await harness.time.settle();
    await harness.time.advance(8);
    await harness.answer(1);
    await drained;
    harness.write("d");
    await harness.answer(2);
    expect(harness.heard).toEqual(["a", "b", "c", "d"]);
  });

  it("is given up with the residency while it waits", async () => {
    const harness = await landedWithoutC();
    harness.shipper.end(MoonportError.of("node_stopping", "gone"));
    await harness.time.advance(100);
    expect(harness.flights).toHaveLength(1);
    expect(harness.heard).toEqual(["a", "b", "c: gone"]);
  });
});
