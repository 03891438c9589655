/** What is measured, as the page of metrics reads it. */
import type { RequestCounts } from "../bucket/request-counts.js";
import type { ServedApp } from "../release/contract.js";
import type { FleetCounters } from "./fleet-counters.js";
import type { NodeCounters } from "./node-counters.js";

/** A node as it stands now. */
export interface NodeGauges {
  readonly version: string;
  readonly session: string;
  readonly bucket: string;
  readonly writesLand: boolean;
  readonly sinceLandedMs: number;
  readonly loadFaults: number;
  readonly releases: readonly ServedApp[];
  readonly unitsRunning: number;
  readonly mailboxCalls: number;
  readonly gateReplies: number;
  readonly residents: number;
  readonly openFiles: number;
  /** Of other nodes' objects. */
  readonly copies: number;
  readonly copyBytes: number;
  /** Remembered, of this node's own objects. */
  readonly answerBytes: number;
  readonly subscriptions: number;
  readonly watchedObjects: number;
  /** Rows that are not told to their directory yet. */
  readonly directory: { readonly waiting: number; readonly lagMs: number };
}

export interface MeasuredNode {
  readonly counters: NodeCounters;
  /** Where requests cost money. */
  readonly bucketRequests: RequestCounts | undefined;
  gauges(): NodeGauges;
  /** Undefined for a node that is alone. */
  readonly fleetMeasures: FleetMeasures | undefined;
}

/** A node as one of a fleet. */
export interface FleetMeasures {
  readonly counters: FleetCounters;
  /** Entries of objects, its own and others', that its journal took. */
  readonly journalEntries: number;
  /** Its files, without what is written ahead. */
  readonly journalBytes: number;
  /** Its disk has failed: it takes nothing. */
  readonly isJournalBroken: boolean;
  /** Links that stand now, by who asks over them. */
  readonly links: { readonly outgoing: number; readonly incoming: number };
}

/** The doors of a node as they stand now. */
export interface DoorGauges {
  readonly sockets: number;
  readonly socketCalls: number;
  readonly httpConnections: number;
}
