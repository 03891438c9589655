/** `moonport releases` */
import type { Command } from "commander";
import { contextOf } from "../context.js";

export function addReleases(program: Command): void {
  program
    .command("releases")
    .description("list the app's releases, and which of them each node serves")
    .addHelpText("after", "\nExample:\n  moonport releases")
    .action(async (_flags: object, command: Command) => {
      const { listReleases } = await import("../deploy.js");
      await listReleases(contextOf(command));
    });
}
