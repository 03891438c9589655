/** What a dead session leaves, claimed together: each object by a claim of its own, whatever becomes of the others. */
import { describe, expect, it, onTestFinished } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import type { Member, ReplicaSet } from "../../src/cluster/ownership.js";
import { asMoonportError, MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { JournalPort } from "../../src/journal/contract.js";
import { Journal } from "../../src/journal/journal.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { Claims } from "../../src/shipping/claims.js";
import type { FleetView } from "../../src/shipping/fleet-view.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import {
  decodeManifest,
  encodeManifest,
  firstManifest,
  type Manifest,
  ownershipOf,
} from "../../src/shipping/manifest.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const DEAD = "session of the dead";
const ME = "my session";
const OTHER = "session of another";
const OBJECTS = Array.from({ length: 20 }, (_, number) => identityOf("default", "Counter", `c${number}`));
const IDS = OBJECTS.map(({ id }) => id);

/** Two journals are there, the dead owner's is not: of three with W = 2 both have to answer. */
class Stage {
  readonly time = new VirtualTime();
  readonly world = new VirtualWorld({ time: this.time, root: temporaryFolder(), seed: 1 });
  readonly bucket = new MemoryBucket(this.world);
  readonly settings = resolveSettings({ CLAIM_MS: 1_000 });
  readonly journals = new Map<string, Journal>();
  readonly unreachable = new Set<string>(["a"]);
  readonly failed = new Map<string, string>();
  /** Requests for promises of one object alone. */
  askedAlone = 0;
  /** One journal stands twice in the sets that are made: no record may say so. */
  namesTwice = false;
  isValid = true;
  claims!: Claims;

  static async open(): Promise<Stage> {
    const stage = new Stage();
    await stage.bucket.start();
    const { world, settings, time } = stage;
    for (const node of ["b", "c"]) {
      const journal = await time.until(Journal.open({ world, settings, folder: node, recordEpoch: async () => 0 }));
      stage.journals.set(node, journal);
      onTestFinished(() => time.until(journal.close()));
    }
    for (const object of OBJECTS) stage.put(object, stage.manifest(object, DEAD));
    stage.claims = new Claims(world, stage.bucket, stage.#view(), settings);
    return stage;
  }

  manifest({ id }: ObjectIdentity, owner: string): Manifest {
    return firstManifest(id, owner, `record of ${owner}`, this.#replicas("a", "b", "c"));
  }

  put(object: ObjectIdentity, manifest: Manifest): void {
    this.bucket.contents.apply([{ key: new ObjectKeys(object).manifest, bytes: encodeManifest(manifest) }]);
  }

  recordOf(object: ObjectIdentity) {
    const stored = this.bucket.contents.get(new ObjectKeys(object).manifest);
    return ownershipOf(decodeManifest(object.id, stored?.bytes ?? new Uint8Array()));
  }

  get epochs(): readonly number[] {
    return [...new Set(OBJECTS.map((object) => this.recordOf(object).epoch))];
  }

  get held(): readonly string[] {
    return OBJECTS.filter((object) => this.claims.held(object) !== undefined).map(({ id }) => id);
  }

  claiming(isWanted: (object: ObjectIdentity) => boolean = () => true): Promise<void> {
    return this.claims.claimMany(OBJECTS, isWanted, ({ id }, thrown) => {
      this.failed.set(id, asMoonportError(thrown).code);
    });
  }

  claim(isWanted?: (object: ObjectIdentity) => boolean): Promise<void> {
    return this.time.until(this.claiming(isWanted));
  }

  #replicas(...nodes: readonly string[]): ReplicaSet {
    const set = nodes.map((node) => ({ node, journal: this.journals.get(node)?.id ?? "journal of the dead" }));
    return { set, quorum: { copies: nodes.length, acksToLand: 2 } };
  }

  #view(): FleetView {
    return {
      session: ME,
      isValid: () => this.isValid,
      isLeavingToOthers: false,
      standing: async (session) => (session === DEAD ? "dead" : "live"),
      nodeOf: () => undefined,
      replicasFor: () => this.#replicas("b", this.namesTwice ? "b" : "c"),
      mustRenew: () => false,
      journalOf: (member) => this.#journalOf(member),
    };
  }

  #journalOf({ node }: Member): JournalPort {
    const journal = (): Journal => {
      const found = this.unreachable.has(node) ? undefined : this.journals.get(node);
      if (found === undefined) throw MoonportError.of("node_unreachable", `${node} is gone`);
      return found;
    };
    return {
      append: async (...asked) => journal().append(...asked),
      notice: async (...asked) => journal().notice(...asked),
      promise: async (...asked) => {
        this.askedAlone++;
        return journal().promise(...asked);
      },
      promiseMany: async (asked) => {
        try {
          return await journal().promiseMany(asked);
        } catch (thrown) {
          return asked.map(() => asMoonportError(thrown));
        }
      },
    };
  }
}

