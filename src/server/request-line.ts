/**
 * A request line taken apart: method, path, query.
 *
 * The raw path is split before it is decoded, so that a key may hold an encoded slash.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";

export interface RequestLine {
  /** GET, POST, ... */
  readonly method: string;
  /** As it stands in the request line: path and query, percent-encoded. */
  readonly url: string;
  /** The path's parts between slashes, decoded. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

/** @throws MoonportError `route_not_found`, `bad_request` for broken percent-encoding */
export function requestLineOf(method: string, url: string): RequestLine {
  const mark = url.indexOf("?");
  const path = mark < 0 ? url : url.slice(0, mark);
  if (!path.startsWith("/")) throw routeNotFound(url);
  const query = mark < 0 ? NO_QUERY : queryOf(url.slice(mark + 1));
  return { method, url, segments: path.slice(1).split("/").map(decode), query };
}

/** Nobody changes it. */
const NO_QUERY = new URLSearchParams();

function queryOf(text: string): URLSearchParams {
  // URLSearchParams would turn a broken escape into U+FFFD and go on.
  for (const part of text.split(/[&=]/)) decode(part);
  return new URLSearchParams(text);
}

/** @throws MoonportError `method_not_allowed` (details: allow) */
export function allowMethods({ method }: RequestLine, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  throw MoonportError.of("method_not_allowed", `this route takes ${allowed.join(" and ")}, not ${clip(method)}`, {
    details: { allow: allowed },
  });
}

/** @throws MoonportError `bad_option` for an unknown parameter, `bad_request` for one that is given twice */
export function checkParameters({ query }: RequestLine, known: readonly string[]): void {
  if (query === NO_QUERY) return;
  for (const name of new Set(query.keys())) {
    if (!known.includes(name)) {
      const guess = nearest(name, known);
      throw MoonportError.of(
        "bad_option",
        `this route has no query parameter called "${clip(name)}"`,
        guess === undefined ? {} : { hint: `did you mean ${guess}?` },
      );
    }
    if (query.getAll(name).length > 1) {
      throw MoonportError.of("bad_request", `the query parameter "${name}" is given more than once`);
    }
  }
}

export function routeNotFound(url: string): MoonportError {
  return MoonportError.of("route_not_found", `no route at ${clip(url)}`, {
    hint: "a call is POST /v1/{app}/{Class}/{key}/{method}, with the key percent-encoded",
  });
}

/** Short enough for a message. */
export function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw MoonportError.of("bad_request", `the percent-encoding of "${clip(text)}" in the URL is broken`, {
      cause,
      hint: "encode text as UTF-8 and each byte as %XX; a percent sign itself is %25",
    });
  }
}
