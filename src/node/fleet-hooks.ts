/** What a node does with its objects when it hears from its fleet: its session has lapsed, other nodes are there, an object is its own now. */
import type { NodeDelay } from "../delay/node-delay.js";
import type { Directories } from "../directory/directories.js";
import { MoonportError } from "../errors.js";
import type { FleetHooks } from "../node-options.js";
import type { ObjectContext } from "../object/object-context.js";
import type { Objects } from "../object/objects.js";
import type { Feeds } from "../realtime/feeds.js";

export interface FleetHooksParts {
  readonly context: ObjectContext;
  readonly objects: Objects;
  readonly directories: Directories;
  readonly delay: NodeDelay;
  readonly feeds: Feeds;
}

export function fleetHooks(parts: FleetHooksParts): FleetHooks {
  const { context, objects, directories, delay } = parts;
  return {
    claims: context.claims,
    lapsed: () => endSession(parts),
    membersChanged: () => {
      void objects.renewSets();
      directories.changed();
      delay.membersChanged();
    },
    renewSets: (recordsMax) => objects.renewSets(recordsMax),
    sessionEnded: () => delay.membersChanged(),
    claimsFirst: (claims) => delay.claimsFirst(claims),
    handOver: (object, to) => objects.handOver(object, to),
    lastUsedMs: (object) => objects.lastUsedMs(object),
  };
}

function endSession({ context, objects, delay, feeds }: FleetHooksParts): void {
  const { claims, fleet, log } = context;
  const cause = MoonportError.of("node_fenced", "the session of this node has lapsed", { retryAfterMs: 1_000 });
  log.error({ session: fleet.session }, "the session has lapsed: every object closes");
  claims.sessionEnded();
  objects.loseAll(cause);
  delay.lapsed();
  feeds.allLost(cause);
}
