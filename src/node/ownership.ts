/** Whose an object is: by what this session has claimed, and by the object's record where that does not say. */
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Recovered } from "../node-api.js";
import type { Objects } from "../object/objects.js";
import type { Claims } from "../shipping/claims.js";
import type { Admission } from "./admission.js";

export class Ownership {
  readonly #claims: Claims;
  readonly #objects: Objects;
  readonly #admission: Admission;

  constructor(claims: Claims, objects: Objects, admission: Admission) {
    this.#claims = claims;
    this.#objects = objects;
    this.#admission = admission;
  }

  /** Whether the object is this node's, as far as is known here. */
  holds(object: ObjectIdentity): boolean {
    return this.#claims.held(object) !== undefined;
  }

  /** Also of one whose claim has been forgotten: its record says so. @throws MoonportError `bucket_failed` */
  async owns(object: ObjectIdentity): Promise<boolean> {
    return this.holds(object) || this.#claims.isOwn(await this.#objects.manifest(object));
  }

  /** The session that the object's record names, if it has not given the object up; nothing is claimed. */
  async ownerOf(object: ObjectIdentity): Promise<string | undefined> {
    this.#admission.assertServing();
    const manifest = await this.#objects.manifest(object);
    return manifest === undefined || manifest.replicas?.clean === true ? undefined : manifest.owner;
  }

  /** Makes sure that the object, if it is there, is this node's. @throws MoonportError `moved` when another one's */
  async settle(object: ObjectIdentity): Promise<void> {
    this.#admission.assertKnownToOperators(object);
    await this.#objects.exists(object);
  }

  /** For operators: see {@link Claims.recover}. Resolves with the seq that the object goes on from. */
  async recover(object: ObjectIdentity): Promise<Recovered> {
    this.#admission.assertServing();
    if ((await this.#objects.manifest(object)) === undefined) {
      throw MoonportError.of("object_not_found", `${object.id} was never written`, { object: object.id });
    }
    return { object: object.id, seq: await this.#claims.recover(object) };
  }
}
