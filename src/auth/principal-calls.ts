/**
 * Calls on behalf of a principal: what doors share.
 *
 * `call` lets a method run whatever it does. `read` alone lets reading methods run: the node is told to refuse any other, and
 * what it refuses for that reason is `forbidden`, as it is the token that lacks something and not the request.
 */
import type { SendRequest } from "../delay/contract.js";
import { isOwn, MoonportError } from "../errors.js";
import type { Caller } from "../lua/contract.js";
import type { CallReply, CallRequest, NodeApi } from "../node-api.js";
import type { Access, Principal, Right } from "./contract.js";

export type Target = Omit<Access, "right">;

/** `caller` in Lua. */
export function callerOf({ id, claims }: Principal): Caller {
  return { kind: "client", ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) };
}

/** The first of the rights that the principal has. @throws MoonportError `forbidden`, as for the first right */
export function checkAny(principal: Principal, target: Target, rights: readonly [Right, ...Right[]]): Right {
  const [first, ...others] = rights;
  try {
    principal.check({ ...target, right: first });
    return first;
  } catch (error) {
    const held = others.find((right) => has(principal, { ...target, right }));
    if (held === undefined) throw error;
    return held;
  }
}

/** What a principal may do with a method: run it, or run it if it only reads. @throws MoonportError `forbidden` */
export function checkMethod(principal: Principal, target: Target): "call" | "read" {
  return checkAny(principal, target, ["call", "read"]) as "call" | "read";
}

/**
 * Whether a principal may have a method called later, and whoever it names told of the outcome: that is a message to another
 * object, or an event of it. @throws MoonportError `forbidden`
 */
export function checkSend(
  principal: Principal,
  { app, className, key, method, outcome }: Pick<SendRequest, "app" | "className" | "key" | "method"> & ToldOutcome,
): void {
  principal.check({ right: "send", app, className, key, method });
  if (outcome === undefined) return;
  const told = { right: "send" as const, app, className: outcome.className, key: outcome.key };
  principal.check("method" in outcome ? { ...told, method: outcome.method } : told);
}

interface ToldOutcome {
  readonly outcome: SendRequest["outcome"] | undefined;
}

/** @throws MoonportError `forbidden`, and whatever the node's call throws */
export async function callAs(
  node: Pick<NodeApi, "call">,
  principal: Principal,
  request: Omit<CallRequest, "caller">,
): Promise<CallReply> {
  const { object, method } = request;
  const { app, className, key } = object;
  const right = checkMethod(principal, { app, className, key, method });
  const wanted: CallRequest = { ...request, caller: callerOf(principal) };
  if (right === "call" || request.mustRead === true) return node.call(wanted);
  try {
    return await node.call({ ...wanted, mustRead: true });
  } catch (error) {
    if (!isOwn(error, "not_a_reading_method")) throw error;
    throw MoonportError.of("forbidden", `${object.id} ${method} writes, and the token may only read`, {
      object: object.id,
      cause: error,
    });
  }
}

function has(principal: Principal, access: Access): boolean {
  try {
    principal.check(access);
    return true;
  } catch {
    return false;
  }
}
