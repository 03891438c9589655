/** Deploying on a node that is alone: what is refused, what serves after it, and what is left in the bucket. */
import { describe, expect, it } from "vitest";
import type { DeployTerms, ReleaseFile } from "../../src/release/contract.js";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const APP = "default";
const FIRST = "CREATE TABLE notes (text TEXT)";
const SECOND = "ALTER TABLE notes ADD COLUMN who TEXT";

/** A class that says which release it is of, and keeps notes. */
function note(release: number, ...migrations: string[]): ReleaseFile {
  const list = migrations.map((sql) => `[[${sql}]]`).join(", ");
  const text = `local Note = class "Note"
Note.migrations = { ${list} }
function Note:add(text) state.sql.exec("INSERT INTO notes (text) VALUES (?)", text) return ${release} end
function Note.read:release() return ${release} end
return Note`;
  return { path: "classes/Note.lua", text };
}

async function started(options: VirtualNodeOptions = {}): Promise<VirtualNode> {
  const { text } = note(0, FIRST);
  return await VirtualNode.start({ followsReleases: [APP], classes: { Note: text }, ...options });
}

function deploy(virtual: VirtualNode, file: ReleaseFile, more: Partial<DeployTerms> = {}) {
  return virtual.time.until(virtual.node.deploy({ app: APP, files: [file], by: "ada", ...more }));
}

function rollback(virtual: VirtualNode, to?: number, more: Partial<DeployTerms> = {}) {
  return virtual.time.until(virtual.node.rollback({ app: APP, by: "ada", ...(to !== undefined && { to }), ...more }));
}

const served = async (virtual: VirtualNode) => (await virtual.node.status()).releases;
const keysIn = async (virtual: VirtualNode) => (await virtual.time.until(virtual.bucket.list("apps/"))).keys;

describe("a release", () => {
  it("takes the place of the folder's files, between calls, and stays across a restart with other files", async () => {
    const virtual = await started();
    expect(await virtual.call("Note/a", "add", "one")).toBe(0);
    expect(await served(virtual)).toEqual([{ app: APP, source: "folder" }]);
    const { release, changed, nodes } = await deploy(virtual, note(1, FIRST, SECOND), { message: "who wrote it" });
    expect([release.number, changed, nodes]).toEqual([1, true, [{ source: "release", release: 1 }]]);
    expect(release).toMatchObject({ files: 1, by: "ada", message: "who wrote it" });
    expect(await virtual.call("Note/a", "add", "two")).toBe(1);
    await virtual.stop();
    await virtual.open();
    expect(await virtual.call("Note/a", "release")).toBe(1);
    expect(await served(virtual)).toEqual([{ app: APP, source: "release", release: 1 }]);
  });

  it("is none of the app of Moonport's own objects, which no node serves either", async () => {
    const virtual = await started();
    const files = [note(1, FIRST)];
    const refused = { code: "bad_name", message: expect.stringContaining("Moonport's own") };
    await expect(virtual.node.deploy({ app: "system", files, by: "ada" })).rejects.toMatchObject(refused);
    await expect(VirtualNode.start({ followsReleases: ["system"], classes: {} })).rejects.toMatchObject(refused);
  });

  it("is found by a node that was started without any files", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST));
    await virtual.stop();
    await virtual.open([]);
    expect(await virtual.call("Note/a", "add", "one")).toBe(1);
  });

  it("is not waited for: a node without files and without a release does not start", async () => {
    const virtual = await started();
    await virtual.stop();
    await expect(virtual.open([])).rejects.toMatchObject({ code: "app_not_found" });
  });

  it("with the files that serve already is no other one", async () => {
    const virtual = await started();
    const first = await deploy(virtual, note(1, FIRST));
    const again = await deploy(virtual, note(1, FIRST));
    expect(again).toEqual({ ...first, changed: false });
    expect(await keysIn(virtual)).toHaveLength(2);
  });

  it("is served by a node that only finds it in the bucket, from when it looks next", async () => {
    const virtual = await started({ settings: { RELEASE_POLL_MS: 5_000 } });
    const other = await virtual.sibling();
    await deploy(other, note(1, FIRST));
    expect(await served(virtual)).toEqual([{ app: APP, source: "folder" }]);
    await virtual.time.advance(5_100);
    expect(await virtual.call("Note/b", "release")).toBe(1);
  });

  it("is nothing to a node that serves the files it was given", async () => {
    const virtual = await started({ followsReleases: [], settings: { RELEASE_POLL_MS: 100 } });
    const { nodes } = await deploy(virtual, note(1, FIRST));
    await virtual.time.advance(1_000);
    expect(nodes).toEqual([{ source: "folder" }]);
    expect(await virtual.call("Note/a", "release")).toBe(0);
  });

  it("keeps so many before it, and their files; older ones are gone from the bucket", async () => {
    const virtual = await started({ settings: { RELEASES_KEPT: 3 } });
    for (let number = 1; number <= 6; number++) await deploy(virtual, note(number, FIRST));
    const { releases } = await virtual.time.until(virtual.node.releases(APP));
    expect(releases.map(({ number }) => number)).toEqual([4, 5, 6]);
    expect(await keysIn(virtual)).toHaveLength(4);
    await expect(rollback(virtual, 3)).rejects.toMatchObject({ code: "release_not_found", hint: /4 to 6/ });
    await rollback(virtual, 4);
    expect(await virtual.call("Note/a", "release")).toBe(4);
  });

  it("does not end the call that runs: that one ends with the class it began with, and who waits behind it gets the new one", async () => {
    const classes = { Note: note(0, FIRST).text, Slow: slow(0) };
    const virtual = await started({ classes, settings: { RELEASE_POLL_MS: 2_000 } });
    const other = await virtual.sibling();
    await virtual.call("Slow/a", "ask", "x");
    const files = [note(1, FIRST), { path: "classes/Slow.lua", text: slow(1) }];
    await virtual.time.until(other.node.deploy({ app: APP, files, by: "ada" }));
    const writes = virtual.bucket.faults.hold(["write"]);
    // It asks a note that is not there yet, and for which the bucket is needed.
    const running = virtual.start("Slow/a", "ask", ["y"]);
    const waiting = virtual.start("Slow/a", "ask", ["z"]);
    await virtual.time.advance(3_000);
    expect(await served(virtual)).toEqual([{ app: APP, source: "release", release: 1 }]);
    writes.release();
    const [first, second] = await virtual.time.until(Promise.all([running, waiting]));
    // The call that it made began after the switch.
    expect(first.value).toEqual([0, 1]);
    expect(second.value).toEqual([1, 1]);
  });
});

