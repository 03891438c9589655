/**
 * A node that says in its data folder's `node.json` who it is, so that a second one that finds the folder taken can name the
 * first, and commands find the node that runs.
 */
import type { AppSource } from "./app-source.js";
import type { FleetOptions } from "./fleet/fleet-member.js";
import { FleetNode } from "./fleet/fleet-node.js";
import { namingHolder } from "./folder-holder.js";
import type { MeasuredNode } from "./metrics/measured.js";
import { MoonportNode } from "./node.js";
import type { NodeApi } from "./node-api.js";
import { type NodeFile, removeNodeFile, writeNodeFile } from "./node-file.js";
import type { NodeOptions } from "./node-options.js";
import type { LiveApi } from "./realtime/contract.js";

/** A node as its doors and its process see it, alone or of a fleet. */
export interface ServingNode extends NodeApi, LiveApi, MeasuredNode {
  /** This life of it. */
  readonly session: string;
  reload(apps: readonly AppSource[]): void;
  /** Before it stops: its objects go to the rest of its fleet. */
  leave(): Promise<void>;
  /** After it has stopped: why something that was committed has not landed, if so. */
  readonly unlanded: Error | undefined;
}

export interface AnnouncedNode {
  readonly node: ServingNode;
  /** Says where it answers, to commands and to the rest of its fleet. */
  announce(url: string): void;
  /** Stops the node. */
  close(): Promise<void>;
}

/**
 * @param fleet which the node joins; without it it is alone
 * @throws MoonportError what {@link MoonportNode.open} and {@link FleetNode.open} throw; `folder_locked` names the process that
 * has the folder
 */
export async function openAnnounced(
  options: NodeOptions,
  command: string,
  fleet?: FleetOptions,
): Promise<AnnouncedNode> {
  const { world } = options;
  const { folder } = world;
  const opening = fleet === undefined ? MoonportNode.open(options) : FleetNode.open(options, fleet);
  const node = await opening.catch(async (error: unknown) => {
    throw await namingHolder(error, world);
  });
  const file: NodeFile = { pid: process.pid, session: node.session, command };
  const close = async (): Promise<void> => {
    await node.stop();
    // Last, so that whoever finds the folder locked meanwhile learns by whom.
    removeNodeFile(folder, node.session);
  };
  try {
    writeNodeFile(folder, file);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    node,
    announce: (url) => {
      writeNodeFile(folder, { ...file, url });
      if (node instanceof FleetNode) node.serveClientsAt(clientAddressOf(url, node.fleet.self.address));
    },
    close,
  };
}

/** The door's address; where that is every address of the machine, by the host that other nodes dial. */
function clientAddressOf(url: string, linkAddress: string): string {
  const address = new URL(url);
  if (address.hostname === "0.0.0.0" || address.hostname === "[::]") address.hostname = new URL(linkAddress).hostname;
  return address.origin;
}
