/** What a node process of `dev --nodes` and the process that started it have to do with each other. */

/** In the environment of such a node; any other process of ours takes no notice of who started it. */
const VARIABLE = "MOONPORT_DEV_PARENT";

/** What a node says to its parent once it serves. */
export interface ReadyMessage {
  readonly kind: "ready";
  readonly url: string;
  /** This life of it. */
  readonly session: string;
}

/** It sees that many nodes alive, itself included. Said once, of as many as its parent has. */
export interface SeesMessage {
  readonly kind: "sees";
  readonly nodes: number;
}

export type NodeMessage = ReadyMessage | SeesMessage;

/** @param nodes that the parent has */
export function parentEnvironment(nodes: number): Readonly<Record<string, string>> {
  return { [VARIABLE]: `${nodes}` };
}

const hasParent = process.env[VARIABLE] !== undefined && process.send !== undefined;

/** Nodes that the parent has; undefined for a process that has none. */
export const siblings = hasParent ? Number(process.env[VARIABLE]) : undefined;

export function tellParent(message: NodeMessage): void {
  if (hasParent && process.connected) process.send?.(message);
}

/** A node whose parent is gone has nobody who stops it. */
export function whenParentIsGone(stop: () => void): void {
  if (!hasParent) return;
  if (!process.connected) return stop();
  process.once("disconnect", stop);
  // To listen to it is no reason to stay.
  process.channel?.unref();
}
