/**
 * Those whose calls oblige to something later, in a simulation: clients have doers set timers, move and cancel them, send each
 * other messages, and give them commands with ids from outside. Each doer writes down what happens to it; in calm what they all
 * wrote down is held against what was asked, and against their directory.
 */
import type { CommandState, ObjectTimers } from "../../src/delay/contract.js";
import { asMoonportError } from "../../src/errors.js";
import type { FleetNode } from "../../src/fleet/fleet-node.js";
import { DEFAULT_APP, identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { FoundPage } from "../../src/node-api.js";
import type { SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import type { PlainValue } from "../../src/values.js";
import { sleep, uuidv7 } from "../../src/world/world.js";
import { checkDirectory } from "./check-directory.js";
import { type AskedCommand, type CommandStep, checkCommands, checkMessages, checkSettled } from "./check-messages.js";
import { checkAsked, checkTimers } from "./check-timers.js";
import { type AskedEntry, type Doer, ledgerOf } from "./ledger.js";
import { type PersistParts, persist, TIMEOUT_MS } from "./persist.js";

export interface DoersParts extends Omit<PersistParts, "random"> {
  readonly randomOf: (client: number) => SeededRandom;
  readonly count: number;
  /** The last so many of them are destroyed now and then. */
  readonly ending: number;
  readonly tell: (what: string) => void;
}

export interface DoersFault {
  readonly check: "stuck" | "timers" | "messages" | "directory";
  readonly what: string;
}

const CLIENTS = 3;
const CLIENT = { kind: "client" } as const;
const CLASS = "Doer";
/** More than there ever are. */
const PAGE = 1_000;
/** The longest. */
const DELAY_SECONDS = 4;
/** In calm, by then all that is owed was done. */
const DONE_MS = 12_000;
/** In calm, by then the directory has heard of the last writes. */
const TOLD_MS = 2_000;
const CRON_SECONDS = 2;
/** One that makes up for every missed run must not have thousands of them when a clock steps by hours. */
const LONG_PERIOD_SECONDS = 1_200;
const POLICIES = ["latest", "skip", "all"] as const;

export class Doers {
  readonly #parts: DoersParts;
  readonly #keys: readonly string[];
  readonly #asked: AskedEntry[] = [];
  readonly #commands: AskedCommand[] = [];
  readonly #following: Promise<void>[] = [];
  readonly #periodsMs = new Map<string, number>();
  /** Tokens of timers, by the object that has them. */
  readonly #timers = new Map<string, string[]>();
  readonly #stuck: DoersFault[] = [];
  readonly #recurring: { readonly key: string; readonly token: string }[] = [];
  #lastToken = 0;

  constructor(parts: DoersParts) {
    this.#parts = parts;
    this.#keys = Array.from({ length: parts.count }, (_, index) => `d${index}`);
  }

  async work(untilMs: number): Promise<void> {
    const clients = Array.from({ length: CLIENTS }, (_, client) => this.#client(client, untilMs));
    await Promise.all(clients);
    await Promise.all(this.#following);
  }

  /** In calm. @param wallClocks of the nodes: how far ahead of the outside they are, and how far apart they were at most */
  async end(wallClocks: { readonly aheadMs: number; readonly apartMs: number }): Promise<readonly DoersFault[]> {
    const { world } = this.#parts;
    const calmMs = world.clock.wallMs() + wallClocks.aheadMs;
    const skewMs = wallClocks.apartMs;
    await sleep(world, DONE_MS);
    const random = this.#parts.randomOf(CLIENTS);
    await Promise.all(this.#recurring.map(({ key, token }) => this.#ask(random, key, "cancel", undefined, [token])));
    await sleep(world, TOLD_MS);
    // Before anybody wakes them.
    const pages = await this.#findAll(random);
    const [doers, states] = [await this.#read(random), await this.#states(random)];
    if (this.#stuck.length > 0) return this.#stuck;
    const fault = (check: DoersFault["check"]) => (what: string) => ({ check, what });
    return [
      ...doers.flatMap((doer) => checkTimers(doer, this.#periodsMs, calmMs)).map(fault("timers")),
      ...doers.flatMap((doer) => checkAsked(doer, this.#asked)).map(fault("timers")),
      ...checkMessages(doers, skewMs).map(fault("messages")),
      ...checkCommands(this.#commands, doers, states, skewMs).map(fault("messages")),
      ...checkSettled(states).map(fault("messages")),
      ...[...pages].flatMap(([node, page]) => checkDirectory(node, page, doers)).map(fault("directory")),
    ];
  }

  // What clients do

  async #client(client: number, untilMs: number): Promise<void> {
    const { fleet, world } = this.#parts;
    const random = this.#parts.randomOf(client);
    while (fleet.time.nowMs < untilMs) {
      const key = pick(random, this.#keys);
      if (this.#isEnding(key) && random.fraction() < 0.2) await this.#destroy(random, key);
      else await this.#act(random, key);
      await sleep(world, random.below(random.fraction() < 0.2 ? 1_000 : 150));
    }
  }

  #act(random: SeededRandom, key: string): Promise<void> {
    const draw = random.fraction();
    if (draw < 0.25) return this.#setOne(random, key);
    if (draw < 0.31) return this.#setRecurring(random, key);
    if (draw < 0.45) return this.#changeOne(random, key);
    if (draw < 0.75) return this.#post(random, key);
    return this.#command(random, key);
  }

  #setOne(random: SeededRandom, key: string): Promise<void> {
    const token = this.#token(key);
    const links = random.fraction() < 0.3 ? 2 : 0;
    const method = random.fraction() < 0.5 ? "set" : "after";
    return this.#ask(random, key, method, token, [token, secondsOf(random) / (links + 1), links]);
  }

  async #setRecurring(random: SeededRandom, key: string): Promise<void> {
    const token = this.#token(key);
    const missed = pick(random, POLICIES);
    const seconds = missed === "all" ? LONG_PERIOD_SECONDS : CRON_SECONDS;
    this.#periodsMs.set(token, seconds * 1_000);
    this.#recurring.push({ key, token });
    if (missed !== "all" && random.fraction() < 0.3) {
      await this.#ask(random, key, "cron", token, [token, `*/${seconds} * * * * *`, missed]);
    } else await this.#ask(random, key, "every", token, [token, seconds, missed]);
  }

  async #changeOne(random: SeededRandom, key: string): Promise<void> {
    const tokens = this.#timers.get(key);
    if (tokens === undefined) return;
    const token = pick(random, tokens);
    const isMoving = random.fraction() < 0.5 && !this.#periodsMs.has(token);
    if (isMoving) await this.#ask(random, key, "move", undefined, [token, secondsOf(random)]);
    else await this.#ask(random, key, "cancel", undefined, [token]);
  }

  #post(random: SeededRandom, key: string): Promise<void> {
    const token = `m${++this.#lastToken}`;
    // What is destroyed forgets what it took, and may be given it once more: it hands nothing on.
    const kept = this.#keys.filter((one) => !this.#isEnding(one));
    const onward = [...Array.from({ length: random.below(3) }, () => pick(random, kept)), pick(random, this.#keys)];
    const delay = random.fraction() < 0.5 ? 0 : secondsOf(random) / onward.length;
    return this.#ask(random, key, "post", token, [token, delay, onward]);
  }

  async #command(random: SeededRandom, key: string): Promise<void> {
    const id = `c${++this.#lastToken}`;
    const tells = random.fraction() < 0.3 ? pick(random, this.#keys) : undefined;
    const steps: CommandStep[] = [];
    this.#commands.push({ id, key, tells, steps });
    steps.push(await this.#send(random, id, key, tells));
    for (let left = random.below(4); left > 1; left--) {
      await sleep(this.#parts.world, random.below(2_000));
      steps.push(await this.#change(random, id));
      if (steps.at(-1)?.kind === "cancel") break;
    }
    this.#parts.tell(`command ${id} ${key} ${JSON.stringify(steps)}`);
  }

  async #send(random: SeededRandom, id: string, key: string, tells: string | undefined): Promise<CommandStep> {
    const seconds = secondsOf(random);
    const dueMs = this.#parts.world.clock.wallMs() + seconds * 1_000;
    const request = {
      app: DEFAULT_APP,
      className: CLASS,
      key,
      method: "take",
      args: [id, 0, []],
      id,
      delayMs: seconds * 1_000,
    };
    const outcome = tells === undefined ? {} : { outcome: { className: CLASS, key: tells, method: "told" } };
    const asked = await persist(this.#persisting(random), {
      ask: (node) => node.ask((api) => api.delay.send({ ...request, ...outcome })),
      isReading: false,
      isRepeatable: true,
    });
    return { kind: "send", dueMs, ...asked };
  }

  async #change(random: SeededRandom, id: string): Promise<CommandStep> {
    const kind = random.fraction() < 0.5 ? "cancel" : "move";
    const delayMs = secondsOf(random) * 1_000;
    const dueMs = kind === "move" ? this.#parts.world.clock.wallMs() + delayMs : undefined;
    const asked = await persist(this.#persisting(random), {
      ask: (node) => node.ask(({ delay }) => (kind === "cancel" ? delay.cancel(id) : delay.move(id, { delayMs }))),
      isReading: false,
      isRepeatable: true,
    });
    return { kind, dueMs, ...asked };
  }

  async #destroy(random: SeededRandom, key: string): Promise<void> {
    const isFromInside = random.fraction() < 0.5;
    const object = objectOf(key);
    const { ended } = await persist(this.#persisting(random), {
      ask: (node) =>
        isFromInside
          ? node.call({ object, method: "leave", args: [], caller: CLIENT, timeoutMs: TIMEOUT_MS })
          : node.ask((api) => api.destroy(object)),
      isReading: false,
      isRepeatable: false,
    });
    this.#parts.tell(`destroy ${key} ${JSON.stringify(ended)}`);
  }

  /** @param token of the timer or message that it makes, if any */
  async #ask(
    random: SeededRandom,
    key: string,
    method: string,
    token: string | undefined,
    args: PlainValue[],
  ): Promise<void> {
    // What is destroyed forgets its calls' ids.
    const hasCallId = !this.#isEnding(key);
    const call = { object: objectOf(key), method, args, caller: CLIENT, timeoutMs: TIMEOUT_MS };
    const request = hasCallId ? { ...call, callId: uuidv7(this.#parts.world) } : call;
    const { ended } = await persist(this.#persisting(random), {
      ask: (node) => node.call(request),
      isReading: false,
      isRepeatable: hasCallId,
    });
    this.#parts.tell(`${key} ${method} ${JSON.stringify(args)} ${JSON.stringify(ended)}`);
    if (token !== undefined) this.#asked.push({ key, token, ended });
  }

  #token(key: string): string {
    const token = `t${++this.#lastToken}`;
    const tokens = this.#timers.get(key) ?? [];
    this.#timers.set(key, [...tokens, token]);
    return token;
  }

  #isEnding(key: string): boolean {
    return this.#keys.indexOf(key) >= this.#keys.length - this.#parts.ending;
  }

  #persisting(random: SeededRandom): PersistParts {
    const { fleet, world } = this.#parts;
    return { fleet, world, random };
  }

  // What is looked at in calm

  async #findAll(random: SeededRandom): Promise<ReadonlyMap<string, FoundPage>> {
    const pages = new Map<string, FoundPage>();
    for (const node of this.#parts.fleet.nodes.keys()) {
      const request = { app: DEFAULT_APP, className: CLASS, query: { limit: PAGE } };
      const page = await this.#look(random, `find through ${node}`, (api) => api.find(request), node);
      if (page !== undefined) pages.set(node, page);
    }
    return pages;
  }

  async #read(random: SeededRandom): Promise<readonly Doer[]> {
    const doers: Doer[] = [];
    for (const key of this.#keys) {
      const object = objectOf(key);
      const call = { object, method: "ledger", args: [], caller: CLIENT, timeoutMs: TIMEOUT_MS };
      const answer = await this.#look(random, `the ledger of ${key}`, (api) => api.call(call));
      const timers = await this.#look(random, `the timers of ${key}`, (api) => timersOf(api, object));
      if (answer === undefined || timers === undefined) continue;
      doers.push({ key, isEnding: this.#isEnding(key), ledger: ledgerOf(answer.value), timers });
    }
    return doers;
  }

  /** Of all commands, those that objects sent included. */
  async #states(random: SeededRandom): Promise<ReadonlyMap<string, CommandState>> {
    const list = await this.#look(random, "the list of commands", (api) => api.delay.list({ limit: PAGE }));
    return new Map((list ?? []).map(({ id, state }) => [id, state]));
  }

  async #look<T>(
    random: SeededRandom,
    what: string,
    look: (api: FleetNode) => Promise<T>,
    through?: string,
  ): Promise<T | undefined> {
    const ask = (node: SimulatedNode): Promise<T> => node.ask(look);
    const { ended } = await persist(this.#persisting(random), { ask, isReading: true, isRepeatable: true, through });
    if (ended.kind === "ok") return ended.value as T;
    this.#stuck.push({ check: "stuck", what: `in calm there is no answer for ${what}: ${ended.code}` });
    return undefined;
  }
}

function objectOf(key: string): ObjectIdentity {
  return identityOf(DEFAULT_APP, CLASS, key);
}

/** None of one that was never written, or is gone. */
async function timersOf(api: FleetNode, object: ObjectIdentity): Promise<ObjectTimers> {
  try {
    return await api.timers(object);
  } catch (error) {
    if (asMoonportError(error).code === "object_not_found") return { timers: [], runs: [] };
    throw error;
  }
}

function secondsOf(random: SeededRandom): number {
  return random.below(DELAY_SECONDS * 1_000) / 1_000;
}

function pick<T>(random: SeededRandom, from: readonly T[]): T {
  return from[random.below(from.length)] as T;
}
