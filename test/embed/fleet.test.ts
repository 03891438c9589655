import path from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.js";
import { embedded } from "./embedded.js";
import type { LedgerMethods } from "./ledger-class.js";

it("an embedded node joins a fleet: its handles reach objects on whichever node they live, and it tells who is there", async () => {
  const bucket = `sqlite:${path.join(temporaryFolder(), "bucket.db")}?shared=1`;
  const fleetOf = (node: string) => ({ bucket, fleet: { node, listen: "127.0.0.1:0" }, listen: { port: 0 } });
  const nodes = [await embedded(fleetOf("n1")), await embedded(fleetOf("n2"))];
  const keys = ["a", "b", "c", "d", "e", "f"];
  for (const node of nodes) for (const key of keys) await node.object<LedgerMethods>("Ledger", key).add("one");
  const owners = async () =>
    new Set(await Promise.all(keys.map(async (key) => (await nodes[0]?.object("Ledger", key).inspect())?.node)));
  await expect.poll(owners, { timeout: 20_000 }).toEqual(new Set(["n1", "n2"]));
  for (const node of nodes) {
    for (const key of keys) expect(await node.object<LedgerMethods>("Ledger", key).count()).toBe(2);
  }
  expect((await nodes[1]?.status())?.fleet).toMatchObject({ node: "n2", nodes: 2, valid: true });
  const seen = async () => (await nodes[1]?.nodes())?.map(({ node, clientAddress, own }) => [node, clientAddress, own]);
  await expect.poll(seen, { timeout: 20_000 }).toEqual([
    ["n1", nodes[0]?.url, false],
    ["n2", nodes[1]?.url, true],
  ]);
});

it("what it is told of a fleet is checked", async () => {
  await expect(embedded({ fleet: { lisen: "127.0.0.1:0" } as never })).rejects.toMatchObject({
    code: "bad_option",
    hint: "did you mean listen?",
  });
  await expect(embedded({ fleet: {} as never })).rejects.toMatchObject({
    message: expect.stringMatching(/needs listen/),
  });
  await expect(embedded({ fleet: { listen: "127.0.0.1:0" } })).rejects.toMatchObject({
    code: "bad_option",
    message: expect.stringMatching(/share one bucket/),
  });
});
