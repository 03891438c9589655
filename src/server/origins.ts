/**
 * Which browser pages, and by which names, may reach a node.
 *
 * Without auth the node is this machine's alone. Binding a loopback address keeps other machines out, but not the browser on
 * this one: any page may send a form to 127.0.0.1, or give its own name that address (DNS rebinding). So a request must name
 * the node by a loopback name, and one that a page sends must come from a page of this machine. With auth a page has no
 * token that its user did not give it; pages are refused all the same unless their origin is listed, so that nothing that is
 * open to everybody is open to every page. Listed origins get CORS headers, others never do.
 *
 * A browser says no Origin with what a page fetches as an image or a script, nor with what a link leads to. Of those requests
 * `Sec-Fetch-Site` tells where they come from. Others take every GET for harmless; here one may run a unit, which may do anything.
 */
import type { IncomingHttpHeaders } from "node:http";
import { MoonportError } from "../errors.js";
import { isLoopback } from "./loopback.js";

const PREFLIGHT_METHODS = "GET, POST, PUT, PATCH, DELETE";
const PREFLIGHT_SECONDS = "600";

export class Origins {
  readonly #isOpen: boolean;
  readonly #listed: ReadonlySet<string>;
  /** The last Host that was found to be a loopback name: nearly always the next one too. */
  #goodHost: string | undefined;

  /**
   * @param isOpen there is no auth
   * @param listed `https://app.example`, `http://localhost:5173`, or `*` for any
   * @throws MoonportError `bad_option` for what is no origin, and for `*` without auth
   */
  constructor(isOpen: boolean, listed: readonly string[]) {
    this.#isOpen = isOpen;
    this.#listed = new Set(listed.map(checkedOrigin));
    if (isOpen && this.#listed.has("*")) {
      throw MoonportError.of("bad_option", "without auth any page in the world could do everything on this node", {
        hint: "list origins one by one, or give the node tokens with --auth FILE",
      });
    }
  }

  /** @throws MoonportError `origin_refused` */
  check(method: string, headers: IncomingHttpHeaders): void {
    const { host, origin } = headers;
    // No browser leaves Host out; HTTP/1.0 tools do.
    if (this.#isOpen && host !== undefined && host !== this.#goodHost) this.#checkHost(host);
    const isAllowed = origin === undefined ? this.#maySayNoOrigin(method, headers) : this.#isAllowed(origin);
    if (isAllowed) return;
    throw MoonportError.of("origin_refused", "pages of this origin may not reach this node", {
      hint: "--allow-origin lists the origins whose pages may",
    });
  }

  #isAllowed(origin: string): boolean {
    return this.#isListed(origin) || (this.#isOpen && isLoopback(hostName(origin)));
  }

  #maySayNoOrigin(method: string, headers: IncomingHttpHeaders): boolean {
    switch (headers["sec-fetch-site"]) {
      case "cross-site":
        return this.#listed.has("*") || this.#mayVisit(method, headers);
      case "same-site":
        // Of a loopback name, which Host is without auth, only pages of this machine are of the same site.
        return this.#isOpen || this.#listed.has("*") || this.#mayVisit(method, headers);
      default:
        // The node's own pages, what its user typed, and what is no browser.
        return true;
    }
  }

  /** Whether somebody follows a link. With auth he comes without a token, like anybody; without, he may do everything. */
  #mayVisit(method: string, headers: IncomingHttpHeaders): boolean {
    const isSafe = method === "GET" || method === "HEAD";
    const isPage = headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
    return !this.#isOpen && isSafe && isPage;
  }

  #checkHost(host: string): void {
    if (!isLoopback(hostName(`http://${host}`))) {
      throw MoonportError.of("origin_refused", "the Host header does not name a loopback address", {
        hint: "a proxy in front of the node has to send Host: 127.0.0.1",
      });
    }
    this.#goodHost = host;
  }

  /** What every answer to a listed origin carries, so that its page may read it. */
  headers({ origin }: IncomingHttpHeaders): Readonly<Record<string, string>> | undefined {
    if (this.#listed.size === 0) return undefined;
    // A cache must not give one origin's answer to another.
    if (origin === undefined || !this.#isListed(origin)) return { vary: "Origin" };
    return { "access-control-allow-origin": origin, "access-control-expose-headers": "*", vary: "Origin" };
  }

  /** The answer to a listed origin that asks whether its page may send something; undefined when nobody asks. */
  preflight(method: string, headers: IncomingHttpHeaders): Readonly<Record<string, string>> | undefined {
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return undefined;
    if (headers.origin === undefined || !this.#isListed(headers.origin)) return undefined;
    const wanted = headers["access-control-request-headers"];
    return {
      "access-control-allow-methods": PREFLIGHT_METHODS,
      "access-control-max-age": PREFLIGHT_SECONDS,
      ...(typeof wanted === "string" && { "access-control-allow-headers": wanted }),
    };
  }

  #isListed(origin: string): boolean {
    return this.#listed.has("*") || this.#listed.has(origin.toLowerCase());
  }
}

/** As a browser writes it: scheme, host, and the port unless it is the scheme's own. */
function checkedOrigin(text: string): string {
  if (text === "*") return text;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // A star in a name would never match: a listed origin is compared as it stands.
  const isWhole = url !== undefined && url.origin !== "null" && !text.includes("*");
  if (isWhole && url.origin === text.toLowerCase().replace(/\/$/, "")) {
    return url.origin;
  }
  throw MoonportError.of("bad_option", `"${text}" is not an origin`, {
    hint: "an origin looks like https://app.example or http://localhost:5173, without a path",
  });
}

function hostName(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : "";
}