describe("an object that a newer release has migrated", () => {
  const patient = { settings: { RELEASE_POLL_MS: 3_600_000 } };

  it("is not touched by a node with an older one, which looks for the newer at once", async () => {
    const virtual = await started(patient);
    const other = await virtual.sibling();
    await deploy(virtual, note(1, FIRST));
    await virtual.call("Note/a", "add", "one");
    await deploy(other, note(2, FIRST, SECOND));
    expect(await other.call("Note/a", "add", "two")).toBe(2);
    expect(await served(virtual)).toEqual([{ app: APP, source: "release", release: 1 }]);
    const refused = virtual.call("Note/b", "add", "x");
    expect(await refused).toBe(1);
    // It still believes that the object is its own, and hears at its first write that it was overtaken.
    await virtual.call("Note/a", "add", "lost").catch(() => {});
    await expect(virtual.call("Note/a", "add", "three")).rejects.toMatchObject({
      code: "release_behind",
      retryable: true,
      details: { release: 1, applied: 2, declared: 1 },
    });
    await virtual.time.advance(200);
    expect(await virtual.call("Note/a", "add", "four")).toBe(2);
    const { rows } = await virtual.time.until(
      virtual.node.sql(virtual.identity("Note/a"), "SELECT text FROM notes ORDER BY rowid", []),
    );
    expect(rows).toEqual([["one"], ["two"], ["four"]]);
  });

  it("is served as it is by the files of a folder, as their author may want", async () => {
    const virtual = await started({ ...patient, followsReleases: [], classes: { Note: note(0, FIRST, SECOND).text } });
    await virtual.call("Note/a", "add", "one");
    await virtual.reload({ Note: note(1, FIRST).text });
    expect(await virtual.call("Note/a", "add", "two")).toBe(1);
  });
});

function slow(release: number): string {
  return `local Slow = class "Slow"
function Slow:ask(key) return { ${release}, Note(key):add("x") } end
return Slow`;
}

