/**
 * `fetch` of a unit: hosts on the allow-list and no others, redirects included; bounded in time and in bytes.
 *
 * An entry `api.example.com` allows that host on the standard ports of http and https, `api.example.com:8443` that port.
 */
import { isUtf8 } from "node:buffer";
import { MoonportError } from "../errors.js";
import type { FetchCall } from "../lua/contract.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject } from "../values.js";
import type { FetchedResponse, Fetcher } from "../world/fetcher.js";
import type { World } from "../world/world.js";

export interface OutboundOptions {
  readonly allowHosts: readonly string[];
  readonly fetcher: Fetcher;
}

/** Where no host is allowed, nothing is ever fetched. */
export const NO_OUTBOUND: OutboundOptions = {
  allowHosts: [],
  fetcher: { fetch: () => Promise.reject(MoonportError.of("fetch_refused", "this node reaches no network")) },
};

const ENTRY = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::[0-9]{1,5})?$/i;
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** The connection's own. */
const RESERVED = /^(host|content-length|connection|keep-alive|transfer-encoding|upgrade|te|trailer|expect|proxy-.*)$/;
const REDIRECTS = [301, 302, 303, 307, 308];
const REDIRECTS_MAX = 5;
const STANDARD_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

interface Target {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

export class Outbound {
  readonly #world: Pick<World, "timers">;
  readonly #settings: Settings;
  readonly #fetcher: Fetcher;
  readonly #allowed: ReadonlySet<string>;

  /** @throws MoonportError `bad_option` for an entry that is no host */
  constructor(world: Pick<World, "timers">, settings: Settings, options: OutboundOptions) {
    this.#world = world;
    this.#settings = settings;
    this.#fetcher = options.fetcher;
    this.#allowed = new Set(options.allowHosts.map(entryOf));
  }

  /** Whether anything but a refusal can come of it: only then need the unit's writes be settled before. @throws MoonportError */
  check(call: FetchCall): void {
    this.#targetOf(call);
  }

  /** @throws MoonportError `fetch_refused`, `fetch_failed`, `fetch_timeout`, `too_large` */
  async fetch(call: FetchCall, gone: AbortSignal): Promise<PlainObject> {
    const target = this.#targetOf(call);
    const waitMs = Math.min(call.timeoutMs ?? Number.POSITIVE_INFINITY, this.#settings.FETCH_TIMEOUT_MS);
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    gone.addEventListener("abort", abort, { once: true });
    let late: () => void = () => {};
    const timeout = new Promise<never>((_, reject) => {
      late = () => reject(MoonportError.of("fetch_timeout", `${target.url.host} did not answer within ${waitMs} ms`));
    });
    const timer = this.#world.timers.after(waitMs, () => {
      late();
      abort();
    });
    try {
      return answerOf(await Promise.race([this.#follow(target, stop.signal), timeout]));
    } finally {
      timer.cancel();
      gone.removeEventListener("abort", abort);
    }
  }

  async #follow(first: Target, signal: AbortSignal): Promise<FetchedResponse> {
    let target = first;
    for (let hop = 0; ; hop++) {
      const { url, method, headers, body } = target;
      const bytesMax = this.#settings.FETCH_BYTES_MAX;
      const response = await this.#fetcher.fetch({ url: url.href, method, headers, body, bytesMax }, signal);
      const { location } = response.headers;
      if (!REDIRECTS.includes(response.status) || location === undefined) return response;
      if (hop === REDIRECTS_MAX) throw refused(`${first.url.host} redirects more than ${REDIRECTS_MAX} times`);
      target = this.#redirected(target, response.status, location);
    }
  }

  #redirected(from: Target, status: number, location: string): Target {
    if (!URL.canParse(location, from.url.href)) throw refused(`${from.url.host} redirects to what is no address`);
    const url = new URL(location, from.url);
    this.#checkAddress(url, `${from.url.host} redirects to ${url.host}, which`);
    if (from.url.protocol === "https:" && url.protocol === "http:") {
      throw refused(`${from.url.host} redirects from https to http`);
    }
    const becomesGet = status === 303 || (status !== 307 && status !== 308 && from.method === "POST");
    const kept = Object.entries(from.headers).filter(([name]) => {
      if (becomesGet && name.startsWith("content-")) return false;
      // Meant for the one host alone.
      return url.origin === from.url.origin || !["authorization", "cookie"].includes(name);
    });
    const headers = Object.fromEntries(kept);
    return becomesGet && from.method !== "HEAD"
      ? { url, headers, method: "GET", body: undefined }
      : { ...from, url, headers };
  }

  #targetOf({ url: text, method, headers, body }: FetchCall): Target {
    if (!URL.canParse(text)) throw refused(`"${text.slice(0, 80)}" is no address`, "write it whole: https://host/path");
    const url = new URL(text);
    this.#checkAddress(url, url.host);
    if (!METHODS.includes(method)) throw refused(`${method.slice(0, 20)} is not among ${METHODS.join(", ")}`);
    if (body !== undefined && (method === "GET" || method === "HEAD")) throw refused(`${method} has no body`);
    for (const [name, value] of Object.entries(headers)) {
      if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value)) throw refused(`the header "${name}" cannot be sent`);
      if (RESERVED.test(name)) throw refused(`the header ${name} is the connection's own`);
    }
    return { url, method, headers, body };
  }

  #checkAddress(url: URL, what: string): void {
    const standard = STANDARD_PORTS[url.protocol];
    if (standard === undefined) throw refused(`${url.protocol} is neither http nor https`);
    if (url.username !== "" || url.password !== "") {
      throw refused("an address with a name and a password in it", "send an authorization header");
    }
    if (url.port === "" && this.#allowed.has(url.hostname)) return;
    if (this.#allowed.has(`${url.hostname}:${url.port || standard}`)) return;
    throw refused(`${what} is not on the allow-list`, `--allow-host ${url.host} lets units reach it`);
  }
}

function entryOf(entry: string): string {
  if (ENTRY.test(entry)) return entry.toLowerCase();
  throw MoonportError.of("bad_option", `"${entry.slice(0, 80)}" is no host`, {
    hint: "an entry of the allow-list is a host, or a host and its port: api.example.com, localhost:8080",
  });
}

/** Text where it is UTF-8 text, else bytes. */
function answerOf({ status, headers, body }: FetchedResponse): PlainObject {
  return {
    status,
    headers: { ...headers },
    body: isUtf8(body) ? Buffer.from(body.buffer, body.byteOffset, body.length).toString("utf8") : body,
  };
}

function refused(what: string, hint?: string): MoonportError {
  return MoonportError.of("fetch_refused", `fetch: ${what}`, hint === undefined ? {} : { hint });
}
