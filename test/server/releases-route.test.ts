/** Deploying over HTTP: the form of what comes, its size, and that nothing of it is lost on the way. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { ask, type OpenDoor, openDoor, world } from "./door.js";

let open: OpenDoor;
beforeEach(async () => {
  open = await openDoor({ HTTP_BODY_BYTES_MAX: 1_024, RELEASE_BYTES_MAX: 4_096 });
});
afterEach(() => open.door.stop());

const RELEASES = "/v1/admin/releases/default";
const ROLLBACK = "/v1/admin/rollback/default";
const files = [{ path: "classes/A.lua", text: 'return "ä\u0000\n"' }];

describe("over HTTP", () => {
  it("a deployment, a rollback and the list of releases reach the node as they were meant", async () => {
    const client = new HttpNodeClient({ url: open.url, world });
    const terms = { by: "ada", message: "m", over: 0, acceptMigrated: true, force: false };
    expect(await client.deploy({ app: "default", files, ...terms })).toMatchObject({ changed: true });
    expect(open.node.deployed).toEqual([{ app: "default", files, ...terms }]);
    await client.rollback({ app: "default", to: 7, by: "bob" });
    await client.rollback({ app: "default", by: "bob" });
    expect(open.node.rolledBack).toEqual([
      { app: "default", to: 7, by: "bob" },
      { app: "default", by: "bob" },
    ]);
    expect(await client.releases("default")).toEqual({ app: "default", releases: [], nodes: [{ source: "folder" }] });
    client.close();
  });

  it("a release may be larger than a call, and what is larger than that is refused by its own limit", async () => {
    const ofBytes = (bytes: number): string =>
      JSON.stringify({ by: "ada", files: [{ path: "a", text: "x".repeat(bytes) }] });
    expect((await ask(open.port, "POST", RELEASES, ofBytes(4_096))).status).toBe(200);
    const refused = await ask(open.port, "POST", RELEASES, ofBytes(10_000));
    expect([refused.status, refused.json.code, refused.json.hint]).toEqual([
      413,
      "too_large",
      "the limit is RELEASE_BYTES_MAX",
    ]);
    const call = await ask(open.port, "POST", ROLLBACK, JSON.stringify({ by: "x".repeat(2_000) }));
    expect([call.status, call.json.hint]).toEqual([413, "the limit is HTTP_BODY_BYTES_MAX"]);
  });

  it.each<[string, string, unknown]>([
    [RELEASES, "no list of files", { by: "ada" }],
    [RELEASES, "a file without a text", { by: "ada", files: [{ path: "classes/A.lua" }] }],
    [RELEASES, "a file that is bytes", { by: "ada", files: [{ path: "classes/A.lua", text: { $bytes: "AQI=" } }] }],
    [RELEASES, "nobody", { files }],
    [RELEASES, "a field that there is not", { files, by: "ada", forced: true }],
    [RELEASES, "a number that is none", { files, by: "ada", over: "7" }],
    [RELEASES, "a flag that is none", { files, by: "ada", force: 1 }],
    [RELEASES, "no table", [1]],
    [ROLLBACK, "a release that is no number", { by: "ada", to: -1 }],
    [ROLLBACK, "files", { by: "ada", files }],
  ])("%s refuses %s", async (route, _, body) => {
    const { status, json } = await ask(open.port, "POST", route, JSON.stringify(body));
    expect([status, json.code]).toEqual([400, "bad_request"]);
    expect([...open.node.deployed, ...open.node.rolledBack]).toEqual([]);
  });

  it("an app's name is looked at before anything is asked of the node", async () => {
    for (const [method, path] of [
      ["GET", "/v1/admin/releases/No"],
      ["POST", "/v1/admin/rollback/No"],
    ] as const) {
      expect((await ask(open.port, method, path, method === "POST" ? '{"by":"ada"}' : undefined)).json.code).toBe(
        "bad_name",
      );
    }
    const put = await ask(open.port, "GET", ROLLBACK);
    expect([put.status, put.headers.allow]).toEqual([405, "POST"]);
  });
});
