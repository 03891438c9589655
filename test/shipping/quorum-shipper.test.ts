/** Which of an object's bucket flights in a fleet take a permit that is kept for those that somebody waits on. */
import { expect, it } from "vitest";
import type { EntryAnswer } from "../../src/cluster/journal-rules.js";
import { identityOf } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { ObjectLoad, SegmentLoad } from "../../src/shipping/object-load.js";
import { PermitPool } from "../../src/shipping/permits.js";
import { QuorumShipper, type QuorumShipperParts } from "../../src/shipping/quorum-shipper.js";
import { type LegResult, Shipper, type Taken } from "../../src/shipping/shipper.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const OBJECT = identityOf("default", "List", "k");
const EPOCH = 1;
const settings = resolveSettings({ COVER_MS: 1_000, FLIGHT_HEDGE_MS: 250 });

/** An object of two journals, on a node whose one permit for everybody is taken: one more is kept for those who wait. */
class Harness {
  readonly time = new VirtualTime();
  readonly shipper: QuorumShipper;
  readonly legs: Deferred<LegResult>[] = [];
  /** The next cuts are a snapshot's, which only the bucket gets. */
  owesSnapshot = false;
  /** What journals hold goes ahead of it. */
  owesPart = false;
  readonly #pool = new PermitPool(2, 1);
  readonly #journals: (() => void)[] = [];
  #committedSeq = 0;
  #takenSeq = 0;

  constructor(acksToLand = 2) {
    this.#pool.request("background");
    const world = new VirtualWorld({ time: this.time, root: temporaryFolder() });
    const set = acksToLand === 0 ? [] : ["a", "b"].map((name) => ({ node: name, journal: name }));
    const quorum = { copies: set.length, acksToLand };
    const manifest = {
      rid: "r",
      epoch: EPOCH,
      owner: "s",
      seq: 0,
      replicas: { tailEpoch: EPOCH, set, quorum, clean: false },
    };
    const fleet = {
      journalOf: ({ journal }: { journal: string }) => ({ append: this.#append(journal), notice: async () => {} }),
    };
    const cargo = { takeSegment: () => this.#takeSegment() };
    const parts = { world, settings, fleet, claim: { object: OBJECT, manifest }, cargo };
    this.shipper = new QuorumShipper({
      ...(parts as unknown as Pick<QuorumShipperParts, keyof typeof parts>),
      committedSeq: () => this.#committedSeq,
      events: {
        released: () => {},
        covered: () => {},
        failed: () => {},
        broken: (error) => expect.fail(error.message),
      },
      bucketShipper: (hold, _, events) =>
        new Shipper<ObjectLoad>({
          world,
          settings,
          permits: this.#pool,
          hold,
          events,
          cargo: { take: () => this.#take() },
          leg: {
            land: () => {
              const leg = deferred<LegResult>();
              this.legs.push(leg);
              return leg.promise;
            },
          },
        }),
    });
  }

  /** Whether its bucket flight has left, by the permit that is kept. */
  get hasLeft(): boolean {
    return this.#pool.held === 2;
  }

  commit(): void {
    this.#committedSeq++;
    this.shipper.committed();
  }

  /** Somebody waits for what is committed. */
  wait(): void {
    this.shipper.ticket({ release: () => {}, fail: () => {} });
  }

  /** All journals have what they were sent. */
  acknowledge(): Promise<void> {
    for (const answer of this.#journals.splice(0)) answer();
    return this.time.settle();
  }

  #append(journal: string) {
    return (_: string, { toSeq }: { toSeq: number }): Promise<EntryAnswer> =>
      new Promise((resolve) => {
        this.#journals.push(() => resolve({ kind: "ack", journal, epoch: EPOCH, have: toSeq }));
      });
  }

  #takeSegment() {
    if (this.owesSnapshot) return { kind: "snapshot_owed" } as const;
    if (this.#takenSeq === this.#committedSeq) return { kind: "nothing" } as const;
    this.shipper.send(this.#load());
    return { kind: "segment" } as const;
  }

  #take(): Taken<ObjectLoad> {
    if (this.owesPart) {
      this.owesPart = false;
      return { kind: "load", load: this.#load(), isPart: true };
    }
    this.owesSnapshot = false;
    return { kind: "load", load: this.#load() };
  }

  #load(): SegmentLoad {
    const entry = { epoch: EPOCH, fromSeq: this.#takenSeq + 1, toSeq: this.#committedSeq, bytes: 1 };
    this.#takenSeq = this.#committedSeq;
    return {
      carried: "segment",
      toSeq: entry.toSeq,
      bytes: 1,
      entry,
      body: new Uint8Array(1),
    } as unknown as SegmentLoad;
  }
}

it("one whose write the journals have released does not, whatever comes behind it", async () => {
  const harness = new Harness();
  harness.commit();
  harness.wait();
  await harness.time.settle();
  await harness.acknowledge();
  await harness.time.advance(settings.COVER_MS + 10);
  harness.commit();
  harness.wait();
  await harness.time.settle();
  harness.shipper.changeSet({ set: [{ node: "a", journal: "a" }], quorum: { copies: 1, acksToLand: 0 } });
  await harness.time.advance(settings.FLIGHT_HEDGE_MS - 10);
  expect(harness.hasLeft).toBe(false);
});

it("one that is asked because the journals do not answer does, though it has begun to wait before anybody else", async () => {
  const harness = new Harness();
  harness.commit();
  await harness.time.advance(settings.COVER_MS + 10);
  expect(harness.hasLeft).toBe(false);
  harness.wait();
  await harness.time.advance(settings.FLIGHT_HEDGE_MS + 10);
  expect(harness.hasLeft).toBe(true);
});

it("one that alone can carry a write does, as soon as somebody waits for that", async () => {
  const harness = new Harness();
  harness.owesSnapshot = true;
  harness.commit();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(false);
  harness.wait();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(true);
});

it("so does the part that goes ahead of it, and it behind that", async () => {
  const harness = new Harness();
  harness.owesSnapshot = true;
  harness.owesPart = true;
  harness.commit();
  harness.wait();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(true);
  harness.legs[0]?.resolve({ kind: "landed" });
  await harness.time.settle();
  expect(harness.legs).toHaveLength(2);
});

it("so does every one that somebody waits for where no journals release", async () => {
  const harness = new Harness(0);
  harness.commit();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(false);
  harness.wait();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(true);
});

it("so does one that a drain waits for", async () => {
  const harness = new Harness();
  harness.commit();
  await harness.time.advance(settings.COVER_MS + 10);
  expect(harness.hasLeft).toBe(false);
  void harness.shipper.drain();
  await harness.time.settle();
  expect(harness.hasLeft).toBe(true);
});
