/**
 * Ledgers on a real S3 server behind a network that fails: a plan of lives is played on nodes of this process, whose worlds
 * are taken away as crashes do, and whatever they leave is held to the model.
 *
 * Time is real, so a plan played twice meets its faults at other moments: a failure is a finding, a pass is a sample.
 */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { AppSource } from "../../src/app-source.js";
import type { Bucket } from "../../src/bucket/bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import type { Observation } from "../../src/observation.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualWorld, WorldRevoked } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import { deferred } from "../../src/world/deferred.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { cutWith } from "../drill/cut-bucket.js";
import { argumentsOf, LedgerBroken, type LedgerCall, LedgerHistory } from "../drill/ledger-model.js";
import { callOf, type Draft } from "../drill/ledger-plans.js";
import { SeenEvents } from "../drill/seen-events.js";
import type { ArmedFault, Fault, FaultProxy, RequestMatch } from "../support/fault-proxy.js";
import { RealTime } from "./real-time.js";

export const KEYS = ["a", "b", "c"] as const;

/** Which requests a fault may strike. */
export type Target = "write" | "read" | "manifest" | "body" | "any";

/** As the proxy's; what lands late does so after a time. */
export type PlannedFault =
  | Exclude<Fault, { kind: "lands_late" }>
  | { readonly kind: "lands_late"; readonly afterMs: number };

export type Step =
  | { readonly kind: "call"; readonly key: number; readonly draft: Draft; readonly withId: boolean }
  | { readonly kind: "read"; readonly key: number }
  | { readonly kind: "wait"; readonly ms: number }
  /** Until every call and read has its answer. */
  | { readonly kind: "rest" }
  | { readonly kind: "fault"; readonly fault: PlannedFault; readonly requests: number; readonly target: Target };

export interface Life {
  readonly steps: readonly Step[];
  readonly end: { readonly kind: "stop" } | { readonly kind: "crash"; readonly afterMs: number };
  /** What of the node's disk is gone before it begins. */
  readonly lost: "nothing" | "objects" | "everything";
}

export interface Plan {
  readonly settings: Readonly<Record<string, number>>;
  readonly lives: readonly Life[];
}

export interface Played {
  readonly acknowledged: number;
  /** Kinds of the faults that struck. */
  readonly struck: readonly Fault["kind"][];
}

export interface Stage {
  readonly proxy: FaultProxy;
  /** Through the proxy, with a prefix of this play's own. */
  readonly bucketUrl: string;
  readonly app: AppSource;
  /** Empty. */
  readonly folder: string;
}

const REFUSED_STARTS = new Set(["bucket_failed", "bucket_unusable"]);
const STARTS_MAX = 100;
const AGAIN_MS = 50;
const TRIES_MAX = 100;
/** The last life has no faults, and all the time that it wants. */
const PATIENT = {
  OBJECT_ACK_GATE_MS: 60_000,
  CALL_TIMEOUT_MS: 60_000,
  BUCKET_TIMEOUT_MS: 60_000,
  OBJECT_SHIP_FAILURES_MAX: 6,
  DRAIN_MS: 60_000,
};

