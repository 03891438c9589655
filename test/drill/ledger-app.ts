/** An app with the Ledger and nothing else, so that the fixtures of other tests cannot stop its node. */
import fs from "node:fs";
import path from "node:path";
import { packageRoot } from "../../cli/package-root.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const LEDGER = path.join(packageRoot, "test", "fixtures", "classes", "Ledger.lua");

/** Makes `folder` an app's folder, and returns it. */
export function ledgerApp(folder = temporaryFolder()): string {
  fs.mkdirSync(path.join(folder, "classes"), { recursive: true });
  fs.copyFileSync(LEDGER, path.join(folder, "classes", "Ledger.lua"));
  return folder;
}
