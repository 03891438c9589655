/** The process that makes the calls of the rows through the doors. */
import { serve } from "../support/child.js";
import type { Round, RoundBounds } from "../support/measure.js";
import { ClientLoad } from "./client-load.js";
import { HttpLoad } from "./http-load.js";
import type { Load, LoadSpec } from "./load.js";
import { openSocketLoad } from "./socket-load.js";

let load: Load | undefined;

async function close(): Promise<void> {
  await load?.close();
  load = undefined;
}

const commands = {
  /** Connects; a round follows, or several. */
  open: async (spec: LoadSpec): Promise<void> => {
    await close();
    if (spec.door === "client") load = new ClientLoad(spec);
    else load = await (spec.door === "http" ? HttpLoad.open(spec) : openSocketLoad(spec));
  },
  round: async (bounds: RoundBounds): Promise<Round> => {
    if (load === undefined) throw new Error("nothing is open");
    return await load.round(bounds);
  },
  close: (_: null): Promise<void> => close(),
};

export type LoadCommands = typeof commands;

serve(commands, close);
