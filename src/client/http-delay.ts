/** Delayed commands of a running node, over its HTTP door. */
import type {
  ChangedAnswer,
  CommandInfo,
  DelayApi,
  DelayedCommand,
  DelayFilter,
  LogEntry,
  SendRequest,
  SendTime,
  ShardTally,
} from "../delay/contract.js";
import type { PlainValue } from "../values.js";
import { wireJson } from "../wire/wire-json.js";
import { uuidv7, type World } from "../world/world.js";

export interface Asking {
  readonly world: Pick<World, "clock" | "random">;
  get(path: string): Promise<unknown>;
  /** @param callId under which a repeat sends nothing twice */
  send(path: string, body: string, callId: string): Promise<unknown>;
  /** Asked once: the answer to a repeat would be another. */
  change(path: string): Promise<unknown>;
}

const ADMIN = "/v1/admin/delay";

export class HttpDelay implements DelayApi {
  readonly #asking: Asking;

  constructor(asking: Asking) {
    this.#asking = asking;
  }

  /** A repeat under the id that it makes sends nothing twice. The node sees its own caller, whatever the request says. */
  async send(request: SendRequest): Promise<{ readonly id: string }> {
    const { app, className, key, method, args, expiresMs, missed, outcome } = request;
    const id = request.id ?? uuidv7(this.#asking.world);
    const query = queryOf({
      ...timeFields(request),
      id,
      expires: expiresMs === undefined ? undefined : seconds(expiresMs),
      missed,
      ...outcomeFields(outcome),
    });
    const path = `/v1/${app}/${className}/${encodeURIComponent(key)}/-/send/${encodeURIComponent(method)}${query}`;
    return (await this.#asking.send(path, wireJson([...args] as PlainValue[]), id)) as { id: string };
  }

  async list({ states, app, object, after, limit }: DelayFilter): Promise<readonly CommandInfo[]> {
    const query = queryOf({ state: states?.join(","), app, object, after, limit: limit?.toString() });
    return ((await this.#asking.get(`${ADMIN}${query}`)) as { commands: CommandInfo[] }).commands;
  }

  async get(id: string): Promise<DelayedCommand | undefined> {
    const { found, ...rest } = (await this.#asking.get(pathOf(id))) as { found: boolean } & DelayedCommand;
    return found ? rest : undefined;
  }

  async cancel(id: string): Promise<ChangedAnswer> {
    return ((await this.#asking.change(`${pathOf(id)}/cancel`)) as { answer: ChangedAnswer }).answer;
  }

  async move(id: string, time: SendTime): Promise<ChangedAnswer> {
    const path = `${pathOf(id)}/move${queryOf(timeFields(time))}`;
    return ((await this.#asking.change(path)) as { answer: ChangedAnswer }).answer;
  }

  async retry(id: string): Promise<boolean> {
    return ((await this.#asking.change(`${pathOf(id)}/retry`)) as { retried: boolean }).retried;
  }

  async log(shard: number, after: number, limit: number): Promise<readonly LogEntry[]> {
    const query = queryOf({ after: String(after), limit: String(limit) });
    return ((await this.#asking.get(`${ADMIN}-log/${shard}${query}`)) as { entries: LogEntry[] }).entries;
  }

  async tallies(): Promise<readonly ShardTally[]> {
    return ((await this.#asking.get(`${ADMIN}-shards`)) as { shards: ShardTally[] }).shards;
  }
}

function pathOf(id: string): string {
  return `${ADMIN}/${encodeURIComponent(id)}`;
}

function timeFields({ delayMs, atMs, everyMs, cron, timeZone }: SendTime): Record<string, string | undefined> {
  return {
    delay: delayMs === undefined ? undefined : `${delayMs}ms`,
    at: atMs === undefined ? undefined : seconds(atMs),
    every: everyMs === undefined ? undefined : `${everyMs}ms`,
    cron,
    tz: timeZone,
  };
}

function outcomeFields(outcome: SendRequest["outcome"]): Record<string, string> {
  if (outcome === undefined) return {};
  const object = `${outcome.className}/${outcome.key}`;
  if ("method" in outcome) return { outcome: `${object}/${outcome.method}` };
  return { outcome_event: `${object}/${outcome.event}` };
}

function seconds(ms: number): string {
  return String(ms / 1_000);
}

function queryOf(fields: Readonly<Record<string, string | undefined>>): string {
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
