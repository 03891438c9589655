import fs from "node:fs";
import path from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { tokenDigest } from "../../src/auth/token-file.js";
import { deferred } from "../../src/world/deferred.js";
import { openDoor } from "../server/door.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson, RunningCli } from "./cli.js";

const ADA = "mp_ada-0123456789abcdef";
const BOB = "mp_bob-0123456789abcdef";
const WHO = `local Who = class "Who"
function Who:am_i() state.store.set("last", caller.id) return { id = caller.id, kind = caller.kind, role = caller.claims.role } end
function Who.read:last() return state.store.get("last") end
return Who`;

let cwd: string;
let file: string;
function writeTokens(...tokens: object[]): void {
  fs.writeFileSync(file, JSON.stringify({ tokens }), { mode: 0o600 });
}
const ada = {
  id: "ada",
  token: ADA,
  claims: { role: "bidder" },
  allow: [{ classes: ["Who"], rights: ["read", "call"] }],
};
const bob = { id: "bob", sha256: tokenDigest(BOB).toString("hex"), allow: [{ rights: ["read"] }] };

beforeEach(() => {
  cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  fs.writeFileSync(path.join(cwd, "classes", "Who.lua"), WHO);
  file = path.join(cwd, "auth.json");
});

describe("moonport token new", () => {
  it("makes a token that none can guess, and the line that lets it in", async () => {
    const making = (): ReturnType<typeof cliJson> => cliJson({ cwd }, "token", "new", "--owner", "ada");
    const [first, second] = await Promise.all([making(), making()]);
    const { token, entry } = first.document as { token: string; entry: { id: string; sha256: string } };
    expect(token).toMatch(/^mp_[A-Za-z0-9_-]{43}$/);
    expect(entry).toEqual({
      id: "ada",
      sha256: tokenDigest(token).toString("hex"),
      allow: [{ rights: ["read", "call", "subscribe"] }],
    });
    expect(second.document.token).not.toBe(token);
    const talk = await cli({ cwd }, "token", "new");
    expect(talk.stdout).toMatch(
      /^token {2}mp_.{43}\nline {3}\{"id":"somebody","sha256":"[0-9a-f]{64}","allow":.*\}\n$/,
    );
  });
});

describe("a node started with --auth", () => {
  const start = async (...flags: string[]): Promise<RunningCli> => {
    const node = new RunningCli({ cwd }, "start", "--port", "0", "--json", "--auth", file, ...flags);
    await node.document("url");
    return node;
  };

  it("lets in who has a token, as whom it is, and as far as it goes", async () => {
    writeTokens(ada, bob);
    const node = await start("--log-level", "debug");
    const env = { MOONPORT_TOKEN: ADA };
    const [none, byEnvironment, wrong] = await Promise.all([
      cliJson({ cwd }, "call", "Who/x", "am_i"),
      cliJson({ cwd, env }, "call", "Who/x", "am_i"),
      cli({ cwd }, "call", "Who/x", "am_i", "--token", "mp_wrong-0123456789"),
    ]);
    expect([none.code, none.document.error]).toEqual([2, expect.objectContaining({ code: "unauthenticated" })]);
    expect(byEnvironment.document.value).toEqual({ id: "ada", kind: "client", role: "bidder" });
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toContain("(unauthenticated)");

    const [reads, writes] = await Promise.all([
      cliJson({ cwd }, "call", "Who/x", "last", "--token", BOB),
      cliJson({ cwd }, "call", "Who/x", "am_i", "--token", BOB),
    ]);
    expect(reads.document.value).toBe("ada");
    expect([writes.code, writes.document.error]).toEqual([2, expect.objectContaining({ code: "forbidden" })]);

    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
    const said = [none, byEnvironment, reads, writes].map(({ document, stderr }) => JSON.stringify(document) + stderr);
    for (const text of [...said, wrong.stderr, node.stderr]) {
      for (const secret of [ADA, BOB, "mp_wrong"]) expect(text).not.toContain(secret);
    }
  });

  it("reads the file again on SIGHUP, and keeps what it had when the file is wrong", async () => {
    writeTokens(ada);
    const node = await start();
    const asBob = (): Promise<{ code: number | null }> => cli({ cwd }, "call", "Who/x", "last", "--token", BOB);
    expect((await asBob()).code).toBe(2);
    writeTokens(ada, bob);
    node.signal("SIGHUP");
    await expect.poll(() => node.stderr).toContain("hold from now on");
    expect((await asBob()).code).toBe(0);
    fs.writeFileSync(file, "{");
    node.signal("SIGHUP");
    await expect.poll(() => node.stderr).toContain("the tokens stay as they were");
    expect((await asBob()).code).toBe(0);
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
  });

  it("ends on SIGHUP what a token that is gone from the file had subscribed to", async () => {
    writeTokens({ ...ada, allow: [{ rights: ["call", "subscribe"] }] }, bob);
    const node = await start();
    await cli({ cwd }, "call", "Who/x", "am_i", "--token", ADA);
    const subscriber = new RunningCli({ cwd }, "subscribe", "Who/x", "--json", "--token", ADA);
    await subscriber.document("subscribed");
    writeTokens(bob);
    node.signal("SIGHUP");
    expect(await subscriber.exit).toBe(2);
    const { error } = await subscriber.document("error");
    expect(error).toMatchObject({ code: "unauthenticated" });
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
  });

  it("does not start with a file that is wrong, and warns of one that others can read", async () => {
    const starting = (): ReturnType<typeof cli> => cli({ cwd }, "start", "--port", "0", "--auth", file);
    const missing = await starting();
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("cannot be read (ENOENT)")]);
    writeTokens({ ...ada, allow: [{ rights: ["rite"] }] });
    const wrong = await starting();
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining("auth.json: tokens[0].allow[0].rights[0]: "),
    ]);
    expect(wrong.stderr).not.toContain(ADA);
    writeTokens(ada);
    fs.chmodSync(file, 0o644);
    const node = await start();
    expect(node.stderr).toContain("can be read by others of this machine");
  });

  it("does not start, and ends, when it is to listen where it cannot or to what is no origin", async () => {
    writeTokens(ada);
    const starting = (...flags: string[]): ReturnType<typeof cliJson> => cliJson({ cwd }, "start", ...flags);
    expect((await starting("--host", "203.0.113.7")).document.error).toMatchObject({ code: "insecure_bind", exit: 7 });
    const origin = await starting("--auth", file, "--allow-origin", "app.example");
    expect(origin.document.error).toMatchObject({ code: "bad_option", message: '"app.example" is not an origin' });
  });
});

describe("a token on the command line", () => {
  it.runIf(process.platform === "linux")("is not shown to who lists the processes", async () => {
    const door = await openDoor();
    const begun = deferred();
    door.node.answer = () => {
      begun.resolve();
      return new Promise(() => {});
    };
    const child = new RunningCli({ cwd }, "call", "Who/x", "am_i", "--node", door.url, `--token=${ADA}`);
    await begun.promise;
    const shown = fs.readFileSync(`/proc/${child.pid}/cmdline`, "utf8");
    expect(shown).toContain("moonport");
    expect(shown).not.toContain(ADA);
    child.signal("SIGKILL");
    await child.exit;
    await door.door.stop();
  });

  it("that cannot be one is refused without being repeated", async () => {
    const run = await cli({ cwd }, "call", "Who/x", "am_i", "--node", "http://127.0.0.1:1", "--token", "my secret");
    expect([run.code, run.stderr.includes("my secret")]).toEqual([2, false]);
  });
});
