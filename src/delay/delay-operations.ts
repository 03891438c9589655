/** What doors do with delayed commands: each is found in whichever shard has it, wherever that lives. */
import { MoonportError } from "../errors.js";
import { checkMethodName, identityOf } from "../identity.js";
import type { TimerPlan } from "../lua/contract.js";
import { dueTimeMs } from "../object/due-time.js";
import type { Settings } from "../settings/settings.js";
import { encodeValue } from "../store/value-codec.js";
import type { PlainObject, PlainValue } from "../values.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import { uuidv7, type World } from "../world/world.js";
import {
  type Changed,
  type ChangedAnswer,
  type CommandInfo,
  DELAY_PAGE_MAX,
  type DelayApi,
  type DelayedCommand,
  type DelayFilter,
  type LogEntry,
  type OutcomeTarget,
  type SendRequest,
  type SendTime,
  type ShardTally,
} from "./contract.js";
import type { DriverPort } from "./driver-port.js";
import type { Scheduler } from "./scheduler.js";
import type { Entry } from "./shard-entry.js";
import type { ShardMap } from "./shard-map.js";

export interface DelayOperationsParts {
  readonly world: World;
  readonly settings: Pick<Settings, "VALUE_BYTES_MAX" | "CALL_TIMEOUT_MS">;
  readonly port: Pick<DriverPort, "ask">;
  readonly scheduler: Scheduler;
  readonly shards: ShardMap;
  /** @throws MoonportError `app_not_found`, `class_not_found`, `method_not_found` */
  readonly checkMethod: (app: string, className: string, method: string) => void;
  /** Of classes in Lua alone. @throws MoonportError `app_not_found`, `class_not_found` */
  readonly checkClass: (app: string, className: string) => void;
}

const PAGE_DEFAULT = 100;
const EVENT_NAME_MAX = 256;

export class DelayOperations implements DelayApi {
  readonly #parts: DelayOperationsParts;

  constructor(parts: DelayOperationsParts) {
    this.#parts = parts;
  }

  async send(request: SendRequest): Promise<{ readonly id: string }> {
    const { world, settings, scheduler } = this.#parts;
    const { app, className, key, method, args, expiresMs = null, missed, outcome, caller = {} } = request;
    const id = checkedId(request.id ?? uuidv7(world));
    const target = identityOf(app, className, key);
    checkMethodName(method);
    this.#parts.checkMethod(app, className, method);
    if (outcome !== undefined) this.#checkOutcome(app, outcome);
    const plan = { ...this.#plan(request), ...(missed !== undefined && { missed }) };
    await scheduler.schedule({
      id,
      app: target.app,
      className,
      key,
      method,
      args: encodeValue([...args], settings.VALUE_BYTES_MAX, `the arguments of ${className}.${method}`),
      argsHash: null,
      plan,
      expiresMs,
      caller: { ...caller } as PlainObject,
      outcome: outcome === undefined ? null : { ...outcome },
      triedAs: null,
      isFresh: request.id === undefined,
    });
    return { id };
  }

  async list({ limit = PAGE_DEFAULT, ...filter }: DelayFilter): Promise<readonly CommandInfo[]> {
    const count = Math.min(limit, DELAY_PAGE_MAX);
    const asked = { ...filter, limit: count } as unknown as PlainObject;
    const pages = await this.#ofAll((shard) => this.#ask(shard, "list", [asked]));
    const found = pages.flatMap((page, shard) => (page as PlainObject[]).map((one) => infoOf(one, shard)));
    // As the shards compare them, by their UTF-8 bytes.
    return found.sort((one, other) => Buffer.compare(Buffer.from(one.id), Buffer.from(other.id))).slice(0, count);
  }

  async get(id: string): Promise<DelayedCommand | undefined> {
    return (await this.#find(id))[0];
  }

  cancel(id: string): Promise<ChangedAnswer> {
    return this.#change(id, { kind: "cancel", id });
  }

  move(id: string, time: SendTime): Promise<ChangedAnswer> {
    return this.#change(id, { kind: "move", id, plan: { ...this.#plan(time) } });
  }

  async retry(id: string): Promise<boolean> {
    const [found] = await this.#find(id);
    if (found === undefined) return false;
    return (await this.#parts.scheduler.append(found.command.shard, { kind: "retry", id })) === true;
  }

  async log(shard: number, after: number, limit: number): Promise<readonly LogEntry[]> {
    const { count } = this.#parts.shards;
    if (!Number.isInteger(shard) || shard < 0 || shard >= count) {
      throw MoonportError.of("bad_option", `there is no delay shard ${shard}: they are 0 to ${count - 1}`);
    }
    const entries = await this.#ask(shard, "log", [{ after, limit: Math.min(limit, DELAY_PAGE_MAX) }]);
    return (entries as PlainObject[]).map((entry) => ({ ...(entry as PlainObject & Omit<LogEntry, "shard">), shard }));
  }

  async tallies(): Promise<readonly ShardTally[]> {
    const tallies = await this.#ofAll((shard) => this.#ask(shard, "tally", []));
    return tallies.map((tally, shard) => ({ ...(tally as PlainObject & Omit<ShardTally, "shard">), shard }));
  }

  async #change(id: string, entry: Entry): Promise<ChangedAnswer> {
    const { world, settings, scheduler } = this.#parts;
    const [found] = await this.#find(id);
    if (found === undefined) return "unknown";
    const untilMs = world.clock.monotonicMs() + settings.CALL_TIMEOUT_MS;
    for (let failures = 1; ; failures++) {
      const answer = (await scheduler.append(found.command.shard, entry)) as Changed;
      if (answer !== "delivering") return answer;
      if (world.clock.monotonicMs() >= untilMs) throw underWay(id);
      await scheduler.pause(failures);
    }
  }

  #checkOutcome(app: string, outcome: OutcomeTarget): void {
    identityOf(app, outcome.className, outcome.key);
    if ("method" in outcome) return this.#parts.checkMethod(app, outcome.className, outcome.method);
    this.#parts.checkClass(app, outcome.className);
    if (outcome.event.length > 0 && outcome.event.length <= EVENT_NAME_MAX) return;
    throw MoonportError.of("bad_option", `the name of an event has 1 to ${EVENT_NAME_MAX} characters`);
  }

  /** @throws MoonportError `id_conflict` when commands of several objects have the id */
  async #find(id: string): Promise<DelayedCommand[]> {
    const answers = await this.#ofAll((shard) => this.#ask(shard, "get", [id]));
    const found = answers.flatMap((answer, shard) => {
      if (answer === null) return [];
      const { command, runs } = answer as PlainObject & { command: PlainObject; runs: PlainValue[] };
      return [{ command: infoOf(command, shard), runs: runs as unknown as DelayedCommand["runs"] }];
    });
    if (found.length <= 1) return found;
    const objects = found.map(({ command }) => command.object);
    throw MoonportError.of("id_conflict", `commands for ${objects.join(" and ")} have the id ${id}`, {
      hint: "make a fresh id for every command",
    });
  }

