/** Where an embedded node's Lua comes from: an app's folder, or texts in the program. */
import path from "node:path";
import { type AppSource, readAppSource } from "../app-source.js";
import { text } from "../check-options.js";
import { MoonportError } from "../errors.js";
import { checkAppName, checkClassName } from "../identity.js";
import { RealFolder } from "../world/real-folder.js";
import type { MoonportOptions } from "./options.js";

type Texts = Readonly<Record<string, string>>;

/** Asked once at the start, and again for each reload. @throws MoonportError `bad_option`, `bad_name`, `storage_*` */
export type AppReader = (replaced?: Texts) => AppSource;

/** @throws MoonportError `bad_name`, `bad_option` when there is no such folder */
export function appReader(app: string, { dir, classes }: Pick<MoonportOptions, "dir" | "classes">): AppReader {
  checkAppName(app);
  return dir === undefined ? textsReader(app, classes ?? {}) : folderReader(app, path.resolve(dir));
}

function folderReader(app: string, dir: string): AppReader {
  const folder = new RealFolder(dir);
  if (folder.stat("classes") === undefined) {
    throw MoonportError.of("bad_option", `dir: ${dir} is not an app's folder: it has no classes/`);
  }
  return (replaced) => {
    if (replaced === undefined) return readAppSource(app, folder);
    throw MoonportError.of("bad_option", "reload takes no classes: they are read from the app's folder");
  };
}

function textsReader(app: string, first: Texts): AppReader {
  let texts = first;
  return (replaced) => {
    const classes = Object.entries(replaced ?? texts).map(([name, lua]) => {
      checkClassName(name);
      if (!text.accepts(lua)) throw MoonportError.of("bad_option", `classes: ${name} is a string of Lua`);
      return { app, name, file: `${name}.lua`, text: lua };
    });
    texts = replaced ?? texts;
    return { app, classes };
  };
}
