/** Owners and records that do it wrong, or otherwise: each function departs from the rule that its comment names, and keeps the others. */
import {
  changeSet,
  claim,
  cover,
  type OwnershipRecord,
  type ReplicaSet,
  releaseClean,
  resolve,
  standing,
  takeOver,
} from "../../src/cluster/ownership.js";
import { noteAnswer, noteSetSent, noteWon, openBook } from "../../src/cluster/release-rule.js";
import type { Rules } from "./rules.js";

function withFewerAcks(record: OwnershipRecord): OwnershipRecord {
  const { copies, acksToLand } = record.quorum;
  return { ...record, quorum: { copies, acksToLand: Math.min(acksToLand, Math.max(1, acksToLand - 1)) } };
}

/** O2: W − 1 acknowledgements release. */
export const releasingTooSoon: Partial<Rules> = {
  openBook: (record) => openBook(withFewerAcks(record)),
  noteWon: (book, record) => noteWon(book, withFewerAcks(record)),
  noteSetSent: (book, record) => noteSetSent(book, withFewerAcks(record)),
};

/** O2: any journal's acknowledgement counts. */
export const countingStrangers: Partial<Rules> = {
  noteAnswer: (book, answer) => {
    const isKnown = book.voters.some(({ journal }) => journal === answer.journal);
    if (!isKnown) book.voters.push({ journal: answer.journal, have: 0, votesNow: true, votesNext: false });
    return noteAnswer(book, answer);
  },
};

/** O2: an answer counts, whichever epoch it was given to. */
export const countingOtherEpochs: Partial<Rules> = {
  noteAnswer: (book, answer) => noteAnswer(book, { ...answer, epoch: book.epoch }),
};

/** J3, O2: a gap that tells what is held is taken for an acknowledgement. */
export const countingGaps: Partial<Rules> = {
  noteAnswer: (book, answer) => noteAnswer(book, answer.kind === "gap" ? { ...answer, kind: "ack" } : answer),
};

/** O3: while a change is unresolved, the old set releases alone. */
export const releasingByOld: Partial<Rules> = {
  noteSetSent: (book, record) => {
    noteSetSent(book, record);
    book.unresolved = undefined;
  },
};

/** O3: from when the change is sent, the new set releases alone. */
export const releasingByNew: Partial<Rules> = {
  noteSetSent: (book, record) => {
    noteWon(book, record);
  },
};

/** O3: the change covers nothing more than was covered before. */
export const changingUncovered: Partial<Rules> = {
  changeSet: (record, me, rid, replicas) => {
    const { covered } = record;
    return changeSet(record, me, rid, replicas, { covered, committed: covered });
  },
};

/** O4: the release covers nothing more than was covered before. */
export const leavingUncovered: Partial<Rules> = {
  releaseClean: (record, me, rid) => {
    const { covered } = record;
    return releaseClean(record, me, rid, { covered, committed: covered });
  },
};

/** O5: who finds the old version takes its attempt for failed. */
export const givingUpEarly: Partial<Rules> = {
  resolve: (attempt, found) => (found?.version === attempt.on ? "superseded" : resolve(attempt, found)),
};

/** O5: who finds its own epoch and session takes its attempt for landed, whatever the rid. */
export const adoptingAnything: Partial<Rules> = {
  resolve: (attempt, found) => {
    if (found?.version === attempt.on) return "unresolved";
    const { epoch, owner } = attempt.record;
    return found?.record.epoch === epoch && found.record.owner === owner ? "landed" : "superseded";
  },
};

/** C1: a claim names a set of its own. */
export const replacingSets: Partial<Rules> = {
  claim: (record, session, rid, replicas, view) => {
    const claimed = claim(record, session, rid, replicas, view);
    return claimed.kind === "refused" ? claimed : { ...claimed, record: { ...claimed.record, ...replicas } };
  },
};

/** C1: a claim counts as completed when it is made. */
export const claimingTails: Partial<Rules> = {
  claim: (record, session, rid, replicas, view) => {
    const claimed = claim(record, session, rid, replicas, view);
    if (claimed.kind === "refused") return claimed;
    return { ...claimed, record: { ...claimed.record, tailEpoch: claimed.record.epoch } };
  },
  takeOver: (record, me, rid, replicas, covered) =>
    takeOver({ ...record, tailEpoch: record.epoch - 1 }, me, rid, replicas, covered),
};

/** C1: who claims a clean record leaves it clean. */
export const stayingClean: Partial<Rules> = {
  claim: (record, session, rid, replicas, view) => {
    const claimed = claim(record, session, rid, replicas, view);
    if (claimed.kind === "refused" || !record.clean) return claimed;
    return { ...claimed, record: { ...claimed.record, clean: true } };
  },
  openBook: (record) => openBook({ ...record, clean: false }),
  cover: (record, me, rid, covered) => {
    const next = cover({ ...record, clean: false }, me, rid, covered);
    return next.kind === "refused" ? next : { ...next, record: { ...next.record, clean: record.clean } };
  },
};

interface Intending extends OwnershipRecord {
  readonly intended?: ReplicaSet;
}

function asIntended(record: Intending): OwnershipRecord {
  return { ...record, ...record.intended };
}

/** C1: who claims a clean record leaves it its set, and ships to a set of its own. */
export const keepingOldSet: Partial<Rules> = {
  claim: (record, session, rid, replicas, view) => {
    const { set, quorum } = record;
    const claimed = claim(record, session, rid, record.clean ? { set, quorum } : replicas, view);
    if (claimed.kind === "refused" || !record.clean) return claimed;
    const intending: Intending = { ...claimed.record, intended: replicas };
    return { ...claimed, record: intending };
  },
  takeOver: (record, me, rid, replicas, covered) => {
    const { intended: _, ...plain } = record as Intending;
    return takeOver(plain, me, rid, replicas, covered);
  },
  openBook: (record) => openBook(asIntended(record)),
  noteWon: (book, record) => noteWon(book, asIntended(record)),
};

/** C4: CAS2 does not say whose tails count from now on. */
export const keepingTailEpoch: Partial<Rules> = {
  takeOver: (record, me, rid, replicas, covered) => {
    const next = takeOver(record, me, rid, replicas, covered);
    return next.kind === "refused" ? next : { ...next, record: { ...next.record, tailEpoch: record.tailEpoch } };
  },
  openBook: (record) => openBook({ ...record, tailEpoch: record.epoch }),
  standing: (record, me) => standing({ ...record, tailEpoch: record.epoch }, me),
  cover: (record, me, rid, covered) => {
    const next = cover({ ...record, tailEpoch: record.epoch }, me, rid, covered);
    return next.kind === "refused" ? next : { ...next, record: { ...next.record, tailEpoch: record.tailEpoch } };
  },
};

/** C4: CAS2 leaves the tail where it is. */
export const coveringNothing: Partial<Rules> = {
  takeOver: (record, me, rid, replicas) => takeOver(record, me, rid, replicas, record.covered),
};

/** C1, taken further: where the bucket alone released, one CAS claims and completes, as for a clean record. */
export const claimingAtOnce: Partial<Rules> = {
  claim: (record, session, rid, replicas, view) => {
    const bucketOnly = record.quorum.acksToLand === 0;
    return claim(bucketOnly ? { ...record, clean: true } : record, session, rid, replicas, view);
  },
};
