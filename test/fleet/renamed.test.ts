/** A node is started under another name, with the folder that it had: until the old name is dead, two members have one journal. */
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { identityOf } from "../../src/identity.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest } from "../../src/shipping/manifest.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";

const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
const OBJECTS = Array.from({ length: 16 }, (_, number) => identityOf("default", "List", `k${number}`));

it.each([
  { files: "closed", OBJECT_IDLE_MS: 500 },
  { files: "open", OBJECT_IDLE_MS: 3_600_000 },
])(
  "is named once in every set, by the name that has the journal now, and its peers go on: $files files",
  async (at) => {
    const fleet = new SimulatedFleet({
      apps: [appIn(CLASSES)],
      settings: { NODE_TTL_MS: 5_000, NODE_TTL_MARGIN_MS: 500, OBJECT_IDLE_MS: at.OBJECT_IDLE_MS, COVER_MS: 100 },
    });
    onTestFinished(() => fleet.close());
    for (const name of ["a", "b"]) await fleet.start(name);
    await fleet.time.advance(1_000);
    for (const object of OBJECTS) {
      const request = { object, method: "append", args: [1], caller: { kind: "client" as const } };
      await fleet.time.until(fleet.node("a").call(request));
    }
    await fleet.time.advance(5_000);
    const owned = OBJECTS.filter((object) => fleet.node("a").node.local.holds(object));
    expect(owned.length).toBeGreaterThan(0);
    fs.cpSync(fleet.folderOf("b"), fleet.folderOf("b2"), { recursive: true });
    fs.rmSync(path.join(fleet.folderOf("b2"), "lock"), { force: true });
    fleet.node("b").crash();
    await fleet.start("b2");
    await fleet.time.advance(3_000);

    const { fleet: member } = fleet.node("a").node;
    expect(member.members.map(({ node }) => node)).toEqual(["a", "b", "b2"]);
    for (const object of owned) {
      const stored = fleet.contents.get(new ObjectKeys(object).manifest);
      const replicas = decodeManifest(object.id, stored?.bytes ?? new Uint8Array()).replicas;
      expect(replicas?.set.map(({ node }) => node)).toEqual(["a", "b2"]);
      expect(replicas?.quorum).toEqual({ copies: 2, acksToLand: 2 });
    }
    const { journalCounts } = fleet.node("b2").node.fleet;
    for (const object of owned) {
      const request = { object, method: "append", args: [2], caller: { kind: "client" as const } };
      await fleet.time.until(fleet.node("a").call(request));
    }
    const { entries } = fleet.node("b2").node.fleet.journalCounts;
    expect(entries - journalCounts.entries).toBe(owned.length);
  },
);
