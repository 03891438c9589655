/** A Moonport in a temporary folder, closed after the test. */
import path from "node:path";
import { onTestFinished } from "vitest";
import { Moonport, type MoonportOptions } from "../../src/index.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { LEDGER } from "./ledger-class.js";

export async function embedded(options: Partial<MoonportOptions> = {}): Promise<Moonport> {
  const source = options.dir === undefined ? { classes: { Ledger: LEDGER } } : {};
  const dataDir = path.join(temporaryFolder(), "data");
  const moonport = await Moonport.open({ dataDir, bucket: "memory:", log: { level: "silent" }, ...source, ...options });
  onTestFinished(() => moonport.close());
  return moonport;
}
