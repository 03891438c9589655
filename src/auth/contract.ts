/** Who may do what: the seam between doors and whatever checks tokens. */
import type { PlainObject } from "../values.js";

/**
 * `read`: reading methods, and an object's store where no methods are named. `call`: methods, whatever they do. `query`: the
 * directory. `admin`: operator's routes.
 */
export type Right = "read" | "call" | "send" | "subscribe" | "query" | "unit" | "admin";

/** What is asked for. Absent parts are not part of the question (a unit has no class, an operator's route no method). */
export interface Access {
  readonly right: Right;
  readonly app?: string;
  readonly className?: string;
  readonly key?: string;
  /** A method's name, or a unit's. */
  readonly method?: string;
}

/** Somebody whose token was accepted, or everybody where no auth is configured. */
export interface Principal {
  /** `caller.id` in Lua. */
  readonly id?: string;
  /** `caller.claims` in Lua. */
  readonly claims?: PlainObject;
  /** @throws MoonportError `forbidden`, or `unauthenticated` if a token (or another one) might help */
  check(access: Access): void;
  /**
   * The same bearer as known now, its id and claims too. Absent: it stays as it is.
   * @throws MoonportError `unauthenticated` when the token is known no longer
   */
  renewed?(): Principal;
}

export interface Authenticator {
  /** Whether tokens are asked for at all; without, a node listens on loopback only. */
  readonly isOpen: boolean;
  /** @throws MoonportError `unauthenticated` */
  authenticate(token: string | undefined): Principal;
  /**
   * Calls `changed` each time after tokens or rights have changed, until the returned function is called. Doors then look again
   * at what goes on without being asked for (sockets, subscriptions, live views, event streams). Absent: nothing ever changes.
   */
  watch?(changed: () => void): () => void;
}
