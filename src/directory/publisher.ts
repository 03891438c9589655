/**
 * Brings the rows of this node's objects to their directories: what has landed, in batches, one under way for each shard.
 *
 * Promises:
 * - Only what is durable is told, and it is told until its shard has it durably. The newest row of an object takes the place of an
 *   older one that waits; the shard itself lets none overtake another.
 * - Nothing waits for it. Rows that wait are bounded by DIRECTORY_QUEUE_MAX; whose row finds no room there is asked for it again
 *   when there is some.
 * - Whoever keeps the session's owing list hears of every row that is to be told, and when it is (W1).
 *
 * Whether a row has been told is remembered here and not in the object: a mark of its own would cost a flight for every row, and
 * one that rides with the next write is nearly always one row behind. So an object that wakes offers its row again. For what this
 * session has told that ends here, by one look into a map; else the shard finds that it knows that seq, and writes nothing.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { DirectoryDeclaration } from "../lua/contract.js";
import type { NodeCounters } from "../metrics/node-counters.js";
import { shapeOf } from "../object/directory-shape.js";
import type { RowListener } from "../object/object-context.js";
import { RecentMap } from "../recent-map.js";
import type { Settings } from "../settings/settings.js";
import type { RowStanding } from "../store/directory-row.js";
import type { PlainValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { faultPoint } from "../world/fault-point.js";
import type { Timer, World } from "../world/world.js";
import { DroppedRows } from "./dropped-rows.js";
import type { RowDebts } from "./row-debts.js";
import { type ApplyRequest, shardNumberOf, shardObject, type TravellingRow, travelling } from "./shard-contract.js";

export interface PublisherParts {
  readonly world: World;
  readonly settings: Settings;
  readonly counters: NodeCounters;
  /** What the class declares now; undefined when it has no directory. */
  declarationOf(app: string, className: string): DirectoryDeclaration | undefined;
  /** Whether the class came up without objects. */
  isFresh(app: string, className: string, shape: string): boolean;
  /** Rows were told of a shape that the class had before: their objects have to derive them anew. */
  outdated(app: string, className: string): void;
  /** Asks an object, wherever it lives, to tell its row again. @throws MoonportError */
  tellRow(object: ObjectIdentity): Promise<void>;
  readonly debts: RowDebts;
  /** A call of a shard, wherever it lives. */
  callShard(shard: ObjectIdentity, method: string, args: readonly PlainValue[]): Promise<PlainValue>;
}

interface WaitingRow {
  readonly object: ObjectIdentity;
  readonly epoch: number;
  readonly seq: number;
  /** Undefined: the object is gone. */
  readonly standing: RowStanding | undefined;
  /** Monotonic. */
  readonly sinceMs: number;
}

interface ShardQueue {
  readonly app: string;
  readonly className: string;
  readonly number: number;
  /** By key, the longest waiting first. */
  readonly rows: Map<string, WaitingRow>;
  failures: number;
  state: { readonly kind: "idle" } | { readonly kind: "sending" } | { readonly kind: "pausing"; readonly timer: Timer };
}

const IDLE = { kind: "idle" } as const;
const BACKOFF_FIRST_MS = 100;

export class Publisher implements RowListener {
  readonly #parts: PublisherParts;
  readonly #queues = new Map<string, ShardQueue>();
  /** The seq last told of objects. */
  readonly #told: RecentMap<string, number>;
  #waiting = 0;
  #isStopped = false;
  #idleWaiters: (() => void)[] = [];
  readonly #toldWaiters = new Map<string, (() => void)[]>();
  readonly #dropped: DroppedRows;

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    const { world, settings, tellRow } = parts;
    this.#told = new RecentMap(settings.DIRECTORY_QUEUE_MAX);
    const hasRoom = (): boolean => this.#waiting < settings.DIRECTORY_QUEUE_MAX;
    this.#dropped = new DroppedRows({ world, hasRoom, tellRow });
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Since the oldest row that waits has landed. */
  get lagMs(): number {
    let oldestMs = Number.POSITIVE_INFINITY;
    for (const { rows } of this.#queues.values()) {
      for (const { sinceMs } of rows.values()) {
        oldestMs = Math.min(oldestMs, sinceMs);
        break;
      }
    }
    return oldestMs === Number.POSITIVE_INFINITY ? 0 : this.#nowMs() - oldestMs;
  }

