/**
 * Everything that the model lets others decide: the functions of src/cluster by default. A broken variant puts another
 * function in place of one of them, or has its nodes do what no function of ours tells them to.
 */
import { begun, decideEntry, decideNotice, decidePromise, mayForget } from "../../src/cluster/journal-rules.js";
import {
  changeSet,
  claim,
  cover,
  firstRecord,
  releaseClean,
  resolve,
  standing,
  takeOver,
} from "../../src/cluster/ownership.js";
import type { Quorum } from "../../src/cluster/quorum.js";
import { noteAnswer, noteSetSent, noteWon, openBook } from "../../src/cluster/release-rule.js";
import { chooseTail } from "../../src/cluster/tail-choice.js";
import type { Payload } from "./state.js";

export interface Rules {
  readonly begun: typeof begun<Payload>;
  readonly mayForget: typeof mayForget;
  readonly decideEntry: typeof decideEntry<Payload>;
  readonly decideNotice: typeof decideNotice<Payload>;
  readonly decidePromise: typeof decidePromise<Payload>;
  readonly openBook: typeof openBook;
  readonly noteAnswer: typeof noteAnswer;
  readonly noteWon: typeof noteWon;
  readonly noteSetSent: typeof noteSetSent;
  readonly chooseTail: typeof chooseTail<Payload>;
  readonly firstRecord: typeof firstRecord;
  readonly claim: typeof claim;
  readonly takeOver: typeof takeOver;
  readonly cover: typeof cover;
  readonly changeSet: typeof changeSet;
  readonly releaseClean: typeof releaseClean;
  readonly standing: typeof standing;
  readonly resolve: typeof resolve<number>;
}

export const RULES: Rules = {
  begun,
  mayForget,
  decideEntry,
  decideNotice,
  decidePromise,
  openBook,
  noteAnswer,
  noteWon,
  noteSetSent,
  chooseTail,
  firstRecord,
  claim,
  takeOver,
  cover,
  changeSet,
  releaseClean,
  standing,
  resolve,
};

/** How large a world is explored, and what may happen in it. */
export interface Scope {
  readonly nodes: number;
  readonly epochs: number;
  readonly writes: number;
  /** How the first record names its set: its first nodes. */
  readonly start: Quorum;
  /** What new sets may look like. */
  readonly quorums: readonly Quorum[];
  readonly setChanges?: number;
  readonly disks?: number;
  readonly releases?: number;
  /** Messages may carry what the owner's coverage was before. */
  readonly oldCoverage?: boolean;
  /** A flight carries several writes, and may overlap one that was sent before. Else one write each. */
  readonly longFlights?: boolean;
  /** Journals start without a record of the object, read the bucket's (J6), and forget what they may. */
  readonly forgetful?: boolean;
  /** Requests for promises arrive late, and their answers may be lost. */
  readonly latePromises?: boolean;
  /** An acknowledgement is under way for a while; without it, it is heard at once or lost. */
  readonly lateAnswers?: boolean;
  /** Answers to an earlier epoch's owner reach the later one's. */
  readonly strayAnswers?: boolean;
  /** A frozen owner may thaw by a CAS of its own (O4). */
  readonly thaws?: boolean;
  /** A node that ran an epoch may come back with its own file of it. */
  readonly ownFiles?: boolean;
}

/** What nodes do beside what rules decide. All off in a correct world. */
export interface Habits {
  /** Owners tell journals of coverage that no CAS of theirs has brought. */
  readonly tellsEarly?: boolean;
  /** A journal that lost its disk answers under its old identity. */
  readonly keepsIdentity?: boolean;
  /** Claimers serve when CAS2 is sent. */
  readonly servesEarly?: boolean;
  /** Flights go to every journal. */
  readonly shipsToAll?: boolean;
  /** A request for a promise is a journal's first word of an object, without a look at the record. */
  readonly promisesUnread?: boolean;
  /** So is word of the coverage. */
  readonly noticesUnread?: boolean;
  /** What was read of a record is used again when the object has been forgotten. */
  readonly keepsReadings?: boolean;
  /** No reduction that leans on promises holds. */
  readonly unfenced?: boolean;
  /** A write that a later owner has served without may come back: what then follows from it is looked for. */
  readonly mayReturn?: boolean;
  /** The journals' promise to be brought up to date is not checked. */
  readonly noProgress?: boolean;
}

export interface Model {
  readonly scope: Scope;
  readonly rules: Rules;
  readonly habits: Habits;
}

export function modelOf(scope: Scope, rules: Partial<Rules> = {}, habits: Habits = {}): Model {
  return { scope, rules: { ...RULES, ...rules }, habits };
}
