/** The first SIGTERM or SIGINT lets what runs end in order; the second ends the process at once. */
import { whenParentIsGone } from "./dev-parent.js";
import type { Output } from "./output.js";

/** Resolves when the process is told to stop. */
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
    whenParentIsGone(() => {
      asked = true;
      resolve();
    });
  });
}
