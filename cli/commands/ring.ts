/** `moonport ring [Class/key]` */
import type { Command } from "commander";
import type { RingInfo } from "../../src/node-api.js";
import { contextOf } from "../context.js";
import { withRunningNode } from "../find-node.js";
import { propertiesOf, tableOf } from "../table.js";
import { objectOf } from "../words.js";

export function addRing(program: Command): void {
  program
    .command("ring")
    .description(
      "show where objects belong: how many partitions each node is the home of, or one object's nodes in order",
    )
    .argument("[object]", "Class/key")
    .addHelpText("after", "\nExamples:\n  moonport ring\n  moonport ring Auction/lot-42")
    .action(async (object: string | undefined, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = object === undefined ? undefined : objectOf(context.app, object);
      const ring = await withRunningNode(context, (client) => client.ring(identity));
      if (ring.partitions.length === 0) context.output.talk("the node is alone");
      if (ring.partitions.length === 0 && !context.output.json) return;
      context.output.result(ring.object === undefined ? sharesOf(ring) : placeOf(ring), ring);
    });
}

function sharesOf({ partitions }: RingInfo): string {
  const shares = new Map<string, number>();
  for (const { homes } of partitions) for (const node of homes) shares.set(node, shares.get(node) ?? 0);
  for (const { homes } of partitions) shares.set(homes[0] ?? "", (shares.get(homes[0] ?? "") ?? 0) + 1);
  const rows = [...shares].sort(([left], [right]) => (left < right ? -1 : 1));
  return tableOf({ columns: ["node", "home of"], rows: rows.map(([node, count]) => [node, count]) });
}

function placeOf({ object, owner, partitions }: RingInfo): string {
  const [{ partition, homes } = { partition: 0, homes: [] }] = partitions;
  return propertiesOf([
    ["object", object ?? ""],
    ["partition", `${partition}`],
    ["homes", homes.join(", ")],
    ["owner", owner ?? "none: its home takes it at the next call"],
  ]);
}
