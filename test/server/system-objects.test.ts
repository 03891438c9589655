/** Objects of Moonport's own, asked for through every operation of every door: nobody but an operator reaches one. */
import { describe, expect, it } from "vitest";
import { identityOf } from "../../src/identity.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainObject } from "../../src/values.js";
import { RecordingSink } from "../realtime/support.js";
import { serveNode } from "../support/event-streams.js";
import { ask } from "./door.js";
import { eventually, TestClient } from "./sockets.js";

const LOT = `local Lot = class "Lot"
Lot.directory = { columns = { secret = "text" } }
function Lot.directory.row() return { secret = state.store.get("secret") } end
function Lot:put(secret) state.store.set("secret", secret) end
return Lot`;

/** Every method that reads of a class of Moonport's own, and one that it has not. */
const SYSTEM = [
  { class: "DelayShard", key: "0", methods: ["log", "list", "tally", "get", "append", "nonsense"] },
  { class: "Directory", key: "default/Lot/0-of-4", methods: ["find", "status", "apply", "nonsense"] },
] as const;

/** Without auth, so that everybody may do everything. */
async function served(): Promise<number> {
  const { port } = await serveNode({ classes: { Lot: LOT } });
  await ask(port, "POST", "/v1/default/Lot/a/put", '["s3cret"]');
  for (let at = 0; at < 64; at++) await ask(port, "POST", `/v1/default/Lot/${at}/-/send/put?delay=1h`, '["card 4111"]');
  return port;
}

describe.each(SYSTEM)("$class", ({ class: className, key, methods }) => {
  const object = `system/${className}/${encodeURIComponent(key)}`;

  it("is no route's to reach, by whatever method", async () => {
    const port = await served();
    const replica = { "moonport-consistency": "replica" };
    const routes: [string, string, (string | undefined)?, Record<string, string>?][] = [
      ...methods.flatMap((method): typeof routes => [
        ["POST", `/v1/${object}/${method}`, "[]"],
        ["GET", `/v1/${object}/${method}`],
        ["GET", `/v1/${object}/${method}`, undefined, replica],
        ["POST", `/v1/${object}/-/send/${method}`, "[]"],
        ["GET", `/v1/${object}/-/events?snapshot=${method}`],
        ["GET", `/v1/${object}/-/events?after=0&snapshot=${method}`],
      ]),
      ["GET", `/v1/${object}/-/events`],
      ["GET", `/v1/${object}/-/events?after=0`],
      ["GET", `/v1/system/${className}`],
      ["GET", `/v1/admin/directory/system/${className}`],
      ["POST", `/v1/admin/directory/system/${className}`],
      ["GET", `/v1/admin/store/${object}?key=a`],
      ["GET", `/v1/admin/store/${object}`],
      ["POST", `/v1/admin/destroy/${object}`],
      ["POST", `/v1/admin/restore/${object}`, '{"at":{"seq":1}}'],
      ["POST", `/v1/admin/fork/${object}`, '{"to":"99"}'],
      ["POST", "/v1/system/units/nonsense"],
    ];
    const answers: string[] = [];
    for (const [method, path, body, headers] of routes) {
      // An event stream that is open does not end.
      const status = path.includes("/events") ? await headOf(port, path) : undefined;
      const { json } = status === 200 ? { json: { code: "open" } } : await ask(port, method, path, body, headers);
      answers.push(`${method} ${path} ${json.code}`);
    }
    expect(answers).toEqual(routes.map(([method, path]) => `${method} ${path} app_not_found`));
  });

  it("is no frame's to reach", async () => {
    const port = await served();
    const client = await TestClient.greeted(port);
    const target = { app: "system", class: className, key };
    const frames: Record<string, unknown>[] = [
      { type: "subscribe", ...target },
      { type: "subscribe", ...target, from: { kind: "after", number: 0 } },
      { type: "find", app: "system", class: className },
      ...methods.flatMap((method): typeof frames => {
        const reading = { method, args: [] };
        return [
          { type: "call", ...target, method },
          { type: "call", ...target, method, consistency: "replica" },
          { type: "send", ...target, method },
          { type: "view", ...target, method },
          { type: "subscribe", ...target, from: { kind: "snapshot", reading } },
          { type: "subscribe", ...target, from: { kind: "after", number: 0 }, snapshotAfterGap: reading },
        ];
      }),
    ];
    const answers: unknown[] = [];
    for (const [id, frame] of frames.entries()) {
      client.sendValue({ ...frame, id });
      await eventually(() => client.frames.some((answer) => answer.id === id));
      const { type, error } = client.frames.find((answer) => answer.id === id) as { type: string; error?: PlainObject };
      answers.push([frame, error?.code ?? type]);
    }
    expect(answers).toEqual(frames.map((frame) => [frame, "app_not_found"]));
    await client.close();
  });
});

