/**
 * Whether an object's record can get stuck: a world without journals and without death, in which every session lives for
 * ever and only answers and requests are lost. Two sessions want one object. From every state there must be a way to one
 * in which somebody serves.
 *
 * It is C5 and O4 that this is about: a claim that landed after its claimer gave up names a session that does not know of
 * it, and nobody may claim from a session that lives; a release that never arrives leaves its owner frozen.
 */
import type { Attempt, OwnershipRecord, ReplicaSet } from "../../src/cluster/ownership.js";
import { RULES, type Rules } from "./rules.js";

type Contender =
  | { readonly kind: "idle" }
  | { readonly kind: "claiming"; readonly attempt: Attempt<number> }
  | { readonly kind: "promising"; readonly epoch: number }
  | { readonly kind: "serving"; readonly epoch: number }
  | { readonly kind: "frozen"; readonly epoch: number; readonly attempt: Attempt<number> };

interface Scene {
  readonly record: OwnershipRecord;
  readonly version: number;
  readonly contenders: readonly Contender[];
  readonly inFlight: readonly Attempt<number>[];
}

export interface LivenessOptions {
  /** C5 holds. */
  readonly claimsOwnLate: boolean;
  /** A frozen owner thaws by a CAS of its own (O4). */
  readonly thaws: boolean;
  /** An unresolved attempt is sent again (O5). */
  readonly sendsAgain: boolean;
}

const SESSIONS = ["x", "y"];
const VERSIONS_MAX = 9;
/** Versions that a way to serving may need, beyond which the bound itself would look like being stuck. */
const WAY_MAX = 4;
const ALONE: ReplicaSet = { set: [{ node: "n", journal: "j" }], quorum: { copies: 1, acksToLand: 0 } };
const IDLE: Contender = { kind: "idle" };

export function stuckScenes(options: LivenessOptions): { scenes: number; stuck: number; first: string | undefined } {
  const rules = options.claimsOwnLate ? RULES : { ...RULES, claim: withoutC5 };
  const record: OwnershipRecord = { ...rules.firstRecord("nobody", "r0", ALONE), clean: true };
  const first: Scene = { record, version: 1, contenders: SESSIONS.map(() => IDLE), inFlight: [] };
  const names = new Map([[nameOf(first), first]]);
  const before = new Map<string, string[]>();
  for (const [name, scene] of names) {
    for (const next of scenesAfter(scene, rules, options)) {
      const nextName = nameOf(next);
      if (!names.has(nextName)) names.set(nextName, next);
      before.set(nextName, [...(before.get(nextName) ?? []), name]);
    }
  }
  const alive = new Set<string>();
  const toDo = [...names].filter(([, scene]) => isServed(scene, rules)).map(([name]) => name);
  for (let name = toDo.pop(); name !== undefined; name = toDo.pop()) {
    if (alive.has(name)) continue;
    alive.add(name);
    toDo.push(...(before.get(name) ?? []));
  }
  const stuck = [...names].filter(([name, { version }]) => !alive.has(name) && version <= VERSIONS_MAX - WAY_MAX);
  return { scenes: names.size, stuck: stuck.length, first: stuck[0]?.[0] };
}

const withoutC5: Rules["claim"] = (record, session, rid, replicas, view) =>
  RULES.claim(record, session, rid, replicas, { ...view, holds: record.owner === session });

function isServed({ record, contenders }: Scene, rules: Rules): boolean {
  return contenders.some(
    (one, index) => one.kind === "serving" && rules.standing(record, whoIs(index, one.epoch)) === "serving",
  );
}

function whoIs(index: number, epoch: number): { session: string; epoch: number } {
  return { session: SESSIONS[index] as string, epoch };
}

function nameOf(scene: Scene): string {
  return JSON.stringify(scene);
}

function scenesAfter(scene: Scene, rules: Rules, options: LivenessOptions): Scene[] {
  const { version, inFlight } = scene;
  const lost = inFlight.map((attempt) => ({ ...scene, inFlight: without(inFlight, attempt) }));
  const landed = inFlight
    .filter(({ on }) => on === version && version < VERSIONS_MAX)
    .map((attempt) => landing(scene, attempt));
  const moves = scene.contenders.flatMap((_, index) => movesOf(scene, index, rules, options));
  return [...lost, ...landed, ...moves];
}

