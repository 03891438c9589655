/** Call ids in a fleet: a call that is asked for again is one call, whichever node owns its object by then. */
import { afterEach, describe, expect, it } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { CallReply, CallRequest } from "../../src/node-api.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { appOf } from "../support/virtual-node.js";

const Desk = `
local Desk = class "Desk"
local function add(text)
  local lines = state.store.get("lines") or {}
  lines[#lines + 1] = text
  state.store.set("lines", lines)
  return text
end
function Desk:add(text) return add(text) end
function Desk:ask(other, text) return add(Desk(other):add(text) .. "!") end
function Desk.read:all() return state.store.get("lines") or array {} end
return Desk`;

const NODES = ["n1", "n2", "n3"];
const TTL_MS = 1_000;
const SETTINGS = {
  NODE_TTL_MS: TTL_MS,
  NODE_TTL_MARGIN_MS: 100,
  LINK_CONNECT_MS: 400,
  LINK_REQUEST_MS: 1_000,
  LINK_HEARTBEAT_MS: 100,
  CALL_TIMEOUT_MS: 20_000,
  OBJECT_ACK_GATE_MS: 2_000,
  HEALTH_INTERVAL_MS: 0,
};

let fleet: SimulatedFleet;
afterEach(() => fleet.close());

async function start(nodes = NODES, settings: Readonly<Record<string, number>> = {}): Promise<void> {
  fleet = new SimulatedFleet({ apps: [appOf({ Desk })], settings: { ...SETTINGS, ...settings } });
  for (const name of nodes) await fleet.start(name);
  await fleet.time.advance(TTL_MS);
}

/** A desk whose home is the node, as the others see it. */
function deskAt(node: string, prefix = "k"): ObjectIdentity {
  for (let index = 0; ; index++) {
    const desk = identityOf("default", "Desk", `${prefix}${index}`);
    const { fleet: member } = fleet.node("n1").node;
    if (member.ring.homesOf(partitionOf(desk.id))[0] === node) return desk;
  }
}

function call(
  through: string,
  object: ObjectIdentity,
  method: string,
  args: PlainValue[] = [],
  more: Partial<CallRequest> = {},
): Promise<CallReply> {
  const asked = fleet.node(through).call({ object, method, args, caller: { kind: "client" }, ...more });
  asked.catch(() => {});
  return asked;
}

async function linesOf(through: string, object: ObjectIdentity): Promise<PlainValue> {
  return (await fleet.time.until(call(through, object, "all"))).value;
}

/** Asks until there is an answer that says what became of it, as a client does. */
async function surely(through: string, object: ObjectIdentity, method: string, args: PlainValue[], callId: string) {
  for (let tries = 0; ; tries++) {
    try {
      return (await fleet.time.until(call(through, object, method, args, { callId }))).value;
    } catch (thrown) {
      const { retryable, code } = thrown as { retryable: boolean; code: string };
      if (tries === 20 || !(retryable || code === "outcome_unknown")) throw thrown;
      await fleet.time.advance(500);
    }
  }
}

