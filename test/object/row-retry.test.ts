/** A directory row that could not be derived is tried again a while later, while its object is there. */
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { identityOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const ITEM = `
local Item = class "Item"
Item.directory = { columns = { title = "text" } }
function Item:touch(value) state.store.set("value", value) end
function Item.directory.row() error("no row today") end
return Item
`;

it("is not tried while the object is on its way to another node", async () => {
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "classes"), { recursive: true });
  fs.writeFileSync(path.join(folder, "classes", "Item.lua"), ITEM);
  const fleet = new SimulatedFleet({
    apps: [appIn(folder)],
    settings: { NODE_TTL_MS: 10_000, NODE_TTL_MARGIN_MS: 100, COVER_MS: 500, DIRECTORY_RETRY_MS: 1_000 },
  });
  onTestFinished(() => fleet.close());
  const names = ["a", "b", "c"];
  for (const name of names) await fleet.start(name);
  await fleet.time.advance(1_000);
  const object = identityOf("default", "Item", "k");
  const request = { object, method: "touch", args: [1], caller: { kind: "client" as const } };
  await fleet.time.until(fleet.node("a").call(request));
  const owner = names.find((name) => fleet.node(name).node.local.holds(object)) ?? "nobody";
  // It cannot land for as long as the row is waited for.
  const hold = fleet.node(owner).bucket.faults.hold(["write"]);
  const drained = fleet.node(owner).node.drain({});
  await fleet.time.advance(2_000);
  hold.release();
  expect(await fleet.time.until(drained)).toMatchObject({ left: 0 });
  await fleet.time.until(fleet.node("a").call(request));
});
