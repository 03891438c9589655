/**
 * `npm run store-data`: puts away what this version stores, for all later ones to open (docs/testing.md). Run it when a version is
 * released, or a stored format changes, and commit the file.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Moonport } from "../../src/moonport.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { VERSION } from "../../src/version.js";
import { APP, type Expected, filesIn, fleetOf, keptObject, NODES, putAway, type StoredFleet } from "./stored.js";

const HOUR_MS = 3_600_000;
/** History is compacted soon, so that past manifests and snapshots are among it; the last writes stand in journals alone. */
const SETTINGS = { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, COMPACT_SEGMENTS_MAX: 3, COVER_MS: 200 };
const KEYS = Array.from({ length: 24 }, (_, index) => `k${index}`);
const LINES = 7;

const fleet = fleetOf(SETTINGS);
let asked = 0;

async function call(key: string, method: string, args: PlainValue[], callId = `call-${++asked}`) {
  const through = fleet.node(NODES[asked % NODES.length] as string);
  const request = { object: keptObject(key), method, args, caller: { kind: "client" }, callId } as const;
  return fleet.time.until(through.call(request));
}

async function fill(): Promise<Expected> {
  for (const [index, key] of KEYS.entries()) {
    for (let line = 0; line < 1 + (index % LINES); line++) {
      await call(key, "add", [`${key}-${line}`, "x".repeat(index * 40)]);
      // A flight of its own, now and then: some segments stand in manifests, some beside, some are bundles of several.
      if (line % 2 === 0) await fleet.time.advance(300);
    }
  }
  const past = { key: "k6", seq: (await call("k6", "add", ["then"])).seq ?? 0, lines: 1 + (6 % LINES) + 1 };
  for (let line = 0; line < LINES; line++) {
    await call("k6", "add", [`later-${line}`]);
    await fleet.time.advance(300);
  }
  await call("gone", "add", ["gone"]);
  await fleet.time.until(fleet.node("n0").node.destroy(keptObject("gone")));
  await call("k1", "arm", ["a timer", HOUR_MS]);
  await call("k2", "tell", ["a message", "k3", HOUR_MS]);
  const command = { app: "default", className: "Kept", key: "k4", method: "got" } as const;
  const { delay } = fleet.node("n1").node;
  await fleet.time.until(delay.send({ ...command, args: ["a command"], id: "small", delayMs: HOUR_MS }));
  const large = { args: ["a large command", "y".repeat(40_000)], id: "large", delayMs: HOUR_MS };
  await fleet.time.until(delay.send({ ...command, ...large }));
  await fleet.time.until(delay.send({ ...command, args: ["never"], id: "cancelled", delayMs: HOUR_MS }));
  await fleet.time.until(delay.cancel("cancelled"));
  await fleet.time.advance(2_000);
  // Acknowledged by journals, and by them alone.
  const last = [];
  for (const key of ["k0", "k5"])
    last.push({ key, id: `last of ${key}`, ...(await call(key, "add", ["last"], `last of ${key}`)) });
  return {
    lines: await linesOf(fleet),
    destroyed: ["gone"],
    due: { k1: ["a timer"], k3: ["a message"], k4: ["a command", "a large command"] },
    acknowledged: last.map(({ key, id, value }) => ({ key, id, value })),
    past,
  };
}

/** A node without a fleet, with the embedded bucket. */
async function alone(): Promise<StoredFleet["alone"]> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-store-"));
  const node = await Moonport.open({ dataDir, dir: APP, log: { level: "silent" } });
  const lines: Record<string, PlainValue> = {};
  for (const [index, key] of KEYS.slice(0, 6).entries()) {
    const object = node.object("Kept", key);
    for (let line = 0; line <= index; line++) await object.call("add", [`${key}-${line}`, "z".repeat(100)]);
    await object.call("arm", ["far away", 365 * 24 * HOUR_MS]);
    lines[key] = (await object.call("lines")) as PlainValue;
  }
  await node.close();
  const files = filesIn(dataDir);
  fs.rmSync(dataDir, { recursive: true, force: true });
  return { files, lines };
}

async function linesOf(of: SimulatedFleet): Promise<Record<string, PlainValue>> {
  const lines: Record<string, PlainValue> = {};
  for (const key of KEYS) {
    const read = {
      object: keptObject(key),
      method: "lines",
      args: [],
      caller: { kind: "client" },
      mustRead: true,
    } as const;
    lines[key] = (await of.time.until(of.node("n0").call(read))).value;
  }
  return lines;
}

for (const name of NODES) await fleet.start(name);
await fleet.time.advance(1_000);
const expected = await fill();
// As they stand: to whoever opens it, all nodes have crashed.
const { file, keys } = putAway(fleet, VERSION, SETTINGS, expected, await alone());
fleet.close();
console.log(`${file}: ${keys.length} keys, ${fs.statSync(file).size} bytes`);
for (const kind of new Set(
  keys.map((key) => key.replace(/^objects\/.*\/([^/]*)$/, "objects/…/$1").replace(/[0-9a-f-]{36}/g, "…")),
))
  if (!/\d{2}/.test(kind)) console.log(`  ${kind}`);
process.exit(0);
