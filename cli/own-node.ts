/**
 * A node of this process on the data folder: for `start` and `dev`, and for commands that find none running.
 *
 * It owns the folder's lock until {@link OwnNode.close}, which ships what has not landed, and says in `node.json` who it is.
 */
import { openAnnounced, type ServingNode } from "../src/announced-node.js";
import { readAppSource } from "../src/app-source.js";
import { openBucket } from "../src/bucket/open-bucket.js";
import type { MoonportError } from "../src/errors.js";
import { fleetOptionsOf } from "../src/fleet/checked-config.js";
import type { FleetConfig } from "../src/fleet/fleet-config.js";
import { rememberBucket } from "../src/folder-bucket.js";
import type { NodeOptions } from "../src/node-options.js";
import type { Observation, Observer } from "../src/observation.js";
import { deferred } from "../src/world/deferred.js";
import { type LogLevel, pinoLogger } from "../src/world/pino-logger.js";
import { realFetcher } from "../src/world/real-fetcher.js";
import { RealFolder } from "../src/world/real-folder.js";
import { realWorld } from "../src/world/real-world.js";
import { threadWatchdog } from "../src/world/watchdog/thread-watchdog.js";
import type { World } from "../src/world/world.js";
import { type Context, hasClasses } from "./context.js";

export interface OwnNodeOptions {
  /** For `node.json`. */
  readonly command: string;
  readonly onClassError: NodeOptions["onClassError"];
  /**
   * `folder`: serves the app's folder, whatever was deployed. `release`: what was deployed, if anything was. `nothing`: for a look
   * at Moonport's own objects.
   */
  readonly serves: "folder" | "release" | "nothing";
  readonly observer: Observer;
  readonly log: { readonly format: "json" | "pretty"; readonly level: LogLevel };
  /** That it joins. Default: the node is alone. */
  readonly fleet?: FleetConfig | undefined;
}

export interface OwnNode {
  readonly node: ServingNode;
  readonly world: World;
  readonly session: string;
  /** Reads the app's folder again and makes its classes the ones that serve. @throws MoonportError */
  reload(): void;
  /** Says in `node.json` where the node answers. */
  announce(url: string): void;
  close(): Promise<void>;
  /**
   * Resolves when this node is no good to its fleet any more and is to stop: another process has taken its name, or the disk of its
   * journal has failed.
   */
  readonly unfit: Promise<MoonportError>;
  /** After it: why something that was committed has not landed, if so. */
  unlanded(): Error | undefined;
}

type FileFault = Extract<Observation, { kind: "class_failed" | "unit_failed" | "module_failed" }>;

/** @throws MoonportError `folder_locked` naming the process that has the folder, `class_invalid` naming every broken file, `app_not_found` */
export async function openOwnNode(context: Context, options: OwnNodeOptions): Promise<OwnNode> {
  const { app, dir, data, settings, bucketUrl, allowHosts } = context;
  const fleet = options.fleet && fleetOptionsOf(options.fleet, bucketUrl, settings);
  const appFolder = new RealFolder(dir);
  const unfit = deferred<MoonportError>();
  const world = realWorld(data, pinoLogger({ ...options.log, color: process.stderr.isTTY === true }));
  const announced = await openAnnounced(
    {
      world,
      bucket: openBucket(bucketUrl, world, settings),
      apps:
        options.serves === "folder" || (options.serves === "release" && hasClasses(dir))
          ? [readAppSource(app, appFolder)]
          : [],
      followsReleases: options.serves === "release" ? [app] : [],
      settings,
      onClassError: options.onClassError,
      observer: options.observer,
      outbound: { allowHosts, fetcher: realFetcher },
      watchdog: threadWatchdog({
        stallMs: settings.NODE_STALL_MS,
        world,
        format: options.log.format,
        outsideClassCode: "end",
      }),
    },
    options.command,
    fleet && { ...fleet, replaced: unfit.resolve, journalBroken: unfit.resolve },
  );
  const { node } = announced;
  try {
    rememberBucket(world.folder, bucketUrl, world.log);
  } catch (error) {
    await announced.close();
    throw error;
  }
  return {
    node,
    world,
    session: node.session,
    reload: () => node.reload([readAppSource(app, appFolder)]),
    announce: (url) => announced.announce(url),
    close: () => announced.close(),
    unfit: unfit.promise,
    unlanded: () => node.unlanded,
  };
}

/** `classes/Auction.lua:12: what is wrong` */
export function faultText({ file, line, message }: FileFault): string {
  if (message.startsWith(`${file}:`)) return message;
  return line === undefined ? `${file}: ${message}` : `${file}:${line}: ${message}`;
}
