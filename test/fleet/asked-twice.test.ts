import fs from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const TALLY = `
local Tally = class "Tally"
function Tally:add(n) state.store.set("n", (state.store.get("n") or 0) + n) end
function Tally.read:n() return state.store.get("n") or 0 end
return Tally
`;
const PAIR = `
local Pair = class "Pair"
function Pair:both(x, y)
  Tally(x):add(1)
  Tally(y):add(1)
end
function Pair:second(y) Tally(y):add(1) end
return Pair
`;
const NAMES = ["a", "b", "c"];

/** Three nodes, a Tally on "a", one on "c" and a Pair on "b"; then "c" is gone for longer than a call may take. */
async function withoutC() {
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "classes"));
  for (const [name, lua] of Object.entries({ Tally: TALLY, Pair: PAIR })) {
    fs.writeFileSync(path.join(folder, "classes", `${name}.lua`), lua);
  }
  const fleet = new SimulatedFleet({
    apps: [appIn(folder)],
    settings: { NODE_TTL_MS: 20_000, NODE_TTL_MARGIN_MS: 500, CALL_TIMEOUT_MS: 5_000, COVER_MS: 100 },
  });
  onTestFinished(() => fleet.close());
  for (const name of NAMES) await fleet.start(name);
  await fleet.time.advance(1_000);
  const call = (object: ObjectIdentity, method: string, args: (number | string)[], callId?: string) => {
    const caller = { kind: "client" } as const;
    const request = { object, method, args, caller, ...(callId !== undefined && { callId }) };
    return fleet.time.until(
      fleet
        .node("a")
        .call(request)
        .then(
          ({ value }) => value,
          (error: MoonportError) => error,
        ),
    );
  };
  const homeOf = (object: ObjectIdentity) => fleet.node("a").node.fleet.ring.homesOf(partitionOf(object.id))[0];
  const livesOn = (className: string, node: string): ObjectIdentity => {
    for (let n = 0; ; n++) {
      const object = identityOf("default", className, `${n}`);
      if (homeOf(object) === node) return object;
    }
  };
  const [x, y, pair] = [livesOn("Tally", "a"), livesOn("Tally", "c"), livesOn("Pair", "b")];
  for (const tally of [x, y]) await call(tally, "add", [0]);
  await fleet.time.advance(3_000);
  fleet.node("c").crash();
  return { fleet, call, x, y, pair };
}

test("a call that had one object do something and does not reach the next is not done again by itself", async () => {
  const { call, x, y, pair } = await withoutC();
  const failed = await call(pair, "both", [x.key, y.key]);
  expect(failed).toMatchObject({ code: "outcome_unknown", hint: expect.stringMatching(/give such calls an id/) });
  expect(await call(x, "n", [])).toBe(1);
});

test("with an id it may be asked again, and what was done is not done again", async () => {
  const { fleet, call, x, y, pair } = await withoutC();
  expect(await call(pair, "both", [x.key, y.key], "once")).toMatchObject({ code: "outcome_unknown" });
  await fleet.time.advance(30_000);
  expect(await call(pair, "both", [x.key, y.key], "once")).toBeNull();
  expect([await call(x, "n", []), await call(y, "n", [])]).toEqual([1, 1]);
});

test("one for which nobody has done anything is told why it failed", async () => {
  const { call, y, pair } = await withoutC();
  const failed = (await call(pair, "second", [y.key])) as MoonportError;
  expect(failed.code).not.toBe("outcome_unknown");
  expect(failed.retryable).toBe(true);
});
