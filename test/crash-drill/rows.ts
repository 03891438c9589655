/** The rows of the table "What a crash loses" (docs/testing.md), and those of what is obliged to: each by its fault points. */
import type { FaultPoint } from "../../src/world/fault-point.js";
import { type DrillNode, drillObject } from "./drill-node.js";
import { eventually } from "./fleet.js";
import type { Planned } from "./load.js";
import { type CallKind, DrillBroken } from "./model.js";
import {
  afterTakeover,
  armed,
  assertKept,
  isThere,
  type Promised,
  type Row,
  type Scene,
  type Trial,
  targetsOweNothing,
  WAYS,
  type Way,
  warmTarget,
  wayOf,
} from "./trial.js";

interface CallRow extends Promised {
  readonly kind?: CallKind;
  /** Which of the calls "tell" stands for. */
  readonly method?: "tell" | "tell_later";
  /** Who may come to the point: the owner of the target, whichever node has the shard in question, or each node by turns. */
  readonly who?: "owner" | "all" | "turns";
  /** The target is one that was never used: no list has it yet. */
  readonly isFresh?: boolean;
  /** Of what the point tells, given the target's key. */
  readonly detail?: (key: string) => string;
}

const OF_OBJECT = (key: string): string => `^default/Drill/${key}$`;
const IN_BUCKET = (key: string): string => `/${key}/e`;
const ANY = (): string => ".";
/** As a pattern; see Load.freshKey. */
const FRESH_KEYS = "fresh-\\d+";

/** Of a point that is to come after the reply, and came before it. */
const EARLY_MAX = 5;

/** A call of a target has its owner, or a shard's, end at the point. */
function callRow(name: string, point: FaultPoint, isShort: boolean, row: CallRow): Row {
  return {
    name,
    isShort,
    run: async (scene, index) => {
      for (let early = 0; ; early++) {
        const { call, way, trial } = await callTrial(scene, index, point, row);
        // On a slow machine the bucket may be turned to before the reply has left: then the caller is in doubt, and another trial tells.
        const isEarly = row.hears === "success" && trial.heard !== "answered" && early < EARLY_MAX;
        if (!isEarly) assertKept(way, call, trial, row);
        if (way.endsWith("id")) await scene.load.settle(call);
        await targetsOweNothing(scene);
        if (!isEarly) return trial;
      }
    },
  };
}

async function callTrial(
  scene: Scene,
  index: number,
  point: FaultPoint,
  { kind = "add", method, who = "owner", detail = OF_OBJECT, isFresh = false }: CallRow,
): Promise<{ readonly call: Planned; readonly way: Way; readonly trial: Trial }> {
  const { fleet, load } = scene;
  const { key, owner } = await warmTarget(scene, index);
  const way = WAYS[index % WAYS.length] as Way;
  const { node, hasId } = wayOf(scene, owner, way);
  const nodes = who === "owner" && !isFresh ? [owner] : fleet.up;
  const first = who === "turns" ? [] : nodes;
  const { hasHit, instead } = await armed(scene, nodes, { point, detail: detail(isFresh ? FRESH_KEYS : key), first });
  for (let turn = 0; ; turn++) {
    if (who === "turns") await instead([nodes[turn % nodes.length] as DrillNode]);
    const planned = load.plan(isFresh ? load.freshKey() : key, kind);
    const call = kind === "tell" ? telling(scene, planned, index, method ?? "tell") : planned;
    const answer = load.once(node, call, hasId);
    if (isFresh) await listedSoon(node, call.key, answer);
    const heard = await answer;
    if (await hasHit()) {
      const stands = await afterTakeover(scene, () => isThere(scene, call));
      return { call, way, trial: { way, heard, after: stands ? "there" : "not there" } };
    }
    // Not every call comes by: what it obliges to may ride with another's.
    if (hasId) await load.settle(call);
  }
}

/**
 * What is owed is listed when the bucket is about to name it, and by then a message has mostly arrived. To tell of an object's past
 * its owner brings it into the bucket at once.
 */
