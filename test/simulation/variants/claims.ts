/** Claims that take what is not theirs, or leave behind what is. */
import type { Bucket, BucketWrite } from "../../../src/bucket/bucket.js";
import type { PromiseAnswer } from "../../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../../src/cluster/ownership.js";
import type { TailChoice } from "../../../src/cluster/tail-choice.js";
import type { ObjectIdentity } from "../../../src/identity.js";
import type { Payload } from "../../../src/journal/contract.js";
import type { Claim } from "../../../src/shipping/claim.js";
import type { Claims } from "../../../src/shipping/claims.js";
import { objectOfKey } from "../../../src/shipping/layout.js";
import { decodeManifest, type Manifest } from "../../../src/shipping/manifest.js";
import * as brokenJournals from "../../model/broken-journals.js";
import * as broken from "../../model/broken-owners.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

const TAKEOVERS = {
  nodes: 3,
  objects: 3,
  ...only({ crash: 3, power_cut: 2, crash_between_steps: 3, slow_link: 3, cut_one_way: 2 }),
};
/**
 * All three journals must have a write, and any one answers for it: who was cut off claims without the others' tails, which
 * then are dead and stay where they are.
 */
const RIVALS = {
  nodes: 3,
  objects: 12,
  clients: 10,
  settings: { OBJECT_QUORUM: 3, FLIGHT_HEDGE_MS: 3_000, COVER_MS: 3_000 },
  strikeMs: 500,
  ...only({ partition: 4, crash: 4 }),
};

export const CLAIMS: Record<string, Variant> = {
  "CAS1 replaces the set": {
    breaks: "A claim names the set that it would like, before it has what the old one holds (C1).",
    replaces: [replacing("cluster/ownership", () => pick(broken.replacingSets, "claim"))],
    plan: { nodes: 4, objects: 3, ...only({ crash: 3, crash_between_steps: 6, slow_link: 2, cut: 2 }) },
    seed: 1,
    caughtBy: "history",
  },
  "CAS1 counts as a completed takeover": {
    breaks: "From CAS1 on the claimer's epoch is the one whose tails count (C1).",
    replaces: [replacing("cluster/ownership", () => pick(broken.claimingTails, "claim", "takeOver"))],
    seed: 1,
    caughtBy: "history",
  },
  "the clean flag is kept at a claim": {
    breaks: "The record of an object that is served says that all is covered and nobody serves it (C1).",
    replaces: [
      replacing("shipping/manifest", ({ claimed }) => ({
        claimed: (manifest, ...rest) => {
          const next = claimed(manifest, ...rest);
          const clean = manifest.replicas?.clean ?? false;
          return { ...next, replicas: next.replicas && { ...next.replicas, clean } };
        },
      })),
      // What is written then goes on from there: only who claims is misled.
      replacing("cluster/ownership", () => ({
        standing: (record, me) => {
          if (record.epoch !== me.epoch || record.owner !== me.session) return "over";
          return record.tailEpoch === me.epoch ? "serving" : "claiming";
        },
      })),
      replacing("cluster/release-rule", () => pick(broken.stayingClean, "openBook")),
    ],
    plan: { workload: "register", destroyShare: 0.15 },
    seed: 1,
    caughtBy: "history",
  },
  "no promise is asked for": {
    breaks: "A claim takes the bucket for all there is (C2).",
    replaces: [
      replacing("shipping/promises", () => ({
        gatherPromises: async (_parts, _object, record) => ({ kind: "bucket", throughSeq: record.covered }),
        gatherManyPromises: async (_fleet, claims) =>
          claims.map(({ record }) => ({ kind: "bucket", throughSeq: record.covered })),
      })),
    ],
    seed: 1,
    caughtBy: "history",
  },
  "no promise is asked for by those who claim many": {
    breaks: "Objects that are claimed together take the bucket for all there is (C2).",
    replaces: [
      replacing("shipping/promises", () => ({
        gatherManyPromises: async (_fleet, claims) =>
          claims.map(({ record }) => ({ kind: "bucket", throughSeq: record.covered })),
      })),
    ],
    plan: { atomicBucket: true },
    seed: 1,
    caughtBy: "history",
  },
  "N − W answers are enough": {
    breaks: "A claim goes on with one answer too few (C2).",
    replaces: [replacing("cluster/tail-choice", () => ({ chooseTail: brokenJournals.askingTooFew as never }))],
    plan: TAKEOVERS,
    seed: 1,
    caughtBy: "history",
  },
  "the tail of the last epoch is chosen": {
    breaks: "Of all tails the one of the highest epoch is taken, whether or not that claim was completed (C3).",
    replaces: [choosing(({ tail }) => tail.tailEpoch * 1e6 + tail.have)],
    plan: RIVALS,
    seed: 1,
    caughtBy: "history",
  },
  "the tail under the last promise is chosen": {
    breaks: "Of all tails the one of the journal that had promised the highest epoch is taken (C3).",
    replaces: [
      choosing(({ journal, tail }) => Number(journal.split("#")[1] ?? 0) * 1e6 + tail.have),
      replacing("cluster/journal-rules", ({ decidePromise }) => ({
        decidePromise: (journal, held, request) => {
          const { held: after, answer } = decidePromise(journal, held, request);
          return { held: after, answer: { ...answer, journal: `${answer.journal}#${held.promised}` } };
        },
      })),
    ],
    plan: RIVALS,
    seed: 1,
    caughtBy: "history",
  },
  "the longest tail is chosen, of whichever epoch": {
    breaks: "Of all tails the one that goes furthest is taken (C3).",
    replaces: [choosing(({ tail }) => tail.have)],
    plan: RIVALS,
    seed: 1,
    caughtBy: "history",
  },
  "CAS2 leaves the tail uncovered": {
    breaks: "A takeover is completed without what the journals handed over (C4).",
    replaces: [replacing("shipping/tail", () => ({ withTail: (manifest) => ({ manifest, beside: [] }) }))],
    seed: 1,
    caughtBy: "history",
  },
  "an owner serves before its CAS2 is known": {
    breaks: "A claim is over when its CAS2 is sent (O1).",
    replaces: [
      replacing("shipping/claims", ({ Claims }) => ({
        Claims: class extends Claims {
          constructor(...[world, bucket, ...rest]: ConstructorParameters<typeof Claims>) {
            super(world, answeringCas2(bucket), ...rest);
          }
        },
      })),
    ],
    seed: 1,
    caughtBy: "history",
  },
  "two claims of one session run side by side": {
    breaks: "A session that claims an object claims it once more for whoever comes next (seed 2's bug).",
    replaces: [replacing("shipping/claims", claimingTwice)],
    seed: 1,
    caughtBy: "error",
  },
};