/** @throws LedgerBroken when a promise was broken */
export async function play(plan: Plan, stage: Stage): Promise<Played> {
  const player = new Player(plan, stage);
  try {
    for (const life of plan.lives) await player.live(life);
    return await player.finish();
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${player.trace.slice(-60).join("\n")}`, { cause: error });
  } finally {
    await player.end();
  }
}

class Player {
  readonly trace: string[] = [];
  readonly #plan: Plan;
  readonly #stage: Stage;
  readonly #time = new RealTime();
  readonly #histories = KEYS.map((key) => new LedgerHistory(`Ledger/${key}`));
  readonly #events = new SeenEvents();
  readonly #armed: ArmedFault[] = [];
  readonly #late: (() => void)[] = [];
  readonly #struck: Fault["kind"][] = [];
  /** Buckets of nodes that crashed: what they had sent still goes its way. */
  readonly #leaving: Promise<void>[] = [];
  readonly #underWay = new Set<Promise<void>>();
  #world: VirtualWorld;
  #bucket: Bucket | undefined;
  #node: MoonportNode | undefined;
  #failure: unknown;

  constructor(plan: Plan, stage: Stage) {
    this.#plan = plan;
    this.#stage = stage;
    const epochWallMs = Date.now() - performance.now();
    this.#world = new VirtualWorld({ time: this.#time, root: `${stage.folder}/node`, epochWallMs });
  }

  async live(life: Life): Promise<void> {
    if (life.lost === "objects") this.#world.folder.removeTree("objects");
    if (life.lost === "everything") this.#world.folder.removeTree(".");
    await this.#open(this.#plan.settings);
    for (const step of life.steps) {
      await this.#take(step);
      this.#assertWell();
    }
    if (life.end.kind === "stop") {
      await this.#stop();
    } else {
      await sleep(life.end.afterMs);
      this.#crash();
    }
    this.#assertWell();
  }

  async finish(): Promise<Played> {
    for (const armed of this.#armed) armed.disarm();
    for (const land of this.#late) land();
    await Promise.all(this.#leaving);
    await this.#open({ ...this.#plan.settings, ...PATIENT });
    for (const [index, history] of this.#histories.entries()) {
      this.#check(index, await this.#everything(index));
      for (const call of history.calls.filter(({ callId }) => callId !== undefined)) await this.#settle(index, call);
      this.#check(index, await this.#everything(index));
    }
    this.#assertWell();
    await this.#stop();
    const acknowledged = this.#histories.reduce((sum, history) => sum + history.acknowledged, 0);
    return { acknowledged, struck: this.#struck };
  }

  /** Whatever happened, nothing is left open. */
  async end(): Promise<void> {
    if (this.#node !== undefined) this.#crash();
    await this.#bucket?.stop();
    await Promise.all(this.#leaving);
    if (!this.#world.revoked) this.#world.revoke();
    this.#time.end();
  }

  async #open(settings: Readonly<Record<string, number>>): Promise<void> {
    const world = this.#world;
    for (let tries = 1; this.#node === undefined; tries++) {
      // A world of its own: what a node had sent goes its way when the node is no more.
      const resolved = resolveSettings({ HEALTH_INTERVAL_MS: 0, ...settings });
      const bucket = openBucket(this.#stage.bucketUrl, realWorld(this.#stage.folder, silentLogger), resolved);
      this.#bucket = bucket;
      try {
        await bucket.start();
        this.#node = await MoonportNode.open({
          world,
          bucket: cutWith(bucket, () => world.revoked),
          apps: [this.#stage.app],
          settings: resolved,
          onClassError: "refuse",
          observer: (observation) => this.#saw(observation),
        });
      } catch (error) {
        await bucket.stop();
        const isRefused = error instanceof MoonportError && REFUSED_STARTS.has(error.code);
        if (!isRefused || tries === STARTS_MAX) throw error;
        this.#note(`not opened: ${error.message}`);
        await sleep(AGAIN_MS);
      }
    }
    this.#note("opened");
  }

  async #stop(): Promise<void> {
    await this.#node?.stop();
    this.#node = undefined;
    await this.#bucket?.stop();
    this.#note("stopped");
  }

  #crash(): void {
    this.#note("crash");
    this.#node = undefined;
    this.#underWay.clear();
    this.#world = this.#world.crash();
    if (this.#bucket !== undefined) this.#leaving.push(this.#bucket.stop());
  }

  async #take(step: Step): Promise<void> {
    switch (step.kind) {
      case "call": {
        const tag = this.#history(step.key).calls.length + 1;
        this.#begin(this.#call(step.key, callOf(tag, step.draft, step.withId ? `call-${tag}` : undefined)));
        return;
      }
      case "read":
        this.#begin(this.#read(step.key));
        return;
      case "rest":
        await Promise.all(this.#underWay);
        return;
      case "wait":
        await sleep(step.ms);
        return;
      case "fault":
        for (let left = step.requests; left > 0; left--) this.#arm(step.fault, step.target);
    }
  }

  #begin(exchange: Promise<void>): void {
    this.#underWay.add(exchange);
    void exchange.then(() => this.#underWay.delete(exchange));
  }

  #arm(planned: PlannedFault, target: Target): void {
    let fault: Fault;
    if (planned.kind === "lands_late") {
      const until = deferred();
      this.#late.push(until.resolve);
      const { afterMs } = planned;
      fault = { kind: "lands_late", until: until.promise };
      const armed = this.#next(target, fault);
      void armed.struck.then(() => void setTimeout(until.resolve, afterMs));
      return;
    }
    fault = planned;
    this.#next(target, fault);
  }

  #next(target: Target, fault: Fault): ArmedFault {
    const armed = this.#stage.proxy.next(MATCHES[target], fault);
    this.#armed.push(armed);
    void armed.struck.then(({ method, key }) => {
      this.#struck.push(fault.kind);
      this.#note(`${JSON.stringify(fault)} strikes ${method} ${key}`);
    });
    return armed;
  }

  async #call(index: number, call: LedgerCall): Promise<void> {
    const asked = this.#history(index).asked(call);
    const { callId, operation } = call;
    const request = (): Promise<CallReply> => this.#request(index, operation.method, argumentsOf(call), callId);
    await this.#heard(`${KEYS[index]} ${call.tag} ${operation.method}`, request, asked.acknowledged, asked.failed);
  }

  async #read(index: number): Promise<void> {
    const heard = this.#history(index).reading();
    const request = (): Promise<CallReply> => this.#request(index, "everything", []);
    await this.#heard(`${KEYS[index]} read`, request, ({ value }) => heard(value), assertRetryable);
  }

  /** A machine that has lost its power tells nobody anything. */
  async #heard(
    what: string,
    request: () => Promise<CallReply>,
    answered: (reply: CallReply) => void,
    failed: (error: unknown) => void,
  ): Promise<void> {
    const world = this.#world;
    const outcome = await request().then(
      (reply) => ({ kind: "answered" as const, reply }),
      (error: unknown) => ({ kind: "failed" as const, error }),
    );
    if (world.revoked || (outcome.kind === "failed" && outcome.error instanceof WorldRevoked)) return;
    try {
      if (outcome.kind === "answered") {
        this.#note(`${what} -> ${JSON.stringify(outcome.reply).slice(0, 200)}`);
        answered(outcome.reply);
      } else {
        this.#note(`${what} -> ${outcome.error}`);
        failed(outcome.error);
      }
    } catch (broken) {
      this.#failure ??= broken;
    }
  }

  async #settle(index: number, call: LedgerCall): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      await this.#call(index, call);
      this.#assertWell();
      if (!this.#history(index).open.includes(call)) return;
      await sleep(AGAIN_MS);
    }
    throw new LedgerBroken(`no answer to ${JSON.stringify(call)}`);
  }

  async #everything(index: number): Promise<PlainValue> {
    for (let tries = 1; ; tries++) {
      try {
        return (await this.#request(index, "everything", [])).value;
      } catch (error) {
        assertRetryable(error);
        if (tries === TRIES_MAX) throw error;
      }
      await sleep(AGAIN_MS);
    }
  }

  #request(index: number, method: string, args: readonly PlainValue[], callId?: string): Promise<CallReply> {
    if (this.#node === undefined) throw new Error("there is no node to call");
    const object = identityOf("default", "Ledger", KEYS[index] ?? "");
    return this.#node.call({ object, method, args, caller: { kind: "client" }, ...(callId && { callId }) });
  }

  #saw(observation: Observation): void {
    try {
      this.#events.saw(observation);
    } catch (broken) {
      this.#failure ??= broken;
    }
  }

  #check(index: number, value: PlainValue): void {
    this.#events.check(`default/Ledger/${KEYS[index]}`, this.#history(index).check(value));
  }

  #history(index: number): LedgerHistory {
    const history = this.#histories[index];
    if (history === undefined) throw new Error(`there is no object ${index}`);
    return history;
  }

  #assertWell(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #note(what: string): void {
    this.trace.push(`${Math.round(performance.now())} ${what}`);
  }
}

/** Of the objects alone: a start that fails again and again tests nothing more. */
const MATCHES: Readonly<Record<Target, RequestMatch>> = {
  write: ({ method, key }) => isOfObject(key) && method !== "GET",
  read: ({ method, key }) => isOfObject(key) && method === "GET",
  manifest: ({ key }) => isOfObject(key) && key.endsWith("/manifest"),
  body: ({ key }) => isOfObject(key) && !key.endsWith("/manifest"),
  any: () => true,
};

function isOfObject(key: string): boolean {
  return key.includes("/objects/");
}

function assertRetryable(error: unknown): void {
  if (!(error instanceof MoonportError && error.retryable)) throw error;
}

/** For a play's node and what it leaves. */
export function makeFolder(parent: string, name: string): string {
  const folder = `${parent}/${name}`;
  fs.mkdirSync(`${folder}/node`, { recursive: true });
  return folder;
}
