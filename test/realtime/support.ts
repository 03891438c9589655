/** A sink that writes down what it is told, and can be made slow. */
import type { Delivery, LiveEvent, Sink, SubscribeRequest, Subscription } from "../../src/realtime/contract.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import type { VirtualNode } from "../support/virtual-node.js";

export class RecordingSink implements Sink {
  readonly told: Delivery[] = [];
  full = false;
  #blocked: Deferred<void> | undefined;

  deliver(delivery: Delivery): void {
    this.told.push(delivery);
  }

  room(): Promise<void> | undefined {
    return this.#blocked?.promise;
  }

  isFull(): boolean {
    return this.full;
  }

  /** From now on there is no room, until {@link unblock}. */
  block(): void {
    this.#blocked ??= deferred();
  }

  unblock(): void {
    const blocked = this.#blocked;
    this.#blocked = undefined;
    blocked?.resolve();
  }

  get events(): LiveEvent[] {
    return this.told.flatMap((one) => (one.kind === "event" ? [one.event] : []));
  }

  get numbers(): number[] {
    return this.events.map(({ number }) => number);
  }

  /** In short: `subscribed 2`, `event 3`, ... */
  get story(): string[] {
    return this.told.map(storyOf);
  }
}

function storyOf(one: Delivery): string {
  switch (one.kind) {
    case "subscribed":
      return `subscribed ${one.after}`;
    case "snapshot":
      return `snapshot ${JSON.stringify(one.value)} at ${one.number}`;
    case "event":
      return `event ${one.event.number} ${one.event.name}`;
    case "gap":
      return `gap ${one.from} to ${one.first - 1}`;
    case "view":
      return `view ${JSON.stringify(one.value)}`;
    case "view_failed":
      return `view failed: ${(one.error as { code?: string }).code}`;
    case "ended":
      return `ended ${one.reason} after ${one.after}`;
  }
}

export type SubscribeOptions = Omit<SubscribeRequest, "object" | "caller">;

/** Subscribes and lets the greeting arrive. */
export async function subscribe(
  at: VirtualNode,
  target: string,
  options: SubscribeOptions = { from: { kind: "now" } },
  sink = new RecordingSink(),
): Promise<{ sink: RecordingSink; subscription: Subscription }> {
  const request = { object: at.identity(target), caller: { kind: "client" as const }, ...options };
  const subscription = await at.time.until(at.node.subscribe(request, sink));
  await at.time.settle();
  return { sink, subscription };
}

export async function view(
  at: VirtualNode,
  target: string,
  method: string,
  args: readonly number[] = [],
  sink = new RecordingSink(),
): Promise<{ sink: RecordingSink; subscription: Subscription }> {
  const request = { object: at.identity(target), caller: { kind: "client" as const }, reading: { method, args } };
  const subscription = await at.time.until(at.node.view(request, sink));
  await at.time.settle();
  return { sink, subscription };
}
