/** Marks of real processes: gone with the process, and only with it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { LockedMarks } from "../../src/bucket/process-marks.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const HOLDER = `
const from = (file) => import(process.argv[1] + "/dist/src/" + file);
const [{ LockedMarks }, { RealFolder }, { realWorld }, { silentLogger }] = await Promise.all(
  ["bucket/process-marks.js", "world/real-folder.js", "world/real-world.js", "world/logger.js"].map(from));
const newMarks = () => new LockedMarks(realWorld(process.argv[2], silentLogger), new RealFolder(process.argv[2]));
const marks = newMarks();
const mark = marks.hold();
// Closing a file lets go of all locks that its process has on it, if nobody takes care of that.
newMarks().hasEnded(mark);
console.log(mark);
process.stdin.on("data", () => marks.release()).on("end", () => process.exit());
`;

let children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children = [];
});

function marksIn(folder: string): LockedMarks {
  return new LockedMarks(realWorld(folder, silentLogger), new RealFolder(folder));
}

async function holder(folder: string): Promise<{ child: ChildProcess; mark: string }> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", HOLDER, packageRoot, folder], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  const failed = once(child, "exit").then(() => {
    throw new Error("the holder of a mark died");
  });
  failed.catch(() => {});
  const [said] = (await Promise.race([failed, once(child.stdout as NodeJS.ReadableStream, "data")])) as [Buffer];
  return { child, mark: said.toString().trim() };
}

async function kill(child: ChildProcess): Promise<void> {
  const over = once(child, "exit");
  child.kill("SIGKILL");
  await over;
}

describe("the mark of another process", () => {
  it("has ended when that was killed, for all who look, and not while it is stopped", async () => {
    const folder = temporaryFolder();
    const { child, mark } = await holder(folder);
    const observers = [marksIn(folder), marksIn(folder)];
    const look = (): readonly boolean[] => observers.map((marks) => marks.hasEnded(mark));
    expect(look()).toEqual([false, false]);
    child.kill("SIGSTOP");
    expect(look()).toEqual([false, false]);
    child.kill("SIGCONT");
    await kill(child);
    expect(look()).toEqual([true, true]);
    expect(look()).toEqual([true, true]);
  });

  it("says nothing when that has given it back", async () => {
    const folder = temporaryFolder();
    const { child, mark } = await holder(folder);
    child.stdin?.end("release\n");
    await once(child, "exit");
    expect(fs.existsSync(path.join(folder, mark))).toBe(false);
    expect(marksIn(folder).hasEnded(mark)).toBe(false);
  });

  it("is not the mark of any file that somebody names", async () => {
    const folder = temporaryFolder();
    const marks = marksIn(folder);
    const uuid = "0198b5a0-0000-7000-8000-000000000000";
    fs.writeFileSync(path.join(folder, "other"), "");
    for (const name of ["other", "../other", "", uuid, `${uuid}/x`]) expect(marks.hasEnded(name)).toBe(false);
    fs.mkdirSync(path.join(folder, uuid));
    expect(marks.hasEnded(uuid)).toBe(false);
    fs.rmdirSync(path.join(folder, uuid));
    fs.writeFileSync(path.join(folder, uuid), "what is no database at all, and longer than its header is ".repeat(4));
    expect(marks.hasEnded(uuid)).toBe(false);
  });
});

describe("this process", () => {
  it("has one mark until it gives it back, also seen by others that live in it", () => {
    const folder = temporaryFolder();
    const [one, other] = [marksIn(folder), marksIn(folder)];
    const mark = one.hold() as string;
    expect(one.hold()).toBe(mark);
    expect(other.hold()).not.toBe(mark);
    for (let looks = 0; looks < 3; looks++) expect([one.hasEnded(mark), other.hasEnded(mark)]).toEqual([false, false]);
    one.release();
    one.release();
    expect(other.hasEnded(mark)).toBe(false);
    other.release();
    expect(fs.readdirSync(folder)).toEqual([]);
  });

  it("has none where none can be made", () => {
    const file = path.join(temporaryFolder(), "file");
    fs.writeFileSync(file, "");
    expect(marksIn(file).hold()).toBeUndefined();
  });

  it("removes marks that dead processes left long ago, and no others", async () => {
    const folder = temporaryFolder();
    const [old, fresh, held] = await Promise.all([holder(folder), holder(folder), holder(folder)]);
    for (const { child } of [old, fresh]) await kill(child);
    const longAgo = new Date(Date.now() - 2 * 3_600_000);
    for (const { mark } of [old, held]) fs.utimesSync(path.join(folder, mark), longAgo, longAgo);
    const own = marksIn(folder);
    const mark = own.hold() as string;
    expect(fs.readdirSync(folder).sort()).toEqual([fresh.mark, held.mark, mark].sort());
    own.release();
  });
});
