/** `moonport nodes` */
import type { Command } from "commander";
import type { NodeInfo } from "../../src/node-api.js";
import type { ServedApp } from "../../src/release/contract.js";
import { contextOf } from "../context.js";
import { withRunningNode } from "../find-node.js";
import { tableOf } from "../table.js";

const COLUMNS = ["node", "standing", "zone", "weight", "clients", "links", "version", "releases", "session", "journal"];

export function addNodes(program: Command): void {
  program
    .command("nodes")
    .description("list the nodes of the fleet, as a running node of it sees them")
    .addHelpText("after", "\nExample:\n  moonport nodes")
    .action(async (_flags: object, command: Command) => {
      const context = contextOf(command);
      const nodes = await withRunningNode(context, (client) => client.nodes());
      if (nodes.length === 0) context.output.talk("the node is alone");
      if (nodes.length === 0 && !context.output.json) return;
      context.output.result(tableOf({ columns: COLUMNS, rows: nodes.map(rowOf) }), { nodes });
    });
}

function rowOf(info: NodeInfo) {
  const { node, standing, own, zone, weight, clientAddress, address, version, releases = [], session, journal } = info;
  const served = releases.map(servedText).join(", ") || "-";
  const name = own ? `${node} *` : node;
  return [name, standing, zone, weight, clientAddress ?? "-", address, version, served, session, journal];
}

/** `shop 7`, `shop folder`, `shop 7 (8 fails)` */
function servedText({ app, source, release, failed }: ServedApp): string {
  const served = `${app} ${release ?? source}`;
  return failed === undefined ? served : `${served} (${failed.release} fails)`;
}
