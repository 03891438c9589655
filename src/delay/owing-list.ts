/**
 * The session's owing list in the bucket: objects whose durable writes may oblige to something that is not done yet. Whoever
 * ends the session wakes what stands there (W1).
 *
 * It is kept in parts of a bounded size. Objects that are added while one part is being written ride the next write. A part
 * whose write has an outcome that nobody knows is not written again, since the lost write might land over a later one: what
 * stands in both its versions stands there, all else goes into another part.
 */
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { owingPrefix } from "../shipping/layout.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import type { Timer, World } from "../world/world.js";

const PART_OBJECTS_MAX = 128;
/** How long an object that owes nothing stays listed: it may owe again soon. */
const LINGER_MS = 30_000;

interface Part {
  /** Whose list it is a part of: from another one's end on, others read it and delete it. */
  readonly session: string;
  readonly key: string;
  /** What stands in it whatever becomes of writes under way. */
  readonly standing: Set<string>;
  isClosed: boolean;
}

export interface OwingListParts {
  readonly world: Pick<World, "timers" | "log">;
  readonly bucket: Pick<Bucket, "write" | "delete">;
  readonly session: () => string;
}

export class OwingList {
  readonly #parts: OwingListParts;
  #written: Part[] = [];
  #lastNumber = 0;
  /** Objects that have to stand there. */
  readonly #owing = new Set<string>();
  #adding = new Map<string, Deferred<void>>();
  readonly #work = new OneAtATime(() => this.#bring());
  #cleanup: Timer | undefined;
  #life = 0;
  #isStopped = false;

  constructor(parts: OwingListParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#owing.size;
  }

  has(id: string): boolean {
    return this.#owing.has(id);
  }

  /** Undefined when it stands there already; else a promise that it does. Rejects when the bucket failed: nothing is known. */
  add(id: string): Promise<void> | undefined {
    // The list may be gone by now, or read by whoever ends the session: nobody would look at it once more.
    if (this.#isStopped) return Promise.reject(fenced());
    this.#owing.add(id);
    const session = this.#parts.session();
    if (this.#written.some((part) => part.session === session && part.standing.has(id))) return undefined;
    let adding = this.#adding.get(id);
    if (adding === undefined) {
      adding = deferred();
      adding.promise.catch(() => {});
      this.#adding.set(id, adding);
      this.#work.begin();
    }
    return adding.promise;
  }

  /** It owes nothing any more, and may leave the list. */
  release(id: string): void {
    if (!this.#owing.delete(id) || this.#isStopped) return;
    this.#cleanup ??= this.#parts.world.timers.after(LINGER_MS, () => {
      this.#cleanup = undefined;
      this.#work.begin();
    });
  }

  /** The session is over: its list is others' to read, and the next one has its own. */
  sessionEnded(): void {
    this.#life++;
    this.#written = [];
    this.#owing.clear();
    const adding = this.#adding;
    this.#adding = new Map();
    for (const { reject } of adding.values()) reject(fenced());
  }

  /** A session that owes nothing leaves no list. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cleanup?.cancel();
    await this.#work.ended();
    if (this.#owing.size > 0) return;
    const keys = this.#written.map(({ key }) => key);
    if (keys.length > 0) await this.#parts.bucket.delete(keys).catch(() => {});
  }

  abandon(): void {
    this.#isStopped = true;
    this.#cleanup?.cancel();
  }

  /** What stands in the bucket becomes what is owed. */
  async #bring(): Promise<void> {
    // What comes in one turn of the loop rides one write.
    await new Promise<void>((resolve) => void this.#parts.world.timers.soon(resolve));
    while (this.#adding.size > 0) await this.#writeOne();
    await this.#deleteIdle();
  }

  async #writeOne(): Promise<void> {
    const life = this.#life;
    const part = this.#openPart();
    const before = [...part.standing].filter((id) => this.#owing.has(id));
    const adding = [...this.#adding].slice(0, PART_OBJECTS_MAX - before.length);
    for (const [id] of adding) this.#adding.delete(id);
    const content = [...before, ...adding.map(([id]) => id)];
    for (const id of part.standing) if (!this.#owing.has(id)) part.standing.delete(id);
    const [first = ""] = adding[0] ?? [];
    try {
      faultPoint("owing.adds", first);
      await this.#parts.bucket.write([{ key: part.key, bytes: Buffer.from(JSON.stringify(content), "utf8") }]);
      faultPoint("owing.listed", first);
      for (const id of content) part.standing.add(id);
      const isStill = life === this.#life && part.session === this.#parts.session();
      for (const [, { resolve, reject }] of adding) {
        if (isStill) resolve();
        else reject(fenced());
      }
    } catch (error) {
      part.isClosed = true;
      for (const [, { reject }] of adding) reject(error);
    }
  }

  #openPart(): Part {
    const session = this.#parts.session();
    const last = this.#written.at(-1);
    if (last?.session === session && !last.isClosed) {
      const kept = [...last.standing].filter((id) => this.#owing.has(id)).length;
      if (kept < PART_OBJECTS_MAX) return last;
    }
    const key = `${owingPrefix(session)}${++this.#lastNumber}`;
    const part = { session, key, standing: new Set<string>(), isClosed: false };
    this.#written.push(part);
    return part;
  }

  async #deleteIdle(): Promise<void> {
    const idle = this.#written.filter(({ standing }) => ![...standing].some((id) => this.#owing.has(id)));
    if (idle.length === 0 || this.#cleanup !== undefined) return;
    this.#written = this.#written.filter((part) => !idle.includes(part));
    try {
      await this.#parts.bucket.delete(idle.map(({ key }) => key));
    } catch (error) {
      // Read after the session's end, they only wake what owes nothing.
      this.#parts.world.log.debug({ error: (error as Error).message }, "parts of the owing list were not deleted");
    }
  }
}

/** Nothing was promised: whoever asked may ask again, of the next session or another node. */
function fenced(): MoonportError {
  return MoonportError.of("node_fenced", "the session of this node has lapsed", { retryAfterMs: 1_000 });
}
