/** Hubs that watch objects of other nodes, and what they are told. */
import { replacing } from "./replacing.js";
import type { Variant } from "./variant.js";

const FEW = { nodes: 3, objects: 2, workload: "list", readShare: 0.1, watchers: 12 } as const;

export const WATCHING: Record<string, Variant> = {
  "what landed while a watched object was looked for is not read": {
    breaks: "A hub that has found an object again goes on with what lands next, as if nothing had landed meanwhile.",
    replaces: [
      replacing("realtime/topic", ({ Topic }) => ({
        Topic: class extends Topic {
          override found(...[{ exists }]: Parameters<InstanceType<typeof Topic>["found"]>): void {
            super.found({ last: 0, exists });
          }
        },
      })),
    ],
    plan: FEW,
    seed: 2,
    caughtBy: "events",
  },
  "the last event that was told counts as the last that landed": {
    breaks: "Who comes from a number that his new node has not been told of is begun with at that node's last one.",
    replaces: [
      replacing("realtime/topic", ({ Topic }) => ({
        Topic: class extends Topic {
          override get isUpToDate(): boolean {
            return this.last !== undefined;
          }
        },
      })),
    ],
    plan: FEW,
    seed: 3,
    caughtBy: "events",
  },
  "who watches an object is not told that its owner has lost it": {
    breaks:
      "A node that has lost an object, or handed it over, goes on with its feed, in which nothing comes any more.",
    replaces: [
      replacing("realtime/feeds", ({ Feeds }) => ({
        Feeds: class extends Feeds {
          override lost(): void {}
          override allLost(): void {}
        },
      })),
    ],
    plan: FEW,
    seed: 5,
    caughtBy: "events",
  },
};
