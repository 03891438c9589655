/** `moonport new folder`: an app to start from, out of cli/templates/app and the standard classes. */
import fs from "node:fs";
import path from "node:path";
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { contextOf } from "../context.js";
import { packageRoot } from "../package-root.js";

/** Package managers drop or rename files with these names, so the templates carry others. */
const REAL_NAMES: Readonly<Record<string, string>> = { gitignore: ".gitignore", "luarc.json": ".luarc.json" };
const TEMPLATE = path.join(packageRoot, "cli", "templates", "app");
/** Files of the package that an app gets as they are. */
const COPIED: readonly { from: string; to: string }[] = [
  { from: path.join(packageRoot, "classes", "Counter.lua"), to: "classes/Counter.lua" },
  { from: path.join(packageRoot, "classes", "Auction.lua"), to: "classes/Auction.lua" },
  // What editors know the Lua globals from.
  { from: path.join(packageRoot, "src", "lua", "stubs", "moonport.lua"), to: "types/moonport.lua" },
];

export function addNew(program: Command): void {
  program
    .command("new")
    .description("make a new app: a folder with a first class, a README and editor support")
    .argument("<folder>", "must be empty or not there yet")
    .addHelpText("after", "\nExample:\n  moonport new my-app && cd my-app && moonport dev")
    .action((target: string, _flags: object, command: Command) => {
      const { output } = contextOf(command);
      const folder = path.resolve(target);
      refuseOccupied(folder, target);
      const files = writeApp(folder);
      output.result(`made ${target}: ${files.join(", ")}`, { folder, files });
      output.talk(nextSteps(target));
    });
}

function refuseOccupied(folder: string, target: string): void {
  const stat = fs.statSync(folder, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isDirectory()) throw MoonportError.of("bad_option", `${target} is a file`);
  if (fs.readdirSync(folder).length > 0) {
    throw MoonportError.of("bad_option", `${target} is not empty`, { hint: "name a folder that is not there yet" });
  }
}

/** @returns the files it wrote, by their paths in the app */
function writeApp(root: string): string[] {
  const app = new RealFolder(root);
  const name = path.basename(root);
  const written = templateFiles().map(({ from, to }) => {
    app.ensureDirectory(path.dirname(to));
    app.replaceFile(to, Buffer.from(fs.readFileSync(from, "utf8").replaceAll("{{name}}", () => name)));
    return to;
  });
  return written.sort();
}

function templateFiles(): { from: string; to: string }[] {
  const entries = fs.readdirSync(TEMPLATE, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const files = entries.map((entry) => {
    const from = path.join(entry.parentPath, entry.name);
    const to = path.join(path.relative(TEMPLATE, entry.parentPath), REAL_NAMES[entry.name] ?? entry.name);
    return { from, to };
  });
  return [...files, ...COPIED];
}

function nextSteps(target: string): string {
  return `
Next:
  cd ${target}
  npx moonport dev                                 in one terminal: a node that reloads on save
  npx moonport call Auction/lot-42 bid ada 25      in another
Then open classes/Counter.lua and change it.`;
}
