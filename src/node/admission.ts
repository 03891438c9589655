/**
 * Whom a node lets in: everybody while it serves; its objects and its own work while it settles what it owes; then nobody. And what
 * of it is there for whom: Moonport's own classes are no user's.
 */
import { MoonportError } from "../errors.js";
import { type ObjectIdentity, SYSTEM_APP } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import { type Catalog, noSuchApp } from "../object/catalog.js";

type Phase = "serving" | "settling" | "stopping" | "stopped";

export class Admission {
  readonly #catalog: Catalog;
  #phase: Phase = "serving";

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  get isServing(): boolean {
    return this.#phase === "serving";
  }

  turn(phase: Phase): void {
    this.#phase = phase;
  }

  /** @param caller what is under way of the node's own work may go on until the node drains @throws MoonportError `node_stopping` */
  assertServing(caller?: Caller): void {
    if (this.#phase === "serving") return;
    if (this.#phase === "settling" && caller !== undefined && caller.kind !== "client" && caller.kind !== "unit")
      return;
    throw MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
  }

  /** @throws MoonportError `node_stopping`, `app_not_found`, `class_not_found` */
  assertKnown({ app, className }: ObjectIdentity): void {
    this.assertServing();
    this.#catalog.usersClassOf(app, className);
  }

  /** The same for operators, who may look into objects of Moonport's own, and bring back one whose journals are lost. */
  assertKnownToOperators({ app, className }: ObjectIdentity): void {
    this.assertServing();
    this.#catalog.classOf(app, className);
  }

  /** Of what users have done later. @throws MoonportError `app_not_found`, `class_not_found` */
  checkClass(app: string, className: string): void {
    this.#catalog.usersClassOf(app, className);
  }

  /** Of what users have done later. @throws MoonportError `app_not_found`, `class_not_found`, `method_not_found` */
  checkMethod(app: string, className: string, method: string): void {
    if (app === SYSTEM_APP) throw noSuchApp(app);
    if (this.#catalog.isNative(className)) return;
    this.#catalog.methodOf(this.#catalog.classOf(app, className), method);
  }
}
