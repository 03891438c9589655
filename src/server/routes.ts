/**
 * Which operation a request line names: a pure function from HTTP method and raw URL to a {@link Route}.
 *
 * It works on the raw path, split before it is decoded, so that a key may hold an encoded slash; the app, class and method
 * that it returns are text still to be checked by the grammar of src/identity.ts. A key called `-` is a key like any other:
 * what routes reserve stands where only a method can, and `-` is no method.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";

export interface ObjectPath {
  readonly app: string;
  readonly className: string;
  readonly key: string;
}

export type Route =
  | { readonly kind: "healthz" }
  | { readonly kind: "readyz" }
  | { readonly kind: "call"; readonly object: ObjectPath; readonly method: string }
  /** `args`: JSON text of the `args` parameter. */
  | { readonly kind: "read"; readonly object: ObjectPath; readonly method: string; readonly args: string | undefined }
  | { readonly kind: "status" }
  | { readonly kind: "classes" }
  | { readonly kind: "inspect"; readonly object: ObjectPath }
  | { readonly kind: "store_get"; readonly object: ObjectPath; readonly key: string }
  | { readonly kind: "store_list"; readonly object: ObjectPath; readonly prefix: string }
  | { readonly kind: "sql"; readonly object: ObjectPath }
  | { readonly kind: "destroy"; readonly object: ObjectPath };

const ADMIN_NODE_ROUTES = ["status", "classes"] as const;
const ADMIN_OBJECT_ROUTES = { inspect: "GET", store: "GET", sql: "POST", destroy: "POST" } as const;

/**
 * @param url as it stands in the request line: path and query, percent-encoded
 * @throws MoonportError `route_not_found`, `method_not_allowed` (details: allow), `bad_request`, `bad_option`
 */
export function routeOf(method: string, url: string): Route {
  const { segments, query } = splitUrl(url);
  const [first, second, third] = segments;
  if (segments.length === 1 && (first === "healthz" || first === "readyz")) {
    allow(method, ["GET"]);
    return { kind: first };
  }
  if (first !== "v1") throw notFound(url);
  // A class begins with a capital, an operator's route does not: an app may be called "admin" all the same.
  if (second === "admin" && /^[a-z]/.test(third ?? "")) return adminRoute(method, url, segments.slice(2), query);
  if (segments.length !== 5) throw notFound(url);
  return callRoute(method, segments.slice(1), query);
}

function callRoute(httpMethod: string, segments: readonly string[], query: URLSearchParams): Route {
  const object = objectPath(segments);
  const method = segments[3] ?? "";
  allow(httpMethod, ["POST", "GET"]);
  if (httpMethod === "POST") {
    checkParameters(query, []);
    return { kind: "call", object, method };
  }
  checkParameters(query, ["args"]);
  return { kind: "read", object, method, args: query.get("args") ?? undefined };
}

function adminRoute(method: string, url: string, segments: readonly string[], query: URLSearchParams): Route {
  const [name = "", ...rest] = segments;
  if (rest.length === 0 && (name === "status" || name === "classes")) {
    allow(method, ["GET"]);
    checkParameters(query, []);
    return { kind: name };
  }
  if (rest.length !== 3 || !Object.hasOwn(ADMIN_OBJECT_ROUTES, name)) throw adminNotFound(url, name);
  const kind = name as keyof typeof ADMIN_OBJECT_ROUTES;
  allow(method, [ADMIN_OBJECT_ROUTES[kind]]);
  checkParameters(query, kind === "store" ? ["key", "prefix"] : []);
  const object = objectPath(rest);
  if (kind !== "store") return { kind, object };
  const key = query.get("key");
  if (key === null) return { kind: "store_list", object, prefix: query.get("prefix") ?? "" };
  if (query.has("prefix")) throw MoonportError.of("bad_request", "give either key or prefix, not both");
  return { kind: "store_get", object, key };
}

function splitUrl(url: string): { segments: string[]; query: URLSearchParams } {
  const mark = url.indexOf("?");
  const path = mark < 0 ? url : url.slice(0, mark);
  if (!path.startsWith("/")) throw notFound(url);
  const rawQuery = mark < 0 ? "" : url.slice(mark + 1);
  // URLSearchParams would turn a broken escape into U+FFFD and go on.
  for (const part of rawQuery.split(/[&=]/)) decode(part);
  return { segments: path.slice(1).split("/").map(decode), query: new URLSearchParams(rawQuery) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw MoonportError.of("bad_request", `the percent-encoding of "${clip(text)}" in the URL is broken`, {
      cause,
      hint: "encode text as UTF-8 and each byte as %XX; a percent sign itself is %25",
    });
  }
}

function objectPath(segments: readonly string[]): ObjectPath {
  const [app = "", className = "", key = ""] = segments;
  return { app, className, key };
}

function allow(method: string, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  throw MoonportError.of("method_not_allowed", `this route takes ${allowed.join(" and ")}, not ${method}`, {
    details: { allow: allowed },
  });
}

function checkParameters(query: URLSearchParams, known: readonly string[]): void {
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

function notFound(url: string): MoonportError {
  return MoonportError.of("route_not_found", `no route at ${clip(url)}`, {
    hint: "a call is POST /v1/{app}/{Class}/{key}/{method}, with the key percent-encoded",
  });
}

function adminNotFound(url: string, name: string): MoonportError {
  const names = [...ADMIN_NODE_ROUTES, ...Object.keys(ADMIN_OBJECT_ROUTES)];
  const guess = names.includes(name) ? undefined : nearest(name, names);
  return MoonportError.of("route_not_found", `no operator's route at ${clip(url)}`, {
    hint: guess === undefined ? `operator's routes: ${names.join(", ")}` : `did you mean ${guess}?`,
  });
}

function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