/** What was conditioned on the version before can not land any more. */
function landing(scene: Scene, { record }: Attempt<number>): Scene {
  return { ...scene, record, version: scene.version + 1, inFlight: [] };
}

function without(inFlight: readonly Attempt<number>[], attempt: Attempt<number>): readonly Attempt<number>[] {
  return inFlight.filter((one) => one !== attempt);
}

function movesOf(scene: Scene, index: number, rules: Rules, options: LivenessOptions): Scene[] {
  const { record, version, contenders, inFlight } = scene;
  const one = contenders[index] as Contender;
  const found = { version, record };
  const become = (next: Contender, fields: Partial<Scene> = {}): Scene => ({
    ...scene,
    contenders: contenders.map((other, at) => (at === index ? next : other)),
    ...fields,
  });
  const rid = `${SESSIONS[index]}, ${one.kind}, on ${version}`;
  switch (one.kind) {
    case "idle": {
      const view = { ownerLives: true, holds: false };
      const claimed = rules.claim(record, SESSIONS[index] as string, rid, ALONE, view);
      if (claimed.kind === "refused") return [];
      const attempt = { on: version, record: claimed.record };
      return [become({ kind: "claiming", attempt }, { inFlight: sent(inFlight, attempt) })];
    }
    case "claiming": {
      const { epoch } = one.attempt.record;
      const resolution = rules.resolve(one.attempt, found);
      // Time is up, its caller gets an error: what it sent may land yet.
      const moves = [become(IDLE)];
      if (resolution === "landed") {
        const isComplete = rules.standing(record, whoIs(index, epoch)) === "serving";
        moves.push(become({ kind: isComplete ? "serving" : "promising", epoch }));
      }
      if (resolution === "unresolved" && options.sendsAgain)
        moves.push({ ...scene, inFlight: sent(inFlight, one.attempt) });
      return moves;
    }
    case "promising": {
      const taken = rules.takeOver(record, whoIs(index, one.epoch), rid, ALONE, 0);
      if (taken.kind === "refused" || version === VERSIONS_MAX) return [become(IDLE)];
      const after = landing(scene, { on: version, record: taken.record });
      return [become(IDLE), become({ kind: "serving", epoch: one.epoch }, pick(after))];
    }
    case "serving": {
      const released = rules.releaseClean(record, whoIs(index, one.epoch), rid, { covered: 0, committed: 0 });
      if (released.kind === "refused") return [become(IDLE)];
      const attempt = { on: version, record: released.record };
      return [become({ kind: "frozen", epoch: one.epoch, attempt }, { inFlight: sent(inFlight, attempt) })];
    }
    case "frozen": {
      const me = whoIs(index, one.epoch);
      const resolution = rules.resolve(one.attempt, found);
      if (resolution !== "unresolved") {
        const isServing = rules.standing(record, me) === "serving";
        return [become(isServing ? { kind: "serving", epoch: one.epoch } : IDLE)];
      }
      const moves: Scene[] = options.sendsAgain ? [{ ...scene, inFlight: sent(inFlight, one.attempt) }] : [];
      const thawed = rules.cover(record, me, rid, 0);
      if (options.thaws && thawed.kind === "next" && version < VERSIONS_MAX) {
        const after = landing(scene, { on: version, record: thawed.record });
        moves.push(become({ kind: "serving", epoch: one.epoch }, pick(after)));
      }
      return moves;
    }
  }
}

function pick({ record, version, inFlight }: Scene): Partial<Scene> {
  return { record, version, inFlight };
}

/** Of two that are the same one is enough. */
function sent(inFlight: readonly Attempt<number>[], attempt: Attempt<number>): readonly Attempt<number>[] {
  const isUnderWay = inFlight.some(({ on, record }) => on === attempt.on && record.rid === attempt.record.rid);
  return isUnderWay ? inFlight : [...inFlight, attempt];
}