async function listedSoon(node: DrillNode, key: string, answer: Promise<unknown>): Promise<void> {
  let isAnswered = false;
  void answer.finally(() => {
    isAnswered = true;
  });
  while (!isAnswered && node.isUp) await node.client.history(drillObject(key)).catch(() => {});
}

/** A message from one target to the next. */
function telling(scene: Scene, call: Planned, index: number, method: "tell" | "tell_later"): Planned {
  const to = scene.targets[(index + 1) % scene.targets.length] as string;
  return { ...call, method, args: method === "tell" ? [call.id, to] : [call.id, to, 100] };
}

/** Calls follow each other until the owner ends at a point on the way of its compactions: none of them is affected. */
function compactionRow(name: string, point: FaultPoint, isShort: boolean, detail: (key: string) => string): Row {
  return {
    name,
    isShort,
    times: 2,
    run: async (scene, index) => {
      const { fleet, load } = scene;
      const { key, owner } = await warmTarget(scene, index);
      const { hit } = await armed(scene, [owner], { point, detail: detail(key) });
      let answered = 0;
      let isHit = false;
      const markHit = (): void => {
        isHit = true;
      };
      hit.then(markHit, markHit);
      while (!isHit) {
        const call = load.plan(key, "add");
        await load.settle(call);
        answered++;
        // The bucket has it before the next: each is a segment of its own.
        if (owner.isUp) await owner.client.history(drillObject(key)).catch(() => {});
      }
      await hit;
      const lines = await afterTakeover(scene, () => fleet.lines(key));
      if (lines.length < answered) throw new DrillBroken(`${answered} were answered, ${lines.length} are there`);
      return { way: "other, id", heard: "answered", after: "there" };
    },
  };
}

/** The owner is told to stop, and killed in the middle of handing over what it has. */
function handoffRow(name: string, point: FaultPoint, isShort: boolean): Row {
  return {
    name,
    isShort,
    times: 2,
    run: async (scene, index) => {
      const { fleet } = scene;
      const { key, owner } = await warmTarget(scene, index);
      const { hit } = await armed(scene, [owner], { point, detail: "^default/Drill/" });
      owner.signal("SIGTERM");
      await hit;
      await afterTakeover(scene, () => fleet.lines(key));
      return { way: "load", heard: "answered", after: "there" };
    },
  };
}

/** An operator restores an object as it was; the node ends on the way. It is as restored, or as before and can be restored again. */
function restoreRow(name: string, point: FaultPoint, isShort: boolean): Row {
  return {
    name,
    isShort,
    times: 2,
    run: async (scene, index) => {
      const { fleet } = scene;
      const key = `restored-${point}-${index}`;
      const [before, after] = [2, 3];
      let seq = 0;
      for (let n = 1; n <= after; n++) {
        const reply = await eventually("a line is written", async () => {
          return fleet.up[0]?.call(key, "add", [`${n}`, 1], `${key}-${n}`);
        });
        if (n === before) seq = reply.seq ?? 0;
      }
      const owner = await fleet.ownerOf(key);
      const { hit } = await armed(scene, [owner], { point, detail: OF_OBJECT(key) });
      const restore = async (): Promise<boolean> => {
        const node = fleet.up[0];
        return (await node?.client.restore(drillObject(key), { at: { seq } })) !== undefined;
      };
      const heard = restore().then(
        () => "answered",
        (error: { code?: string }) => error.code ?? "?",
      );
      await hit;
      const there = (await afterTakeover(scene, () => fleet.lines(key))).length;
      if (there !== before && there !== after) throw new DrillBroken(`${key} has ${there} lines`);
      // Of an object that is as restored, the drill's nodes keep no past from before that.
      if (there === after) await eventually(`${key} is restored`, restore);
      if ((await fleet.lines(key)).length !== before) throw new DrillBroken(`${key} was restored and is not as it was`);
      return { way: "operator", heard: await heard, after: there === before ? "restored" : "as before" };
    },
  };
}

