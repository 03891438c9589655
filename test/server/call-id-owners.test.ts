/** A call id is whose it was first: another principal under it gets nothing of what that one was told, and is told so. */
import { expect, it, onTestFinished } from "vitest";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { identityOf } from "../../src/identity.js";
import { Moonport } from "../../src/moonport.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { serveNode } from "../support/event-streams.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { appOf } from "../support/virtual-node.js";
import { ask } from "./door.js";
import { TestClient } from "./sockets.js";

const BANK = `local Bank = class "Bank"
function Bank:pay(amount)
  local paid = (state.store.get("paid") or 0) + 1
  state.store.set("paid", paid)
  return { secret = caller.id, paid = paid }
end
function Bank:payThrough(other, fails)
  local reply = Bank(other):pay(1)
  if fails == caller.id then error { code = "changed_my_mind" } end
  state.store.set("through", other)
  return reply
end
function Bank:slow(other) local reply = Bank(other):pay(1) state.store.set("reply", reply) return reply end
function Bank.read:paid() return state.store.get("paid") or 0 end
return Bank`;

const tokenOf = (id: string, number = 1): string => `mp_${id}-${number}-0123456789abcdef`;
const headersOf = (id: string, number?: number): Record<string, string> => ({
  authorization: `Bearer ${tokenOf(id, number)}`,
  "idempotency-key": "order-1",
});

const PEOPLE = [
  { id: "ada", token: tokenOf("ada"), allow: [{ rights: ["call", "unit"] }] },
  { id: "ada", token: tokenOf("ada", 2), allow: [{ rights: ["call", "unit"] }] },
  { id: "bob", token: tokenOf("bob"), allow: [{ rights: ["call", "unit"] }] },
];
const FILE = JSON.stringify({ tokens: PEOPLE, anonymous: { allow: [{ rights: ["call"] }] } });

it("over HTTP and a WebSocket: the same one is answered, by whichever of his tokens; another is refused", async () => {
  const { port } = await serveNode({
    classes: { Bank: BANK },
    auth: new StaticTokens(FILE, "auth.json", new Uint8Array(32)),
  });
  const path = "/v1/default/Bank/a/pay";
  const first = await ask(port, "POST", path, "[5]", headersOf("ada"));
  expect(first.json).toEqual({ secret: "ada", paid: 1 });
  expect((await ask(port, "POST", path, "[5]", headersOf("ada", 2))).json).toEqual(first.json);
  for (const headers of [headersOf("bob"), { "idempotency-key": "order-1" }]) {
    const { status, json } = await ask(port, "POST", path, "[5]", headers);
    expect([status, json.code]).toEqual([409, "id_conflict"]);
  }
  const frame = { type: "call", id: 1, class: "Bank", key: "a", method: "pay", args: [5], callId: "order-1" } as const;
  const ada = await TestClient.greeted(port, undefined, tokenOf("ada"));
  ada.send(frame);
  expect((await ada.next("reply", 1)).value).toEqual(first.json);
  const bob = await TestClient.greeted(port, undefined, tokenOf("bob"));
  bob.send(frame);
  expect((await bob.next("error", 1)).error).toMatchObject({ code: "id_conflict" });
  expect((await ask(port, "POST", "/v1/default/Bank/a/paid", "[]", headersOf("bob"))).text).toBe("1");
});

it("through a unit, whose calls are made for whoever asked", async () => {
  const pay = `return function(request) return { body = Bank("b"):pay(5) } end`;
  const moonport = await Moonport.open({
    dataDir: temporaryFolder(),
    bucket: "memory:",
    log: { level: "silent" },
    classes: { Bank: BANK },
    units: { pay },
  });
  onTestFinished(() => moonport.close());
  const run = (id?: string) =>
    moonport.unit("pay", {}, { callId: "order-1", ...(id !== undefined && { as: { id } }) }).then(
      ({ body }) => JSON.parse(String(body)),
      (error) => error.code,
    );
  expect(await run("ada")).toEqual({ secret: "pay", paid: 1 });
  expect(await run("ada")).toEqual({ secret: "pay", paid: 1 });
  expect(await run("bob")).toBe("id_conflict");
  expect(await run()).toBe("id_conflict");
  expect(await moonport.object("Bank", "b").call("paid")).toBe(1);
});

it("through every node of a fleet, for what objects ask for it too, and while the first one runs", async () => {
  const fleet = new SimulatedFleet({ seed: 3, apps: [appOf({ Bank: BANK })] });
  try {
    const { time } = fleet;
    const names = ["n1", "n2", "n3"];
    for (const name of names) await fleet.start(name);
    await time.advance(2_000);
    const callAs = (name: string, id: string | undefined, key: string, method: string, args: (string | number)[]) =>
      time.until(
        fleet
          .node(name)
          .call({
            object: identityOf("default", "Bank", key),
            method,
            args,
            caller: { kind: "client", ...(id !== undefined && { id }) },
            callId: `order-${key}`,
          })
          .then(
            ({ value }) => value,
            (error) => error.code,
          ),
      );
    const told = await callAs("n1", "ada", "a", "pay", [1]);
    for (const name of names) {
      expect(await callAs(name, "ada", "a", "pay", [1])).toEqual(told);
      expect(await callAs(name, "bob", "a", "pay", [1])).toBe("id_conflict");
    }
    // What it asked for is done and recorded, what it would have done itself is not.
    expect(await callAs("n1", "ada", "b", "payThrough", ["c", "ada"])).toBe("changed_my_mind");
    for (const name of names) expect(await callAs(name, "bob", "b", "payThrough", ["c", "ada"])).toBe("id_conflict");
    // One that runs is joined by its own repeat alone.
    const asked = ["ada", "ada", "bob"].map((id) => callAs("n2", id, "d", "slow", ["e"]));
    expect(await Promise.all(asked)).toEqual([
      { secret: expect.any(String), paid: 1 },
      expect.anything(),
      "id_conflict",
    ]);
    expect((await callAs("n3", undefined, "e", "paid", [])) as number).toBe(1);
    // Of nobody, as all records once were, it is everybody's.
    const open = await callAs("n1", undefined, "f", "pay", [1]);
    expect(await callAs("n2", "bob", "f", "pay", [1])).toEqual(open);
  } finally {
    fleet.close();
  }
});
