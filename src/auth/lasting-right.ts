/**
 * A right that was asked for once and goes on being used: what a subscription, a live view or an event stream rests on.
 *
 * When tokens change it is looked at again. It ends where it would be refused if it were asked for now; and where a method is
 * evaluated as the caller, also when the token now says something else of the caller: what it may see is the method's to say.
 */
import { isDeepStrictEqual } from "node:util";
import { MoonportError } from "../errors.js";
import type { Principal } from "./contract.js";
import { callerOf } from "./principal-calls.js";

export class LastingRight {
  readonly #principal: Principal;
  readonly #check: (principal: Principal) => void;
  readonly #readsAsCaller: boolean;

  /**
   * @param check throws what the principal is refused with
   * @throws MoonportError `forbidden`, `unauthenticated`
   */
  constructor(principal: Principal, check: (principal: Principal) => void, readsAsCaller: boolean) {
    check(principal);
    this.#principal = principal;
    this.#check = check;
    this.#readsAsCaller = readsAsCaller;
  }

  /**
   * @param now the same bearer, as known now
   * @throws MoonportError `forbidden`, `unauthenticated`, `token_changed`
   */
  renew(now: Principal): void {
    this.#check(now);
    if (!this.#readsAsCaller || isDeepStrictEqual(callerOf(now), callerOf(this.#principal))) return;
    throw MoonportError.of("token_changed", "the token says something else of its bearer by now", {
      hint: "ask again: it goes on as the token has it now",
    });
  }
}

/** The same bearer as known now. @throws MoonportError `unauthenticated` when its token is known no longer */
export function renewed(principal: Principal): Principal {
  return principal.renewed?.() ?? principal;
}
