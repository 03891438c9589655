/** `moonport recover Class/key` */
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { objectOf } from "../words.js";

export function addRecover(program: Command): void {
  program
    .command("recover")
    .description("take over an object of which too few journals are left (replicas_missing)")
    .argument("<object>", "Class/key")
    .option("--accept-loss", "acknowledged writes that only the lost journals had are lost")
    .addHelpText("after", "\nExample:\n  moonport recover Auction/lot-42 --accept-loss")
    .action(async (object: string, flags: { readonly acceptLoss?: boolean }, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      if (flags.acceptLoss !== true) {
        throw MoonportError.of("bad_option", `recovering ${identity.id} needs --accept-loss`, {
          hint: "bring back one of the nodes that replicas_missing names, with its data folder, and nothing is lost",
        });
      }
      const recovered = await withNode(context, "recover", ({ node }) => node.recover(identity));
      context.output.result(`recovered ${recovered.object}: it goes on from seq ${recovered.seq}`, recovered);
    });
}
