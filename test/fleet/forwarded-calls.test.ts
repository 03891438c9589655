/** Calls that wait in the mailbox of an object on another node. */
import { getEventListeners } from "node:events";
import { beforeEach, expect, it } from "vitest";
import type { ObjectIdentity } from "../../src/identity.js";
import type { CallReply, CallRequest } from "../../src/node-api.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { listAt, startFleet } from "./watching.js";

const MAILBOX_MAX = 2;

let fleet: SimulatedFleet;
let object: ObjectIdentity;
/** Lets the object open: until then all its calls wait. */
let open: () => void;
beforeEach(async () => {
  fleet = await startFleet(2, { OBJECT_MAILBOX_MAX: MAILBOX_MAX });
  object = listAt(fleet, "n1");
  const hold = fleet.node("n1").bucket.faults.hold();
  open = () => hold.release();
});

function append(value: number, options: Partial<CallRequest> = {}): Promise<CallReply> {
  const request = { object, method: "append", args: [value], caller: { kind: "client" as const }, ...options };
  const asked = fleet.node("n0").call(request);
  asked.catch(() => {});
  return asked;
}

it("are refused when it is full, with the time after which to come again", async () => {
  const waiting = [append(1), append(2)];
  await fleet.time.advance(50);
  const refused = append(3);
  await fleet.time.advance(50);
  await expect(refused).rejects.toMatchObject({ code: "mailbox_full", retryAfterMs: 1_000, object: object.id });
  open();
  await fleet.time.until(Promise.all(waiting));
});

it("leave their places to others when their callers go away, and never run", async () => {
  const gone = new AbortController();
  const waiting = [append(1, { signal: gone.signal }), append(2)];
  await fleet.time.advance(50);
  gone.abort();
  await fleet.time.advance(50);
  await expect(waiting[0]).rejects.toMatchObject({ code: "caller_gone" });
  waiting[0] = append(3);
  await fleet.time.advance(50);
  open();
  const replies = await fleet.time.until(Promise.all(waiting));
  expect(replies.map(({ value }) => value)).toEqual([2, 1]);
});

it("are told when their deadlines pass there", async () => {
  const waiting = append(1, { timeoutMs: 100 });
  await fleet.time.advance(200);
  await expect(waiting).rejects.toMatchObject({ code: "deadline_exceeded" });
  open();
});

it("leave nothing on their callers' signal", async () => {
  open();
  const { signal } = new AbortController();
  const calls = Array.from({ length: MAILBOX_MAX }, (_, value) => append(value, { signal }));
  const read = { method: "all", args: [], consistency: "replica", signal } as const;
  calls.push(append(0, read));
  await fleet.time.until(Promise.all(calls));
  expect(getEventListeners(signal, "abort")).toEqual([]);
});
