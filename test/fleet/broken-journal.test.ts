/** A write or a sync of a node's journal fails, once: it takes nothing more, and nobody counts on it until the node starts again. */
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest } from "../../src/shipping/manifest.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
const OBJECT = identityOf("default", "List", "k");
const NAMES = ["a", "b", "c"];

async function stage() {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, CALL_TIMEOUT_MS: 20_000, CLAIM_MS: 2_000 },
  });
  onTestFinished(() => fleet.close());
  for (const name of NAMES) await fleet.start(name);
  await fleet.time.advance(1_000);
  const call = async (node: string, method: string, ...args: PlainValue[]): Promise<PlainValue> => {
    const request = { object: OBJECT, method, args, caller: { kind: "client" as const } };
    return (await fleet.time.until(fleet.node(node).call(request))).value;
  };
  const set = (): readonly string[] | undefined => {
    const stored = fleet.contents.get(new ObjectKeys(OBJECT).manifest);
    const { replicas } = decodeManifest(OBJECT.id, stored?.bytes ?? new Uint8Array());
    return replicas?.set.map(({ node }) => node);
  };
  /** The next sync of the node's journal fails, and no other. */
  const failSync = (node: string): void => {
    const { folder } = fleet.node(node).world;
    folder.intercept = (operation, file) => {
      if (operation !== "flush" || !file.includes("journal")) return;
      folder.intercept = undefined;
      throw MoonportError.of("storage_full", "no space left on device");
    };
  };
  await call("a", "append", 0);
  await fleet.time.advance(5_000);
  const owner = NAMES.find((name) => fleet.node(name).node.local.holds(OBJECT)) ?? "";
  const [first = "", second = ""] = NAMES.filter((name) => name !== owner);
  return { fleet, call, set, failSync, owner, first, second };
}

it("is left out of the sets of all objects at once, and the loss of another node loses nothing", async () => {
  const { fleet, call, set, failSync, owner, first, second } = await stage();
  failSync(first);
  await call(owner, "append", 1);
  await fleet.time.advance(5_000);
  expect([...(set() ?? [])].sort()).toEqual([owner, second].sort());
  const status = await fleet.time.until(fleet.node(first).node.status());
  expect(status).toMatchObject({ ready: false, fleet: { journalBroken: "no space left on device", valid: true } });
  expect(fleet.node(first).node.fleetMeasures.isJournalBroken).toBe(true);
  expect((await fleet.time.until(fleet.node(second).node.status())).ready).toBe(true);
  await call(owner, "append", 2);
  fleet.node(owner).crash();
  await fleet.time.advance(10_000);
  expect(await call(second, "all")).toEqual([0, 1, 2]);
});

it("of an object's owner is left out as well: what it writes goes to the others", async () => {
  const { fleet, call, set, failSync, owner, first, second } = await stage();
  failSync(owner);
  await call(owner, "append", 1);
  await fleet.time.advance(5_000);
  expect([...(set() ?? [])].sort()).toEqual([first, second].sort());
  await call(owner, "append", 2);
  fleet.node(owner).crash();
  await fleet.time.advance(10_000);
  expect(await call(first, "all")).toEqual([0, 1, 2]);
});

it("counts again when the node has started anew", async () => {
  const { fleet, call, set, failSync, owner, first } = await stage();
  failSync(first);
  await call(owner, "append", 1);
  await fleet.time.advance(5_000);
  await fleet.time.until(fleet.node(first).stop());
  await fleet.time.until(fleet.node(first).start());
  await fleet.time.advance(5_000);
  expect((await fleet.time.until(fleet.node(first).node.status())).ready).toBe(true);
  expect([...(set() ?? [])].sort()).toEqual(NAMES);
  expect(await call(first, "all")).toEqual([0, 1]);
});