  /** @throws MoonportError `bad_option`, `bad_value` */
  #plan(time: SendTime): TimerPlan & PlainObject {
    const { delayMs, atMs, everyMs, cron, timeZone } = time;
    const given = [delayMs, atMs, everyMs, cron].filter((one) => one !== undefined);
    if (given.length > 1 || (timeZone !== undefined && cron === undefined)) {
      throw MoonportError.of(
        "bad_option",
        "give one of a delay, a time, an interval or a cron expression, and a time zone with the last",
      );
    }
    const nowMs = this.#parts.world.clock.wallMs();
    const plan = planOf(time, nowMs);
    dueTimeMs(plan, nowMs);
    return plan;
  }

  #ask(shard: number, method: string, args: PlainValue[]): Promise<PlainValue> {
    return this.#parts.port.ask(shard, method, args);
  }

  #ofAll<T>(ask: (shard: number) => Promise<T>): Promise<T[]> {
    return Promise.all(this.#parts.shards.all.map(ask));
  }
}

function planOf({ delayMs = 0, atMs, everyMs, cron, timeZone }: SendTime, nowMs: number): TimerPlan & PlainObject {
  if (cron !== undefined) return { kind: "cron", expression: cron, ...(timeZone !== undefined && { timeZone }) };
  if (everyMs !== undefined) return { kind: "every", everyMs };
  // As a time, so that a repeat of the request under its id is the same command.
  return { kind: "at", atMs: Math.ceil(atMs ?? nowMs + delayMs) };
}

function infoOf(shown: PlainObject, shard: number): CommandInfo {
  return { ...(shown as PlainObject & Omit<CommandInfo, "shard">), shard };
}

/** `#` and `~` are for the ids that Moonport makes. @throws MoonportError `bad_option` */
function checkedId(id: string): string {
  if (isCallId(id) && !/[#~]/.test(id)) return id;
  throw MoonportError.of("bad_option", `"${id.slice(0, 80)}" is no command id`, {
    hint: `${CALL_ID_GRAMMAR}, and neither # nor ~`,
  });
}

function underWay(id: string): MoonportError {
  return MoonportError.of(
    "delivery_under_way",
    `command ${id} is being delivered, and nobody knows yet what it comes to`,
    {
      hint: "ask again shortly",
      retryAfterMs: 1_000,
    },
  );
}
