/**
 * Who owns an object: the fields of its record in the bucket, and what each compare-and-swap makes of them.
 *
 * Every function takes the record as it stood at the version that the CAS is conditioned on, and returns either the
 * record to write or a refusal with a code. They promise rules O1 to O5 and C1 to C5 of docs/cluster.md as far as these
 * are about the record; which journals must be heard before is src/cluster/tail-choice.ts, what may be released between
 * two writes is src/cluster/release-rule.ts.
 */
import { assert } from "../errors.js";
import type { Quorum } from "./quorum.js";

export interface Member {
  readonly node: string;
  /** Made with the journal: a node whose disk was replaced has another (J5). */
  readonly journal: string;
}

export interface OwnershipRecord {
  /** Random, fresh per write: by it an unanswered write is recognised (O5). */
  readonly rid: string;
  /** Fencing number: one more at each claim. */
  readonly epoch: number;
  /** Session that claimed `epoch`. Of a clean record it says only who was last. */
  readonly owner: string;
  /** Epoch of the last claim that was completed: the only one whose tails may hold released writes (C3). */
  readonly tailEpoch: number;
  /** `quorum.copies` of them. Only journals named here can let a write land, or answer for it. */
  readonly set: readonly Member[];
  readonly quorum: Quorum;
  /** The bucket holds the object through this seq. */
  readonly covered: number;
  /** Released by its owner: all is covered, nobody serves it. */
  readonly clean: boolean;
}

/** A session in an epoch that it claimed. */
export interface Claimer {
  readonly session: string;
  readonly epoch: number;
}

/** The journals that a record is to name from now on. */
export interface ReplicaSet {
  readonly set: readonly Member[];
  readonly quorum: Quorum;
}

export type RefusalCode =
  /** Another session that lives owns the object. */
  | "owner_lives"
  /** The session holds the object already. */
  | "already_held"
  /** The record names another epoch or session: this one's time is over. */
  | "not_mine"
  /** The record is clean: what was released is claimed, not gone on with. */
  | "released"
  /** The claim has not been completed: nothing may be written under it yet. */
  | "not_taken_over"
  /** The claim has been completed before. */
  | "taken_over"
  /** The bucket covers more than the new record would say. */
  | "covers_less"
  /** Writes that were committed would stand in no journal that the new record counts on. */
  | "leaves_uncovered";

export interface Refused {
  readonly kind: "refused";
  readonly code: RefusalCode;
}

export interface Next {
  readonly kind: "next";
  readonly record: OwnershipRecord;
}

/** `serve`: known to have won, the claim is complete. `ask_promises`: then the journals are asked (C2). */
export interface NextClaim extends Next {
  readonly afterwards: "serve" | "ask_promises";
}

export interface ClaimView {
  /** The observer's judgement of the session that the record names. */
  readonly ownerLives: boolean;
  /** Whether the claiming session serves the object, or is claiming it, under the record's epoch. */
  readonly holds: boolean;
}

/** The record of a key that had none. There is no tail, so the claim is complete with it. */
export function firstRecord(session: string, rid: string, replicas: ReplicaSet): OwnershipRecord {
  assertSet(replicas);
  return { rid, epoch: 1, owner: session, tailEpoch: 1, ...replicas, covered: 0, clean: false };
}

/**
 * C1, and C5: a record that names the claiming session though it does not hold the object is its own late CAS1, and no
 * other session would ever claim that.
 */
export function claim(
  record: OwnershipRecord,
  session: string,
  rid: string,
  replicas: ReplicaSet,
  view: ClaimView,
): NextClaim | Refused {
  assertSet(replicas);
  const { set, quorum } = replicas;
  const epoch = record.epoch + 1;
  const claimed = { ...record, rid, owner: session, epoch };
  if (record.clean) {
    // The old set would be asked, at the next takeover, for what only the new one holds.
    return { kind: "next", record: { ...claimed, tailEpoch: epoch, set, quorum, clean: false }, afterwards: "serve" };
  }
  if (record.owner === session && view.holds) return refused("already_held");
  if (record.owner !== session && view.ownerLives) return refused("owner_lives");
  return { kind: "next", record: claimed, afterwards: "ask_promises" };
}

