/**
 * Clients at work on the fleet while it is drilled: writes, timers, messages and reads of several objects through all nodes that
 * answer. A call with an id whose answer did not come is repeated until it is answered; one without is left in doubt.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ErrorCode, MoonportError } from "../../src/errors.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import type { PlainValue } from "../../src/values.js";
import type { DrillNode } from "./drill-node.js";
import { CALM_MAX_MS, type DrillFleet, eventually } from "./fleet.js";
import { type CallKind, DrillBroken, type Line, ObjectModel, owedBy } from "./model.js";

export interface LoadOptions {
  readonly fleet: DrillFleet;
  readonly random: SeededRandom;
  /** Of all objects that are checked. */
  readonly keys: readonly string[];
  /** Of those that callers use by themselves. Default: all. */
  readonly loaded?: readonly string[];
  readonly callers: number;
  /** Pause of a caller between two calls. Default 20 ms. */
  readonly pauseMs?: number;
}

export interface Planned {
  readonly id: string;
  readonly key: string;
  readonly kind: CallKind;
  readonly method: string;
  readonly args: readonly PlainValue[];
}

/** What was heard of one call. */
export type Heard = "answered" | (string & {});

/** Timers and delayed messages are due soon, so that their shards are always at work. */
const DELAY_MAX_MS = 1_500;
const REFUSED_PAUSE_MS = 50;

