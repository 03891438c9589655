/** What a node's page of metrics says after work whose outcome is known; in virtual time, so waits are known too. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { noRequests, REQUEST_KINDS } from "../../src/bucket/request-counts.js";
import { identityOf } from "../../src/identity.js";
import { metricsPage } from "../../src/metrics/metrics-page.js";
import { METRICS, type MetricEntry, type MetricName } from "../../src/metrics/table.js";
import { VirtualNode } from "../support/virtual-node.js";
import { type Family, readPage } from "./page-reader.js";

const TILL = `
  local Till = class "Till"
  function Till:put(n)
    if n < 0 then error { code = n == -1 and "mailbox_full" or "too_low", message = "less than nothing" } end
    if n == 0 then error("plain") end
    state.store.set("n", n)
    return n
  end
  function Till.read:look() return state.store.get("n") end
  function Till:_hidden() end
  function Till:deep() return 1 + self:deep() end
  function Till:large() local all = {} for i = 1, 1e9 do all[i] = { i } end end
  return Till
`;
const BOTH = `
  return function(request)
    Till("of-unit"):put(1)
    local ok = pcall(function() Till("of-unit"):put(0) end)
    return { ok = ok }
  end
`;

let virtual: VirtualNode;
beforeEach(async () => {
  virtual = await VirtualNode.start({ classes: { Till: TILL }, units: { both: BOTH } });
});
afterEach(() => virtual.stop());

async function page(): Promise<Map<string, Family>> {
  return readPage(await metricsPage(virtual.node, { sockets: 1, socketCalls: 2, httpConnections: 3 }));
}

/** As `label=value,... count`. */
async function shown(name: MetricName): Promise<string[]> {
  const samples = (await page()).get(name)?.samples ?? [];
  return samples.map(({ labels, value }) => `${Object.values(labels).join(" ")} ${value}`.trim());
}

interface Waits {
  /** At most so many seconds. */
  readonly upTo: (seconds: number) => number;
  readonly sum: number;
  readonly count: number;
}

/** Of a histogram with one set of labels at most. */
async function waits(name: MetricName): Promise<Waits> {
  const samples = (await page()).get(name)?.samples ?? [];
  const sample = (suffix: string): number => samples.find((one) => one.name === name + suffix)?.value ?? Number.NaN;
  const upTo = (seconds: number): number =>
    samples.find(({ labels }) => labels.le === String(seconds))?.value ?? Number.NaN;
  return { upTo, sum: sample("_sum"), count: sample("_count") };
}

async function fails(target: string, method: string, ...args: number[]): Promise<void> {
  await expect(virtual.call(target, method, ...args)).rejects.toThrow();
}

