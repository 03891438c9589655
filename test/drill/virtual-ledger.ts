/**
 * Ledgers under virtual time: a plan of lives is played on a real node with a memory bucket, crashes and bucket faults
 * included, and whatever it leaves is held to the model. The same plan gives the same trace.
 *
 * A crash comes at a numbered point: before a timer's or a turn's callback runs, or before an operation on the folder. So
 * there is a point between any two awaits that something outside the code resolves.
 */
import { createHash } from "node:crypto";
import type { AppSource } from "../../src/app-source.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import type { BucketOperation, Fault } from "../../src/bucket/memory-faults.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import type { Observation } from "../../src/observation.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld, WorldRevoked } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import type { Timer } from "../../src/world/world.js";
import { cutWith } from "./cut-bucket.js";
import { argumentsOf, LedgerBroken, type LedgerCall, LedgerHistory } from "./ledger-model.js";
import { callOf, type Draft } from "./ledger-plans.js";
import { SeenEvents } from "./seen-events.js";

export const KEYS = ["a", "b", "c"] as const;

export type Step =
  | { readonly kind: "call"; readonly key: number; readonly draft: Draft; readonly withId: boolean }
  | { readonly kind: "read"; readonly key: number }
  | { readonly kind: "wait"; readonly ms: number }
  | {
      readonly kind: "fault";
      readonly fault: Fault;
      readonly requests: number;
      readonly operations: readonly BucketOperation[];
    };

export interface Life {
  readonly steps: readonly Step[];
  /**
   * `crash`: so many points after a step was taken (0: after the start began), or after all steps when that is sooner.
   */
  readonly end:
    | { readonly kind: "stop" }
    | { readonly kind: "crash"; readonly afterStep: number; readonly points: number };
  /** The local files are gone before it begins. */
  readonly wiped: boolean;
}

export interface Plan {
  readonly atomic: boolean;
  readonly latencyMs: number;
  readonly settings: Readonly<Record<string, number>>;
  /** Time passes while Lua runs, so that methods come in slices and reads between them. */
  readonly isSliced?: boolean;
  readonly lives: readonly Life[];
}

export interface Played {
  readonly trace: readonly string[];
  /** Points of all lives together. */
  readonly points: number;
  readonly acknowledged: number;
}

/** So much that a short method takes a few slices of a millisecond. */
const LOOK_COST_MS = 0.4;
/** How long a life goes on after its last step before it ends. */
const REST_MS = 50;
/** A caller who is told to try again does so after this, and so often. */
const AGAIN_MS = 1_000;
const TRIES_MAX = 5;
/** What a node may say of a bucket that fails while it starts. */
const REFUSED_STARTS = new Set(["bucket_failed", "bucket_unusable"]);
/** What was sent late has arrived after this. */
const SETTLED_MS = 60_000;

/** @throws LedgerBroken when a promise was broken */
export async function play(plan: Plan, app: AppSource, folder: string): Promise<Played> {
  const player = new Player(plan, app, folder);
  try {
    for (const life of plan.lives) await player.live(life);
    await player.finish();
  } finally {
    player.end();
  }
  return player.played();
}

/** Virtual time that says when anything is about to run. */
class CountedTime extends VirtualTime {
  point: () => void = () => {};

  override after(delayMs: number, run: () => void): Timer {
    return super.after(delayMs, () => this.#run(run));
  }

  override soon(run: () => void): Timer {
    return super.soon(() => this.#run(run));
  }

  #run(run: () => void): void {
    this.point();
    try {
      run();
    } catch (error) {
      // Code that was running when the power went does not run on.
      if (!(error instanceof WorldRevoked)) throw error;
    }
  }
}

class Player {
  readonly #plan: Plan;
  readonly #app: AppSource;
  readonly #time = new CountedTime();
  readonly #bucket: MemoryBucket;
  readonly #histories = KEYS.map((key) => new LedgerHistory(`Ledger/${key}`));
  readonly #events = new SeenEvents();
  readonly #trace: string[] = [];
  #world: VirtualWorld;
  #node: MoonportNode | undefined;
  #points = 0;
  #crashPoint = Number.POSITIVE_INFINITY;
  #failure: unknown;

