/** What nodes of a fleet count of it, after work whose outcome is known. */
import { expect, it } from "vitest";
import type { ObjectIdentity } from "../../src/identity.js";
import { metricsPage } from "../../src/metrics/metrics-page.js";
import { METRICS, type MetricEntry, type MetricName } from "../../src/metrics/table.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { append, call, listAt, startFleet } from "../fleet/watching.js";
import { type LogLine, recordingLogger } from "../lua/support/fake-host.js";
import { type Family, readPage } from "./page-reader.js";

async function page(fleet: SimulatedFleet, node: string): Promise<Map<string, Family>> {
  return readPage(await metricsPage(fleet.node(node).node, { sockets: 0, socketCalls: 0, httpConnections: 0 }));
}

/** As `label count`; of a histogram `_sum` and `_count` alone. */
async function shown(fleet: SimulatedFleet, node: string, name: MetricName): Promise<Record<string, number>> {
  const samples = (await page(fleet, node)).get(name)?.samples ?? [];
  const lines = samples.filter((one) => !one.name.endsWith("_bucket"));
  return Object.fromEntries(
    lines.map((one) => [Object.values(one.labels).join(" ") || one.name.slice(name.length), one.value]),
  );
}

const OBJECTS = 5;

/** Lists that live on the node, each with one entry. */
async function listsOn(fleet: SimulatedFleet, node: string): Promise<ObjectIdentity[]> {
  const objects = Array.from({ length: OBJECTS }, (_, index) => listAt(fleet, node, `${index}`));
  for (const object of objects) await append(fleet, node, object, 1);
  return objects;
}

it("each metric of the table is there, with its labels", async () => {
  const fleet = await startFleet(2);
  await append(fleet, "n1", listAt(fleet, "n0"), 1);
  const families = await page(fleet, "n1");
  for (const [name, entry] of Object.entries(METRICS as Record<string, MetricEntry>)) {
    const family = families.get(name) as Family;
    expect([name, family.type]).toEqual([name, entry.kind]);
    for (const { labels } of family.samples) {
      expect(Object.keys(labels).filter((label) => label !== "le")).toEqual(entry.labels);
    }
  }
  for (const name of ["moonport_forwarded_calls_total", "moonport_links", "moonport_journal_sync_seconds"]) {
    expect(families.get(name)?.samples.length).toBeGreaterThan(0);
  }
});

it("calls that go on to another node are counted where they come from, by how they ended", async () => {
  const fleet = await startFleet(2);
  const object = listAt(fleet, "n0");
  await append(fleet, "n1", object, 1);
  await append(fleet, "n1", object, 2);
  await append(fleet, "n0", object, 3);
  await expect(call(fleet, "n1", object, "append")).rejects.toMatchObject({ code: "sql_error" });
  await expect(call(fleet, "n1", object, "appendd")).rejects.toMatchObject({ code: "method_not_found" });
  expect(await shown(fleet, "n1", "moonport_forwarded_calls_total")).toEqual({
    ok: 2,
    sql_error: 1,
    method_not_found: 1,
  });
  expect(await shown(fleet, "n0", "moonport_forwarded_calls_total")).toEqual({});
});

it("links and what they carry", async () => {
  const fleet = await startFleet(3);
  await append(fleet, "n1", listAt(fleet, "n0"), 1);
  await append(fleet, "n1", listAt(fleet, "n2"), 1);
  const standing = await shown(fleet, "n1", "moonport_links");
  expect([standing.outgoing, standing.incoming]).toEqual([2, 2]);
  const before = await shown(fleet, "n1", "moonport_link_bytes_total");
  await append(fleet, "n1", listAt(fleet, "n0"), 2);
  const after = await shown(fleet, "n1", "moonport_link_bytes_total");
  expect(after.sent).toBeGreaterThan((before.sent ?? 0) + 100);
  expect(after.received).toBeGreaterThan((before.received ?? 0) + 50);
});

it("a journal's entries, and the syncs that they shared, in the time that its disk takes", async () => {
  const fleet = await startFleet(2, {}, { diskSyncMs: 40 });
  const object = listAt(fleet, "n0");
  await append(fleet, "n0", object, 1);
  const [batches, entries, sync] = await Promise.all(
    (
      ["moonport_journal_batches_total", "moonport_journal_entries_total", "moonport_journal_sync_seconds"] as const
    ).map((name) => shown(fleet, "n0", name)),
  );
  expect(entries?.[""]).toBe(1);
  expect(batches?.[""]).toBeGreaterThan(0);
  expect(sync?._count).toBeGreaterThanOrEqual(batches?.[""] ?? 0);
  expect((sync?._sum ?? 0) / (sync?._count ?? 1)).toBeCloseTo(0.04, 2);
  expect((await shown(fleet, "n0", "moonport_journal_bytes"))[""]).toBeGreaterThan(0);
});

it("what a node claims because it is asked, takes over from the dead, and is handed over", async () => {
  const fleet = await startFleet(3);
  const objects = await listsOn(fleet, "n0");
  expect((await shown(fleet, "n0", "moonport_objects_claimed_total")).call).toBeGreaterThanOrEqual(OBJECTS);
  fleet.node("n0").crash();
  await fleet.time.advance(5_000);
  const left = ["n1", "n2"];
  const sum = async (name: MetricName, label: string): Promise<number> => {
    const counts = await Promise.all(left.map((node) => shown(fleet, node, name)));
    return counts.reduce((total, one) => total + (one[label] ?? 0), 0);
  };
  expect(await sum("moonport_objects_claimed_total", "takeover")).toBeGreaterThanOrEqual(OBJECTS);
  expect(await sum("moonport_objects_claimed_total", "handover")).toBe(0);
  const begun = await sum("moonport_takeovers_begun_total", "");
  expect(begun).toBeGreaterThan(0);
  expect(await sum("moonport_takeovers_ended_total", "")).toBe(begun);
  expect(await sum("moonport_takeover_seconds", "_count")).toBe(begun);
  const held = fleet.node("n1").node.fleet.held;
  await fleet.time.until(fleet.node("n1").node.drain({}));
  expect(await shown(fleet, "n1", "moonport_handovers_total")).toEqual({ gone: held, stayed: 0 });
  expect((await shown(fleet, "n1", "moonport_handover_seconds"))._count).toBe(held);
  for (const object of objects) await append(fleet, "n2", object, 2);
  const handedOver = (await shown(fleet, "n2", "moonport_objects_claimed_total")).handover ?? 0;
  expect(handedOver).toBeGreaterThan(0);
  expect(handedOver).toBeLessThanOrEqual(held);
});

it("lines of a call that came from another node carry the object and the id that its caller gave", async () => {
  const lines: Record<string, LogLine[]> = { n0: [], n1: [] };
  const log = (node: string) => recordingLogger(lines[node] ?? []);
  const fleet = await startFleet(2, {}, {}, { log });
  const object = listAt(fleet, "n0");
  const request = { object, method: "append", args: [], caller: { kind: "client" as const } };
  const asked = fleet.node("n1").call({ ...request, callId: "order-17" });
  await expect(fleet.time.until(asked)).rejects.toMatchObject({ code: "sql_error" });
  const told = (node: string) => (lines[node] ?? []).filter(({ fields }) => fields.callId !== undefined);
  expect(told("n0")).toMatchObject([{ level: "warn", fields: { object: object.id, callId: "order-17" } }]);
  expect(told("n1")).toEqual([]);
});
