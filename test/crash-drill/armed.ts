/** What the drill and its nodes say to each other, over the channel that only a parent has to its child. */
import type { FaultPoint } from "../../src/world/fault-point.js";

/** Where a node is to end. */
export interface Armed {
  readonly point: FaultPoint;
  /** A regular expression that what the point tells of itself has to match. */
  readonly detail: string;
  /** How often it is passed first. */
  readonly skip: number;
}

/** To a node, which answers with the same once it heeds it. */
export interface ArmMessage {
  readonly arm: Armed | null;
}

/** Written by a node to stderr right before it ends. */
export const REACHED = "fault point reached: ";
