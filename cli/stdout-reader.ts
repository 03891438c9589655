/**
 * Whoever reads stdout may stop at any time: `moonport list ... | head`. A command has then said enough, and ends; one that has more
 * to do than to say something says itself how.
 */
import { storageError } from "../src/world/folder.js";
import { Output } from "./output.js";

let end = (): void => process.exit(0);

/** For the whole command line: once, before anything is said. */
export function watchOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return end();
    process.exit(new Output({ json: false, quiet: false }).fail(storageError("write", "stdout", error)));
  });
  // What is said on stderr is talk: that nobody hears it is no reason to break off what is being done.
  process.stderr.on("error", () => {});
}

/** From now on, instead of ending the process. */
export function whenNobodyReads(action: () => void): void {
  end = action;
}
