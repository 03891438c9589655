/** `moonport test [files]` */
import path from "node:path";
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { checkAppFolder, contextOf } from "../context.js";

interface TestFlags {
  readonly only?: string;
}

export function addTest(program: Command): void {
  program
    .command("test")
    .description("run the app's tests, tests/*.lua, each on a node of its own in memory, with time that a test moves")
    .argument("[files...]", "files of tests; default all of tests/")
    .option("--only <text>", "only tests whose name holds this text")
    .addHelpText(
      "after",
      `
Examples:
  moonport test
  moonport test tests/auction.lua --only "bid"`,
    )
    .action(async (files: string[], { only }: TestFlags, self: Command) => {
      const context = contextOf(self);
      checkAppFolder(context);
      const { testApp } = await import("../test-app.js");
      await testApp(
        context,
        files.map((file) => appPath(context.dir, file)),
        only,
      );
    });
}

/** A file is named as the shell knows it, or as the app does. */
function appPath(dir: string, file: string): string {
  const relative = path.relative(dir, path.resolve(file));
  if (!relative.startsWith("..")) return relative.split(path.sep).join("/");
  if (!path.isAbsolute(file)) return file;
  throw MoonportError.of("bad_option", `${file} is not in the app's folder`);
}