describe("a deployment is refused", () => {
  it("when its files do not load, and what served goes on serving", async () => {
    const virtual = await started();
    const broken = { path: "classes/Note.lua", text: "local Note = class " };
    await expect(deploy(virtual, broken)).rejects.toMatchObject({
      code: "class_invalid",
      details: { files: [{ file: "classes/Note.lua" }] },
    });
    await expect(deploy(virtual, { path: "../x.lua", text: "" })).rejects.toMatchObject({ code: "bad_release" });
    expect(await keysIn(virtual)).toEqual([]);
    expect(await virtual.call("Note/a", "release")).toBe(0);
  });

  it("when another came first, whether it says which one it goes over or not", async () => {
    const virtual = await started();
    const other = await virtual.sibling();
    await deploy(virtual, note(1, FIRST), { over: 0 });
    await expect(deploy(other, note(2, FIRST), { over: 0 })).rejects.toMatchObject({
      code: "deploy_conflict",
      details: { release: 1 },
    });
    const both = await virtual.time.until(
      Promise.allSettled([
        virtual.node.deploy({ app: APP, files: [note(2, FIRST)], by: "ada" }),
        other.node.deploy({ app: APP, files: [note(3, FIRST)], by: "bob" }),
        other.node.deploy({ app: APP, files: [note(4, FIRST)], by: "cleo" }),
      ]),
    );
    const won = both.flatMap((one) => (one.status === "fulfilled" ? [one.value.release] : []));
    const lost = both.flatMap((one) => (one.status === "rejected" ? [one.reason.code] : []));
    expect([won.map(({ number }) => number), lost]).toEqual([[2], ["deploy_conflict", "deploy_conflict"]]);
    const { releases } = await virtual.time.until(virtual.node.releases(APP));
    expect(releases.map(({ id }) => id)).toContain(won[0]?.id);
    expect(releases).toHaveLength(2);
  });

  it("when its author has no name, or says too much", async () => {
    const virtual = await started();
    await expect(deploy(virtual, note(1, FIRST), { by: "" })).rejects.toMatchObject({ code: "bad_option" });
    const message = "x".repeat(1_001);
    await expect(deploy(virtual, note(1, FIRST), { message })).rejects.toMatchObject({ code: "too_large" });
    const elsewhere = virtual.node.deploy({ app: "other", files: [note(1)], by: "ada" });
    await expect(virtual.time.until(elsewhere)).rejects.toMatchObject({ code: "app_not_found" });
  });
});

describe("rolling back", () => {
  it("deploys the files of an earlier release under a new number", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST));
    await deploy(virtual, note(2, FIRST));
    const { release } = await rollback(virtual);
    expect(release).toMatchObject({ number: 3, rollbackOf: 1 });
    expect(await virtual.call("Note/a", "add", "x")).toBe(1);
    expect((await rollback(virtual)).release).toMatchObject({ number: 4, rollbackOf: 2 });
    await expect(rollback(virtual, 9)).rejects.toMatchObject({ code: "release_not_found" });
  });

  it("says that there is nothing to go back to", async () => {
    const virtual = await started();
    await expect(rollback(virtual)).rejects.toMatchObject({
      code: "release_not_found",
      hint: "nothing was deployed yet",
    });
    await deploy(virtual, note(1, FIRST));
    await expect(rollback(virtual)).rejects.toMatchObject({ code: "release_not_found" });
  });

  it.each(["in use", "at rest"])("is refused with the objects that have come further, %s", async (how) => {
    const virtual = await started({ settings: { OBJECT_IDLE_MS: 100 } });
    await deploy(virtual, note(1, FIRST));
    for (const key of ["a", "b", "c"]) await virtual.call(`Note/${key}`, "add", "x");
    await deploy(virtual, note(2, FIRST, SECOND));
    for (const key of ["a", "c"]) await virtual.call(`Note/${key}`, "add", "x");
    if (how === "at rest") await virtual.time.advance(2_000);
    await expect(rollback(virtual)).rejects.toMatchObject({
      code: "objects_migrated",
      details: {
        count: 2,
        objects: expect.arrayContaining([
          { object: "default/Note/a", applied: 2, declared: 1 },
          { object: "default/Note/c", applied: 2, declared: 1 },
        ]),
      },
    });
    expect(await virtual.call("Note/b", "release")).toBe(2);
    // Nothing of the look is left behind.
    expect(virtual.world.folder.stat("releases")).toBeUndefined();
  });

  it.each(["in use", "at rest"])(
    "lists a hundred objects and counts the others, %s",
    async (how) => {
      const virtual = await started({ settings: { OBJECT_IDLE_MS: how === "in use" ? 60_000 : 100 } });
      await deploy(virtual, note(1, FIRST, SECOND));
      for (let number = 0; number < 103; number++) await virtual.call(`Note/n${number}`, "add", "x");
      if (how === "at rest") await virtual.time.advance(2_000);
      const refused = await deploy(virtual, note(2, FIRST)).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "objects_migrated", details: { count: 103 } });
      expect((refused as { details: { objects: unknown[] } }).details.objects).toHaveLength(100);
    },
    60_000,
  );

  it("goes through when no object has come further, and when whoever does it takes them as they are", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST));
    await virtual.call("Note/a", "add", "x");
    await deploy(virtual, note(2, FIRST, SECOND));
    await rollback(virtual);
    expect(await virtual.call("Note/a", "add", "x")).toBe(1);
    await rollback(virtual);
    expect(await virtual.call("Note/a", "add", "x")).toBe(2);
    await expect(rollback(virtual)).rejects.toMatchObject({ code: "objects_migrated" });
    const { release } = await rollback(virtual, 1, { acceptMigrated: true });
    expect(release).toMatchObject({ rollbackOf: 1, acceptsMigrated: true });
    expect(await virtual.call("Note/a", "add", "x")).toBe(1);
  });

  it("is refused when the objects cannot be looked at in time, or one of them not at all", async () => {
    const virtual = await started({
      settings: { OBJECT_IDLE_MS: 100, RELEASE_WALK_MS: 10 },
      bucket: { latencyMs: () => 20 },
    });
    await deploy(virtual, note(1, FIRST, SECOND));
    await virtual.call("Note/a", "add", "x");
    await virtual.time.advance(2_000);
    await expect(deploy(virtual, note(2, FIRST))).rejects.toMatchObject({ code: "objects_unread", message: /10 ms/ });
    await virtual.stop();
    await virtual.open(undefined, { RELEASE_WALK_MS: 60_000 });
    const [manifest = ""] = (await virtual.keys("objects/default/Note/")).filter((key) => key.endsWith("manifest"));
    await virtual.time.until(virtual.bucket.write([{ key: manifest, bytes: Buffer.from("{}") }]));
    await expect(deploy(virtual, note(2, FIRST))).rejects.toMatchObject({
      code: "objects_unread",
      object: "default/Note/a",
    });
    await deploy(virtual, note(2, FIRST), { acceptMigrated: true });
  });

  it("cannot take back that an applied migration was edited, even with accepted objects", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST, SECOND));
    await virtual.call("Note/a", "add", "x");
    const edited = note(2, FIRST, "ALTER TABLE notes ADD COLUMN author TEXT", "CREATE TABLE more (x)");
    for (const acceptMigrated of [false, true]) {
      await expect(deploy(virtual, edited, { acceptMigrated })).rejects.toMatchObject({ code: "objects_migrated" });
    }
    await virtual.time.until(virtual.node.destroy(virtual.identity("Note/a")));
    await deploy(virtual, edited);
    expect(await virtual.call("Note/a", "add", "x")).toBe(2);
  });
});

