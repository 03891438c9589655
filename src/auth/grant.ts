/**
 * One line of what somebody may do: rights, and the names they hold for.
 *
 * A list that is left out does not limit. A limit on apps, classes or keys holds for what has none, too: an operator who may
 * only look after one class may not drain the node. A limit on methods says nothing about subscribing and the directory, and
 * excludes reading an object's store past its methods. The directory shows all keys: a limit on keys excludes it.
 */
import type { Access, Right } from "./contract.js";
import type { Pattern } from "./pattern.js";

export const RIGHTS = ["read", "call", "send", "subscribe", "query", "unit", "admin"] as const satisfies Right[];

export interface Grant {
  readonly rights: ReadonlySet<Right>;
  readonly apps?: readonly Pattern[];
  readonly classes?: readonly Pattern[];
  readonly keys?: readonly Pattern[];
  /** Methods' names, or units'. */
  readonly methods?: readonly Pattern[];
}

export function grants(grant: Grant, access: Access): boolean {
  if (!grant.rights.has(access.right)) return false;
  if (!covers(grant.apps, access.app)) return false;
  if (!covers(grant.classes, access.className)) return false;
  if (!covers(grant.keys, access.key)) return false;
  const hasNoMethod = access.right === "subscribe" || access.right === "query";
  const isWithoutMethod = hasNoMethod && access.method === undefined;
  return isWithoutMethod || covers(grant.methods, access.method);
}

function covers(patterns: readonly Pattern[] | undefined, name: string | undefined): boolean {
  if (patterns === undefined) return true;
  return name !== undefined && patterns.some((matches) => matches(name));
}

/** The question in words, for a refusal: `call default/Auction/lot-42 bid`. */
export function accessText({ right, app, className, key, method }: Access): string {
  const object = [app, className, key].filter((part) => part !== undefined).join("/");
  return [right, object, method].filter((part) => part !== undefined && part !== "").join(" ");
}
