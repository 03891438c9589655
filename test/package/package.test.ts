import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InstalledProject } from "./installed-project.js";

const USE = `
import { createRequire } from "node:module";
import { ERROR_CODES, Moonport, MoonportError, type PlainValue } from "moonport";
import { connect } from "moonport/client";

interface Hits {
  hit(by: number): number;
  value(): number;
}

const classes = {
  Hits: \`local Hits = class "Hits"
    function Hits:hit(by) local n = (state.store.get("n") or 0) + by state.store.set("n", n) return n end
    function Hits.read:value() return state.store.get("n") or 0 end
    return Hits\`,
};

await using moonport = await Moonport.open({ dataDir: "data", classes, listen: { port: 0 } });
const hits = moonport.object<Hits>("Hits", "a");
const three: number = await hits.hit(3);
const client = connect(String(moonport.url));
const four: number = await client.object<Hits>("Hits", "a").hit(4);
const untyped: PlainValue = await moonport.object("Hits", "a").call("value");

// @ts-expect-error: a text is no number
const wrongArgument = hits.hit("x");
// @ts-expect-error: the class has no such method
const wrongName = hits.hits(1);
const errors = await Promise.allSettled([wrongArgument, wrongName]);
const codes = errors.map((one) => (one.status === "rejected" && one.reason instanceof MoonportError ? one.reason.code : "?"));
const known = codes.filter((code) => Object.hasOwn(ERROR_CODES, code));
// @ts-expect-error: the option is called dataDir
await Moonport.open({ datadir: "data", classes }).catch((error: MoonportError) => codes.push(error.code));
await client.close();

const { version } = createRequire(import.meta.url)("moonport/package.json");
console.log(JSON.stringify({ three, four, untyped, codes, known, version }));
`;

let project: InstalledProject;
beforeAll(async () => {
  project = await InstalledProject.make();
});
afterAll(() => project.remove());

describe("the package", () => {
  it("holds what runs and what is read, and nothing of how it was made", () => {
    const needed = [
      "README.md",
      "docs/embedding.md",
      "dist/src/index.js",
      "dist/src/index.d.ts",
      "dist/src/client/index.js",
      "dist/src/client/browser.js",
      "dist/src/bucket/sqlite-worker.js",
      "dist/cli/main.js",
      "cli/templates/app/README.md",
      "classes/Auction.lua",
      "src/lua/stubs/moonport.lua",
    ];
    expect(project.files).toEqual(expect.arrayContaining(needed));
    expect(project.files.filter((file) => /^(?:test|bench|examples|dist\/(?:bench|examples))\//.test(file))).toEqual(
      [],
    );
    expect(project.files.filter((file) => /\.map$|^src\/.*\.ts$/.test(file))).toEqual([]);
  });

  it("makes an app that its command runs", async () => {
    await project.run("npx", ["--offline", "moonport", "new", "my-app", "--quiet"]);
    const app = path.join(project.folder, "my-app");
    expect(await project.run("npx", ["--offline", "moonport", "call", "Counter/visits", "increment", "5"], app)).toBe(
      "5\n",
    );
    expect(await project.run("npx", ["--offline", "moonport", "check"], app)).toContain("no findings; 1 object tried");
    expect(await project.run("npx", ["--offline", "moonport", "test", "--quiet"], app)).toBe("3 passed\n");
  });

  it("is used by a TypeScript program, which its types hold to a class's methods", async () => {
    project.write("use.ts", USE);
    await project.compile();
    const said = JSON.parse(await project.run(process.execPath, ["use.js"]));
    expect(said).toEqual({
      three: 3,
      four: 7,
      untyped: 7,
      codes: ["method_error", "method_not_found", "bad_option"],
      known: ["method_error", "method_not_found"],
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
  });
});
