/** Stalls that a watchdog wrote down, and what the nodes after it make of them. */
import { describe, expect, it } from "vitest";
import { STALLS_FOLDER, type Stall, stallFileName } from "../../src/world/watchdog/stall.js";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const CLASSES = {
  Jar: `
    local Jar = class "Jar"
    function Jar:put(n)
      state.store.set("n", n)
      return n
    end
    function Jar:take() return 1 end
    function Jar.read:n() return state.store.get("n") end
    function Jar:forward(key) return Jar(key):put(3) end
    return Jar
  `,
  Row: `
    local Row = class "Row"
    Row.migrations = { [[CREATE TABLE t (id INTEGER PRIMARY KEY)]] }
    Row.directory = { columns = { n = "integer" }, row = function() return { n = state.store.get("n") } end }
    function Row:put(n) state.store.set("n", n) end
    function Row:on_wake() end
    function Row.read:n() return state.store.get("n") end
    return Row
  `,
};
const UNITS = { both: `return function(request) return Jar("a"):put(9) end` };

let stalls = 0;

function stall(object: string, entry: string, more: Partial<Stall> = {}): Stall {
  stalls += 1;
  return { id: `stall-${stalls}`, atMs: stalls, silentMs: 10_000, pid: 1, object: `default/${object}`, entry, ...more };
}

/** As the watchdog's thread leaves them behind. */
function leave(virtual: VirtualNode, ...left: readonly Stall[]): void {
  const { folder } = virtual.world;
  folder.ensureDirectory(STALLS_FOLDER);
  for (const one of left)
    folder.replaceFile(`${STALLS_FOLDER}/${stallFileName(one)}`, Buffer.from(JSON.stringify(one)));
}

function begin(options: VirtualNodeOptions = {}): Promise<VirtualNode> {
  return VirtualNode.start({ classes: CLASSES, units: UNITS, ...options });
}

async function restart(virtual: VirtualNode, ...left: readonly Stall[]): Promise<void> {
  await virtual.stop();
  leave(virtual, ...left);
  await virtual.open();
}

const QUARANTINED = expect.objectContaining({ code: "quarantined", retryable: false });

