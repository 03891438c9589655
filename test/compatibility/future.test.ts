/** What a later version has stored in a format that this one does not know is refused by name, and left as it is. */
import fs from "node:fs";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { decodeRecord } from "../../src/membership/node-record.js";
import { decodeManifest } from "../../src/shipping/manifest.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { keptObject, reopened, type StoredFleet, storedFleets } from "./stored.js";

const stored = storedFleets().at(-1) as StoredFleet;
let fleet: SimulatedFleet;
afterEach(() => fleet?.close());

function bytesAt(key: RegExp): Buffer {
  const found = Object.entries(stored.bucket).find(([name]) => key.test(name));
  return Buffer.from(found?.[1] ?? "", "base64");
}

/** The document with another value in one field. */
function changed(document: Uint8Array, field: string, from: number, to: number): Buffer {
  const text = Buffer.from(document).toString();
  expect(text).toContain(`"${field}":${from}`);
  return Buffer.from(text.replace(`"${field}":${from}`, `"${field}":${to}`));
}

async function starting(change: (fleet: SimulatedFleet) => void): Promise<unknown> {
  fleet = reopened(stored);
  change(fleet);
  return fleet.time.until(fleet.add("n0").start());
}

it.each([
  ["format", 1],
  ["manifestFormat", 1],
  ["partitions", 256],
])("a node does not join a fleet whose %s is another", async (field, ours) => {
  const starts = starting((of) => {
    of.contents.apply([{ key: "fleet.json", bytes: changed(bytesAt(/^fleet\.json$/), field, ours, ours * 2) }]);
  });
  await expect(starts).rejects.toMatchObject({
    code: "fleet_mismatch",
    message: `the fleet has ${field} ${ours * 2}, this node has ${ours}`,
    hint: expect.stringContaining("another version"),
  });
});

it("a node does not start on a journal of a later format, and leaves it as it is", async () => {
  let file = "";
  const starts = starting((of) => {
    const folder = path.join(of.folderOf("n0"), "journal");
    const name = fs
      .readdirSync(folder)
      .find((one) => fs.readFileSync(path.join(folder, one)).subarray(0, 4).toString() === "MJNL");
    file = path.join(folder, name ?? "");
    const bytes = fs.readFileSync(file);
    bytes.writeUInt16LE(2, 4);
    fs.writeFileSync(file, bytes);
  });
  await expect(starts).rejects.toMatchObject({
    code: "journal_corrupt",
    message: expect.stringContaining("has format 2, which this version does not know"),
  });
  expect(fs.readFileSync(file).readUInt16LE(4)).toBe(2);
});

it("a node's record and a manifest of a later format are refused, each by its own code", () => {
  const record = changed(bytesAt(/^nodes\//), "format", 1, 2);
  expect(() => decodeRecord("nodes/n0/1", record)).toThrow(
    expect.objectContaining({ code: "bucket_unusable", message: expect.stringMatching(/format 2 is not known/) }),
  );
  const { id } = keptObject("k0");
  const manifest = changed(bytesAt(/Kept\/..\/k0\/manifest$/), "format", 1, 2);
  expect(() => decodeManifest(id, manifest)).toThrow(
    expect.objectContaining({ code: "object_corrupt", message: expect.stringMatching(/format 2 is not known/) }),
  );
});