describe("a node's page of metrics", () => {
  it("shows exactly what the table says, each with its kind and its labels", async () => {
    await virtual.call("Till/a", "put", 1);
    await virtual.unit("both");
    const families = await page();
    const own = [...families.keys()].filter((name) => name.startsWith("moonport_"));
    expect(own).toEqual(Object.keys(METRICS));
    for (const [name, entry] of Object.entries(METRICS as Record<string, MetricEntry>)) {
      const family = families.get(name) as Family;
      expect([name, family.type, family.help]).toEqual([name, entry.kind, entry.meaning]);
      for (const { labels } of family.samples) {
        expect(Object.keys(labels).filter((label) => label !== "le")).toEqual(entry.labels);
      }
    }
  });

  it("shows what its process is like beside it", async () => {
    const families = await page();
    for (const name of ["process_cpu_seconds_total", "nodejs_eventloop_lag_seconds", "nodejs_heap_size_used_bytes"]) {
      expect(families.has(name)).toBe(true);
    }
  });

  it("counts calls by how they ended", async () => {
    await virtual.call("Till/a", "put", 1);
    await virtual.call("Till/b", "put", 2);
    await virtual.call("Till/a", "look");
    await fails("Till/a", "put", 0);
    await fails("Till/a", "put", -1);
    await fails("Till/a", "put", -2);
    expect(await shown("moonport_calls_total")).toEqual([
      "default Till put ok 2",
      "default Till put method_error 1",
      "default Till put class_error 2",
      "default Till look ok 1",
    ]);
  });

  it("makes no entry for what callers make up", async () => {
    for (const made of ["up", "of", "thin", "air"]) {
      await fails("Till/a", made);
      await fails(`T${made}/a`, "put", 1);
      await expect(virtual.unit(made)).rejects.toThrow();
      const object = identityOf(made, "Till", "a");
      const call = virtual.node.call({ object, method: "put", args: [], caller: { kind: "client" } });
      await expect(virtual.time.until(call)).rejects.toThrow();
    }
    await fails("Till/a", "_hidden");
    expect(await shown("moonport_calls_total")).toEqual([
      "class_not_found 4",
      "app_not_found 4",
      "default Till  method_not_found 5",
    ]);
    expect(await shown("moonport_unit_requests_total")).toEqual(["unit_not_found 4"]);
  });

  it("keeps counting a class that is loaded anew, and what it counted of one that is gone", async () => {
    await virtual.call("Till/a", "put", 1);
    await virtual.reload({ Till: TILL.replace("n < 0", "n < -5"), Chest: TILL.replaceAll("Till", "Chest") });
    await virtual.call("Till/a", "put", 1);
    await virtual.call("Chest/a", "put", 1);
    await virtual.reload({ Chest: TILL.replaceAll("Till", "Chest") });
    await fails("Till/a", "put", 1);
    expect(await shown("moonport_calls_total")).toEqual([
      "default Till put ok 2",
      "default Till put class_not_found 1",
      "default Chest put ok 1",
    ]);
  });

  it("counts a unit's requests, and its calls when they return to it", async () => {
    await virtual.unit("both");
    await virtual.unit("both");
    expect(await shown("moonport_unit_requests_total")).toEqual(["default both ok 2"]);
    expect(await shown("moonport_calls_total")).toEqual(["default Till put ok 2", "default Till put method_error 2"]);
    expect(await waits("moonport_unit_duration_seconds")).toMatchObject({ count: 2 });
  });

  it("shows what waits while it waits, and how long it waited", async () => {
    await virtual.call("Till/a", "put", 1);
    const before = await waits("moonport_gate_wait_seconds");
    const gate = virtual.bucket.gate();
    const replies = [1, 2, 3].map((n) => virtual.start("Till/a", "put", [n]));
    await virtual.time.advance(400);
    expect(await shown("moonport_gate_replies")).toEqual(["3"]);
    expect(await shown("moonport_mailbox_calls")).toEqual(["0"]);
    gate.release();
    await virtual.time.until(Promise.all(replies));
    expect(await shown("moonport_gate_replies")).toEqual(["0"]);
    const after = await waits("moonport_gate_wait_seconds");
    expect(after.count - before.count).toBe(3);
    expect(after.sum - before.sum).toBeCloseTo(1.2, 1);
    expect(after.upTo(0.5) - before.upTo(0.5)).toBe(3);
    expect(after.upTo(0.25) - before.upTo(0.25)).toBe(0);
    const calls = await waits("moonport_call_duration_seconds");
    expect(calls.count).toBe(4);
    expect(calls.sum).toBeCloseTo(1.2, 1);
  });

  it("shows the calls that wait in mailboxes", async () => {
    const gate = virtual.bucket.gate();
    const replies = ["a", "a", "b"].map((key) => virtual.start(`Till/${key}`, "put", [1]));
    await virtual.time.advance(100);
    expect(await shown("moonport_mailbox_calls")).toEqual(["3"]);
    expect((await waits("moonport_mailbox_wait_seconds")).count).toBe(0);
    gate.release();
    await virtual.time.until(Promise.all(replies));
    expect(await shown("moonport_mailbox_calls")).toEqual(["0"]);
    const waited = await waits("moonport_mailbox_wait_seconds");
    expect(waited.count).toBe(3);
    expect(waited.sum).toBeGreaterThanOrEqual(0.3);
    expect(waited.upTo(0.05)).toBe(0);
  });

  it("counts runs of Lua code that were ended for what they used, by which budget", async () => {
    await fails("Till/a", "deep");
    await fails("Till/a", "deep");
    await fails("Till/a", "large");
    expect(await shown("moonport_budgets_exceeded_total")).toEqual(["time 0", "instructions 0", "memory 1", "depth 2"]);
    expect(await shown("moonport_calls_total")).toContain("default Till deep budget_exceeded 2");
  });

  it("shows nothing of a fleet, being alone", async () => {
    const families = await page();
    for (const name of ["moonport_forwarded_calls_total", "moonport_links", "moonport_journal_sync_seconds"]) {
      expect(families.get(name)?.samples).toEqual([]);
    }
  });

  it("counts replies that the gate gave up on", async () => {
    await virtual.call("Till/a", "put", 1);
    const gate = virtual.bucket.gate();
    const reply = virtual.start("Till/a", "put", [2]);
    await expect(virtual.time.until(reply)).rejects.toMatchObject({ code: "outcome_unknown" });
    expect(await shown("moonport_calls_total")).toEqual([
      "default Till put ok 1",
      "default Till put outcome_unknown 1",
    ]);
    const given = await waits("moonport_gate_wait_seconds");
    expect([given.upTo(5), given.upTo(10), given.count]).toEqual([1, 2, 2]);
    gate.release();
    await virtual.time.advance(60_000);
    expect((await waits("moonport_gate_wait_seconds")).count).toBe(2);
  });

  it("counts flights, their bytes and those that failed", async () => {
    await virtual.call("Till/a", "put", 1);
    await virtual.call("Till/a", "put", 2);
    virtual.bucket.faults.failNext(2, { kind: "refused" }, ["write"]);
    await virtual.call("Till/a", "put", 3);
    await virtual.time.until(virtual.node.destroy(virtual.identity("Till/a")));
    const flights = virtual.flights("Till/a");
    const of = (carried: string) => flights.filter((flight) => flight.carried === carried);
    expect(await shown("moonport_flights_landed_total")).toEqual([
      `segment ${of("segment").length}`,
      `snapshot ${of("snapshot").length}`,
      "tombstone 1",
    ]);
    const bytes = (carried: string) => of(carried).reduce((sum, flight) => sum + flight.bytes, 0);
    expect((await shown("moonport_flight_bytes_total")).slice(0, 2)).toEqual([
      `segment ${bytes("segment")}`,
      `snapshot ${bytes("snapshot")}`,
    ]);
    expect(await shown("moonport_flight_failures_total")).toEqual(["2"]);
    expect((await waits("moonport_flight_landing_seconds")).count).toBe(flights.length + 1);
  });

  it("counts objects that were closed in doubt", async () => {
    await virtual.call("Till/a", "put", 1);
    const sibling = await virtual.sibling();
    await sibling.call("Till/a", "put", 2);
    await fails("Till/a", "put", 3);
    expect(await shown("moonport_residencies_broken_total")).toEqual(["1"]);
    await sibling.stop();
  });

  it("shows what an S3 bucket was asked", async () => {
    expect(await shown("moonport_bucket_requests_total")).toEqual([]);
    const requests = { ...noRequests(), put: 7, list: 2, errors: 3, throttled: 1, bytesSent: 900, bytesReceived: 40 };
    const { node } = virtual;
    const gauges = () => node.gauges();
    const measured = { counters: node.counters, gauges, bucketRequests: requests, fleetMeasures: undefined };
    const families = readPage(await metricsPage(measured, { sockets: 0, socketCalls: 0, httpConnections: 0 }));
    const values = (name: MetricName) =>
      families.get(name)?.samples.map(({ labels, value }) => [...Object.values(labels), value].join(" "));
    expect(values("moonport_bucket_requests_total")).toEqual(
      REQUEST_KINDS.map((kind) => `${kind} ${{ put: 7, list: 2 }[kind as string] ?? 0}`),
    );
    expect(values("moonport_bucket_failures_total")).toEqual(["3"]);
    expect(values("moonport_bucket_throttled_total")).toEqual(["1"]);
    expect(values("moonport_bucket_bytes_total")).toEqual(["sent 900", "received 40"]);
  });

  it("shows what stands open", async () => {
    await virtual.call("Till/a", "put", 1);
    await virtual.call("Till/b", "put", 1);
    expect(await shown("moonport_residents")).toEqual(["2"]);
    expect(await shown("moonport_open_files")).toEqual(["2"]);
    expect(await shown("moonport_sockets")).toEqual(["1"]);
    expect(await shown("moonport_socket_calls")).toEqual(["2"]);
    expect(await shown("moonport_http_connections")).toEqual(["3"]);
    expect(await shown("moonport_writes_land")).toEqual(["1"]);
  });
});
