/** Deploying from a program, and a program that serves what was deployed. */
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { Moonport } from "../../src/index.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { embedded } from "./embedded.js";

const greeter = (text: string): Record<string, string> => ({
  Greeter: `local Greeter = class "Greeter"\nfunction Greeter.read:greet() return "${text}" end\nreturn Greeter`,
});

describe("a program", () => {
  it("deploys files, serves what was deployed when it brings none, and rolls back", async () => {
    const folder = temporaryFolder();
    const dataDir = path.join(folder, "data");
    const bucket = `sqlite:${path.join(folder, "bucket.db")}`;
    const first = await Moonport.open({ dataDir, bucket, classes: greeter("one"), log: { level: "silent" } });
    // Its own files, which it goes on with.
    const { release, nodes } = await first.deploy({ by: "ada", message: "first" });
    expect([release.number, nodes]).toEqual([1, [{ source: "folder" }]]);
    await first.close();

    const second = await Moonport.open({ dataDir, bucket, log: { level: "silent" } });
    onTestFinished(() => second.close());
    const greeting = () => second.object("Greeter", "a").call("greet");
    expect(await greeting()).toBe("one");
    await second.deploy({ classes: greeter("two"), by: "ada" });
    expect(await greeting()).toBe("two");
    await second.rollback({ by: "bob", to: 1 });
    expect(await greeting()).toBe("one");
    const { releases } = await second.releases();
    expect(releases.map(({ number, by, rollbackOf }) => [number, by, rollbackOf])).toEqual([
      [1, "ada", undefined],
      [2, "ada", undefined],
      [3, "bob", 1],
    ]);
    await expect(second.reload()).rejects.toMatchObject({ code: "bad_option" });
    await expect(second.deploy({ by: "ada" })).rejects.toMatchObject({
      code: "bad_option",
      message: /needs either dir/,
    });
  });

  it("without files and without a release does not open", async () => {
    const opening = Moonport.open({ dataDir: path.join(temporaryFolder(), "data"), log: { level: "silent" } });
    await expect(opening).rejects.toMatchObject({ code: "app_not_found" });
  });

  it.each<[object, RegExp]>([
    [{}, /needs by/],
    [{ by: "" }, /by is a string with something in it/],
    [{ by: "ada", mesage: "x" }, /no option called "mesage"/],
    [{ by: "ada", over: -1 }, /over is a whole number/],
    [{ by: "ada", force: "yes" }, /force is true or false/],
    [{ by: "ada", dir: ".", classes: {} }, /either dir, the app's folder, or classes/],
    [{ by: "ada", units: {} }, /units are given beside classes/],
  ])("is told what is wrong with %j", async (options, message) => {
    const moonport = await embedded();
    await expect(moonport.deploy(options as never)).rejects.toMatchObject({ code: "bad_option", message });
  });
});
