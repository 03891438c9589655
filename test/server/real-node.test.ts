import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import { HttpDoor } from "../../src/server/http-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ask } from "./door.js";

const COUNTER = `local Counter = class "Counter"
function Counter:increment(by)
  local value = (state.store.get("value") or 0) + (by or 1)
  state.store.set("value", value)
  return value
end
function Counter:keep(bytes) state.store.set("bytes", bytes) return bytes end
function Counter:_secret() return 1 end
function Counter:tenThenThrow()
  for at = 1, 10 do state.store.set("row" .. at, at) end
  error { code = "changed_my_mind", message = "no" }
end
function Counter.read:value() return state.store.get("value") or 0 end
return Counter`;

let node: MoonportNode;
let door: HttpDoor;
let client: HttpNodeClient;
let port: number;
const object = identityOf("default", "Counter", "a");

beforeEach(async () => {
  const settings = resolveSettings({ DRAIN_MS: 2_000 });
  const world = realWorld(temporaryFolder(), silentLogger);
  node = await MoonportNode.open({
    world,
    bucket: new MemoryBucket(world, { timeoutMs: settings.BUCKET_TIMEOUT_MS }),
    apps: [
      { app: "default", classes: [{ app: "default", name: "Counter", file: "classes/Counter.lua", text: COUNTER }] },
    ],
    settings,
    onClassError: "refuse",
  });
  door = new HttpDoor({ node, settings, world, host: "127.0.0.1", port: 0 });
  const { url } = await door.start();
  port = Number(new URL(url).port);
  client = new HttpNodeClient({ url, world });
});
afterEach(async () => {
  client.close();
  await door.stop();
  await node.stop();
});

describe("a node through its HTTP door", () => {
  const path = "/v1/default/Counter/a";

  it("runs writing methods by POST and reading ones by GET too", async () => {
    const written = await ask(port, "POST", `${path}/increment`, "[5]");
    expect([written.status, written.text, written.headers["moonport-seq"]]).toEqual([200, "5", "1"]);
    const read = await ask(port, "GET", `${path}/value`);
    expect([read.status, read.text, read.headers["moonport-seq"]]).toEqual([200, "5", undefined]);
    const refused = await ask(port, "GET", `${path}/increment`);
    expect([refused.status, refused.json.code]).toEqual([405, "not_a_reading_method"]);
    expect((await ask(port, "GET", `${path}/value`)).text).toBe("5");
  });

  it("runs a call once that comes twice with one id", async () => {
    const id = { "idempotency-key": "order-17" };
    expect((await ask(port, "POST", `${path}/increment`, "[1]", id)).text).toBe("1");
    expect((await ask(port, "POST", `${path}/increment`, "[1]", id)).text).toBe("1");
    expect((await ask(port, "POST", `${path}/increment`, "[2]", id)).json.code).toBe("id_conflict");
    expect((await ask(port, "GET", `${path}/value`)).text).toBe("1");
  });

  it("names the nearest class and method, and no private one", async () => {
    expect((await ask(port, "POST", `${path}/incremnt`)).json).toMatchObject({
      code: "method_not_found",
      status: 404,
      hint: "did you mean increment?",
    });
    expect((await ask(port, "POST", "/v1/default/Countr/a/increment")).json).toMatchObject({
      code: "class_not_found",
      hint: "did you mean Counter?",
    });
    expect((await ask(port, "POST", `${path}/_secret`)).json.code).toBe("method_not_found");
    expect((await ask(port, "POST", "/v1/defalt/Counter/a/increment")).json.code).toBe("app_not_found");
  });

  it("keeps bytes, and nothing of a method that threw after ten writes", async () => {
    const bytes = '{"$bytes":"AAH/"}';
    expect((await ask(port, "POST", `${path}/keep`, `[${bytes}]`)).text).toBe(bytes);
    expect((await ask(port, "POST", `${path}/tenThenThrow`)).json).toMatchObject({
      code: "changed_my_mind",
      status: 422,
    });
    expect(await client.storeList(object, "")).toEqual([["bytes", new Uint8Array([0, 1, 255])]]);
  });

  it("serves the operator's routes", async () => {
    await client.call({ object, method: "increment", args: [3], caller: { kind: "client" } });
    expect(await client.inspect(object)).toEqual(await node.inspect(object));
    expect(await client.classes()).toEqual(await node.classes());
    expect((await client.status()).ready).toBe(true);
    expect(await client.storeGet(object, "value")).toBe(3);
    expect(await client.sql(object, "select ? + 1 as it", [1])).toEqual({ columns: ["it"], rows: [[2]] });
    await client.destroy(object);
    await expect(client.destroy(object)).rejects.toMatchObject({
      code: "object_not_found",
      object: "default/Counter/a",
    });
  });
});
