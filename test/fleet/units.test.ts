/** What a unit is told of the calls that it made on another node. */
import { afterEach, beforeEach, expect, it } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { appOf } from "../support/virtual-node.js";

const GATE_MS = 200;

const NOTE = `
local Note = class "Note"
function Note:add() state.store.set("n", (state.store.get("n") or 0) + 1) return state.store.get("n") end
function Note:refuse() error { code = "refused", message = "no" } end
function Note.read:count() return state.store.get("n") or 0 end
return Note
`;
const UNITS = {
  add: `return function(request) return Note(request.body):add() end`,
  caught: `return function(request) pcall(function() Note(request.body):add() end) return "as if nothing were" end`,
  each: `return function(request)
    pcall(function() Note(request.body):refuse() end)
    pcall(function() Note(request.headers.full):add() end)
    Note(request.body):add()
  end`,
};

let fleet: SimulatedFleet;
/** Of a note that lives on n1. */
let key: string;
beforeEach(async () => {
  fleet = new SimulatedFleet({
    apps: [appOf({ Note: NOTE }, UNITS)],
    settings: { OBJECT_ACK_GATE_MS: GATE_MS, COVER_MS: 60_000, FLIGHT_HEDGE_MS: 60_000, OBJECT_MAILBOX_MAX: 1 },
  });
  await fleet.start("n0");
  // Its own journal counts: nothing lands there while its disk takes that long.
  await fleet.start("n1", { diskSyncMs: 2 * GATE_MS });
  await fleet.time.advance(1_000);
  key = noteOn("n1").key;
  await outcomeOf("add").catch(() => {});
  await fleet.time.advance(5_000);
});
afterEach(() => fleet.close());

function noteOn(node: string, from = 0): ObjectIdentity {
  const { ring } = fleet.node("n0").node.fleet;
  for (let index = from; ; index++) {
    const note = identityOf("default", "Note", `${index}`);
    if (ring.homesOf(partitionOf(note.id))[0] === node) return note;
  }
}

/** Of a unit on n0. */
function outcomeOf(unit: string, callId?: string, headers = {}): Promise<unknown> {
  const request = { app: "default", unit, method: "POST", path: "/", query: {}, headers, body: key };
  const caller = { kind: "client" } as const;
  const running = fleet.node("n0").node.runUnit({ ...request, caller, ...(callId !== undefined && { callId }) });
  return fleet.time.until(running.then(({ body }) => JSON.parse(String(body))));
}

async function failureOf(...which: Parameters<typeof outcomeOf>): Promise<MoonportError> {
  return outcomeOf(...which).then(
    (value) => expect.fail(`answered ${value}`),
    (error) => error,
  );
}

const fatesIn = ({ details }: MoonportError): unknown[] =>
  ((details?.calls ?? []) as { fate: string; code?: string }[]).map(({ fate, code }) => [fate, code]);

it.each(["add", "caught"])("a write that has not landed there in time is in doubt (%s)", async (unit) => {
  const error = await failureOf(unit, "order-1");
  expect(error).toMatchObject({ code: "outcome_unknown", callId: "order-1" });
  expect(fatesIn(error)).toEqual([["unknown", "outcome_unknown"]]);
  await fleet.time.advance(5_000);
  if (unit === "add") expect(await outcomeOf(unit, "order-1")).toBe(2);
});

it("what was refused there is not said to have run", async () => {
  const full = noteOn("n1", 1_000);
  const { node, bucket } = fleet.node("n1");
  const opening = bucket.faults.hold(["get"]);
  const waiting = node.call({ object: full, method: "add", args: [], caller: { kind: "client" } });
  const error = await failureOf("each", "order-1", { full: full.key });
  expect(fatesIn(error)).toEqual([
    ["failed", "refused"],
    ["not_run", "mailbox_full"],
    ["unknown", "outcome_unknown"],
  ]);
  opening.release();
  await fleet.time.until(waiting).catch(() => {});
});
