/**
 * A node that runs until it is told to stop: what `start` and `dev` share, and where they differ.
 *
 * In order: the folder (its lock, its classes), the door, `node.json`, the line that says it is ready. It goes down the other
 * way round, and a node of a fleet gives its objects to the others first, while its door still answers. The first SIGTERM or SIGINT lets running calls finish and everything land; the second ends the process at once.
 */
import type { ServingNode } from "../src/announced-node.js";
import { MoonportError } from "../src/errors.js";
import type { NodeApi } from "../src/node-api.js";
import { openDoors } from "../src/server/doors.js";
import { sleep, type World } from "../src/world/world.js";
import { AuthFile } from "./auth-file.js";
import type { Context } from "./context.js";
import { siblings, tellParent } from "./dev-parent.js";
import { fleetConfigOf } from "./fleet-flags.js";
import { openOwnNode } from "./own-node.js";
import type { ServeFlags } from "./serve-flags.js";
import { stopSignal } from "./stop-signal.js";
import { Teller } from "./teller.js";
import { type Watcher, watchApp } from "./watch.js";

/** Between two looks at who is there. */
const LOOK_MS = 50;

/** Resolves when the node has stopped. @throws MoonportError when it cannot start, or cannot stop cleanly, or had to stop */
export async function serve(context: Context, command: "start" | "dev", flags: ServeFlags): Promise<void> {
  const stopAsked = stopSignal(context.output);
  const auth = flags.auth === undefined ? undefined : new AuthFile(flags.auth, context.output);
  // A terminal that is closed sends SIGHUP too, and is to end what runs in it.
  if (command === "start") auth?.readAgainOnHangup(context.output);
  const fleet = fleetConfigOf(context, flags);
  const teller = new Teller(context.output, { events: command === "dev", flights: flags.flights === true });
  const own = await openOwnNode(context, {
    command,
    onClassError: command === "dev" ? "report" : "refuse",
    serves: command === "dev" ? "folder" : "release",
    observer: (observation) => teller.observe(observation),
    log: { format: command === "dev" ? "pretty" : "json", level: flags.logLevel },
    fleet,
  });
  let unfit: MoonportError | undefined;
  try {
    const { host, port } = flags;
    const { node, world, session } = own;
    const { settings } = context;
    const doors = await openDoors({
      node,
      settings,
      world,
      session,
      host,
      port,
      allowOrigins: flags.allowOrigin ?? [],
      ...(auth !== undefined && { auth: auth.tokens }),
    });
    let watcher: Watcher | undefined;
    const over = new AbortController();
    try {
      own.announce(doors.url);
      if (command === "dev") watcher = watchApp(own.world, context.dir, () => reload(own.reload, teller));
      const { fleet: standing } = await node.status();
      teller.ready({
        url: doors.url,
        pid: process.pid,
        session,
        data: context.data,
        ...(standing !== undefined && { fleet: { node: standing.node, address: standing.address } }),
      });
      tellParent({ kind: "ready", url: doors.url, session });
      void sayWhenAllAreSeen(node, world, over.signal);
      if (command === "dev") await tellOfReleases(context, node);
      unfit = (await Promise.race([stopAsked, own.unfit])) ?? undefined;
      // Whoever calls while the objects go to the others is sent on, and not turned away.
      doors.leaving();
      await node.leave();
    } finally {
      over.abort();
      watcher?.stop();
      await doors.stop();
    }
  } finally {
    await own.close();
  }
  const unlanded = own.unlanded();
  if (unlanded !== undefined) throw notLanded(unlanded);
  if (unfit !== undefined) throw unfit;
  teller.stopped();
}

/** Of a node that another process started with others: says to it when all of them are there, as seen from here. */
async function sayWhenAllAreSeen(node: ServingNode, world: World, over: AbortSignal): Promise<void> {
  if (siblings === undefined) return;
  const live = async (): Promise<number> => (await node.nodes()).filter(({ standing }) => standing === "live").length;
  while (!over.aborted && (await live()) < siblings) await sleep(world, LOOK_MS, over);
  if (!over.aborted) tellParent({ kind: "sees", nodes: siblings });
}

/** Whoever develops is to know that others would see something else. */
async function tellOfReleases({ app, dir, output }: Context, node: NodeApi): Promise<void> {
  const { releases } = await node.releases(app).catch(() => ({ releases: [] }));
  const current = releases.at(-1);
  if (current === undefined) return;
  output.talk(`the bucket has release ${current.number} of ${app}; dev serves the files in ${dir} all the same`);
}

function notLanded(cause: Error): MoonportError {
  return MoonportError.of("outcome_unknown", `stopped with writes that have not landed: ${cause.message}`, {
    hint: "nobody was told that they are durable; their callers may ask again with the same call ids",
    cause,
  });
}

function reload(action: () => void, teller: Teller): void {
  try {
    action();
  } catch (error) {
    teller.notReloaded(error);
  }
}
