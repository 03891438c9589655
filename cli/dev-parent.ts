/** What a node process of `dev --nodes` and the process that started it have to do with each other. */

/** In the environment of such a node; any other process of ours takes no notice of who started it. */
const VARIABLE = "MOONPORT_DEV_PARENT";

/** What a node says to its parent once it serves. */
export interface ReadyMessage {
  readonly url: string;
  /** This life of it. */
  readonly session: string;
}

export const PARENT_ENVIRONMENT: Readonly<Record<string, string>> = { [VARIABLE]: "1" };

const hasParent = process.env[VARIABLE] !== undefined && process.send !== undefined;

export function tellParent(message: ReadyMessage): void {
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
