/** `moonport check` */
import type { Command } from "commander";
import { checkAppFolder, collect, contextOf, wholeNumber } from "../context.js";

interface CheckFlags {
  readonly native?: readonly string[];
  readonly objects: number;
}

const OBJECTS_MAX = 1_000_000;

export function addCheck(program: Command): void {
  program
    .command("check")
    .description("look through the app's files for mistakes, and try pending migrations on copies of objects")
    .option(
      "--objects <n>",
      "objects of each class that are tried at most; 0 tries none",
      wholeNumber(0, OBJECTS_MAX),
      100,
    )
    .option("--native <class>", "a class that is host code of your program; may be repeated", collect)
    .addHelpText(
      "after",
      `
Examples:
  moonport check
  moonport check --data /var/lib/my-app --objects 1000`,
    )
    .action(async ({ native = [], objects }: CheckFlags, self: Command) => {
      const context = contextOf(self);
      checkAppFolder(context);
      const { checkFolder } = await import("../check-app.js");
      await checkFolder(context, native, objects);
    });
}
