/** `moonport start` */
import type { Command } from "commander";
import { checkServable, contextOf } from "../context.js";
import { addServeFlags, type ServeFlags } from "../serve-flags.js";

export function addStart(program: Command): void {
  const command = program
    .command("start")
    .description(
      "run a node until it is told to stop: on the release in the bucket, or before there is one on the app's folder",
    )
    .addHelpText(
      "after",
      `
Examples:
  moonport start --port 7071
  moonport start --port 0 --json                 one line with its address when it is ready
  moonport start --bucket s3://my-bucket/p --fleet-listen 10.0.0.7:7071 --node n1
                                                 as a node of a fleet`,
    );
  addServeFlags(command).action(async (flags: ServeFlags, self: Command) => {
    const context = contextOf(self);
    checkServable(context);
    const { serve } = await import("../serve.js");
    await serve(context, "start", flags);
  });
}
