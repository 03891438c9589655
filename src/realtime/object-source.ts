/** The objects of a node as the hub's {@link LiveSource}. */
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Caller, LuaClass } from "../lua/contract.js";
import type { EmptyObjects } from "../object/empty-objects.js";
import type { ObjectContext } from "../object/object-context.js";
import type { Objects } from "../object/objects.js";
import { lastEvent, type OpenObject } from "../object/open-object.js";
import { runReading } from "../object/reading.js";
import type { ReadingCall } from "./contract.js";
import type { Evaluated, LiveSource, StoredEvents, Watch } from "./live-source.js";

/** An object may leave, or be written under a long reading, between two steps; it does not happen this often in a row. */
const TRIES_MAX = 8;

/** The node tells of all landings there are. */
const HERE: Watch = { isHere: true, stop() {} };

export class ObjectSource implements LiveSource {
  readonly #context: ObjectContext;
  readonly #objects: Objects;
  readonly #empty: EmptyObjects;

  constructor(context: ObjectContext, objects: Objects, empty: EmptyObjects) {
    this.#context = context;
    this.#objects = objects;
    this.#empty = empty;
  }

  checkClass(object: ObjectIdentity): void {
    this.#classOf(object);
  }

  checkReading(object: ObjectIdentity, method: string): void {
    this.#readingClass(object, method);
  }

  classVersion(object: ObjectIdentity): string | undefined {
    try {
      return this.#classOf(object).version;
    } catch {
      return undefined;
    }
  }

  async events(object: ObjectIdentity, after: number, limit: number): Promise<StoredEvents> {
    if (await this.#objects.exists(object)) {
      return this.#objects.read(object, (open) => storedEvents(open, after, limit));
    }
    const last = (await this.#objects.manifest(object))?.eventLast ?? 0;
    return { events: [], first: last + 1, last, exists: false };
  }

  watch(): Watch {
    return HERE;
  }

  async evaluate(object: ObjectIdentity, reading: ReadingCall, caller: Caller): Promise<Evaluated> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const evaluated = await this.#tryEvaluate(object, reading, caller);
      if (evaluated !== undefined) return evaluated;
    }
    throw MoonportError.of("object_restarting", `${object.id} changed or left under every try to read it`, {
      object: object.id,
      retryAfterMs: 100,
    });
  }

  /** `undefined`: the object was not in a state to be read, and may be now. */
  async #tryEvaluate(
    object: ObjectIdentity,
    { method, args }: ReadingCall,
    caller: Caller,
  ): Promise<Evaluated | undefined> {
    const lua = this.#readingClass(object, method);
    const reading = { lua, method, args, caller };
    const read = this.#objects.readAwake(object, lua, async (open) => {
      const before = standing(open);
      const value = await runReading(this.#context, open, reading);
      const now = standing(open);
      return before.number === now.number && before.seq === now.seq ? { value, ...now } : undefined;
    });
    if (read !== undefined) return read;
    if (!(await this.#objects.exists(object))) {
      const value = await runReading(this.#context, this.#empty.fileFor(object, lua), reading);
      const manifest = await this.#objects.manifest(object);
      return { value, number: manifest?.eventLast ?? 0, seq: manifest?.seq ?? 0 };
    }
    // Migrations or hooks may have to run first, and only the task runs those. What it answers has no number to it.
    const { world, settings } = this.#context;
    const sinceMs = world.clock.monotonicMs();
    await this.#objects.call(object, {
      method,
      access: "read",
      args,
      caller,
      chain: [],
      callId: undefined,
      waiter: undefined,
      sinceMs,
      expiresMs: sinceMs + settings.CALL_TIMEOUT_MS,
    });
    return undefined;
  }

  #classOf({ app, className }: ObjectIdentity): LuaClass {
    return this.#context.catalog.usersClassOf(app, className);
  }

  #readingClass(object: ObjectIdentity, method: string): LuaClass {
    const lua = this.#classOf(object);
    if (this.#context.catalog.methodOf(lua, method) === "read") return lua;
    throw MoonportError.of("not_a_reading_method", `${object.className}.${method} is a writing method`, {
      hint: "a snapshot or a live view takes a method defined on .read",
      object: object.id,
    });
  }
}

function storedEvents(open: OpenObject, after: number, limit: number): StoredEvents {
  const { events } = open.tables;
  const last = lastEvent(open);
  // What it has is before what it has lost, and goes with the next write.
  if (last > events.last) return { events: [], first: last + 1, last, exists: !open.isUnwritten };
  return {
    events: events.read(after, limit),
    first: events.count > 0 ? events.first : last + 1,
    last,
    exists: !open.isUnwritten,
  };
}

function standing(open: OpenObject): { number: number; seq: number } {
  return { number: lastEvent(open), seq: open.committedSeq };
}
