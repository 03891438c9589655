/**
 * Which of the door's own operations a request line names: a pure function to a {@link Route}.
 *
 * The app, class and method that it returns are text still to be checked by the grammar of src/identity.ts. A key called `-`
 * is a key like any other: what routes reserve stands where only a method can, and `-` is no method.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import { allowMethods, checkParameters, clip, type RequestLine, routeNotFound } from "./request-line.js";

export interface ObjectPath {
  readonly app: string;
  readonly className: string;
  readonly key: string;
}

export type DirectoryPath = Omit<ObjectPath, "key">;

export type Route =
  | { readonly kind: "healthz" }
  | { readonly kind: "readyz" }
  | { readonly kind: "call"; readonly object: ObjectPath; readonly method: string }
  /** `args`: JSON text of the `args` parameter. */
  | { readonly kind: "read"; readonly object: ObjectPath; readonly method: string; readonly args: string | undefined }
  /** The directory of a class. Parameters are as they came. */
  | { readonly kind: "find"; readonly directory: DirectoryPath; readonly parameters: URLSearchParams }
  | { readonly kind: "directory" | "directory_rebuild"; readonly directory: DirectoryPath }
  | { readonly kind: "status" }
  | { readonly kind: "classes" }
  | { readonly kind: "nodes" }
  | { readonly kind: "ring"; readonly object?: ObjectPath }
  | { readonly kind: "drain" }
  | { readonly kind: "inspect"; readonly object: ObjectPath }
  | { readonly kind: "store_get"; readonly object: ObjectPath; readonly key: string }
  | { readonly kind: "store_list"; readonly object: ObjectPath; readonly prefix: string }
  | { readonly kind: "sql"; readonly object: ObjectPath }
  | { readonly kind: "destroy"; readonly object: ObjectPath }
  | { readonly kind: "recover"; readonly object: ObjectPath }
  /** `limit`, `seq`, `atMs`: text of the parameters. */
  | { readonly kind: "history"; readonly object: ObjectPath; readonly limit: string | undefined }
  | { readonly kind: "restore"; readonly object: ObjectPath }
  | { readonly kind: "fork"; readonly object: ObjectPath }
  | {
      readonly kind: "export";
      readonly object: ObjectPath;
      readonly seq: string | undefined;
      readonly atMs: string | undefined;
    }
  | { readonly kind: "quarantine" }
  | { readonly kind: "quarantine_clear"; readonly object: ObjectPath }
  | { readonly kind: "releases" | "deploy" | "rollback"; readonly app: string };

const ADMIN_NODE_ROUTES = ["status", "classes", "nodes", "quarantine"] as const;
const FIND_PARAMETERS = ["where", "params", "order", "limit", "after", "count"];
const ADMIN_OBJECT_ROUTES = {
  inspect: "GET",
  store: "GET",
  sql: "POST",
  destroy: "POST",
  recover: "POST",
  history: "GET",
  restore: "POST",
  fork: "POST",
  export: "GET",
  quarantine: "POST",
} as const;
const ADMIN_PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  store: ["key", "prefix"],
  history: ["limit"],
  export: ["seq", "atMs"],
};

/** @throws MoonportError `route_not_found`, `method_not_allowed`, `bad_request`, `bad_option` */
export function routeOf(line: RequestLine): Route {
  const { segments } = line;
  const [first, second, third] = segments;
  if (segments.length === 1 && (first === "healthz" || first === "readyz")) {
    allowMethods(line, ["GET"]);
    return { kind: first };
  }
  if (first !== "v1") throw routeNotFound(line.url);
  // A class begins with a capital, an operator's route does not: an app may be called "admin" all the same.
  if (second === "admin" && /^[a-z]/.test(third ?? "")) return adminRoute(line, segments.slice(2));
  if (segments.length === 3 && /^[A-Z]/.test(third ?? "")) return findRoute(line, segments.slice(1));
  if (segments.length !== 5) throw routeNotFound(line.url);
  return callRoute(line, segments.slice(1));
}

