/** A tail that no message between nodes holds: what was acknowledged is handed over in parts. */
import fs from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const LIST = `
local List = class "List"
List.migrations = { [[CREATE TABLE items (place INTEGER PRIMARY KEY, value)]] }
function List:append(value) state.sql.exec("INSERT INTO items (value) VALUES (?)", value) end
function List.read:starts()
  local starts = array {}
  for row in state.sql.each("SELECT substr(value, 1, 4) AS start FROM items ORDER BY place") do
    starts[#starts + 1] = row.start
  end
  return starts
end
return List
`;
const MIB = 1024 * 1024;
const TEXT_BYTES = 190 * 1024;
const LARGE = identityOf("default", "List", "large");
const SMALL = Array.from({ length: 8 }, (_, n) => identityOf("default", "List", `small-${n}`));

test("an object with more in its journals than a message holds is taken over with all of it, and so are others", async () => {
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "classes"));
  fs.writeFileSync(path.join(folder, "classes", "List.lua"), LIST);
  const fleet = new SimulatedFleet({
    apps: [appIn(folder)],
    settings: {
      NODE_TTL_MS: 10_000,
      NODE_TTL_MARGIN_MS: 100,
      CALL_TIMEOUT_MS: 20_000,
      CLAIM_MS: 2_000,
      OBJECT_UNSHIPPED_BYTES_MAX: 4 * MIB,
      LINK_MESSAGE_BYTES_MAX: MIB,
    },
  });
  onTestFinished(() => fleet.close());
  const names = ["a", "b", "c"];
  for (const name of names) await fleet.start(name);
  await fleet.time.advance(1_000);
  const callOn = async (node: string, object: typeof LARGE, method: string, ...args: PlainValue[]) => {
    const request = { object, method, args, caller: { kind: "client" as const } };
    return (await fleet.time.until(fleet.node(node).call(request))).value;
  };
  await callOn("a", LARGE, "append", "0000");
  for (const object of SMALL) await callOn("a", object, "append", "0000");
  await fleet.time.advance(5_000);
  const ownerOf = (object: typeof LARGE) => names.find((name) => fleet.node(name).node.local.holds(object)) as string;
  const owner = ownerOf(LARGE);
  const beside = SMALL.filter((object) => ownerOf(object) === owner);
  expect(beside.length).toBeGreaterThan(0);
  // The bucket gets nothing more of what its journals acknowledge.
  fleet.node(owner).bucket.faults.hold(["write"]);
  const acknowledged = ["0000"];
  for (;;) {
    const start = String(acknowledged.length).padStart(4, "0");
    const code = await callOn(owner, LARGE, "append", start.padEnd(TEXT_BYTES, "x")).then(
      () => undefined,
      (error: { code: string }) => error.code,
    );
    if (code === undefined) acknowledged.push(start);
    else {
      expect(code).toBe("storage_behind");
      break;
    }
  }
  expect(acknowledged.length * TEXT_BYTES).toBeGreaterThan(MIB);
  for (const object of beside) await callOn(owner, object, "append", "0001");
  fleet.node(owner).crash();
  await fleet.time.advance(60_000);
  const survivor = names.find((name) => name !== owner) as string;
  expect(await callOn(survivor, LARGE, "starts")).toEqual(acknowledged);
  for (const object of beside) expect(await callOn(survivor, object, "starts")).toEqual(["0000", "0001"]);
});