describe("quarantine", () => {
  it("refuses a method after its second stall, and leaves other methods, objects and classes alone", async () => {
    const virtual = await begin();
    await virtual.call("Jar/a", "put", 1);
    await restart(virtual, stall("Jar/a", "put"));
    expect(await virtual.call("Jar/a", "put", 2)).toBe(2);
    await restart(virtual, stall("Jar/a", "put"));

    await expect(virtual.call("Jar/a", "put", 3)).rejects.toEqual(QUARANTINED);
    expect(await virtual.call("Jar/a", "take")).toBe(1);
    expect(await virtual.call("Jar/a", "n")).toBe(2);
    expect(await virtual.call("Jar/b", "put", 3)).toBe(3);
    await virtual.stop();
  });

  it("refuses it by whichever way it is called", async () => {
    const virtual = await begin();
    await virtual.call("Jar/a", "put", 1);
    await restart(virtual, ...["put", "put", "n", "n"].map((method) => stall("Jar/a", method)));

    await expect(virtual.call("Jar/b", "forward", "a")).rejects.toEqual(QUARANTINED);
    await expect(virtual.unit("both")).rejects.toEqual(QUARANTINED);
    await expect(virtual.call("Jar/a", "n")).rejects.toEqual(QUARANTINED);
    await virtual.stop();
  });

  it("refuses a reading method of a key that was never written", async () => {
    const virtual = await begin();
    await restart(virtual, stall("Jar/none", "n"), stall("Jar/none", "n"));
    await expect(virtual.call("Jar/none", "n")).rejects.toEqual(QUARANTINED);
    expect(await virtual.call("Jar/other", "n")).toBe(null);
    await virtual.stop();
  });

  it("still tells the recorded reply of a call that ran before", async () => {
    const virtual = await begin();
    const callId = "id-1";
    await virtual.time.until(virtual.start("Jar/a", "put", [1], { callId }));
    await restart(virtual, stall("Jar/a", "put"), stall("Jar/a", "put"));
    expect((await virtual.time.until(virtual.start("Jar/a", "put", [1], { callId }))).value).toBe(1);
    await expect(virtual.call("Jar/a", "put", 1)).rejects.toEqual(QUARANTINED);
    await virtual.stop();
  });

  it("lives in the bucket: another node with another disk refuses too, until it hears that an operator cleared it", async () => {
    const virtual = await begin();
    await restart(virtual, stall("Jar/a", "put"), stall("Jar/a", "put", { statement: "SELECT 1" }));
    const [listed] = await virtual.time.until(virtual.node.quarantine());
    expect(listed).toMatchObject({
      object: "default/Jar/a",
      method: "put",
      quarantined: true,
      stalls: 2,
      statement: "SELECT 1",
    });
    await virtual.stop();

    const sibling = await virtual.sibling();
    const object = sibling.identity("Jar/a");
    await expect(sibling.call("Jar/a", "put", 1)).rejects.toEqual(QUARANTINED);
    expect(await sibling.time.until(sibling.node.clearQuarantine(object, "put"))).toBe(true);
    expect(await sibling.time.until(sibling.node.clearQuarantine(object, "put"))).toBe(false);
    expect(await sibling.call("Jar/a", "put", 1)).toBe(1);
    expect(await sibling.time.until(sibling.node.quarantine())).toEqual([]);
    await sibling.stop();

    await virtual.open();
    expect(await virtual.call("Jar/a", "take")).toBe(1);
    await virtual.stop();
  });

  it("holds for an answer that was remembered before", async () => {
    const virtual = await begin();
    await virtual.call("Jar/a", "put", 1);
    for (let time = 0; time < 5; time++) expect(await virtual.call("Jar/a", "n")).toBe(1);
    expect(virtual.node.counters.rememberedReads).toBeGreaterThan(0);
    const sibling = await virtual.sibling();
    await restart(sibling, stall("Jar/a", "n"), stall("Jar/a", "n"));
    await virtual.time.until(virtual.node.quarantine());
    await expect(virtual.call("Jar/a", "n")).rejects.toEqual(QUARANTINED);
    await virtual.stop();
    await sibling.stop();
  });

  it("counts a stall once, however often its file is found", async () => {
    const virtual = await begin();
    const one = stall("Jar/a", "put");
    await restart(virtual, one);
    await restart(virtual, one);
    await restart(virtual, one);
    expect(await virtual.time.until(virtual.node.quarantine())).toMatchObject([{ stalls: 1, quarantined: false }]);
    await virtual.stop();
  });

  it("keeps what was written down when the bucket does not answer at the start", async () => {
    const virtual = await begin();
    await virtual.stop();
    leave(virtual, stall("Jar/a", "put"), stall("Jar/a", "put"));
    virtual.bucket.faults.failNext(1, { kind: "refused" }, ["list"]);
    await expect(virtual.open()).rejects.toMatchObject({ code: "bucket_failed" });
    await virtual.open();
    await expect(virtual.call("Jar/a", "put", 1)).rejects.toEqual(QUARANTINED);
    await virtual.stop();
  });

  it("blames no method for what no method did: a torn file, a text that is no object, a unit, an operator's statement", async () => {
    const virtual = await begin();
    await virtual.stop();
    const { folder } = virtual.world;
    const unit: Stall = { id: "u", atMs: 1, silentMs: 1, pid: 1, entry: "unit default/both" };
    const nothing: Stall = { id: "n", atMs: 1, silentMs: 1, pid: 1 };
    leave(virtual, unit, nothing, stall("Jar/a", "(console)"), stall("Jar/a", "put", { object: "gar\u0000bled" }));
    folder.replaceFile(`${STALLS_FOLDER}/torn.json`, Buffer.from('{"id":"x","at'));
    await virtual.open();
    expect(folder.list(STALLS_FOLDER)).toEqual([]);
    expect(await virtual.time.until(virtual.node.quarantine())).toEqual([]);
    await virtual.stop();
  });

  it("asks for as many stalls as QUARANTINE_STALLS says", async () => {
    const virtual = await begin({ settings: { QUARANTINE_STALLS: 3 } });
    await restart(virtual, stall("Jar/a", "put"), stall("Jar/a", "put"));
    expect(await virtual.call("Jar/a", "put", 1)).toBe(1);
    await restart(virtual, stall("Jar/a", "put"));
    await expect(virtual.call("Jar/a", "put", 1)).rejects.toEqual(QUARANTINED);
    await virtual.stop();
  });
});

describe("quarantine of what runs by itself", () => {
  it("a directory row keeps its last good state and never fails the write", async () => {
    const virtual = await begin();
    await virtual.call("Row/a", "put", 1);
    await restart(virtual, stall("Row/a", "directory.row"), stall("Row/a", "directory.row"));
    await virtual.call("Row/a", "put", 2);
    const { directoryRow } = await virtual.time.until(virtual.node.inspect(virtual.identity("Row/a")));
    expect(directoryRow).toMatchObject({
      row: { n: 1 },
      failure: expect.stringContaining("directory.row of default/Row/a"),
    });
    await virtual.stop();
  });

  it("a hook that stalls closes its object and no other", async () => {
    const virtual = await begin();
    await virtual.call("Row/a", "put", 1);
    await restart(virtual, stall("Row/a", "on_wake"), stall("Row/a", "on_wake"));
    await expect(virtual.call("Row/a", "put", 2)).rejects.toEqual(QUARANTINED);
    await virtual.call("Row/b", "put", 2);
    await virtual.stop();
  });

  it("migrations that stall close an object that lacks them, written or not, and not one that has them", async () => {
    const virtual = await begin();
    await virtual.call("Row/has", "put", 1);
    const both = ["Row/has", "Row/lacks"].flatMap((one) => [stall(one, "migrations"), stall(one, "migrations")]);
    await restart(virtual, ...both);
    await virtual.call("Row/has", "put", 2);
    await expect(virtual.call("Row/lacks", "put", 1)).rejects.toEqual(QUARANTINED);
    await expect(virtual.call("Row/lacks", "n")).rejects.toEqual(QUARANTINED);
    await virtual.stop();
  });
});
