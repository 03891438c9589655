import { describe, expect, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { VirtualNode } from "../support/virtual-node.js";

const MIB = 1024 * 1024;
const BLOB = `
local Blob = class "Blob"
Blob.migrations = { [[CREATE TABLE blobs (id INTEGER PRIMARY KEY, body TEXT NOT NULL)]] }
function Blob:add(letter)
  state.sql.exec("INSERT INTO blobs (body) VALUES (?)", string.rep(letter, 900 * 1024))
  return state.sql.one("SELECT count(*) AS n FROM blobs").n
end
function Blob.read:count() return state.sql.one("SELECT count(*) AS n FROM blobs").n end
return Blob
`;

/** Two local files of 9 MiB, of which only one may stay: "a" is at rest, "b" is open. */
async function twoLargeFiles() {
  const node = await VirtualNode.start({
    classes: { Blob: BLOB },
    settings: { LOCAL_BYTES_MAX: 16 * MIB, OBJECT_FILES_OPEN_MAX: 2, OBJECT_IDLE_MS: 1_000 },
  });
  const call = async (key: string, method: string, ...args: string[]): Promise<unknown> => {
    const object = identityOf("default", "Blob", key);
    return (await node.node.call({ object, method, args, caller: { kind: "client" } })).value;
  };
  for (let count = 0; count < 10; count++) await node.time.until(call("a", "add", "a"));
  await node.time.advance(3_000);
  for (let count = 0; count < 10; count++) await node.time.until(call("b", "add", "b"));
  return { node, call };
}

describe("the local file of an object that is being opened", () => {
  // A file of 9 MiB is checked in several turns.
  test.each([0, 1, 2, 3, 4, 5, 6, 8])("is not deleted for another's room, %s turns later", async (turns) => {
    const { node, call } = await twoLargeFiles();
    const asked = call("a", "add", "a");
    for (let turn = 0; turn < turns; turn++) await node.time.settleOnce();
    // Needs a file: the longest unused of those open, that of "b", closes, and both are more than may stay.
    const other = call("c", "add", "c");
    expect(await node.time.until(asked)).toBe(11);
    await node.time.until(other);
    await node.time.advance(5_000);
    expect(await node.time.until(call("a", "count"))).toBe(11);
    await node.node.stop();
  });
});

test("a copy that was being made when the node died is gone after the next start", async () => {
  const node = await VirtualNode.start({ classes: { Blob: BLOB } });
  await node.call("Blob/a", "add", "a");
  await node.stop();
  node.world.folder.removeTree("objects");
  await node.open();
  node.start("Blob/a", "count");
  const files = (): string[] =>
    node.world.folder.list("objects").flatMap((partition) => node.world.folder.list(`objects/${partition}`));
  while (!files().some((name) => name.endsWith(".restoring"))) await node.time.settleOnce();
  node.crash();
  await node.open();
  expect(files()).toEqual([]);
});
