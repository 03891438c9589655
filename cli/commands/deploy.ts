/** `moonport deploy [folder]`, `moonport rollback [number]` */
import os from "node:os";
import type { Command } from "commander";
import { checkAppFolder, collect, contextOf, wholeNumber } from "../context.js";

export interface TermFlags {
  readonly message?: string;
  readonly by?: string;
  readonly over?: number;
  readonly acceptMigrated?: boolean;
  readonly force?: boolean;
}

interface DeployFlags extends TermFlags {
  readonly check: boolean;
  readonly objects: number;
  readonly native?: readonly string[];
}

const NUMBER_MAX = 1_000_000_000;
const OBJECTS_MAX = 1_000_000;

export function addDeploy(program: Command): void {
  const command = program
    .command("deploy")
    .description("make the app's files its current release, which every node then serves; checks them first")
    .argument("[folder]", "the app's folder (default: --dir)")
    .option("--no-check", "only compile them, on the node")
    .option(
      "--objects <n>",
      "objects of each class that pending migrations are tried on",
      wholeNumber(0, OBJECTS_MAX),
      100,
    )
    .option("--native <class>", "a class that is host code of your program; may be repeated", collect)
    .addHelpText(
      "after",
      `
Examples:
  moonport deploy
  moonport deploy my-app --message "bids close at noon"
  moonport deploy --node http://10.0.0.7:7070 --over 7      only if release 7 is still the current one`,
    );
  addTermFlags(command).action(async (folder: string | undefined, flags: DeployFlags, self: Command) => {
    const context = contextOf(self, folder);
    checkAppFolder(context);
    const { deployFolder } = await import("../deploy.js");
    const check = flags.check ? { native: flags.native ?? [], objects: flags.objects } : undefined;
    await deployFolder(context, termsOf(flags), check);
  });
}

export function addRollback(program: Command): void {
  const command = program
    .command("rollback")
    .description("deploy the files of an earlier release again")
    .argument("[release]", "its number (default: the last one with other files)", wholeNumber(1, NUMBER_MAX))
    .addHelpText("after", '\nExamples:\n  moonport rollback\n  moonport rollback 7 --message "8 loses bids"');
  addTermFlags(command).action(async (to: number | undefined, flags: TermFlags, self: Command) => {
    const { rollBack } = await import("../deploy.js");
    await rollBack(contextOf(self), termsOf(flags), to);
  });
}

function addTermFlags(command: Command): Command {
  return command
    .option("--message <text>", "what is new in it")
    .option("--by <name>", "who deploys it (default: you, on this machine)")
    .option("--over <release>", "only if this one is current; 0: if there is none", wholeNumber(0, NUMBER_MAX))
    .option("--accept-migrated", "serve objects with more migrations than it declares as newer releases left them")
    .option("--force", "also if nodes say that they cannot load it; they keep what they serve");
}

function termsOf({ message, by = userName(), over, acceptMigrated, force }: TermFlags) {
  return {
    by,
    ...(message !== undefined && { message }),
    ...(over !== undefined && { over }),
    ...(acceptMigrated === true && { acceptMigrated }),
    ...(force === true && { force }),
  };
}

function userName(): string {
  try {
    return `${os.userInfo().username}@${os.hostname()}`;
  } catch {
    // A user without a name, as containers have them.
    return os.hostname();
  }
}
