/**
 * One trial of a row: a node is armed and ends at its fault point, while others are at work; then what the caller heard and what is
 * there after takeover are compared with what the row promises.
 */
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import type { FaultPoint } from "../../src/world/fault-point.js";
import type { Armed } from "./armed.js";
import { type DrillNode, drillObject } from "./drill-node.js";
import { type DrillFleet, eventually } from "./fleet.js";
import type { Heard, Load, Planned } from "./load.js";
import { DrillBroken } from "./model.js";

/** The way of a call to the object's owner: at its own door or another node's, with an id or without. */
export const WAYS = ["owner, id", "owner", "other, id", "other"] as const;
export type Way = (typeof WAYS)[number];

export type After = "not there" | "there" | "either";

/** What a trial came to. */
export interface Trial {
  readonly way: string;
  readonly heard: Heard;
  readonly after: string;
}

export interface Scene {
  readonly fleet: DrillFleet;
  readonly load: Load;
  readonly random: SeededRandom;
  /** Objects that nobody but the trials calls. */
  readonly targets: readonly string[];
  /**
   * A node that was killed is started again at once, which ends its session; else the others first take over by themselves, when
   * that has run out.
   */
  readonly isHurried: boolean;
}

export interface Row {
  readonly name: string;
  /** In the short form as well. */
  readonly isShort: boolean;
  /** Trials of the long form. Default: one for each way. */
  readonly times?: number;
  readonly run: (scene: Scene, index: number) => Promise<Trial>;
}

/** What the call of a trial may be answered: its caller was told of a failed connection, of a doubt, or of success. */
export interface Promised {
  readonly hears: "doubt" | "success" | "any";
  readonly after: After;
}

const HIT_MAX_MS = 60_000;
/** A point behind a call is reached within this, as a rule. */
const LATE_MS = 3_000;

interface Warm {
  readonly key: string;
  readonly owner: DrillNode;
}

/** A node that is to end. */
export interface Ending {
  /** Resolves with it once it has; from then on no other is to. */
  readonly hit: Promise<DrillNode>;
  /** Resolves with whether it has, soon after it has or else a while later. */
  hasHit(): Promise<boolean>;
  /** Others are to end in their place. */
  instead(nodes: readonly DrillNode[]): Promise<void>;
}

/**
 * The first of these nodes that passes the point ends there. Resolves when all heed that.
 * @param first those that are to at first; all, if it is left out
 */
export async function armed(
  { fleet }: Pick<Scene, "fleet">,
  nodes: readonly DrillNode[],
  { point, detail, first = nodes }: Pick<Armed, "point" | "detail"> & { readonly first?: readonly DrillNode[] },
): Promise<Ending> {
  const before = new Map(nodes.map((node) => [node, node.reached().length]));
  const hit = untilHit(nodes, point, before).finally(() => fleet.arm(null));
  const late = (): Promise<false> => new Promise((resolve) => void setTimeout(resolve, LATE_MS, false).unref());
  hit.catch(() => {});
  const arm = (those: readonly DrillNode[]): Promise<void> => fleet.arm({ point, detail, skip: 0 }, those);
  await arm(first);
  return {
    hit,
    hasHit: () => Promise.race([hit.then(() => true), late()]),
    instead: async (others) => {
      await fleet.arm(null);
      await arm(others);
    },
  };
}

/** @param before how often each has reached a point */
async function untilHit(
  nodes: readonly DrillNode[],
  point: FaultPoint,
  before: ReadonlyMap<DrillNode, number>,
): Promise<DrillNode> {
  const hit = nodes.map(async (node) => {
    await node.ended();
    return node;
  });
  const late = new Promise<undefined>((resolve) => void setTimeout(resolve, HIT_MAX_MS, undefined).unref());
  const node = await Promise.race([...hit, late]);
  if (node === undefined) throw new DrillBroken(`no node came to ${point} within ${HIT_MAX_MS} ms`);
  if (node.reached().length === before.get(node)) {
    throw new DrillBroken(`${node.name} ended by itself, not at ${point}: ${node.logTail()}`);
  }
  return node;
}

/** A target that its owner holds, so that a call of it claims nothing, and that the bucket has all of. */
export async function warmTarget({ fleet, load, targets }: Scene, index: number): Promise<Warm> {
  const key = targets[index % targets.length] as string;
  await load.settle(load.plan(key, "add"));
  const owner = await fleet.ownerOf(key);
  // To tell of an object's past its owner brings all of it into the bucket.
  await owner.client.history(drillObject(key));
  return { key, owner };
}

/** A look at what there is after a takeover, and the next life of whoever was killed. */
export async function afterTakeover<T>({ fleet, isHurried }: Scene, look: () => Promise<T>): Promise<T> {
  await fleet.arm(null);
  if (isHurried) await fleet.start();
  const seen = await look();
  if (!isHurried) await fleet.start();
  return seen;
}

/** Whether the call stands in its object, as the others see it after they have taken over. */
export async function isThere({ fleet }: Scene, call: Planned): Promise<boolean> {
  const lines = await fleet.lines(call.key);
  return lines.some(({ kind, id }) => kind === call.kind && id === call.id);
}

export function wayOf(scene: Scene, owner: DrillNode, way: Way): { node: DrillNode; hasId: boolean } {
  const others = scene.fleet.up.filter((node) => node !== owner);
  const other = others[scene.random.below(others.length)];
  if (other === undefined) throw new Error("the drill needs another node than the owner");
  return { node: way.startsWith("owner") ? owner : other, hasId: way.endsWith("id") };
}

/**
 * What a caller may hear of a call whose owner was killed. At the owner's own door the connection breaks, and the client says that
 * it does not know what became of what had left; another node says that it does not know, or repeats the call where its id allows
 * that.
 */
function mayHear(hears: Promised["hears"], way: Way): readonly Heard[] | undefined {
  if (hears === "any") return undefined;
  if (hears === "success") return ["answered"];
  if (way.startsWith("owner")) return ["outcome_unknown", "node_unreachable"];
  return way === "other, id" ? ["answered"] : ["outcome_unknown"];
}

export function assertKept(way: Way, call: Planned, trial: Trial, promised: Promised): void {
  const may = mayHear(promised.hears, way);
  if (may !== undefined && !may.includes(trial.heard)) {
    throw new DrillBroken(`${call.id} (${way}) heard ${trial.heard}, and should have heard ${may.join(" or ")}`);
  }
  // A node that repeats the call brings about what was not there.
  const wanted = trial.heard === "answered" ? "there" : promised.after;
  if (wanted !== "either" && trial.after !== wanted) {
    throw new DrillBroken(`${call.id} (${way}) heard ${trial.heard} and is ${trial.after}, not ${wanted}`);
  }
}

/** Nothing that the targets owe is left: each of their timers has fired and each of their messages has arrived. */
export async function targetsOweNothing({ fleet, targets }: Scene): Promise<void> {
  await eventually("the targets owe nothing", async () => {
    const lists = await Promise.all(targets.map((key) => fleet.lines(key)));
    const [done, due] = [new Set<string>(), new Set<string>()];
    for (const { kind, id } of lists.flat()) {
      if (kind === "fired" || kind === "got") done.add(id);
      if (kind === "arm" || kind === "tell") due.add(id);
    }
    return [...due].every((id) => done.has(id));
  });
}
