/**
 * Ids of the calls that a call or a request makes: parent, target, method, and the how-manieth call of that method on that
 * target it is. A repeated parent gives the same ids, so nothing it did is done again; a call that the repeat makes more or
 * less on the way, since what it reads has changed, does not shift the others.
 *
 * They are UUIDs. Where the parent's id carries its time (UUIDv7) they carry it too, so that objects can tell an id older than
 * what they remember.
 */
import { createHash } from "node:crypto";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class InnerCallIds {
  readonly #parent: string;
  readonly #scope: string;
  readonly #counts = new Map<string, number>();

  /** @param scope what runs under the parent's id: two things given one id by their callers must not share ids */
  constructor(parent: string, scope: string) {
    this.#parent = parent;
    this.#scope = scope;
  }

  /** @param target `app/Class/key` */
  next(target: string, method: string): string {
    const call = `${target}\n${method}`;
    const ordinal = (this.#counts.get(call) ?? 0) + 1;
    this.#counts.set(call, ordinal);
    const hash = createHash("sha256")
      .update(`${this.#scope}\n${this.#parent}\n${ordinal}\n${call}`, "utf8")
      .digest("hex");
    const isTimed = UUID_V7.test(this.#parent);
    const time = isTimed ? this.#parent.slice(0, 13) : `${hash.slice(0, 8)}-${hash.slice(8, 12)}`;
    return `${time}-${isTimed ? 7 : 8}${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
  }
}
