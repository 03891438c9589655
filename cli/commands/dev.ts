/** `moonport dev` */
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { checkAppFolder, contextOf, wholeNumber } from "../context.js";
import { fleetConfigOf } from "../fleet-flags.js";
import { addServeFlags, type ServeFlags } from "../serve-flags.js";

interface DevFlags extends ServeFlags {
  readonly nodes?: number;
  readonly restart?: boolean;
}

/** Of one machine. */
const NODES_MAX = 16;

export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .description("run a node that loads classes again as they are saved, and shows events")
    .option("--nodes <number>", "run so many nodes of one fleet, each a process", wholeNumber(1, NODES_MAX))
    .option("--restart", "with --nodes: start a node again that has ended")
    .addHelpText(
      "after",
      `
Examples:
  moonport dev
  moonport dev --flights                         also show each flight as it lands
  moonport dev --nodes 3                         three nodes; kill one of them and see`,
    );
  addServeFlags(command).action(async ({ nodes, ...flags }: DevFlags, self: Command) => {
    const context = contextOf(self);
    checkAppFolder(context);
    if (nodes === undefined) {
      if (flags.restart === true) throw MoonportError.of("bad_option", "--restart is for the nodes of --nodes");
      const { serve } = await import("../serve.js");
      return await serve(context, "dev", flags);
    }
    if (flags.fleetListen || fleetConfigOf(context, flags) !== undefined) {
      throw MoonportError.of("bad_option", "--nodes makes a fleet of its own: it goes with no flag of another one");
    }
    const { devNodes } = await import("../dev-nodes.js");
    await devNodes(context, { ...flags, nodes });
  });
}
