/** Where an embedded node's Lua comes from: an app's folder, or texts in the program. */
import path from "node:path";
import { type AppSource, readAppSource } from "../app-source.js";
import { checkOptions, flatObject, type OptionRules } from "../check-options.js";
import { MoonportError } from "../errors.js";
import { checkClassName, checkUnitName, checkUsersAppName } from "../identity.js";
import { RealFolder } from "../world/real-folder.js";
import type { MoonportOptions, ReplacedTexts } from "./options.js";

/** Asked once at the start, and again for each reload. @throws MoonportError `bad_option`, `bad_name`, `storage_*` */
export type AppReader = (replaced?: ReplacedTexts) => AppSource;

/**
 * Undefined where neither a folder nor texts are given.
 * @throws MoonportError `bad_name`, `bad_option` when there is no such folder
 */
export function appReader(
  app: string,
  { dir, ...texts }: Pick<MoonportOptions, "dir" | keyof ReplacedTexts>,
): AppReader | undefined {
  checkUsersAppName(app);
  if (dir === undefined && texts.classes === undefined) return undefined;
  return dir === undefined ? textsReader(app, texts) : folderReader(app, path.resolve(dir));
}

function folderReader(app: string, dir: string): AppReader {
  const folder = new RealFolder(dir);
  if (folder.stat("classes") === undefined) {
    throw MoonportError.of("bad_option", `dir: ${dir} is not an app's folder: it has no classes/`);
  }
  return (replaced) => {
    if (replaced === undefined) return readAppSource(app, folder);
    throw MoonportError.of("bad_option", "reload takes no texts: they are read from the app's folder");
  };
}

function textsReader(app: string, first: ReplacedTexts): AppReader {
  let texts = first;
  return (replaced = {}) => {
    checkOptions("reload", replaced, REPLACED_RULES);
    const next = {
      classes: replaced.classes ?? texts.classes ?? {},
      units: replaced.units ?? texts.units ?? {},
      modules: replaced.modules ?? texts.modules ?? {},
    };
    const source = sourceOf(app, next);
    texts = next;
    return source;
  };
}

const REPLACED_RULES: OptionRules<ReplacedTexts> = { classes: flatObject, units: flatObject, modules: flatObject };

function sourceOf(app: string, { classes, units, modules }: Required<ReplacedTexts>): AppSource {
  return {
    app,
    classes: Object.entries(classes).map(([name, lua]) => {
      checkClassName(name);
      return { app, name, file: `classes/${name}.lua`, text: checkedText("classes", name, lua) };
    }),
    units: Object.entries(units).map(([name, lua]) => {
      checkUnitName(name);
      return { kind: "unit", app, name, file: `units/${name}.lua`, text: checkedText("units", name, lua) };
    }),
    modules: Object.entries(modules).map(([name, lua]) => {
      const file = `lib/${name.replaceAll(".", "/")}.lua`;
      return { kind: "module", app, name, file, text: checkedText("modules", name, lua) };
    }),
  };
}

function checkedText(option: string, name: string, lua: unknown): string {
  if (typeof lua === "string") return lua;
  throw MoonportError.of("bad_option", `${option}: ${name} is a string of Lua`);
}