/** The owner is killed, and then whoever is about to take its object over. */
function claimRow(name: string, point: FaultPoint, isShort: boolean): Row {
  return {
    name,
    isShort,
    times: 2,
    run: async (scene, index) => {
      const { fleet, load } = scene;
      const { key, owner } = await warmTarget(scene, index);
      const call = load.plan(key, "add");
      await load.settle(call);
      const others = fleet.up.filter((node) => node !== owner);
      const { hit } = await armed(scene, others, { point, detail: OF_OBJECT(key) });
      await owner.kill();
      await hit;
      if (!(await afterTakeover({ ...scene, isHurried: true }, () => isThere(scene, call))))
        throw new DrillBroken(`${call.id} was answered and is lost`);
      return { way: "other, id", heard: "answered", after: "there" };
    },
  };
}

const DOUBT = { hears: "doubt" } as const;

/** In the order of the table. */
export const TABLE: readonly Row[] = [
  callRow("while the call waits in the mailbox", "call.waits", true, { ...DOUBT, after: "not there" }),
  callRow("inside the method", "method.writes", true, { ...DOUBT, after: "not there" }),
  callRow("after COMMIT, before the flight left", "burst.committed", true, { ...DOUBT, after: "not there" }),
  callRow("flight at fewer than W journals", "flight.acknowledged", true, { ...DOUBT, after: "either" }),
  callRow("W journals acknowledged, reply not sent", "flight.released", true, { ...DOUBT, after: "there" }),
  callRow("reply sent, bucket not yet written", "leg.begins", true, { hears: "success", after: "there" }),
  callRow("segment written, manifest not", "leg.bodyWritten", true, {
    hears: "success",
    after: "there",
    detail: IN_BUCKET,
  }),
  callRow("manifest written, the owner does not know", "leg.landed", false, { hears: "success", after: "there" }),
  compactionRow("during compaction: snapshot written", "leg.bodyWritten", false, (key) => `/${key}/e.*\\.snap$`),
  compactionRow("during collection: nothing deleted", "collection.begins", false, OF_OBJECT),
  compactionRow("during collection: part deleted", "collection.deleted", true, OF_OBJECT),
  handoffRow("during handoff: landed, not released", "handover.landed", true),
  handoffRow("during handoff: released", "handover.released", false),
  claimRow("during takeover: epoch raised", "claim.raised", true),
  claimRow("during takeover: promises given", "claim.promised", false),
  restoreRow("during restore: made", "restore.made", false),
  restoreRow("during restore: claimed anew", "restore.claimed", true),
  restoreRow("during restore: landed", "restore.landed", false),
];

const EITHER = { hears: "any", after: "either" } as const;
const TIMER = { ...EITHER, kind: "arm" } as const;
const MESSAGE = { ...EITHER, kind: "tell" } as const;
const LATER = { ...MESSAGE, method: "tell_later", who: "all" } as const;
const COMMAND_OF = (key: string): string => `^default/Drill/${key}#`;

/** What a call obliges to: timers, messages, directory rows. */
export const OBLIGATIONS: readonly Row[] = [
  callRow("timer: committed, not listed", "owing.adds", true, { ...TIMER, isFresh: true }),
  callRow("timer: listed, not landed", "owing.listed", false, { ...TIMER, isFresh: true }),
  callRow("timer: landed, not registered", "wake.registers", true, TIMER),
  callRow("timer: registered", "wake.registered", false, TIMER),
  callRow("timer: fired, its shard does not know", "wake.ran", true, { ...TIMER, who: "all" }),
  callRow("message: committed, not listed", "owing.adds", false, { ...MESSAGE, isFresh: true }),
  callRow("message: landed, not sent", "message.sends", true, MESSAGE),
  callRow("message: arrived, still in its outbox", "message.sent", true, MESSAGE),
  callRow("delayed message: registered, not delivered", "delivery.begun", false, { ...LATER, detail: COMMAND_OF }),
  callRow("delayed message: delivered, no outcome noted", "delivery.done", true, { ...LATER, detail: COMMAND_OF }),
  callRow("delayed message: outcome noted", "delivery.noted", false, { ...LATER, who: "turns", detail: ANY }),
  callRow("directory: row landed, not told", "rows.tell", true, { ...EITHER, detail: ANY }),
  callRow("directory: row told", "rows.told", false, { ...EITHER, detail: ANY }),
];
