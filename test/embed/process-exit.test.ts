import { spawnSync } from "node:child_process";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { Moonport } from "../../src/index.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { LEDGER, type LedgerMethods } from "./ledger-class.js";

const INDEX = pathToFileURL(path.join(packageRoot, "dist", "src", "index.js")).href;

/** Ends in the very turn in which one of many calls is acknowledged, and says which those were. */
const PROGRAM = `
import fs from "node:fs";
import { Moonport } from "${INDEX}";
const [dataDir, lua, life] = process.argv.slice(1);
const moonport = await Moonport.open({ dataDir, classes: { Ledger: lua } });
const ledger = moonport.object("Ledger", "a");
const end = 20 + 10 * Number(life);
let acknowledged = 0;
for (let index = 0; index < 200; index++) {
  ledger.add(life + "-" + index).then(() => {
    fs.writeSync(1, life + "-" + index + "\\n");
    acknowledged += 1;
    if (acknowledged === end) process.exit(0);
  }, () => {});
}
`;

it("a program that ends without close loses nothing that was acknowledged", async () => {
  const dataDir = path.join(temporaryFolder(), "data");
  const acknowledged: string[] = [];
  for (const life of ["1", "2", "3"]) {
    const words = ["--input-type=module", "-e", PROGRAM, dataDir, LEDGER, life];
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    acknowledged.push(...stdout.trimEnd().split("\n"));
  }
  expect(acknowledged).toHaveLength(30 + 40 + 50);

  const moonport = await Moonport.open({ dataDir, classes: { Ledger: LEDGER } });
  const texts = await moonport.object<LedgerMethods>("Ledger", "a").texts();
  await moonport.close();
  expect(texts).toEqual(expect.arrayContaining(acknowledged));
  expect(new Set(texts).size).toBe(texts.length);
});
