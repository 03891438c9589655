/** Making folders, the kind that is there after a power cut included. */
import fs from "node:fs";
import path from "node:path";

/**
 * Makes the folder and whatever is missing above it. Not by `recursive: true`: under /proc, where a parent can be neither
 * found nor made, that never returns.
 * @returns the folders made, the outermost first
 */
export function makeDirectory(folder: string): string[] {
  if (fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  const parent = path.dirname(folder);
  const made = parent === folder ? [] : makeDirectory(parent);
  try {
    fs.mkdirSync(folder);
  } catch (error) {
    const isThereNow = (error as NodeJS.ErrnoException).code === "EEXIST" && fs.statSync(folder).isDirectory();
    if (!isThereNow) throw error;
    return made;
  }
  return [...made, folder];
}

/** The same, and each new folder's name is on disk when it returns. */
export function makeDirectoryDurably(folder: string): void {
  for (const made of makeDirectory(folder)) {
    const descriptor = fs.openSync(path.dirname(made), "r");
    fs.fsyncSync(descriptor);
    fs.closeSync(descriptor);
  }
}
