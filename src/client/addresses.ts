/**
 * Where a client may connect: the addresses it was given, and those it heard of from nodes if it is to learn any. It stays
 * with one while that answers; after a loss the next has its turn.
 */
import { MoonportError } from "../errors.js";
import { SOCKET_PATH } from "../wire/frames.js";

/** Addresses that are remembered beside those that were given; the oldest is forgotten first. */
const LEARNED_MAX = 64;

export class Addresses {
  readonly #given: readonly string[];
  #learned: readonly string[] = [];
  #current: string;

  /** @throws MoonportError `bad_option` */
  constructor(given: string | readonly string[]) {
    const urls = (typeof given === "string" ? [given] : given).map(socketUrl);
    const [first] = urls;
    if (first === undefined) throw MoonportError.of("bad_option", "connect needs the address of a node");
    this.#given = [...new Set(urls)];
    this.#current = first;
  }

  get current(): string {
    return this.#current;
  }

  /** How many there are. */
  get size(): number {
    return this.#all.length;
  }

  /** The one that is there now did not answer, or is about to stop. */
  next(): void {
    const all = this.#all;
    this.#current = all[(all.indexOf(this.#current) + 1) % all.length] as string;
  }

  /** What a node says of others; what is no address is passed over. */
  learn(urls: readonly string[]): void {
    const heard = urls.flatMap((url) => socketUrlOf(url) ?? []).filter((url) => !this.#given.includes(url));
    this.#learned = [...new Set([...heard, ...this.#learned])].slice(0, LEARNED_MAX);
  }

  /** The current one among them, though it may have been forgotten. */
  get #all(): readonly string[] {
    return [...new Set([...this.#given, ...this.#learned, this.#current])];
  }
}

/**
 * The socket's address of a node.
 * @param url `ws://127.0.0.1:7070`, `wss://...`, or the same with http and https; a path in front of the node is kept
 * @throws MoonportError `bad_option`
 */
function socketUrl(url: string): string {
  const parsed = socketUrlOf(url);
  if (parsed !== undefined) return parsed;
  throw notAnAddress(url, "ws://127.0.0.1:7070");
}

/** It is shown without what may be a secret in it: a name and password before the host, a query. */
export function notAnAddress(url: string, example: string): MoonportError {
  const shown = url.replace(/\/\/.*@/, "//***@").replace(/\?.*/, "?***");
  return MoonportError.of("bad_option", `"${shown}" is not a node's address`, {
    hint: `an address looks like ${example}; a token is given beside it`,
  });
}

/** As {@link socketUrl}; undefined for what is no address. */
export function socketUrlOf(url: unknown): string | undefined {
  if (typeof url !== "string" || !URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  const scheme = /^(?:ws|http)(s?):$/.exec(parsed.protocol);
  if (!scheme || parsed.search !== "" || parsed.hash !== "" || hasLogin(parsed)) return undefined;
  return `ws${scheme[1]}://${parsed.host}${parsed.pathname.replace(/\/$/, "")}${SOCKET_PATH}`;
}

export function hasLogin({ username, password }: URL): boolean {
  return username !== "" || password !== "";
}
