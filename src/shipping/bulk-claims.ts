/**
 * Many claims at once, for whoever takes over what a dead session leaves: each is made by C1 to C4 for itself, and all go step by
 * step together, so that a step is one request to the bucket, or one to each journal, however many they are.
 *
 * Only the common way is gone here: a record whose owner is dead, both of whose writes are known to land, and enough journals
 * answer at once. What leaves it goes on by itself: nothing is concluded here from a race that was lost or an answer in doubt.
 */
import type { BucketBulk, BucketObject, BucketWrite, Version, WriteOutcome } from "../bucket/bucket.js";
import { claim, takeOver } from "../cluster/ownership.js";
import { answersNeeded } from "../cluster/quorum.js";
import { asMoonportError, assert, type MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { SessionStanding } from "../membership/contract.js";
import { faultPoint } from "../world/fault-point.js";
import { uuidv7, type World } from "../world/world.js";
import type { FleetView } from "./fleet-view.js";
import { ObjectKeys } from "./layout.js";
import { decodeManifest, encodeManifest, type Manifest, ownershipOf, withOwnership } from "./manifest.js";
import { gatherManyPromises } from "./promises.js";
import { type Tail, tailOf, withTail } from "./tail.js";

/** A record as it stands, by an answer of the bucket. */
export interface StandingRecord {
  readonly manifest: Manifest;
  readonly version: Version;
}

export type BulkOutcome =
  /** CAS2 has landed: this is the record. */
  | { readonly kind: "claimed"; readonly record: StandingRecord }
  /** Not wanted, or its owner lives. */
  | { readonly kind: "left" }
  /** To be claimed by itself, from the beginning. */
  | { readonly kind: "alone" }
  /** CAS1 has landed, and too few journals have answered: to be completed by itself. */
  | { readonly kind: "raised"; readonly record: StandingRecord }
  | { readonly kind: "failed"; readonly error: MoonportError };

export interface BulkClaimsParts {
  readonly world: Pick<World, "clock" | "random">;
  readonly bulk: BucketBulk;
  readonly fleet: FleetView;
  /** Told each record as it stands before the claim, undefined where there is none. */
  readonly isWanted: (object: ObjectIdentity, manifest: Manifest | undefined) => boolean;
  readonly beforeTail: (object: ObjectIdentity) => Promise<void> | undefined;
  /** CAS1 has landed: the object has an epoch of its own. */
  readonly raised: (object: ObjectIdentity) => void;
}

/** Of the writes in one request. */
const WRITES_BYTES_MAX = 8 * 1024 * 1024;

/** One object on its way; where it stands is its step's business. */
interface Step {
  readonly index: number;
  readonly object: ObjectIdentity;
  readonly keys: ObjectKeys;
  readonly record: StandingRecord;
}

/** The next record of one, and what must stand in the bucket with it. */
interface NextWrite {
  readonly step: Step;
  readonly manifest: Manifest;
  readonly beside: readonly BucketWrite[];
}

/** @returns in the order of `objects`; never rejects */
export async function claimInBulk(
  parts: BulkClaimsParts,
  objects: readonly ObjectIdentity[],
): Promise<readonly BulkOutcome[]> {
  return new BulkClaim(parts, objects).outcomes();
}

class BulkClaim {
  readonly #parts: BulkClaimsParts;
  readonly #objects: readonly ObjectIdentity[];
  readonly #session: string;
  readonly #outcomes: BulkOutcome[];

  constructor(parts: BulkClaimsParts, objects: readonly ObjectIdentity[]) {
    this.#parts = parts;
    this.#objects = objects;
    this.#session = parts.fleet.session;
    this.#outcomes = objects.map(() => ALONE);
  }

  async outcomes(): Promise<readonly BulkOutcome[]> {
    const claimable = await this.#claimable(await this.#read());
    const raised = await this.#write(claimable.map((step) => this.#cas1(step)));
    for (const { object } of raised) {
      this.#parts.raised(object);
      faultPoint("claim.raised", object.id);
    }
    const chosen = await this.#chosen(raised);
    const completed = await this.#write(await this.#cas2(chosen));
    for (const { index, record } of completed) this.#outcomes[index] = { kind: "claimed", record };
    return this.#outcomes;
  }

  /** Those that have a record and are wanted. */
  async #read(): Promise<readonly Step[]> {
    const { bulk, isWanted } = this.#parts;
    const keys = this.#objects.map((object) => new ObjectKeys(object));
    let found: readonly (BucketObject | undefined)[];
    try {
      found = await bulk.get(keys.map(({ manifest }) => manifest));
    } catch (thrown) {
      this.#outcomes.fill(failed(thrown));
      return [];
    }
    const steps: Step[] = [];
    for (const [index, object] of this.#objects.entries()) {
      const at = found[index];
      try {
        const manifest = at && decodeManifest(object.id, at.bytes);
        if (!isWanted(object, manifest)) this.#outcomes[index] = LEFT;
        else if (at !== undefined && manifest !== undefined) {
          steps.push({ index, object, keys: keys[index] as ObjectKeys, record: { manifest, version: at.version } });
        }
      } catch (thrown) {
        this.#outcomes[index] = failed(thrown);
      }
    }
    return steps;
  }

  /** Those whose owner is dead and whose journals have to be asked. */
  async #claimable(steps: readonly Step[]): Promise<readonly Step[]> {
    const { fleet } = this.#parts;
    if (!this.#isValid || fleet.isLeavingToOthers) return [];
    const standings = new Map<string, SessionStanding | undefined>();
    for (const { record } of steps) standings.set(record.manifest.owner, undefined);
    for (const owner of standings.keys()) standings.set(owner, await fleet.standing(owner).catch(() => undefined));
    return steps.filter(({ index, record: { manifest } }) => {
      const { owner, replicas } = manifest;
      if (owner === this.#session || replicas === undefined || replicas.clean) return false;
      const standing = standings.get(owner);
      if (standing === "live") this.#outcomes[index] = LEFT;
      return standing === "dead" && answersNeeded(replicas.quorum) > 0;
    });
  }

  /** C1 */
  #cas1(step: Step): NextWrite | undefined {
    const { fleet, world } = this.#parts;
    const { manifest } = step.record;
    const view = { ownerLives: false, holds: false };
    try {
      const replicas = fleet.replicasFor(step.object);
      if (replicas === undefined) return undefined;
      const first = claim(ownershipOf(manifest), this.#session, uuidv7(world), replicas, view);
      assert(first.kind === "next", "a claim of what nobody holds");
      return { step, manifest: withOwnership(manifest, first.record), beside: [] };
    } catch (thrown) {
      this.#outcomes[step.index] = failed(thrown);
      return undefined;
    }
  }

  /** C2 and C3 */
  async #chosen(raised: readonly Step[]): Promise<readonly { readonly step: Step; readonly tail: Tail }[]> {
    const claims = raised.map(({ object, record }) => ({ object: object.id, record: ownershipOf(record.manifest) }));
    const choices = claims.length === 0 ? [] : await gatherManyPromises(this.#parts.fleet, claims);
    const chosen: { readonly step: Step; readonly tail: Tail }[] = [];
    for (const [at, step] of raised.entries()) {
      const choice = choices[at];
      // A journal has promised a later claim: this one is over.
      if (choice === undefined) continue;
      if (choice.kind === "waiting") this.#outcomes[step.index] = { kind: "raised", record: step.record };
      else {
        faultPoint("claim.promised", step.object.id);
        try {
          chosen.push({ step, tail: tailOf(step.object, choice) });
        } catch (thrown) {
          this.#outcomes[step.index] = failed(thrown);
        }
      }
    }
    return chosen;
  }

  /** C4. W1: of what only journals held nobody knows yet to what it obliges. */
  async #cas2(
    chosen: readonly { readonly step: Step; readonly tail: Tail }[],
  ): Promise<readonly (NextWrite | undefined)[]> {
    const { beforeTail } = this.#parts;
    const listed = chosen.map(({ step, tail }) => (tail.length > 0 ? beforeTail(step.object) : undefined));
    const hasFailed = (await Promise.allSettled(listed)).map(({ status }) => status === "rejected");
    return chosen.map(({ step, tail }, at) => {
      if (hasFailed[at] === true) return undefined;
      try {
        return this.#completing(step, tail);
      } catch (thrown) {
        this.#outcomes[step.index] = failed(thrown);
        return undefined;
      }
    });
  }

  #completing(step: Step, tail: Tail): NextWrite | undefined {
    const { fleet, world } = this.#parts;
    const replicas = fleet.replicasFor(step.object);
    if (replicas === undefined) return undefined;
    const content = withTail(step.record.manifest, tail);
    const me = { session: this.#session, epoch: step.record.manifest.epoch };
    const record = ownershipOf(step.record.manifest);
    const second = takeOver(record, me, uuidv7(world), replicas, content.manifest.seq);
    assert(second.kind === "next", "CAS2 follows its own CAS1");
    const beside = content.beside.map(({ entry, bytes }) => ({ key: step.keys.segment(entry), bytes }));
    return { step, manifest: withOwnership(content.manifest, second.record), beside };
  }

  /** @returns those whose write is known to have landed, as they stand by it; of the others nothing is known here */
  async #write(nexts: readonly (NextWrite | undefined)[]): Promise<readonly Step[]> {
    const landed: Step[] = [];
    for (const group of inGroups(nexts)) {
      if (!this.#isValid) return landed;
      const outcomes = await this.#outcomesOf(group.map(({ writes }) => writes));
      for (const [at, { next }] of group.entries()) {
        const outcome = outcomes[at];
        const version = outcome?.kind === "landed" ? outcome.versions.at(-1) : undefined;
        if (version === undefined) continue;
        landed.push({ ...next.step, record: { manifest: next.manifest, version } });
      }
    }
    return landed;
  }

  async #outcomesOf(batches: readonly (readonly BucketWrite[])[]): Promise<readonly WriteOutcome[]> {
    try {
      return await this.#parts.bulk.write(batches);
    } catch {
      return [];
    }
  }

  get #isValid(): boolean {
    const { fleet } = this.#parts;
    return fleet.session === this.#session && fleet.isValid();
  }
}

const ALONE: BulkOutcome = { kind: "alone" };
const LEFT: BulkOutcome = { kind: "left" };

function failed(thrown: unknown): BulkOutcome {
  return { kind: "failed", error: asMoonportError(thrown) };
}

interface Grouped {
  readonly next: NextWrite;
  readonly writes: readonly BucketWrite[];
}

function* inGroups(nexts: readonly (NextWrite | undefined)[]): Generator<readonly Grouped[]> {
  let group: Grouped[] = [];
  let bytes = 0;
  for (const next of nexts) {
    if (next === undefined) continue;
    const { step, manifest, beside } = next;
    const body = encodeManifest(manifest);
    const condition = { version: step.record.version };
    group.push({ next, writes: [...beside, { key: step.keys.manifest, bytes: body, condition }] });
    bytes += beside.reduce((sum, write) => sum + write.bytes.length, body.length);
    if (bytes < WRITES_BYTES_MAX) continue;
    yield group;
    group = [];
    bytes = 0;
  }
  if (group.length > 0) yield group;
}
