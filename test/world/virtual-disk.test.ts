/** What a power cut takes from a virtual world's disk, and what it leaves. */
import fs from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld, WorldRevoked } from "../../src/testing/virtual-world.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

afterEach(() => vi.restoreAllMocks());

const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1);

function newWorld(options: { diskSyncMs?: number } = {}) {
  const time = new VirtualTime();
  return { time, world: new VirtualWorld({ time, root: temporaryFolder(), ...options }) };
}

/** What `prepare` left in the file `log`, after a power cut by each seed. */
async function leftBy(
  prepare: (world: VirtualWorld, time: VirtualTime) => Promise<void>,
): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = [];
  for (const seed of SEEDS) {
    const { time, world } = newWorld();
    await prepare(world, time);
    const bytes = world.powerCut(seed).folder.readFile("log");
    found.push(bytes && Buffer.from(bytes).toString("latin1"));
  }
  return found;
}

async function newLog(world: VirtualWorld, time: VirtualTime) {
  const file = world.folder.open("log", "write");
  await time.until(world.folder.flushDirectory("."));
  return file;
}

describe("a power cut", () => {
  it("takes nothing that was flushed, and of the rest anything", async () => {
    const all = await leftBy(async (world, time) => {
      const file = await newLog(world, time);
      file.write(Buffer.alloc(700, "a"), 0);
      await time.until(file.flush());
      file.write(Buffer.alloc(2_000, "b"), 700);
    });
    for (const one of all) expect(one?.slice(0, 700)).toBe("a".repeat(700));
    const rest = new Set(all.map((one) => one?.slice(700)));
    expect(rest.has("")).toBe(true);
    expect(rest.has("b".repeat(2_000))).toBe(true);
    expect([...rest].some((one) => /^b+\0+$/.test(one ?? ""))).toBe(true);
    expect([...rest].some((one) => /[^b\0]/.test(one ?? ""))).toBe(true);
    expect([...rest].some((one) => /\0b/.test(one ?? ""))).toBe(true);
  });

  it("leaves old bytes that were written over, or the new ones, of each sector", async () => {
    const all = await leftBy(async (world, time) => {
      const file = await newLog(world, time);
      file.write(Buffer.alloc(1_024, "a"), 0);
      await time.until(file.flush());
      file.write(Buffer.alloc(512, "b"), 512);
    });
    for (const one of all) expect(one?.slice(0, 512)).toBe("a".repeat(512));
    expect(new Set(all.map((one) => one?.slice(512)))).toContain("a".repeat(512));
    expect(new Set(all.map((one) => one?.slice(512)))).toContain("b".repeat(512));
  });

  it("may take what was written while a flush was under way, and all of a flush that failed", async () => {
    const all = await leftBy(async (world, time) => {
      const file = await newLog(world, time);
      file.write(Buffer.from("early"), 0);
      const flushed = file.flush();
      file.write(Buffer.from("late"), 600);
      await time.until(flushed);
      world.folder.intercept = (operation) => {
        if (operation === "flush") throw MoonportError.of("storage_failed", "the disk does not answer");
      };
      await expect(time.until(file.flush())).rejects.toThrow();
      world.folder.intercept = undefined;
      await time.until(file.flush());
    });
    for (const one of all) expect(one?.slice(0, 5)).toBe("early");
    // The second flush went well, and made nothing good.
    expect(all.some((one) => one?.slice(600) !== "late")).toBe(true);
  });

  it("takes what a failed flush left until it is written and flushed again", async () => {
    const all = await leftBy(async (world, time) => {
      const file = await newLog(world, time);
      file.write(Buffer.from("early"), 0);
      world.folder.intercept = () => {
        throw MoonportError.of("storage_failed", "the disk does not answer");
      };
      await expect(time.until(file.flush())).rejects.toThrow();
      world.folder.intercept = undefined;
      file.write(Buffer.from("early"), 0);
      await time.until(file.flush());
    });
    expect(new Set(all)).toEqual(new Set(["early"]));
  });

  it("takes what was not flushed by a process that ended before", async () => {
    const found = new Set<string>();
    for (const seed of SEEDS) {
      const { time, world } = newWorld();
      const file = await newLog(world, time);
      file.write(Buffer.from("early"), 0);
      const after = world.crash();
      expect(Buffer.from(after.folder.readFile("log") ?? []).toString()).toBe("early");
      found.add(Buffer.from(after.powerCut(seed).folder.readFile("log") ?? []).toString("latin1"));
    }
    expect(found).toContain("early");
    expect(found).toContain("");
  });

  it("undoes names that were not flushed: files made, renamed and removed", async () => {
    const kept: string[] = [];
    for (const seed of SEEDS) {
      const { time, world } = newWorld();
      const old = world.folder.open("old", "write");
      old.write(Buffer.from("old"), 0);
      await time.until(Promise.all([old.flush(), world.folder.flushDirectory(".")]));
      world.folder.open("made", "write");
      world.folder.rename("made", "renamed");
      world.folder.remove("old");
      kept.push(world.powerCut(seed).folder.list(".").sort().join(" "));
    }
    expect(new Set(kept)).toEqual(new Set(["old", "made old", "old renamed", "renamed"]));
  });

  it("comes before a flush ends when that takes time", async () => {
    const { time, world } = newWorld({ diskSyncMs: 5 });
    const file = world.folder.open("log", "write");
    let isFlushed = false;
    const flushed = file.flush().then(() => {
      isFlushed = true;
    });
    await time.advance(4);
    expect(isFlushed).toBe(false);
    await time.advance(1);
    await flushed;
  });
});

describe("a crash", () => {
  it.each(["crash", "powerCut", "loseDisk", "revoke"] as const)("(%s) leaves no file open", async (how) => {
    const { time, world } = newWorld({ diskSyncMs: 5 });
    const opened = vi.spyOn(fs, "openSync");
    const closed = vi.spyOn(fs, "closeSync");
    const log = world.folder.open("log", "write");
    log.write(Buffer.from("abc"), 0);
    const reader = world.folder.open("log", "read");
    world.folder.open("log", "update").close();
    void log.flush().catch(() => {});
    world[how]();
    const left = opened.mock.results.map(({ value }) => value as number);
    for (const [descriptor] of closed.mock.calls) left.splice(left.indexOf(descriptor), 1);
    expect(left).toEqual([]);
    // What goes on in the old world touches no file that has its number by now.
    await time.advance(10);
    for (const touch of [() => log.write(Buffer.from("x"), 0), () => log.truncate(0), () => log.sync()]) {
      expect(touch).toThrow(WorldRevoked);
    }
    expect(() => reader.sizeBytes()).toThrow(WorldRevoked);
    reader.close();
    log.close();
  });
});

describe("a folder of the machine", () => {
  it("opens a file for change without emptying it, flushes it and its directory, and says what is not there", async () => {
    const folder = new RealFolder(temporaryFolder());
    expect(() => folder.open("log", "update")).toThrow(/log.*ENOENT/);
    const made = folder.open("log", "write");
    made.write(Buffer.from("abc"), 0);
    await made.flush();
    await folder.flushDirectory(".");
    made.close();
    const file = folder.open("log", "update");
    file.write(Buffer.from("x"), 1);
    await file.flush();
    file.close();
    expect(Buffer.from(folder.readFile("log") ?? []).toString()).toBe("axc");
    await expect(folder.flushDirectory("nowhere")).rejects.toMatchObject({ code: "storage_failed" });
    const readOnly = folder.open("log", "read");
    expect(() => readOnly.write(Buffer.from("x"), 0)).toThrow(MoonportError);
    readOnly.close();
  });
});