export class Load {
  readonly #options: LoadOptions;
  readonly #models: Map<string, ObjectModel>;
  #count = 0;
  #fresh = 0;
  #isOver = false;
  #onlyWrites = false;
  #running: Promise<unknown> | undefined;
  #broken: unknown;
  /** Errors that the world's fault explains, though a caller need not try again. */
  #explained: ReadonlySet<string> = new Set();

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#models = new Map(options.keys.map((key) => [key, new ObjectModel(key)]));
  }

  get acknowledged(): number {
    return [...this.#models.values()].reduce((sum, model) => sum + model.acknowledged, 0);
  }

  /** Calls of which nobody will ever know. */
  get open(): number {
    return [...this.#models.values()].reduce((sum, model) => sum + model.open, 0);
  }

  get keys(): readonly string[] {
    return this.#options.keys;
  }

  /** Meanwhile no call asks for a timer or a message. */
  async onlyWrites(run: () => Promise<void>): Promise<void> {
    this.#onlyWrites = true;
    await run().finally(() => {
      this.#onlyWrites = false;
    });
  }

  /** Until the next start a call may meet this error, and then nothing of that try is kept. */
  explain(code: ErrorCode): void {
    this.#explained = new Set([code]);
  }

  start(): void {
    this.#isOver = false;
    this.#broken = undefined;
    this.#explained = new Set();
    const callers = Array.from({ length: this.#options.callers }, () => this.#caller());
    this.#running = Promise.all(callers).catch((error: unknown) => {
      this.#broken ??= error;
      this.#isOver = true;
    });
  }

  /** Resolves when each call with an id was answered. @throws what a caller has found broken */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    this.throwBroken();
  }

  throwBroken(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  /**
   * One call through one node, once.
   * @param hasId whether it carries its id, and so may be repeated by {@link settle}
   */
  async once(node: DrillNode, call: Planned, hasId: boolean): Promise<Heard> {
    const asked = this.#modelOf(call.key).asked(call.id, call.kind);
    try {
      const { value } = await node.call(call.key, call.method, call.args, hasId ? call.id : undefined);
      asked.acknowledged(value);
      return "answered";
    } catch (error) {
      asked.failed(error, this.#explained);
      return (error as MoonportError).code;
    }
  }

  /** Again, under its id, through whoever is up, until it is answered. */
  async settle(call: Planned): Promise<void> {
    await eventually(
      `${call.id} is answered`,
      async () => {
        const node = this.#anyNode();
        if (node !== undefined && (await this.once(node, call, true)) === "answered") return true;
        await sleep(REFUSED_PAUSE_MS);
        return false;
      },
      2 * CALM_MAX_MS,
    );
  }

  /** Of an object that nobody has used, `fresh-1` and so on; it is checked as all others are. */
  freshKey(): string {
    const key = `fresh-${++this.#fresh}`;
    this.#models.set(key, new ObjectModel(key));
    return key;
  }

  plan(key: string, kind: CallKind): Planned {
    const { random, keys, loaded = keys } = this.#options;
    const id = `${key}-${++this.#count}`;
    const delayMs = random.below(DELAY_MAX_MS);
    const other = loaded[random.below(loaded.length)] as string;
    switch (kind) {
      case "add":
        return { id, key, kind, method: "add", args: [id, 1 + random.below(200)] };
      case "arm":
        return { id, key, kind, method: "arm", args: [id, delayMs] };
      case "tell":
        if (random.below(2) === 0) return { id, key, kind, method: "tell", args: [id, other] };
        return { id, key, kind, method: "tell_later", args: [id, other, delayMs] };
    }
  }

  /**
   * What all objects hold is what it must be; with all nodes up also: nothing is owed, and the directory says the same of each.
   * @throws DrillBroken
   */
  async check(fleet = this.#options.fleet): Promise<void> {
    await this.#settled(fleet);
    for (const node of fleet.up) {
      for (const [key, model] of this.#models) {
        const heard = model.reading();
        heard(await fleet.lines(key, node));
      }
    }
  }

  async #settled(fleet: DrillFleet): Promise<void> {
    let owed: string[] = [];
    const isSettled = async (attempt: number): Promise<boolean> => {
      const lists = new Map<string, readonly Line[]>();
      for (const [key, model] of this.#models) {
        const heard = model.reading();
        const lines = await fleet.lines(key);
        heard(lines);
        lists.set(key, lines);
      }
      owed = owedBy(lists);
      if (owed.length > 0) return false;
      const node = fleet.up[attempt % fleet.up.length];
      if (node === undefined) return false;
      const { rows } = await node.client.find({ app: "default", className: "Drill", query: { limit: 100 } });
      owed = [...lists].flatMap(([key, lines]) => {
        const last = lines.at(-1);
        const row = rows.find((one) => one.key === key)?.row;
        const isRight = last === undefined || (row?.lines === last.n && row.last === `${last.kind} ${last.id}`);
        return isRight ? [] : [`the directory's row of ${key}, ${last.n} lines and not ${String(row?.lines)}`];
      });
      return owed.length === 0;
    };
    await eventually("nothing is owed", isSettled).catch((error: unknown) => {
      if (owed.length === 0) throw error;
      throw new DrillBroken(`${(error as Error).message}: ${owed.slice(0, 5).join(", ")} (${owed.length} in all)`);
    });
  }

  async #caller(): Promise<void> {
    const { random, keys, loaded = keys, pauseMs = 20 } = this.#options;
    while (!this.#isOver) {
      await sleep(random.below(2 * pauseMs));
      const key = loaded[random.below(loaded.length)] as string;
      if (random.below(10) === 0) await this.#read(key);
      else await this.#write(key);
    }
  }

  async #read(key: string): Promise<void> {
    const heard = this.#modelOf(key).reading();
    try {
      const lines = (await this.#anyNode()?.read(key, "lines")) as readonly Line[] | undefined;
      if (lines !== undefined) heard(lines);
    } catch (error) {
      if (!(error instanceof MoonportError)) throw error;
      if (!error.retryable && !this.#explained.has(error.code))
        throw new DrillBroken(`a read of ${key} met ${error.code}: ${error.message}`);
    }
  }

  async #write(key: string): Promise<void> {
    const { random } = this.#options;
    const kinds: readonly CallKind[] = this.#onlyWrites ? ["add"] : ["add", "add", "add", "arm", "tell"];
    const call = this.plan(key, kinds[random.below(kinds.length)] as CallKind);
    const node = this.#anyNode();
    if (node === undefined) return;
    const hasId = random.below(5) > 0;
    if ((await this.once(node, call, hasId)) !== "answered" && hasId) await this.settle(call);
  }

  #anyNode(): DrillNode | undefined {
    const { up } = this.#options.fleet;
    return up[this.#options.random.below(up.length)];
  }

  #modelOf(key: string): ObjectModel {
    const model = this.#models.get(key);
    if (model === undefined) throw new Error(`no object of the drill is called ${key}`);
    return model;
  }
}
