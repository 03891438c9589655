/** Watches an app's `classes/`, `units/` and `lib/` and tells, once things are quiet, that something in them changed. */
import fs from "node:fs";
import path from "node:path";
import { moduleFolders } from "../src/app-source.js";
import { RealFolder } from "../src/world/real-folder.js";
import type { Timer, World } from "../src/world/world.js";

export interface Watcher {
  stop(): void;
}

/** An editor writes a file in several steps: what comes within this time is one change. */
const QUIET_MS = 60;

const FOLDERS = ["classes", "units", "lib"];

export function watchApp(world: World, dir: string, changed: () => void): Watcher {
  const appFolder = new RealFolder(dir);
  let pending: Timer | undefined;
  const watchers = new Map<string, fs.FSWatcher | undefined>();
  const stop = (): void => {
    pending?.cancel();
    for (const watcher of watchers.values()) watcher?.close();
  };
  const soon = (): void => {
    pending?.cancel();
    pending = world.timers.after(QUIET_MS, changed);
  };
  // The system has only so many watchers: what runs goes on, and is told of less.
  const orWarn = (watch: () => void): void => {
    try {
      watch();
    } catch (error) {
      const { message } = error as Error;
      world.log.warn(
        { dir, error: message },
        "not every folder is watched any more: start again to have all of them watched",
      );
      soon();
    }
  };
  const watchFolder = (folder: string): void => {
    watchers.get(folder)?.close();
    const watcher = watchIfThere(path.join(dir, folder), (name) => {
      if (name === null || name.endsWith(".lua")) soon();
      else if (folder === "lib" || folder.startsWith("lib/")) orWarn(watchModules);
    });
    watchers.set(folder, watcher);
  };
  // A folder of modules that comes, goes or is renamed: all of them are watched anew.
  const watchModules = (): void => {
    for (const folder of watchers.keys()) if (folder.startsWith("lib/")) watchers.get(folder)?.close();
    for (const folder of moduleFolders(appFolder)) if (folder !== "lib") watchFolder(folder);
    soon();
  };
  // A folder that is replaced takes its watcher with it, so the one above them all is watched for that.
  const seenFromAbove = (name: string | null): void => {
    const changedFolders = FOLDERS.filter((folder) => name === null || name === folder);
    for (const folder of changedFolders) watchFolder(folder);
    if (changedFolders.includes("lib")) watchModules();
    else if (changedFolders.length > 0) soon();
  };
  try {
    watchers.set(
      ".",
      watchIfThere(dir, (name) => orWarn(() => seenFromAbove(name))),
    );
    for (const folder of new Set([...FOLDERS, ...moduleFolders(appFolder)])) watchFolder(folder);
  } catch (error) {
    // The system has only so many watchers. The first ones would keep the process alive.
    stop();
    throw error;
  }
  return { stop };
}

function watchIfThere(folder: string, onChange: (name: string | null) => void): fs.FSWatcher | undefined {
  if (!fs.existsSync(folder)) return undefined;
  const watcher = fs.watch(folder, (_event, name) => onChange(name));
  // It ends when its folder does; the folder's return is seen from above.
  watcher.on("error", () => watcher.close());
  return watcher;
}
