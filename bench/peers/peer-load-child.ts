/** The process that makes the calls of the peers' rows. */
import { HttpLoad } from "../load/http-load.js";
import type { Load } from "../load/load.js";
import { serve } from "../support/child.js";
import type { Round, RoundBounds } from "../support/measure.js";
import type { PeerLoadSpec } from "./peer-load.js";
import { openRedisLoad } from "./redis/redis-load.js";
import { openWorkerdLoad } from "./workerd/workerd-load.js";

let load: Load | undefined;

async function close(): Promise<void> {
  await load?.close();
  load = undefined;
}

const commands = {
  /** Connects; a round follows, or several. */
  open: async (spec: PeerLoadSpec): Promise<void> => {
    await close();
    load = await opened(spec);
  },
  round: async (bounds: RoundBounds): Promise<Round> => {
    if (load === undefined) throw new Error("nothing is open");
    return await load.round(bounds);
  },
  close: (_: null): Promise<void> => close(),
};

export type PeerLoadCommands = typeof commands;

serve(commands, close);

function opened(spec: PeerLoadSpec): Promise<Load> {
  const { way, url, method, keys, inFlight } = spec;
  if (way === "workerd http")
    return HttpLoad.open({ door: "http", url, operation: { kind: method, keys }, inFlight, ids: false });
  return way === "workerd sockets" || way === "workerd worker" ? openWorkerdLoad(spec) : openRedisLoad(spec);
}