/** C4, CAS2: the bucket holds the chosen tail through `covered`. Known to have won, its claimer serves (O1). */
export function takeOver(
  record: OwnershipRecord,
  me: Claimer,
  rid: string,
  replicas: ReplicaSet,
  covered: number,
): Next | Refused {
  assertSet(replicas);
  const { set, quorum } = replicas;
  switch (standing(record, me)) {
    case "claiming":
      if (covered < record.covered) return refused("covers_less");
      return { kind: "next", record: { ...record, rid, tailEpoch: me.epoch, set, quorum, covered, clean: false } };
    case "serving":
      return refused("taken_over");
    case "released":
      return refused("released");
    case "over":
      return refused("not_mine");
  }
}

/** The bucket holds the object through `covered`. Also the CAS that thaws an owner in the middle of a release (O4). */
export function cover(record: OwnershipRecord, me: Claimer, rid: string, covered: number): Next | Refused {
  return served(record, me, covered) ?? { kind: "next", record: { ...record, rid, covered } };
}

/**
 * O3: another set, or another W. What was released under the old set is not in the journals of the new one, so the same
 * CAS covers all that is committed.
 */
export function changeSet(
  record: OwnershipRecord,
  me: Claimer,
  rid: string,
  replicas: ReplicaSet,
  progress: { readonly covered: number; readonly committed: number },
): Next | Refused {
  assertSet(replicas);
  const { covered, committed } = progress;
  if (covered < committed) return refused("leaves_uncovered");
  return served(record, me, covered) ?? { kind: "next", record: { ...record, rid, ...replicas, covered } };
}

/** O4: for who claims a clean record asks no journal. The owner has stopped writing, and stays so until this is resolved. */
export function releaseClean(
  record: OwnershipRecord,
  me: Claimer,
  rid: string,
  progress: { readonly covered: number; readonly committed: number },
): Next | Refused {
  const { covered, committed } = progress;
  if (covered < committed) return refused("leaves_uncovered");
  return served(record, me, covered) ?? { kind: "next", record: { ...record, rid, covered, clean: true } };
}

/** What a record that is known to stand says of a session in its epoch. `serving` is O1's only way to serve and ship. */
export type Standing = "serving" | "claiming" | "released" | "over";

export function standing(record: OwnershipRecord, me: Claimer): Standing {
  if (record.epoch !== me.epoch || record.owner !== me.session) return "over";
  if (record.clean) return "released";
  return record.tailEpoch === me.epoch ? "serving" : "claiming";
}

/** A CAS whose answer is not known. */
export interface Attempt<V> {
  /** The version that it is conditioned on; undefined when there was to be none. */
  readonly on: V | undefined;
  readonly record: OwnershipRecord;
}

export type Resolution =
  /** Nothing is proved: the write may land yet. The same one goes out again. */
  | "unresolved"
  | "landed"
  /** It cannot land any more. Whether it had, before the write that stands there now, is not known. */
  | "superseded";

/** O5. A record with the attempt's epoch, session and rid is the attempt's own; a version that has not moved proves nothing. */
export function resolve<V>(
  attempt: Attempt<V>,
  found: { readonly version: V; readonly record: OwnershipRecord } | undefined,
): Resolution {
  if (found?.version === attempt.on) return "unresolved";
  const { rid, epoch, owner } = attempt.record;
  const mine = found?.record.rid === rid && found.record.epoch === epoch && found.record.owner === owner;
  return mine ? "landed" : "superseded";
}

/** Why an owner may not write a next record that covers `covered`; undefined when it may. */
function served(record: OwnershipRecord, me: Claimer, covered: number): Refused | undefined {
  switch (standing(record, me)) {
    case "serving":
      return covered < record.covered ? refused("covers_less") : undefined;
    case "claiming":
      return refused("not_taken_over");
    case "released":
      return refused("released");
    case "over":
      return refused("not_mine");
  }
}

function refused(code: RefusalCode): Refused {
  return { kind: "refused", code };
}

function assertSet({ set, quorum }: ReplicaSet): void {
  assert(set.length === quorum.copies, "a replica set has as many members as copies");
  assert(quorum.acksToLand <= quorum.copies, "no more acknowledgements than copies");
  assert(new Set(set.map((member) => member.journal)).size === set.length, "a replica set names a journal once");
}