function callRoute(line: RequestLine, segments: readonly string[]): Route {
  const object = objectPath(segments);
  const method = segments[3] ?? "";
  allowMethods(line, ["POST", "GET"]);
  if (line.method === "POST") {
    checkParameters(line, []);
    return { kind: "call", object, method };
  }
  checkParameters(line, ["args"]);
  return { kind: "read", object, method, args: line.query.get("args") ?? undefined };
}

function findRoute(line: RequestLine, segments: readonly string[]): Route {
  allowMethods(line, ["GET"]);
  checkParameters(line, FIND_PARAMETERS);
  return { kind: "find", directory: objectPath(segments), parameters: line.query };
}

function directoryRoute(line: RequestLine, segments: readonly string[]): Route {
  allowMethods(line, ["GET", "POST"]);
  checkParameters(line, []);
  return { kind: line.method === "POST" ? "directory_rebuild" : "directory", directory: objectPath(segments) };
}

function ringRoute(line: RequestLine, rest: readonly string[]): Route {
  allowMethods(line, ["GET"]);
  checkParameters(line, []);
  return rest.length === 0 ? { kind: "ring" } : { kind: "ring", object: objectPath(rest) };
}

function drainRoute(line: RequestLine): Route {
  allowMethods(line, ["POST"]);
  checkParameters(line, []);
  return { kind: "drain" };
}

function adminRoute(line: RequestLine, segments: readonly string[]): Route {
  const [name = "", ...rest] = segments;
  if (name === "ring" && (rest.length === 0 || rest.length === 3)) return ringRoute(line, rest);
  if (name === "drain" && rest.length === 0) return drainRoute(line);
  if (name === "directory" && rest.length === 2) return directoryRoute(line, rest);
  if ((name === "releases" || name === "rollback") && rest.length === 1) return releaseRoute(line, name, rest[0] ?? "");
  const ofNode = ADMIN_NODE_ROUTES.find((one) => one === name);
  if (rest.length === 0 && ofNode !== undefined) {
    allowMethods(line, ["GET"]);
    checkParameters(line, []);
    return { kind: ofNode };
  }
  if (rest.length !== 3 || !Object.hasOwn(ADMIN_OBJECT_ROUTES, name)) throw adminNotFound(line.url, name);
  const kind = name as keyof typeof ADMIN_OBJECT_ROUTES;
  allowMethods(line, [ADMIN_OBJECT_ROUTES[kind]]);
  checkParameters(line, ADMIN_PARAMETERS[kind] ?? []);
  const object = objectPath(rest);
  const parameter = (name: string): string | undefined => line.query.get(name) ?? undefined;
  if (kind === "quarantine") return { kind: "quarantine_clear", object };
  if (kind === "history") return { kind, object, limit: parameter("limit") };
  if (kind === "export") return { kind, object, seq: parameter("seq"), atMs: parameter("atMs") };
  if (kind !== "store") return { kind, object };
  const key = line.query.get("key");
  if (key === null) return { kind: "store_list", object, prefix: line.query.get("prefix") ?? "" };
  if (line.query.has("prefix")) throw MoonportError.of("bad_request", "give either key or prefix, not both");
  return { kind: "store_get", object, key };
}

function releaseRoute(line: RequestLine, name: "releases" | "rollback", app: string): Route {
  allowMethods(line, name === "releases" ? ["GET", "POST"] : ["POST"]);
  checkParameters(line, []);
  if (name === "rollback") return { kind: "rollback", app };
  return { kind: line.method === "POST" ? "deploy" : "releases", app };
}

function objectPath(segments: readonly string[]): ObjectPath {
  const [app = "", className = "", key = ""] = segments;
  return { app, className, key };
}

function adminNotFound(url: string, name: string): MoonportError {
  const names = [
    ...ADMIN_NODE_ROUTES,
    "ring",
    "drain",
    "directory",
    "releases",
    "rollback",
    ...Object.keys(ADMIN_OBJECT_ROUTES),
  ];
  const guess = names.includes(name) ? undefined : nearest(name, names);
  return MoonportError.of("route_not_found", `no operator's route at ${clip(url)}`, {
    hint: guess === undefined ? `operator's routes: ${names.join(", ")}` : `did you mean ${guess}?`,
  });
}
