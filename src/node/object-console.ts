/**
 * Objects of this node as whoever looks into them sees them: what they keep, their timers, their position. Beside the mailbox and
 * read-only; as every reading, it tells of nothing that is not durable (G1).
 */
import type { ObjectTimers } from "../delay/contract.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Inspection } from "../node-api.js";
import { inspectAbsent, inspectOpen, inspectTimers } from "../object/inspect.js";
import type { Objects } from "../object/objects.js";
import type { PlainValue, SqlRows, SqlValue } from "../values.js";
import { CONSOLE_ENTRY, type RunningRecord } from "../world/watchdog/running-record.js";
import type { Admission } from "./admission.js";

const STORE_LIST_MAX = 1_000;

export class ObjectConsole {
  readonly #objects: Objects;
  readonly #admission: Admission;
  readonly #running: RunningRecord;

  constructor(objects: Objects, admission: Admission, running: RunningRecord) {
    this.#objects = objects;
    this.#admission = admission;
    this.#running = running;
  }

  /** Of an object of a class that is served. @throws MoonportError as {@link Objects.exists} */
  async #exists(object: ObjectIdentity): Promise<boolean> {
    this.#admission.assertKnownToOperators(object);
    return this.#objects.exists(object);
  }

  /** Its store is shown to others than operators. @throws MoonportError as {@link Objects.exists} */
  async #hasStore(object: ObjectIdentity): Promise<boolean> {
    this.#admission.assertKnown(object);
    return this.#objects.exists(object);
  }

  async storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    if (!(await this.#hasStore(object))) return undefined;
    return this.#objects.read(object, (open) => open.tables.store.get(key));
  }

  async storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    if (!(await this.#hasStore(object))) return [];
    return this.#objects.read(object, (open) => open.tables.store.list(prefix, STORE_LIST_MAX));
  }

  /** @throws MoonportError `object_not_found`, what the statement comes to */
  async sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    if (!(await this.#exists(object))) throw notFound(object);
    return this.#objects.read(object, (open) => {
      this.#running.enter(object.id, CONSOLE_ENTRY);
      try {
        return open.database.all(statement, parameters, "console");
      } finally {
        this.#running.leave();
      }
    });
  }

  async inspect(object: ObjectIdentity): Promise<Inspection> {
    if (!(await this.#exists(object))) return inspectAbsent(object, await this.#objects.manifest(object));
    return this.#objects.read(object, (open) => inspectOpen(open, this.#objects.resident(object)?.mailboxCalls ?? 0));
  }

  /** @throws MoonportError `object_not_found` */
  async timers(object: ObjectIdentity): Promise<ObjectTimers> {
    if (!(await this.#exists(object))) throw notFound(object);
    return this.#objects.read(object, inspectTimers);
  }
}

function notFound(object: ObjectIdentity): MoonportError {
  return MoonportError.of("object_not_found", `${object.id} does not exist`, { object: object.id });
}
