/**
 * Who is in the fleet: a record a node in the bucket, renewed while its session lives.
 *
 * No clocks are compared between machines. A session counts itself valid until the *start* of its last renewal that is known
 * to have landed, + ttl − margin, by its own monotonic clock; others count it dead when a reading of the bucket that began
 * more than ttl + margin after they first saw its record finds the record unchanged.
 * Why dead implies over: docs/cluster.md.
 */
import type { MoonportError } from "../errors.js";
import type { ServedApp } from "../release/contract.js";

export interface NodeRecord {
  /** Name of the node; stays across restarts. */
  readonly node: string;
  /** UUIDv7; another one at each start, and after each lapse. */
  readonly session: string;
  /** Of its links. */
  readonly address: string;
  /** Where clients reach it; undefined for a node without doors. */
  readonly clientAddress?: string;
  readonly zone: string;
  /** Share of the partitions that it takes, beside those of the others; 0 takes none. */
  readonly weight: number;
  readonly version: string;
  /** Identity of its journal. */
  readonly journal: string;
  /** Its disk has failed: it takes nothing, and no set names it, until the node is started again. Nodes of an older version do not know. */
  readonly journalBroken?: true;
  readonly ttlMs: number;
  /** Of its process, where whoever shares the bucket can ask whether that has ended. */
  readonly mark?: string;
  /** What it serves of each app; absent of nodes of an older version. */
  readonly releases?: readonly ServedApp[];
}

export type SessionStanding = "live" | "dead";

/** A node as this one sees it. */
export interface SeenNode {
  readonly record: NodeRecord;
  readonly standing: SessionStanding;
}

export interface MembershipEvents {
  /** A session was found dead or ended, or its node has another one now. Called once a session that was seen alive. */
  sessionEnded(record: NodeRecord): void;
  /** Members or their records changed. */
  changed(): void;
  /** What this node's record says anew stands in the bucket: others can read it. */
  told(): void;
  /** This node's own session lapsed: nothing may be answered under it any more. A new one is on its way. */
  lapsed(): void;
  /** This node has a session again. */
  joined(self: NodeRecord): void;
  /** Another process has this node's name (`node_replaced`): its session has lapsed, and there will be no other. */
  replaced(error: MoonportError): void;
}

export interface Membership {
  /** This node's record under its current session. */
  readonly self: NodeRecord;
  /** Whether this node's session is valid now, by the clock (E4): looked at before each answer that no journal vouches for. */
  isValid(): boolean;
  /** Those not known to be dead, this node included, in order of their names. */
  members(): readonly NodeRecord[];
  member(node: string): NodeRecord | undefined;
  /** Members, and those that are dead and whose record still stands, in order of their names. */
  seen(): readonly SeenNode[];
  /** Why the session is not valid; undefined while it is. */
  whyInvalid(): string | undefined;
  /** From now on clients reach this node there: others learn it with the next renewal, which is brought forward. */
  serveClientsAt(address: string): void;
  /** From now on this node takes that share of the partitions; others learn it as they learn the address. */
  weigh(weight: number): void;
  /** From now on its journal takes nothing, until it starts again. */
  tellJournalBroken(): void;
  /** The same of what it serves. */
  tellReleases(releases: readonly ServedApp[]): void;
  /** What is known now, without a request; undefined for a session that stands in no record known here. */
  known(session: string): SessionStanding | undefined;
  /**
   * Looks into the bucket where need be: a session that no record names is dead, for a session writes its record before it
   * claims anything. @throws MoonportError `bucket_failed`, `bucket_unusable`, `node_fenced` (after this node was stopped or
   * replaced)
   */
  standing(session: string): Promise<SessionStanding>;
  /**
   * Something happened, a link that broke for instance, that a look into the bucket may explain. A node that died is then
   * found ttl + margin after its death, and not up to a third of the ttl later.
   */
  lookNow(): void;
}
