/**
 * One message on its way from an object's outbox: called where its target lives, or given to the target's delay shard, which
 * also gets what could not be delivered at once. Resolves when the message is somebody else's to deliver, or delivered.
 */
import { asMoonportError, isOwn } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import { derivedId } from "../object/timed-id.js";
import { hasRunBefore, isDoubtful, isOfMethod } from "../object/try-outcome.js";
import type { Settings } from "../settings/settings.js";
import type { StoredMessage } from "../store/outbox.js";
import { encodeValue } from "../store/value-codec.js";
import type { World } from "../world/world.js";
import type { CommandRequest } from "./command.js";
import type { DriverPort } from "./driver-port.js";
import type { Scheduler } from "./scheduler.js";

export interface MessageParts {
  readonly world: World;
  readonly settings: Pick<Settings, "CALL_TIMEOUT_MS" | "DELAY_BACKOFF_MS">;
  readonly port: Pick<DriverPort, "call" | "wake">;
  readonly scheduler: Scheduler;
}

/** @param isFound an earlier residency may have tried it @throws MoonportError when not even its shard could be reached */
export async function sendMessage(
  { world, settings, port, scheduler }: MessageParts,
  sender: ObjectIdentity,
  message: StoredMessage,
  isFound: boolean,
): Promise<void> {
  const { className, key, method, args } = message;
  const target = identityOf(sender.app, className, key);
  const nowMs = world.clock.wallMs();
  const command = commandOf(sender, message);
  // Whoever is to tell what became of it has to be who delivers it, or finds that it is too late.
  if (message.isDelayed || message.outcome !== undefined || message.expiresMs !== undefined)
    return scheduler.schedule(command);
  const callId = derivedId(message.id, `message\n${sender.id}\n${message.id}\n${target.id}\n${method}`);
  // It may have been called, or given to the shard, and be left only because that was not written down.
  if (isFound) return scheduler.schedule({ ...command, triedAs: callId });
  try {
    const expiresMs = world.clock.monotonicMs() + settings.CALL_TIMEOUT_MS;
    const caller = { kind: "message" as const, id: sender.id };
    await port.call({ object: target, method, args, caller, callId, expiresMs, chain: [] });
  } catch (thrown) {
    const error = asMoonportError(thrown);
    if (hasRunBefore(error, callId)) return;
    const fields = { object: sender.id, target: target.id, method, code: error.code };
    world.log.warn(fields, `a message goes by its delay shard: ${error.message}`);
    const plan = { kind: "at", atMs: nowMs + settings.DELAY_BACKOFF_MS };
    // What others did for a method that then failed stays done: under another id they would be asked to do it again.
    const mayHaveActed = isDoubtful(error) || (isOfMethod(error) && !isOwn(error, "id_expired"));
    await scheduler.schedule({ ...command, plan, triedAs: mayHaveActed ? callId : null });
  }
}

function commandOf(sender: ObjectIdentity, message: StoredMessage): CommandRequest {
  const { id, className, key, method, args, dueMs, expiresMs = null, outcome } = message;
  return {
    id: `${sender.id}#${id}`,
    app: sender.app,
    className,
    key,
    method,
    args: encodeValue([...args], Number.POSITIVE_INFINITY, "a message"),
    argsHash: null,
    plan: { kind: "at", atMs: dueMs },
    expiresMs,
    caller: { id: sender.id },
    outcome: outcome === undefined ? null : { className: sender.className, key: sender.key, ...outcome },
    triedAs: null,
  };
}
