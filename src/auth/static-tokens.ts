/**
 * Tokens from a file, for a node that has no other way to know its callers.
 *
 * Tokens are held as SHA-256 only. One that comes in is looked up under a keyed hash whose key is made anew in each process,
 * and then compared in constant time: how long a refusal takes says nothing about any token. A new file takes effect with the
 * next request, also for those who were let in before: a principal's rights are those of the file as it stands. Who watches is
 * told of it, for what goes on without another request.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { MoonportError } from "../errors.js";
import type { Access, Authenticator, Principal } from "./contract.js";
import { accessText, type Grant, grants } from "./grant.js";
import { parseTokenFile, type TokenEntry, tokenDigest } from "./token-file.js";

interface Known {
  readonly entries: ReadonlyMap<string, TokenEntry>;
  readonly anonymous: readonly Grant[] | undefined;
}

export class StaticTokens implements Authenticator {
  readonly isOpen = false;
  readonly #key: Uint8Array;
  readonly #watchers = new Set<() => void>();
  #known: Known;

  /**
   * @param text of the file
   * @param name of the file, for errors
   * @param key 32 random bytes
   * @throws MoonportError `bad_option` naming the place in the file
   */
  constructor(text: string, name: string, key: Uint8Array) {
    this.#key = key;
    this.#known = this.#read(text, name);
  }

  /** What was known stays in force when it throws. @throws MoonportError `bad_option` */
  replace(text: string, name: string): void {
    this.#known = this.#read(text, name);
    for (const changed of [...this.#watchers]) changed();
  }

  watch(changed: () => void): () => void {
    // Wrapped: one who watches twice is told twice, and leaves twice.
    const watcher = (): void => changed();
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  authenticate(token: string | undefined): Principal {
    return token === undefined ? this.#anonymous() : this.#bearer(tokenDigest(token));
  }

  #bearer(digest: Buffer): Principal {
    const { id, claims } = this.#entryOf(digest);
    return {
      id,
      ...(claims !== undefined && { claims }),
      renewed: () => this.#bearer(digest),
      check: (access) => {
        const entry = this.#entryOf(digest);
        if (entry.allow.some((grant) => grants(grant, access))) return;
        throw MoonportError.of("forbidden", `the token of ${entry.id} does not allow: ${accessText(access)}`);
      },
    };
  }

  #anonymous(): Principal {
    if (this.#known.anonymous === undefined) throw tokenMissing("this node asks for a token");
    return {
      renewed: () => this.#anonymous(),
      check: (access: Access) => {
        if (this.#known.anonymous?.some((grant) => grants(grant, access)) === true) return;
        throw tokenMissing(`without a token this is not allowed: ${accessText(access)}`);
      },
    };
  }

  #entryOf(digest: Buffer): TokenEntry {
    const entry = this.#known.entries.get(this.#indexOf(digest));
    if (entry !== undefined && timingSafeEqual(entry.digest, digest)) return entry;
    throw MoonportError.of("unauthenticated", "the token is not known here");
  }

  #read(text: string, name: string): Known {
    const { tokens, anonymous } = parseTokenFile(text, name);
    return { entries: new Map(tokens.map((entry) => [this.#indexOf(entry.digest), entry])), anonymous };
  }

  #indexOf(digest: Buffer): string {
    return createHmac("sha256", this.#key).update(digest).digest("base64");
  }
}

function tokenMissing(message: string): MoonportError {
  return MoonportError.of("unauthenticated", message, { hint: "send Authorization: Bearer TOKEN" });
}
