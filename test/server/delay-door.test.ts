/** Sending and looking after delayed commands over HTTP: on a fake node what the door makes of requests, and on a whole one. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf } from "../../src/identity.js";
import { Moonport } from "../../src/moonport.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ask, type OpenDoor, openDoor } from "./door.js";

let open: OpenDoor;
beforeEach(async () => {
  open = await openDoor();
});
afterEach(() => open.door.stop());

it("what the query says of the time becomes the command's", async () => {
  const path = "/v1/default/Egg/a%2Fb/-/send/boil";
  const more = "id=egg&expires=2026-12-24T18:00:00Z&missed=skip&outcome=Log/eggs/told";
  expect((await ask(open.port, "POST", `${path}?delay=1.5m&${more}`, "[3]")).json).toEqual({ id: "egg" });
  expect((await ask(open.port, "POST", `${path}?cron=0+9+*+*+*&tz=Europe/Berlin`)).status).toBe(200);
  expect((await ask(open.port, "POST", `${path}?at=1800000000.5`, "[]")).status).toBe(200);
  const target = { app: "default", className: "Egg", key: "a/b", method: "boil", caller: {} };
  expect(open.node.sent).toEqual([
    {
      ...target,
      args: [3],
      delayMs: 90_000,
      id: "egg",
      expiresMs: Date.UTC(2026, 11, 24, 18),
      missed: "skip",
      outcome: { className: "Log", key: "eggs", method: "told" },
    },
    { ...target, args: [], cron: "0 9 * * *", timeZone: "Europe/Berlin" },
    { ...target, args: [], atMs: 1_800_000_000_500 },
  ]);
});

it.each([
  ["POST", "/v1/default/Egg/a/-/send/boil?dely=10s", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/boil?delay=soon", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/boil?delay=-5", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/boil?at=tomorrow", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/boil?missed=some", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/boil?outcome=nowhere", 400, "bad_option"],
  ["POST", "/v1/default/Egg/a/-/send/Boil!", 400, "bad_name"],
  ["POST", "/v1/default/egg/a/-/send/boil", 400, "bad_name"],
  ["GET", "/v1/default/Egg/a/-/send/boil", 405, "method_not_allowed"],
  ["GET", "/v1/admin/delay?state=pendin", 400, "bad_option"],
  ["GET", "/v1/admin/delay?limit=100000", 400, "bad_option"],
  ["POST", "/v1/admin/delay/x/explode", 404, "route_not_found"],
  ["GET", "/v1/admin/delay/x/cancel", 405, "method_not_allowed"],
  ["POST", "/v1/admin/delay/x/cancel?delay=1", 400, "bad_option"],
])("%s %s is refused with %i %s", async (method, path, status, code) => {
  const reply = await ask(open.port, method, path);
  expect([reply.status, reply.json.code]).toEqual([status, code]);
});

it("through a client every operation of a whole node is there", async () => {
  const text = `local Egg = class "Egg"
    function Egg:boil(minutes) schedule.after(minutes * 60, { name = "done" }):boil(1) end
    return Egg`;
  const moonport = await Moonport.open({
    dataDir: temporaryFolder(),
    classes: { Egg: text },
    listen: { port: 0 },
    log: silentLogger,
  });
  const world = realWorld("/nowhere", silentLogger);
  const client = new HttpNodeClient({ url: moonport.url ?? "", world });
  try {
    const { delay } = client;
    const egg = { app: "default", className: "Egg", key: "e/1", method: "boil", args: [3] };
    expect(await delay.send({ ...egg, delayMs: 3_600_000, id: "later/1" })).toEqual({ id: "later/1" });
    await expect(delay.send({ ...egg, method: "fry" })).rejects.toMatchObject({ code: "method_not_found" });
    await expect(delay.send({ ...egg, id: "later/1", args: [4] })).rejects.toMatchObject({ code: "id_conflict" });
    expect(await delay.list({ states: ["pending"], object: "Egg/e/1" })).toMatchObject([{ id: "later/1" }]);
    expect(await delay.move("later/1", { everyMs: 7_200_000 })).toBe("done");
    expect(await delay.get("later/1")).toMatchObject({ command: { recurring: true }, runs: [] });
    expect(await delay.cancel("later/1")).toBe("done");
    expect(await delay.cancel("never")).toBe("unknown");
    expect(await delay.get("never")).toBeUndefined();
    expect(await delay.retry("later/1")).toBe(false);
    const [{ shard = 0 } = {}] = (await delay.tallies()).filter(({ counts }) => counts.cancelled === 1);
    const kinds = (await delay.log(shard, 0, 10)).map(({ kind }) => kind);
    expect(kinds).toEqual(["schedule", "schedule", "move", "cancel", "retry"]);
    await client.call({
      object: identityOf("default", "Egg", "e/1"),
      method: "boil",
      args: [3],
      caller: { kind: "client" },
    });
    const timers = await client.timers(identityOf("default", "Egg", "e/1"));
    expect(timers.timers).toMatchObject([{ name: "done", method: "boil", state: "set", runs: 0 }]);
  } finally {
    client.close();
    await moonport.close();
  }
});
