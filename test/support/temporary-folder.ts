/** A folder that is gone after the test. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";

export function temporaryFolder(): string {
  const parent = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-test-"));
  const folder = path.join(parent, "data");
  fs.mkdirSync(folder);
  onTestFinished(() => fs.rmSync(parent, { recursive: true, force: true }));
  return folder;
}