function pick<T extends object, K extends keyof T>(from: T, ...names: K[]): Required<Pick<T, K>> {
  return Object.fromEntries(names.map((name) => [name, from[name]])) as Required<Pick<T, K>>;
}

type Promised = Extract<PromiseAnswer<Payload>, { kind: "promised" }>;

function choosing(rank: (answer: Promised) => number): Variant["replaces"][number] {
  return replacing("cluster/tail-choice", ({ chooseTail }) => ({
    chooseTail: (<P>(record: OwnershipRecord, answers: readonly PromiseAnswer<P>[]): TailChoice<P> => {
      const named = answers.map((answer) => ({ ...answer, journal: answer.journal.split("#")[0] as string }));
      const choice = chooseTail(record, named);
      if (choice.kind === "waiting") return choice;
      const promised = answers.filter((answer) => answer.kind === "promised") as readonly Promised[];
      const [highest] = promised
        .filter(({ tail }) => tail.entries.length > 0)
        .sort((one, other) => rank(other) - rank(one));
      const { covered } = record;
      if (highest === undefined || highest.tail.have <= covered) return { kind: "bucket", throughSeq: covered };
      const { journal, tail } = highest;
      if (tail.base > covered) return { kind: "broken", journal, base: tail.base, covered };
      const entries = tail.entries.droppedThrough(covered) as never;
      return { kind: "tail", journal, throughSeq: tail.have, entries };
    }) as typeof chooseTail,
  }));
}

/** Says of every CAS2 that it has landed, when it has only just left. */
function answeringCas2(bucket: Bucket): Bucket {
  const raised = new Map<string, number>();
  const isCas2 = ({ key, bytes }: BucketWrite): boolean => {
    const manifest = manifestOf(key, bytes);
    if (manifest?.replicas === undefined) return false;
    if (manifest.replicas.tailEpoch < manifest.epoch) raised.set(key, manifest.epoch);
    return manifest.replicas.tailEpoch === manifest.epoch && raised.get(key) === manifest.epoch;
  };
  return {
    name: bucket.name,
    atomic: bucket.atomic,
    start: () => bucket.start(),
    stop: () => bucket.stop(),
    get: (key) => bucket.get(key),
    writeStream: (key, parts) => bucket.writeStream(key, parts),
    readStream: (key) => bucket.readStream(key),
    list: (prefix, options) => bucket.list(prefix, options),
    delete: (keys) => bucket.delete(keys),
    write: async (writes) => {
      const writing = bucket.write(writes);
      if (!writes.some(isCas2)) return writing;
      writing.catch(() => {});
      return { kind: "landed", versions: writes.map(() => "sent") };
    },
  };
}

function manifestOf(key: string, bytes: Uint8Array): Manifest | undefined {
  const object = key.endsWith("/manifest") ? objectOfKey(key) : undefined;
  return object && decodeManifest(object.id, bytes);
}

/** Each claim by an instance of its own, which knows of no other. */
function claimingTwice(original: typeof import("../../../src/shipping/claims.js")) {
  class ClaimsApart extends original.Claims {
    readonly #parts: ConstructorParameters<typeof Claims>;
    readonly #claims = new Map<string, Claim>();
    readonly #forgotten = new Set<string>();

    constructor(...parts: ConstructorParameters<typeof Claims>) {
      super(...parts);
      this.#parts = parts;
    }

    override held(object: ObjectIdentity): Claim | undefined {
      return this.#claims.get(object.id);
    }

    override async claim(object: ObjectIdentity): Promise<Claim> {
      const known = this.#claims.get(object.id);
      if (known !== undefined && !known.manifest.destroyed) return known;
      const apart = new original.Claims(...this.#parts);
      if (this.#forgotten.has(object.id)) apart.forget(object);
      const claim = await apart.claim(object);
      this.#forgotten.delete(object.id);
      this.#claims.set(object.id, claim);
      return claim;
    }

    override async peek(object: ObjectIdentity): Promise<Manifest | undefined> {
      return this.#claims.get(object.id)?.manifest ?? super.peek(object);
    }

    override forget(object: ObjectIdentity): void {
      this.#claims.delete(object.id);
      this.#forgotten.add(object.id);
    }

    override sessionEnded(): void {
      this.#claims.clear();
      this.#forgotten.clear();
    }

    override trim(): void {}
  }
  return { Claims: ClaimsApart };
}