  stands(object: ObjectIdentity, epoch: number, standing: RowStanding, isFound: boolean): void {
    if (this.#told.peek(object.id) === standing.seq) return;
    this.#parts.debts.offered(object, isFound);
    this.#offer(object, epoch, standing.seq, standing);
  }

  gone(object: ObjectIdentity, epoch: number, seq: number): void {
    if (this.#parts.declarationOf(object.app, object.className) === undefined) return;
    this.#parts.debts.offered(object, false);
    this.#offer(object, epoch, seq, undefined);
  }

  /** The object's row is told again although it has been. */
  forget(object: ObjectIdentity): void {
    this.#told.delete(object.id);
  }

  /** Resolves when nothing of the object waits. @throws MoonportError `storage_behind` for whose row found no room to wait */
  async whenTold(object: ObjectIdentity): Promise<void> {
    if (this.#dropped.has(object)) {
      throw MoonportError.of("storage_behind", `the row of ${object.id} waits for room among those to be told`, {
        object: object.id,
      });
    }
    if (this.#queueOf(object).rows.has(object.key) && !this.#isStopped) {
      await new Promise<void>((resolve) => {
        const waiters = this.#toldWaiters.get(object.id) ?? [];
        this.#toldWaiters.set(object.id, [...waiters, resolve]);
      });
    }
  }

  /** Resolves when nothing waits at all. */
  async whenIdle(): Promise<void> {
    if (this.#waiting > 0 && !this.#isStopped)
      await new Promise<void>((resolve) => void this.#idleWaiters.push(resolve));
  }

  /** What waits is told no more: whoever reads the session's owing list has its objects offer it again. */
  stop(): void {
    this.#isStopped = true;
    this.#dropped.stop();
    for (const { state } of this.#queues.values()) if (state.kind === "pausing") state.timer.cancel();
    for (const waiters of this.#toldWaiters.values()) for (const wake of waiters) wake();
    this.#toldWaiters.clear();
    this.#wakeIdle();
  }

  #offer(object: ObjectIdentity, epoch: number, seq: number, standing: RowStanding | undefined): void {
    if (this.#isStopped) return;
    const queue = this.#queueOf(object);
    const before = queue.rows.get(object.key);
    // Whoever had to look whether the object is there may have looked before its last write.
    if (before !== undefined && isOlder({ epoch, seq }, before)) return;
    if (before === undefined && this.#waiting >= this.#parts.settings.DIRECTORY_QUEUE_MAX) {
      this.#parts.counters.directory.dropped++;
      this.#dropped.add(object);
      return;
    }
    this.#dropped.delete(object);
    if (before === undefined) this.#waiting++;
    // Since when the directory is behind is told by the first of them.
    queue.rows.set(object.key, { object, epoch, seq, standing, sinceMs: before?.sinceMs ?? this.#nowMs() });
    if (queue.state.kind === "idle") this.#send(queue);
  }

  #queueOf(object: ObjectIdentity): ShardQueue {
    const { app, className } = object;
    const number = shardNumberOf(object, this.#parts.settings.DIRECTORY_SHARDS);
    const name = `${app}/${className}/${number}`;
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = { app, className, number, rows: new Map(), failures: 0, state: IDLE };
      this.#queues.set(name, queue);
    }
    return queue;
  }

  #send(queue: ShardQueue): void {
    queue.state = { kind: "sending" };
    const begunMs = this.#nowMs();
    // Rows that become durable in one turn of the loop ride together.
    this.#sendBatch(queue).then(
      () => {
        queue.failures = 0;
        this.#pause(queue, Math.max(0, begunMs + this.#parts.settings.DIRECTORY_PUBLISH_MS - this.#nowMs()));
      },
      (thrown) => this.#failed(queue, thrown),
    );
  }

  async #sendBatch(queue: ShardQueue): Promise<void> {
    await Promise.resolve();
    const { app, className } = queue;
    const declaration = this.#parts.declarationOf(app, className);
    const batch = this.#batchOf(queue);
    if (declaration !== undefined) {
      const shard = shardObject(app, className, queue.number, this.#parts.settings.DIRECTORY_SHARDS);
      const request: ApplyRequest = {
        shape: travelling(declaration),
        isFresh: this.#parts.isFresh(app, className, shapeOf(declaration)),
        nowMs: Math.floor(this.#parts.world.clock.wallMs()),
        rows: batch.map(travellingRow),
      };
      faultPoint("rows.tell", batch[0]?.object.id ?? "");
      await this.#parts.callShard(shard, "apply", [request as unknown as PlainValue]);
      faultPoint("rows.told", batch[0]?.object.id ?? "");
      if (batch.some((row) => isOutdated(row, declaration))) this.#parts.outdated(app, className);
    }
    for (const row of batch) this.#wasTold(queue, row);
  }

  #batchOf({ rows }: ShardQueue): WaitingRow[] {
    const { DIRECTORY_BATCH_ROWS_MAX, VALUE_BYTES_MAX } = this.#parts.settings;
    const batch: WaitingRow[] = [];
    let bytes = 0;
    for (const row of rows.values()) {
      bytes += sizeOf(row);
      if (batch.length > 0 && (batch.length >= DIRECTORY_BATCH_ROWS_MAX || bytes > VALUE_BYTES_MAX / 2)) break;
      batch.push(row);
    }
    return batch;
  }

  #wasTold(queue: ShardQueue, row: WaitingRow): void {
    const { object, seq, standing } = row;
    this.#parts.counters.directory.told++;
    if (standing === undefined) this.#told.delete(object.id);
    else this.#told.set(object.id, seq);
    // A newer one may have come meanwhile.
    if (queue.rows.get(object.key) !== row) return;
    queue.rows.delete(object.key);
    this.#waiting--;
    this.#parts.debts.told(object);
    for (const wake of this.#toldWaiters.get(object.id) ?? []) wake();
    this.#toldWaiters.delete(object.id);
    if (this.#waiting === 0) this.#wakeIdle();
  }

  #failed(queue: ShardQueue, thrown: unknown): void {
    const { world, settings, counters } = this.#parts;
    const { app, className, number } = queue;
    counters.directory.failures++;
    queue.failures++;
    const error = asMoonportError(thrown);
    const fields = { class: `${app}/${className}`, shard: number, failures: queue.failures, error: error.message };
    if (!this.#isStopped) world.log.warn(fields, "rows could not be told to their directory, and will be again");
    this.#pause(
      queue,
      backoffMs(queue.failures, BACKOFF_FIRST_MS, settings.DIRECTORY_BACKOFF_MAX_MS, world.random.fraction()),
    );
  }

  #pause(queue: ShardQueue, pauseMs: number): void {
    queue.state = IDLE;
    if (this.#isStopped) return;
    const timer = this.#parts.world.timers.after(pauseMs, () => {
      queue.state = IDLE;
      if (queue.rows.size > 0) this.#send(queue);
    });
    queue.state = { kind: "pausing", timer };
  }

  #wakeIdle(): void {
    const waiters = this.#idleWaiters;
    this.#idleWaiters = [];
    for (const wake of waiters) wake();
  }

  #nowMs(): number {
    return this.#parts.world.clock.monotonicMs();
  }
}

type Place = Pick<WaitingRow, "epoch" | "seq">;

function isOlder(a: Place, b: Place): boolean {
  return a.epoch === b.epoch ? a.seq < b.seq : a.epoch < b.epoch;
}

function travellingRow({ object, epoch, seq, standing }: WaitingRow): TravellingRow {
  return [object.key, epoch, seq, standing?.shape ?? "", standing?.staleSinceMs ?? null, standing?.row ?? null];
}

/** One whose derivation has failed stays what it was, however often it is asked for. */
function isOutdated({ standing }: WaitingRow, declaration: DirectoryDeclaration): boolean {
  if (standing === undefined || standing.staleSinceMs !== undefined) return false;
  return standing.shape !== shapeOf(declaration);
}

/** About what it takes when it travels. */
function sizeOf({ object, standing }: WaitingRow): number {
  let bytes = object.key.length + 32;
  for (const [name, cell] of Object.entries(standing?.row ?? {})) {
    bytes += name.length + (typeof cell === "string" ? 3 * cell.length : 9);
  }
  return bytes;
}