describe("objects that are claimed together", () => {
  it("are this session's by a reading, two writes and a sync of each journal", async () => {
    const stage = await Stage.open();
    const before = [...stage.journals.values()].map(({ syncs }) => syncs);
    await stage.claim();
    expect(stage.held).toEqual(IDS);
    expect(stage.bucket.counts()).toMatchObject({ get: 1, write: 2 });
    expect([...stage.journals.values()].map(({ syncs }, index) => syncs - (before[index] as number))).toEqual([1, 1]);
    for (const object of OBJECTS) {
      expect(stage.recordOf(object)).toMatchObject({ epoch: 2, tailEpoch: 2, owner: ME, clean: false });
      expect(stage.recordOf(object).set.map(({ node }) => node)).toEqual(["b", "c"]);
    }
    expect([stage.failed.size, stage.askedAlone]).toEqual([0, 0]);
  });

  it("are those that are wanted, and not a living owner's", async () => {
    const stage = await Stage.open();
    const [first, second] = OBJECTS as [ObjectIdentity, ObjectIdentity];
    stage.put(first, stage.manifest(first, OTHER));
    await stage.claim(({ id }) => id !== second.id);
    expect(stage.held).toEqual(IDS.slice(2));
    expect(stage.recordOf(first)).toMatchObject({ owner: OTHER, epoch: 1 });
    expect(stage.recordOf(second)).toMatchObject({ owner: DEAD, epoch: 1 });
    expect(stage.failed.size).toBe(0);
  });

  it("are left to whoever was quicker, each for itself", async () => {
    const stage = await Stage.open();
    const [first] = OBJECTS as [ObjectIdentity];
    const gate = stage.bucket.gate();
    const claiming = stage.claiming();
    await stage.time.settle();
    stage.put(first, { ...stage.manifest(first, OTHER), epoch: 2 });
    gate.release();
    await stage.time.until(claiming);
    expect(stage.held).toEqual(IDS.slice(1));
    expect(stage.recordOf(first)).toMatchObject({ owner: OTHER, epoch: 2 });
    expect([...stage.failed]).toEqual([[first.id, "moved"]]);
  });

  it("are claimed once, though a call asks for one of them meanwhile", async () => {
    const stage = await Stage.open();
    const [first] = OBJECTS as [ObjectIdentity];
    const claiming = stage.claiming();
    const called = stage.claims.claim(first);
    await stage.time.until(claiming);
    expect(await called).toBe(stage.claims.held(first));
    expect(stage.epochs).toEqual([2]);
    expect(stage.bucket.counts()).toMatchObject({ get: 1, write: 2 });
  });

  it("are each claimed alone where an answer to all of them was lost, and none is believed before it is read", async () => {
    for (const [write, epochs] of [
      // CAS1 had landed: its record names this session, which goes on in an epoch of its own (C5).
      [1, [3]],
      // CAS2 had landed: that is read, and the claim is complete.
      [2, [2]],
    ] as const) {
      const stage = await Stage.open();
      const claiming = stage.claiming();
      while (stage.bucket.counts().write < write - 1) await stage.time.settleOnce();
      stage.bucket.faults.failNext(1, { kind: "lost_answer" }, ["write"]);
      await stage.time.until(claiming);
      expect(stage.held).toEqual(IDS);
      expect(stage.epochs).toEqual(epochs);
      for (const object of OBJECTS) expect(stage.recordOf(object).tailEpoch).toBe(stage.recordOf(object).epoch);
      expect(stage.failed.size).toBe(0);
    }
  });

  it("win once only where a write lands after it was given up", async () => {
    for (const write of [1, 2]) {
      const stage = await Stage.open();
      const claiming = stage.claiming();
      while (stage.bucket.counts().write < write - 1) await stage.time.settleOnce();
      stage.bucket.faults.failNext(1, { kind: "late", landsAfterMs: 1 }, ["write"]);
      await stage.time.until(claiming);
      await stage.time.advance(100);
      expect(stage.held).toEqual(IDS);
      for (const object of OBJECTS) {
        const { epoch, tailEpoch, rid } = stage.recordOf(object);
        expect(epoch).toBe(tailEpoch);
        expect(stage.claims.held(object)?.manifest).toMatchObject({ epoch, rid });
      }
    }
  });

  it("wait, where too few journals answer, for those alone: the epoch is not raised again", async () => {
    const stage = await Stage.open();
    stage.unreachable.add("c");
    const claiming = stage.claiming();
    await stage.time.advance(300);
    expect(stage.held).toEqual([]);
    expect(stage.askedAlone).toBeGreaterThan(OBJECTS.length);
    stage.unreachable.delete("c");
    await stage.time.until(claiming);
    expect(stage.held).toEqual(IDS);
    expect(stage.epochs).toEqual([2]);
  });

  it("are each refused by name when the journals do not come back", async () => {
    const stage = await Stage.open();
    stage.unreachable.add("c");
    await stage.claim();
    expect(stage.held).toEqual([]);
    expect([...stage.failed]).toEqual(IDS.map((id) => [id, "replicas_missing"]));
  });

  it("are nobody's when the session lapses in the middle, and claimed anew by the next", async () => {
    const stage = await Stage.open();
    const claiming = stage.claiming();
    while (stage.bucket.counts().write < 1) await stage.time.settleOnce();
    stage.isValid = false;
    await stage.time.until(claiming);
    expect(stage.held).toEqual([]);
    expect(new Set(stage.failed.values())).toEqual(new Set(["node_fenced"]));
    expect(stage.bucket.counts().write).toBe(1);
  });

  it("are refused where no record can be made, and can be claimed afterwards", async () => {
    const stage = await Stage.open();
    stage.namesTwice = true;
    await stage.claim();
    expect([...stage.failed]).toEqual(IDS.map((id) => [id, "internal"]));
    stage.namesTwice = false;
    await stage.claim();
    expect(stage.held).toEqual(IDS);
  });

  it("are left as they are when they cannot be read, and one whose record is damaged by itself", async () => {
    const stage = await Stage.open();
    stage.bucket.faults.failNext(1, { kind: "refused" }, ["get"]);
    await stage.claim();
    expect([...stage.failed]).toEqual(IDS.map((id) => [id, "bucket_failed"]));
    expect(stage.epochs).toEqual([1]);
    stage.failed.clear();
    stage.bucket.corrupt(new ObjectKeys(OBJECTS[0] as ObjectIdentity).manifest);
    await stage.claim();
    expect(stage.held).toEqual(IDS.slice(1));
    expect([...stage.failed]).toEqual([[IDS[0], "object_corrupt"]]);
  });
});
