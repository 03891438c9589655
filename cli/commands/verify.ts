/** `moonport verify [Class[/key]]` */
import type { Command } from "commander";
import { contextOf, wholeNumber } from "../context.js";

const JOBS_MAX = 64;

export function addVerify(program: Command): void {
  program
    .command("verify")
    .description("restore every object of the bucket aside, and say which cannot be; a node may be at work on it")
    .argument("[object]", "Class or Class/key; without it all, of all apps or of the one that --app names")
    .option("--no-past", "leave away what objects were and no longer are")
    .option("--jobs <n>", "objects that are restored at once", wholeNumber(1, JOBS_MAX), 8)
    .addHelpText(
      "after",
      `
Examples:
  moonport verify
  moonport verify Auction --bucket 's3://my-bucket/auctions?region=eu-central-1'`,
    )
    .action(
      async (
        word: string | undefined,
        { jobs, past }: { readonly jobs: number; readonly past: boolean },
        self: Command,
      ) => {
        const isAppGiven = self.getOptionValueSourceWithGlobals("app") !== "default";
        const { verify } = await import("../verify-bucket.js");
        await verify(contextOf(self), { word, isAppGiven, past, jobs });
      },
    );
}
