/** Watches an app's `classes/` folder and tells, once things are quiet, that something in it changed. */
import fs from "node:fs";
import path from "node:path";
import type { Timer, World } from "../src/world/world.js";

export interface Watcher {
  stop(): void;
}

/** An editor writes a file in several steps: what comes within this time is one change. */
const QUIET_MS = 60;

export function watchApp(world: World, dir: string, changed: () => void): Watcher {
  let pending: Timer | undefined;
  let classes: fs.FSWatcher | undefined;
  const soon = (): void => {
    pending?.cancel();
    pending = world.timers.after(QUIET_MS, changed);
  };
  // A folder that is replaced takes its watcher with it, so the one above is watched for that.
  const watchClasses = (): void => {
    classes?.close();
    classes = watchIfThere(path.join(dir, "classes"), (name) => {
      if (name === null || name.endsWith(".lua")) soon();
    });
  };
  const above = watchIfThere(dir, (name) => {
    if (name !== null && name !== "classes") return;
    watchClasses();
    soon();
  });
  watchClasses();
  return {
    stop() {
      pending?.cancel();
      above?.close();
      classes?.close();
    },
  };
}

function watchIfThere(folder: string, onChange: (name: string | null) => void): fs.FSWatcher | undefined {
  if (!fs.existsSync(folder)) return undefined;
  const watcher = fs.watch(folder, (_event, name) => onChange(name));
  // It ends when its folder does; the folder's return is seen from above.
  watcher.on("error", () => watcher.close());
  return watcher;
}
