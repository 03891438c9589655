/** What earlier versions have stored opens in this one: everything is there, what is due comes about, the past can be restored. */
import { afterEach, describe, expect, it } from "vitest";
import { Moonport } from "../../src/moonport.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { VERSION } from "../../src/version.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { APP, keptObject, NODES, reopened, type StoredFleet, storedFleets, writeFiles } from "./stored.js";

const TWO_HOURS_MS = 7_200_000;
interface Line {
  readonly kind: string;
  readonly id: string;
}

let fleet: SimulatedFleet | undefined;
afterEach(() => fleet?.close());

async function opened(
  stored: StoredFleet,
  change: (fleet: SimulatedFleet) => void = () => {},
): Promise<SimulatedFleet> {
  fleet = reopened(stored);
  change(fleet);
  await fleet.time.until(Promise.all(NODES.map((name) => fleet?.add(name).start())));
  await fleet.time.advance(3_000);
  return fleet;
}

async function read(of: SimulatedFleet, through: string, key: string, method = "lines"): Promise<PlainValue> {
  const request = { object: keptObject(key), method, args: [], caller: { kind: "client" }, mustRead: true } as const;
  return (await of.time.until(of.node(through).call(request))).value;
}

it("something of this version's formats is stored", () => {
  expect(storedFleets().map(({ version }) => version)).toContain(VERSION);
});

describe.each(storedFleets().map((stored) => [stored.version, stored] as const))(
  "what version %s has stored",
  (_, stored) => {
    const { expected, bucket } = stored;

    it("has one of everything", () => {
      const keys = Object.keys(bucket).join("\n");
      for (const kind of [
        "fleet.json",
        "nodes/",
        "owing/",
        "delay/",
        "/manifest",
        ".seg",
        ".snap",
        "/past/",
        "system/Directory",
      ]) {
        expect(keys).toContain(kind);
      }
      for (const files of Object.values(stored.folders)) expect(Object.keys(files).join("\n")).toMatch(/^journal\//m);
    });

    it("is all there, with what only journals had, and the directory says the same", async () => {
      const of = await opened(stored);
      for (const [key, lines] of Object.entries(expected.lines)) {
        expect(await read(of, NODES[key.length % 3] as string, key)).toEqual(lines);
      }
      expect(await read(of, "n1", "k6", "value")).toEqual({ list: [1, 2.5, "drei"], flag: true });
      for (const key of expected.destroyed) expect(await read(of, "n2", key)).toEqual([]);
      const query = { app: "default", className: "Kept", query: { where: "lines > 0", order: "lines", limit: 100 } };
      const found = await of.time.until(of.node("n0").node.find(query));
      const counts = Object.entries(expected.lines).map(([key, lines]) => [key, (lines as unknown as Line[]).length]);
      expect(Object.fromEntries(found.rows.map(({ key, row }) => [key, row.lines]))).toEqual(
        Object.fromEntries(counts),
      );
    });

    it("goes on: calls are repeated under their ids, others write", async () => {
      const of = await opened(stored);
      for (const { key, id, value } of expected.acknowledged) {
        const request = { object: keptObject(key), method: "add", args: ["last"], caller: { kind: "client" } } as const;
        expect((await of.time.until(of.node("n1").call({ ...request, callId: id }))).value).toEqual(value);
        const { n } = value as { n: number };
        expect((await of.time.until(of.node("n2").call({ ...request, callId: "new" }))).value).toEqual({ n: n + 1 });
      }
    });

    it("keeps what it obliges to: each timer, message and command comes about once", async () => {
      const of = await opened(stored);
      for (let ms = 0; ms < TWO_HOURS_MS; ms += 60_000) await of.time.advance(60_000);
      for (const [key, ids] of Object.entries(expected.due)) {
        const lines = (await read(of, "n0", key)) as unknown as Line[];
        const arrived = lines.filter(({ kind, id }) => (kind === "fired" || kind === "got") && id !== "morning");
        expect(arrived.map(({ id }) => id).sort()).toEqual([...ids].sort());
      }
    });

    it("opens without a fleet too, from a data folder with its bucket in it", async () => {
      const dataDir = temporaryFolder();
      writeFiles(dataDir, stored.alone.files);
      const node = await Moonport.open({ dataDir, dir: APP, log: { level: "silent" } });
      for (const [key, lines] of Object.entries(stored.alone.lines)) {
        const object = node.object("Kept", key);
        expect(await object.call("lines")).toEqual(lines);
        expect(await object.call("add", ["new"])).toEqual({ n: (lines as unknown as Line[]).length + 1 });
      }
      const { rows } = await node.find("Kept", { limit: 100 });
      expect(rows).toHaveLength(Object.keys(stored.alone.lines).length);
      await node.close();
    });

    it("has its past", async () => {
      const of = await opened(stored);
      const { key, seq, lines } = expected.past;
      const { fromSeq } = await of.time.until(of.node("n0").node.restore(keptObject(key), { at: { seq } }));
      expect(fromSeq).toBe(seq);
      expect(await read(of, "n1", key)).toHaveLength(lines);
    });
  },
);
