/** An app for a simulated fleet, from its folder. */
import { type AppSource, readAppSource } from "../app-source.js";
import { DEFAULT_APP } from "../identity.js";
import { RealFolder } from "../world/real-folder.js";

/** @param folder with `classes/`, and `lib/` and `units/` where there are any @throws MoonportError `storage_*` */
export function appIn(folder: string, app = DEFAULT_APP): AppSource {
  return readAppSource(app, new RealFolder(folder));
}