describe("the bucket", () => {
  it("that loses the answer to the write has deployed all the same, once", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST));
    virtual.bucket.faults.failNext(1, { kind: "lost_answer" }, ["write"]);
    const { release } = await deploy(virtual, note(2, FIRST));
    expect(release.number).toBe(2);
    const { releases } = await virtual.time.until(virtual.node.releases(APP));
    expect(releases.map(({ number }) => number)).toEqual([1, 2]);
  });

  it("that refuses it leaves what served", async () => {
    const virtual = await started();
    await deploy(virtual, note(1, FIRST));
    virtual.bucket.faults.failNext(1, { kind: "refused" }, ["write"]);
    await expect(deploy(virtual, note(2, FIRST))).rejects.toMatchObject({ code: "bucket_failed" });
    expect(await virtual.call("Note/a", "release")).toBe(1);
    await deploy(virtual, note(2, FIRST));
    expect(await virtual.call("Note/a", "release")).toBe(2);
  });

  it("whose record is damaged stops deployments and starts, and no node that runs", async () => {
    const virtual = await started({ settings: { RELEASE_POLL_MS: 100 } });
    await deploy(virtual, note(1, FIRST));
    await virtual.time.until(virtual.bucket.write([{ key: "apps/default/release", bytes: Buffer.from("{}") }]));
    await virtual.time.advance(1_000);
    expect(await virtual.call("Note/a", "release")).toBe(1);
    await expect(deploy(virtual, note(2, FIRST))).rejects.toMatchObject({ code: "release_damaged" });
    await virtual.stop();
    await expect(virtual.open()).rejects.toMatchObject({ code: "release_damaged" });
  });

  it("whose release has lost its files tells nodes nothing new: they keep what they have and say so", async () => {
    const virtual = await started({ settings: { RELEASE_POLL_MS: 100 } });
    const other = await virtual.sibling();
    await deploy(other, note(1, FIRST));
    await virtual.time.advance(500);
    await deploy(other, note(2, FIRST));
    const [, , second] = await keysIn(virtual);
    await virtual.time.until(virtual.bucket.delete([second as string]));
    await virtual.time.advance(1_000);
    const [standing] = await served(virtual);
    expect(standing).toMatchObject({ release: 1, failed: { release: 2, message: /not in the bucket/ } });
    expect(await virtual.call("Note/b", "release")).toBe(1);
    await deploy(other, note(3, FIRST));
    await virtual.time.advance(1_000);
    expect(await served(virtual)).toEqual([{ app: APP, source: "release", release: 3 }]);
  });
});
