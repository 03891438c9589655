/** Delayed commands and timers over a WebSocket: sending for whoever may send, everything else for operators. */
import type { Principal } from "../auth/contract.js";
import { checkSend } from "../auth/principal-calls.js";
import type { OutcomeTarget } from "../delay/contract.js";
import { checkMethodName, type ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { NodeApi } from "../node-api.js";
import type { ClientFrame, CommandFields } from "../wire/frames.js";
import { objectOf } from "./frame-target.js";

export type DelayFrame = FrameOf<"send" | "timers" | "delay">;
type FrameOf<T extends ClientFrame["type"]> = Extract<ClientFrame, { readonly type: T }>;

/** What a frame asks of the node. */
export interface DelayWork {
  /** What it is about, for errors. */
  readonly object: ObjectIdentity;
  readonly method: string;
  run(node: Pick<NodeApi, "delay" | "timers">): Promise<object>;
}

/** All commands, whoever's they are. */
const EVERYTHING: ObjectIdentity = { app: "", className: "", key: "", id: "" };

/** @throws MoonportError `forbidden`, `bad_name`, `bad_key` */
export function delayWork(frame: DelayFrame, principal: Principal, caller: Caller): DelayWork {
  switch (frame.type) {
    case "send":
      return sendWork(frame, principal, caller);
    case "timers": {
      const object = objectOf(frame);
      const { app, className, key } = object;
      principal.check({ right: "admin", app, className, key });
      return { object, method: "timers", run: (node) => node.timers(object) };
    }
    case "delay":
      principal.check({ right: "admin" });
      return { object: EVERYTHING, method: "delay", run: ({ delay }) => asked(frame, delay) };
  }
}

function sendWork(frame: FrameOf<"send">, principal: Principal, { id, claims }: Caller): DelayWork {
  const { method, args = [], command = {} } = frame;
  const { outcome: told, ...plan } = command;
  const object = objectOf(frame);
  const { app, className, key } = object;
  const outcome = told && outcomeOf(told);
  checkMethodName(method);
  checkSend(principal, { app, className, key, method, outcome });
  const caller = { ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) };
  const request = { app, className, key, method, args, caller, ...plan, ...(outcome !== undefined && { outcome }) };
  return { object, method: "send", run: ({ delay }) => delay.send(request) };
}

async function asked({ ask }: FrameOf<"delay">, delay: NodeApi["delay"]): Promise<object> {
  switch (ask.kind) {
    case "list":
      return { commands: await delay.list(ask.filter ?? {}) };
    case "get": {
      const found = await delay.get(ask.command);
      return found === undefined ? { found: false } : { found: true, ...found };
    }
    case "cancel":
      return { answer: await delay.cancel(ask.command) };
    case "move":
      return { answer: await delay.move(ask.command, ask.time) };
    case "retry":
      return { retried: await delay.retry(ask.command) };
  }
}

function outcomeOf({ class: className, ...told }: NonNullable<CommandFields["outcome"]>): OutcomeTarget {
  return { className, ...told };
}
