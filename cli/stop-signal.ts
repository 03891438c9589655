/** The first SIGTERM or SIGINT lets what runs end in order, and so does a reader of stdout that goes away; the second signal ends the process at once. */
import { whenParentIsGone } from "./dev-parent.js";
import type { Output } from "./output.js";
import { whenNobodyReads } from "./stdout-reader.js";

/** Resolves when the process is told to stop, or has nobody left to tell anything. */
export function stopSignal(output: Output): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: NodeJS.Signals, number: number): void => {
      if (asked) process.exit(128 + number);
      asked = true;
      output.talk(`${signal}: letting running calls finish and flights land; once more ends at once`);
      resolve();
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    // Ctrl-C ends `... | tee log` as a whole, and tee is faster: a signal that comes after this is the first one still.
    whenNobodyReads(resolve);
    whenParentIsGone(() => {
      asked = true;
      resolve();
    });
  });
}
