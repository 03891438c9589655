/** The past of one object, for the program that the node is in: what {@link NodeApi} offers of it, under one handle. */
import type { ObjectIdentity } from "../identity.js";
import type { ExportedDatabase, NodeApi, ObjectHistory, PointInTime, Restoration, Restored } from "../node-api.js";

export class MoonportPast {
  readonly #node: NodeApi;
  readonly #object: ObjectIdentity;

  constructor(node: NodeApi, object: ObjectIdentity) {
    this.#node = node;
    this.#object = object;
  }

  /** What can be had again. @param limit of eras, the newest @throws MoonportError `object_not_found` */
  history(limit?: number): Promise<ObjectHistory> {
    return this.#node.history(this.#object, limit);
  }

  /**
   * The object becomes what it was, which can be undone: what it was until now stays in its past.
   * @throws MoonportError `not_in_history` saying what there is, `object_not_found`, `outcome_unknown`
   */
  restore(at: PointInTime, options: Pick<Restoration, "timers"> = {}): Promise<Restored> {
    return this.#node.restore(this.#object, { ...options, at });
  }

  /** Another object of the class begins as what this one was, or is. @throws MoonportError as {@link restore}, `object_exists` */
  fork(key: string, restoration: Partial<Restoration> = {}): Promise<Restored> {
    return this.#node.fork(this.#object, restoration, key);
  }

  /** The database of what the object was, or is. @throws MoonportError as {@link restore} */
  exportDatabase(at?: PointInTime): Promise<ExportedDatabase> {
    return this.#node.exportDatabase(this.#object, at);
  }
}