it("an operator may look into one", async () => {
  const port = await served();
  const { json } = await ask(port, "GET", "/v1/admin/delay-shards");
  const shards = json.shards as { shard: number; waiting: number }[];
  const used = shards.find(({ waiting }) => waiting > 0);
  const object = `system/DelayShard/${used?.shard}`;
  expect((await ask(port, "GET", `/v1/admin/inspect/${object}`)).json.state).toBe("resident");
  for (const [method, route, body] of [
    ["GET", "timers"],
    ["GET", "history"],
    ["GET", "ring"],
    ["POST", "sql", '{"statement":"select 1"}'],
  ] as const) {
    expect([route, (await ask(port, method, `/v1/admin/${route}/${object}`, body)).status]).toEqual([route, 200]);
  }
  expect(await headOf(port, `/v1/admin/export/${object}`)).toBe(200);
});

it("through no node of a fleet does anybody reach one, whatever each has a copy of", async () => {
  const classes = [{ app: "default", name: "Lot", file: "classes/Lot.lua", text: LOT }];
  const fleet = new SimulatedFleet({ seed: 7, apps: [{ app: "default", classes }] });
  try {
    const { time } = fleet;
    const names = ["n1", "n2", "n3"];
    for (const name of names) await fleet.start(name);
    await time.advance(2_000);
    const target = { app: "default", className: "Lot", method: "put", args: ["card 4111"], delayMs: 3_600_000 };
    for (let at = 0; at < 16; at++) {
      await time.until(fleet.node("n1").node.delay.send({ ...target, key: `k${at}` }));
    }
    const caller = { kind: "client" as const };
    const codeOf = (asked: Promise<unknown>): Promise<unknown> =>
      time.until(
        asked.then(
          () => "reached",
          (error) => error.code,
        ),
      );
    for (const name of names) {
      const { node } = fleet.node(name);
      for (let shard = 0; shard < 16; shard++) {
        const object = identityOf("system", "DelayShard", String(shard));
        const reading = { method: "log", args: [{ after: 0, limit: 100 }] };
        const asks = [
          node.call({ object, ...reading, caller }),
          node.call({ object, ...reading, caller, consistency: "replica" }),
          node.view({ object, reading, caller }, new RecordingSink()),
          node.subscribe({ object, from: { kind: "snapshot", reading }, caller }, new RecordingSink()),
          node.subscribe({ object, from: { kind: "now" }, caller }, new RecordingSink()),
          node.storeGet(object, "a"),
          node.storeList(object, ""),
          node.destroy(object),
          node.restore(object, { at: { seq: 1 } }),
          node.fork(object, {}, "99"),
        ];
        for (const asked of asks) asked.catch(() => {});
        for (const asked of asks) expect(await codeOf(asked)).toBe("app_not_found");
      }
    }
  } finally {
    fleet.close();
  }
});

/** The status alone, of an answer that may not end. */
async function headOf(port: number, path: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  await response.body?.cancel();
  return response.status;
}
