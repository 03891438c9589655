/** A file system of its own, small enough to fill; making one is root's alone. */
import { execFileSync } from "node:child_process";
import { onTestFinished, type TestContext } from "vitest";
import { temporaryFolder } from "./temporary-folder.js";

export interface SmallDisk {
  readonly folder: string;
  setReadOnly(readOnly: boolean): void;
}

/** Skips the test, and says why, where it may not be mounted. */
export function smallDisk(context: TestContext, kib: number): SmallDisk {
  const folder = temporaryFolder();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${kib}k`, "tmpfs", folder], { stdio: "pipe" });
  } catch {
    context.skip("needs the right to mount a small tmpfs: run it as root");
  }
  onTestFinished(() => void execFileSync("umount", ["-l", folder]));
  return {
    folder,
    setReadOnly: (readOnly) => {
      execFileSync("mount", ["-o", `remount,${readOnly ? "ro" : "rw"}`, folder], { stdio: "pipe" });
    },
  };
}
