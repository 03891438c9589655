/**
 * Gives commands to their shards, wherever those live. What comes for one shard while another write of it is under way rides
 * the next one. Large argument lists go into the bucket before.
 */
import { asMoonportError, type ErrorCode, isOwn, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { sleep, type World } from "../world/world.js";
import type { ArgumentStore } from "./argument-store.js";
import type { CommandRequest } from "./command.js";
import type { DriverPort } from "./driver-port.js";
import type { Entry } from "./shard-entry.js";
import type { ShardMap } from "./shard-map.js";

export interface SchedulerParts {
  readonly world: World;
  readonly settings: Pick<
    Settings,
    "DELAY_BATCH_MAX" | "DELAY_LOG_ENTRIES_MAX" | "DELAY_ARGUMENTS_BYTES_MAX" | "CALL_TIMEOUT_MS"
  >;
  readonly port: Pick<DriverPort, "ask">;
  readonly arguments: ArgumentStore;
  readonly shards: ShardMap;
}

/** `isFresh`: its id was made for it just now, and nobody can have given it to a shard. */
export type ScheduledCommand = CommandRequest & { readonly isFresh?: boolean };

interface Waiting {
  readonly entry: Entry;
  readonly result: Deferred<PlainValue>;
}

const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 1_000;
/** It may have been written, or not: entries can be written twice. */
const AGAIN: readonly ErrorCode[] = ["outcome_unknown", "not_durable_yet"];

export class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #waiting = new Map<number, Waiting[]>();
  readonly #writing = new Set<number>();
  readonly #stopped = new AbortController();

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  /** @throws MoonportError `id_conflict`, and what the shard or the bucket fails with */
  async schedule(command: ScheduledCommand): Promise<void> {
    const shard = await this.#shardOf(command);
    for (let failures = 1; ; failures++) {
      const result = await this.append(shard, {
        kind: "schedule",
        command: await this.#withArgumentsAside(shard, command),
      });
      if (result === "scheduled" || result === "known") return;
      if (result === "conflict") {
        throw MoonportError.of(
          "id_conflict",
          `command id ${command.id} was used for another command, or by somebody else`,
          {
            hint: "make a fresh id for every command, and repeat one only with the same object, method and arguments",
          },
        );
      }
      // The argument list was deleted as one that nobody refers to, just before.
      await this.pause(failures);
    }
  }

  /** The one that knows the command, if one of those of earlier does. */
  async #shardOf({ id, app, className, key, isFresh }: ScheduledCommand): Promise<number> {
    const { shards, port } = this.#parts;
    const object = `${app}/${className}/${key}`;
    if (isFresh !== true) {
      for (const earlier of shards.earlierOf(object))
        if ((await port.ask(earlier, "get", [id])) !== null) return earlier;
    }
    return shards.shardOf(object);
  }

  /** @returns what the entry came to @throws MoonportError */
  append(shard: number, entry: Entry): Promise<PlainValue> {
    const result = deferred<PlainValue>();
    const waiting = this.#waiting.get(shard);
    if (waiting === undefined) this.#waiting.set(shard, [{ entry, result }]);
    else waiting.push({ entry, result });
    if (!this.#writing.has(shard)) void this.#write(shard);
    return result.promise;
  }

  /** Before something is asked of a shard once more; over at once when the node stops. */
  pause(failures: number): Promise<void> {
    const { world } = this.#parts;
    const pauseMs = backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, world.random.fraction());
    return sleep(world, pauseMs, this.#stopped.signal);
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #write(shard: number): Promise<void> {
    this.#writing.add(shard);
    // What comes in one turn of the loop rides one write.
    await Promise.resolve();
    for (let waiting = this.#waiting.get(shard); waiting !== undefined; waiting = this.#waiting.get(shard)) {
      const batch = waiting.splice(0, this.#parts.settings.DELAY_BATCH_MAX);
      if (waiting.length === 0) this.#waiting.delete(shard);
      await this.#writeBatch(shard, batch);
    }
    this.#writing.delete(shard);
  }

  async #writeBatch(shard: number, batch: readonly Waiting[]): Promise<void> {
    try {
      const results = await this.#ask(shard, batch);
      for (const [index, { result }] of batch.entries()) result.resolve(results[index] ?? null);
    } catch (error) {
      // One that no transaction takes must not take the others along.
      if (batch.length > 1 && !asMoonportError(error).retryable) {
        for (const one of batch) await this.#writeBatch(shard, [one]);
      } else for (const { result } of batch) result.reject(error);
    }
  }

  async #ask(shard: number, batch: readonly Waiting[]): Promise<PlainValue[]> {
    const { port, settings, world } = this.#parts;
    const entries = batch.map(({ entry }) => entry) as unknown as PlainObject[];
    const untilMs = world.clock.monotonicMs() + settings.CALL_TIMEOUT_MS;
    for (let failures = 1; ; failures++) {
      try {
        return (await port.ask(shard, "append", [entries, settings.DELAY_LOG_ENTRIES_MAX])) as PlainValue[];
      } catch (thrown) {
        const error = asMoonportError(thrown);
        const isTooLate = this.#stopped.signal.aborted || world.clock.monotonicMs() > untilMs;
        if (isTooLate || !isOwn(error, ...AGAIN)) throw error;
        await this.pause(failures);
      }
    }
  }

  async #withArgumentsAside(shard: number, { isFresh: _, ...command }: ScheduledCommand): Promise<CommandRequest> {
    const { args } = command;
    if (args === null || args.byteLength <= this.#parts.settings.DELAY_ARGUMENTS_BYTES_MAX) return command;
    const { arguments: store } = this.#parts;
    const argsHash = store.nameOf(args);
    for (let failures = 1; (await this.append(shard, { kind: "reserve", hash: argsHash })) !== true; failures++) {
      await this.pause(failures);
    }
    await store.put(shard, argsHash, args);
    return { ...command, args: null, argsHash };
  }
}