  constructor(plan: Plan, app: AppSource, folder: string) {
    this.#plan = plan;
    this.#app = app;
    this.#world = new VirtualWorld({ time: this.#time, root: `${folder}/node`, seed: 1 });
    this.#slice();
    const cloud = new VirtualWorld({ time: this.#time, root: `${folder}/cloud`, seed: 2 });
    this.#bucket = new MemoryBucket(cloud, { atomic: plan.atomic, latencyMs: plan.latencyMs, timeoutMs: 2_000 });
    this.#time.point = () => this.#pass();
  }

  async live(life: Life): Promise<void> {
    if (this.#node === undefined && this.#points === 0) await this.#bucket.start();
    if (life.wiped) this.#world.folder.removeTree("objects");
    this.#crashPoint = Number.POSITIVE_INFINITY;
    this.#armCrash(life, 0);
    await this.#open();
    for (const [index, step] of life.steps.entries()) {
      if (this.#node === undefined) break;
      this.#armCrash(life, index + 1);
      await this.#take(step);
      this.#assertWell();
    }
    if (this.#node !== undefined) await this.#time.advance(REST_MS);
    if (this.#node !== undefined && life.end.kind === "stop") await this.#stop();
    if (this.#node !== undefined) this.#crash();
    this.#assertWell();
  }

  /** The last life, without any trouble: all is held to the model, and what is open is asked again. */
  async finish(): Promise<void> {
    this.#crashPoint = Number.POSITIVE_INFINITY;
    this.#bucket.faults.clear();
    await this.#time.advance(SETTLED_MS);
    await this.#open();
    for (const [index, history] of this.#histories.entries()) {
      this.#check(index, await this.#everything(index));
      const again = history.calls.filter(({ callId }) => callId !== undefined);
      // One at a time: a mailbox may be as short as two.
      for (const call of again) await this.#settle(index, call);
      this.#check(index, await this.#everything(index));
    }
    await this.#stop();
  }

  #slice(): void {
    if (this.#plan.isSliced) this.#world.lookCostMs = LOOK_COST_MS;
  }

  /** Whatever happened, nothing is left open. */
  end(): void {
    if (!this.#world.revoked) this.#crash();
  }

  played(): Played {
    const acknowledged = this.#histories.reduce((sum, history) => sum + history.acknowledged, 0);
    const contents = createHash("sha256");
    for (const key of this.#bucket.contents.list("", undefined, Number.MAX_SAFE_INTEGER).keys) {
      contents.update(key).update(this.#bucket.contents.get(key)?.bytes ?? "");
    }
    return { trace: [...this.#trace, `bucket ${contents.digest("hex")}`], points: this.#points, acknowledged };
  }

  #armCrash({ end, steps }: Life, step: number): void {
    if (end.kind === "crash" && Math.min(end.afterStep, steps.length) === step)
      this.#crashPoint = this.#points + end.points;
  }

  #pass(): void {
    this.#points++;
    if (this.#points === this.#crashPoint && !this.#world.revoked) this.#crash();
  }

  #crash(): void {
    this.#note("crash");
    this.#node = undefined;
    this.#world = this.#world.crash();
    this.#slice();
  }

  async #open(): Promise<void> {
    const world = this.#world;
    world.folder.intercept = () => {
      this.#pass();
      if (world.revoked) throw new WorldRevoked();
    };
    while (!world.revoked && this.#node === undefined) {
      const opening = MoonportNode.open({
        world,
        bucket: cutWith(this.#bucket, () => world.revoked),
        apps: [this.#app],
        settings: resolveSettings({ METHOD_SLICE_MS: 1, ...this.#plan.settings }),
        onClassError: "refuse",
        observer: (observation) => {
          this.#note(JSON.stringify(observation));
          this.#saw(observation);
        },
      });
      try {
        const node = await this.#time.until(opening);
        if (!world.revoked) this.#node = node;
      } catch (error) {
        if (world.revoked) return;
        if (!(error instanceof MoonportError && REFUSED_STARTS.has(error.code))) throw error;
        this.#note(`not opened: ${error.code}`);
        await this.#time.advance(1_000);
      }
    }
  }

  async #stop(): Promise<void> {
    const node = this.#node;
    const world = this.#world;
    if (node === undefined) return;
    try {
      await this.#time.until(node.stop());
    } catch (error) {
      if (!world.revoked) throw error;
    }
    this.#note("stopped");
    if (!world.revoked) this.#node = undefined;
  }

  async #take(step: Step): Promise<void> {
    switch (step.kind) {
      case "call": {
        const history = this.#history(step.key);
        const tag = history.calls.length + 1;
        void this.#call(step.key, callOf(tag, step.draft, step.withId ? `call-${tag}` : undefined));
        return;
      }
      case "read":
        void this.#read(step.key);
        return;
      case "wait":
        return await this.#time.advance(step.ms);
      case "fault":
        this.#bucket.faults.failNext(step.requests, step.fault, step.operations);
    }
  }

  /** Resolves when it is answered; what the answer says goes into the history. */
  async #call(index: number, call: LedgerCall): Promise<void> {
    const asked = this.#history(index).asked(call);
    const { callId, operation } = call;
    const request = (): Promise<CallReply> => this.#request(index, operation.method, argumentsOf(call), callId);
    await this.#heard(`${KEYS[index]} ${call.tag}`, request, asked.acknowledged, asked.failed);
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
    // The power may go while the node takes the request in.
    const world = this.#world;
    const outcome = await request().then(
      (reply) => ({ kind: "answered" as const, reply }),
      (error: unknown) => ({ kind: "failed" as const, error }),
    );
    if (world.revoked) return;
    try {
      if (outcome.kind === "answered") {
        this.#note(`${what} -> ${JSON.stringify(outcome.reply)}`);
        answered(outcome.reply);
      } else {
        this.#note(`${what} -> ${outcome.error}`);
        failed(outcome.error);
      }
    } catch (broken) {
      this.#failure ??= broken;
    }
  }

  /** Asks until there is an answer: a gate shorter than the way to the bucket lets none through before all has landed. */
  async #settle(index: number, call: LedgerCall): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      await this.#time.until(this.#call(index, call));
      this.#assertWell();
      if (!this.#history(index).open.includes(call)) return;
      await this.#time.advance(AGAIN_MS);
    }
    throw new LedgerBroken(`no answer to ${JSON.stringify(call)}`);
  }

  async #everything(index: number): Promise<PlainValue> {
    for (let tries = 1; ; tries++) {
      try {
        return (await this.#time.until(this.#request(index, "everything", []))).value;
      } catch (error) {
        assertRetryable(error);
        if (tries === TRIES_MAX) throw error;
      }
      await this.#time.advance(AGAIN_MS);
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
    this.#trace.push(`${this.#time.nowMs} ${what}`);
  }
}

function assertRetryable(error: unknown): void {
  if (!(error instanceof MoonportError && error.retryable)) throw error;
}
