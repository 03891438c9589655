/** `moonport dev` */
import type { Command } from "commander";
import { checkAppFolder, contextOf } from "../context.js";
import { addServeFlags, type ServeFlags } from "../serve-flags.js";

export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .description("run a node that loads classes again as they are saved, and shows events")
    .addHelpText(
      "after",
      `
Examples:
  moonport dev
  moonport dev --flights                         also show each flight as it lands`,
    );
  addServeFlags(command).action(async (flags: ServeFlags, self: Command) => {
    const context = contextOf(self);
    checkAppFolder(context);
    const { serve } = await import("../serve.js");
    await serve(context, "dev", flags);
  });
}