describe("a call that is asked for again", () => {
  it("while it runs is joined from another node, and gives its reply to both", async () => {
    await start();
    const [asker, other] = [deskAt("n1"), deskAt("n2")];
    const hold = fleet.node("n2").bucket.faults.hold();
    const first = call("n1", asker, "ask", [other.key, "x"], { callId: "order-1" });
    await fleet.time.advance(200);
    const repeats = ["n2", "n3"].map((through) => {
      return call(through, asker, "ask", [other.key, "x"], { callId: "order-1" });
    });
    await fleet.time.advance(200);
    hold.release();
    const { seq } = await fleet.time.until(first);
    for (const repeat of repeats) expect(await fleet.time.until(repeat)).toMatchObject({ value: "x!", seq });
    expect(await linesOf("n3", asker)).toEqual(["x!"]);
    expect(await linesOf("n3", other)).toEqual(["x"]);
  });

  it("after its owner died at any point is done once, and what it asked of others is", async () => {
    for (const afterMs of [0, 2, 5, 10, 20, 40, 80]) {
      await start();
      const [asker, other] = [deskAt("n1"), deskAt("n2")];
      const first = call("n3", asker, "ask", [other.key, "x"], { callId: "order-1" });
      await fleet.time.advance(afterMs);
      fleet.node("n1").crash();
      expect(await surely("n3", asker, "ask", [other.key, "x"], "order-1")).toBe("x!");
      await fleet.time.until(first.catch(() => undefined));
      // Once more, after the takeover: from its record.
      expect(await surely("n2", asker, "ask", [other.key, "x"], "order-1")).toBe("x!");
      expect([afterMs, await linesOf("n3", asker)]).toEqual([afterMs, ["x!"]]);
      expect([afterMs, await linesOf("n3", other)]).toEqual([afterMs, ["x"]]);
      fleet.close();
    }
  });

  it("after the other of its objects died in the middle repeats nothing there", async () => {
    for (const afterMs of [0, 2, 5, 10, 20, 40]) {
      await start();
      const [asker, other] = [deskAt("n1"), deskAt("n2")];
      call("n3", asker, "ask", [other.key, "x"], { callId: "order-1" });
      await fleet.time.advance(afterMs);
      fleet.node("n2").crash({ power: true });
      expect(await surely("n3", asker, "ask", [other.key, "x"], "order-1")).toBe("x!");
      expect([afterMs, await linesOf("n3", asker)]).toEqual([afterMs, ["x!"]]);
      expect([afterMs, await linesOf("n3", other)]).toEqual([afterMs, ["x"]]);
      fleet.close();
    }
  });

  it("after its object has moved to a node that joined is answered from its record", async () => {
    await start(["n1"]);
    const keys = [..."abcdefgh"];
    const desks = keys.map((key) => identityOf("default", "Desk", key));
    for (const desk of desks) await surely("n1", desk, "add", [desk.key], `order-${desk.key}`);
    await fleet.start("n2");
    await fleet.time.advance(5 * TTL_MS);
    const owners = await Promise.all(
      desks.map(async (desk) => (await fleet.time.until(fleet.node("n1").node.inspect(desk))).node),
    );
    expect(new Set(owners)).toEqual(new Set(["n1", "n2"]));
    for (const through of ["n1", "n2"]) {
      for (const desk of desks) {
        expect(await surely(through, desk, "add", [desk.key], `order-${desk.key}`)).toBe(desk.key);
        const other = call(through, desk, "add", ["another"], { callId: `order-${desk.key}` });
        await expect(fleet.time.until(other)).rejects.toMatchObject({ code: "id_conflict" });
        expect(await linesOf(through, desk)).toEqual([desk.key]);
      }
    }
  });

  it("after every node was started again is answered from its record, and refused with other arguments", async () => {
    await start();
    const desk = deskAt("n1");
    await surely("n2", desk, "add", ["x"], "order-1");
    for (const name of NODES) fleet.node(name).crash({ power: true });
    for (const name of NODES) await fleet.time.until(fleet.node(name).start());
    await fleet.time.advance(3 * TTL_MS);
    expect(await surely("n3", desk, "add", ["x"], "order-1")).toBe("x");
    await expect(surely("n3", desk, "add", ["y"], "order-1")).rejects.toMatchObject({ code: "id_conflict" });
    expect(await linesOf("n1", desk)).toEqual(["x"]);
  });

  it("when it is older than what was forgotten is refused rather than run again, by the next owner too", async () => {
    await start(NODES, { CALL_ID_ROWS_MAX: 16 });
    const desk = deskAt("n1");
    const idAt = (ms: number): string => {
      const time = Math.floor(ms).toString(16).padStart(12, "0");
      return `${time.slice(0, 8)}-${time.slice(8)}-7000-a000-000000000000`;
    };
    const firstMs = fleet.node("n1").world.clock.wallMs();
    for (let n = 0; n < 200; n++) await surely("n1", desk, "add", [n], idAt(firstMs + n));
    for (const dies of ["n1", "n2"]) {
      await expect(surely("n3", desk, "add", [0], idAt(firstMs))).rejects.toMatchObject({
        code: "id_expired",
        details: { callId: idAt(firstMs) },
      });
      expect(await surely("n3", desk, "add", [199], idAt(firstMs + 199))).toBe(199);
      expect(await linesOf("n3", desk)).toHaveLength(200);
      fleet.node(dies).crash();
      await fleet.time.advance(3 * TTL_MS);
      await fleet.time.until(fleet.node(dies).start());
    }
  });
});
