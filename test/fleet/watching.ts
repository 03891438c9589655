/** Lists on a simulated fleet, and sinks that write down what they are told of them. */
import path from "node:path";
import { afterEach } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { SubscribeRequest, Subscription } from "../../src/realtime/contract.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet, type SimulatedFleetOptions, type StartOptions } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { uuidv7 } from "../../src/world/world.js";
import { RecordingSink } from "../realtime/support.js";

const app = appIn(path.join(import.meta.dirname, "../simulation/app"));
const CALLER = { kind: "client" } as const;

let open: SimulatedFleet[] = [];
afterEach(() => {
  for (const fleet of open) fleet.close();
  open = [];
});

/** Nodes n0, n1, ... in one fleet. @param first what n0 is like */
export async function startFleet(
  nodes: number,
  settings: Readonly<Record<string, number>> = {},
  first: StartOptions = {},
  options: Partial<SimulatedFleetOptions> = {},
): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    ...options,
    apps: [app],
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, ...settings },
  });
  open.push(fleet);
  for (let index = 0; index < nodes; index++) await fleet.start(`n${index}`, index === 0 ? first : {});
  // Each has seen all others.
  await fleet.time.advance(1_000);
  return fleet;
}

/** A list whose home is `node`, as all nodes see it. */
export function listAt(fleet: SimulatedFleet, node: string, but = ""): ObjectIdentity {
  for (let index = 0; ; index++) {
    const object = identityOf("default", "List", `${but}k${index}`);
    const { fleet: member } = fleet.node(node).node;
    if (member.ring.homesOf(partitionOf(object.id))[0] === node) return object;
  }
}

export async function append(fleet: SimulatedFleet, through: string, object: ObjectIdentity, value: number) {
  return call(fleet, through, object, "append", [value]);
}

export async function ownerOf(fleet: SimulatedFleet, object: ObjectIdentity): Promise<string | undefined> {
  return (await fleet.time.until(fleet.node("n0").node.inspect(object))).node;
}

export async function call(
  fleet: SimulatedFleet,
  through: string,
  object: ObjectIdentity,
  method: string,
  args: readonly PlainValue[] = [],
): Promise<PlainValue> {
  const callId = uuidv7(fleet.node(through).world);
  const { value } = await fleet.time.until(fleet.node(through).call({ object, method, args, caller: CALLER, callId }));
  return value;
}

export async function subscribe(
  fleet: SimulatedFleet,
  through: string,
  object: ObjectIdentity,
  options: Omit<SubscribeRequest, "object" | "caller"> = { from: { kind: "now" } },
): Promise<{ sink: RecordingSink; subscription: Subscription }> {
  const sink = new RecordingSink();
  const request = { object, caller: CALLER, ...options };
  const subscription = await fleet.time.until(fleet.node(through).subscribe(request, sink));
  return { sink, subscription };
}

export async function view(fleet: SimulatedFleet, through: string, object: ObjectIdentity): Promise<RecordingSink> {
  const sink = new RecordingSink();
  const request = { object, caller: CALLER, reading: { method: "all", args: [] } };
  await fleet.time.until(fleet.node(through).view(request, sink));
  return sink;
}

/** Lets time pass until it is so. */
export async function until(fleet: SimulatedFleet, isSo: () => boolean): Promise<void> {
  for (let waitedMs = 0; !isSo(); waitedMs += 20) {
    if (waitedMs > 30_000) throw new Error("it did not come to be so");
    await fleet.time.advance(20);
  }
}
