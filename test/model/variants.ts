/**
 * Protocols with one fault each, and the small world in which exploration finds it. A model that does not find them would
 * not find ours either.
 */
import * as journals from "./broken-journals.js";
import * as owners from "./broken-owners.js";
import type { ViolationKind } from "./checks.js";
import type { SmallName } from "./configurations.js";
import type { Habits, Rules } from "./rules.js";

export interface Variant {
  readonly breaks: string;
  readonly world: SmallName;
  readonly finds: ViolationKind;
  readonly rules?: Partial<Rules>;
  readonly habits?: Habits;
}

/** Where promises do not hold, nothing may be left out because of them. */
const unfenced: Habits = { unfenced: true };
const mayReturn: Habits = { mayReturn: true };

/** What journals do. */
const JOURNALS: Record<string, Variant> = {
  "a journal ignores epochs": {
    breaks: "J1",
    world: "3n-E2W2",
    finds: "lost",
    rules: { decideEntry: journals.ignoringEpochs },
    habits: unfenced,
  },
  "an accepted entry raises no promise": {
    breaks: "J1",
    world: "3n-E2W3",
    finds: "stuck",
    rules: { decideEntry: journals.acceptingUnpromised },
  },
  "a newer epoch goes on behind an old tail where the numbers fit": {
    breaks: "J2",
    world: "3n-E2W3",
    finds: "two_lines",
    rules: { decideEntry: journals.continuingBySeq },
  },
  "a gap that tells what another epoch left is taken for an acknowledgement": {
    breaks: "J2, J3",
    world: "3n-E2W3",
    finds: "lost",
    rules: { decideEntry: journals.tellingOldTails, ...owners.countingGaps },
  },
  "a tail starts afresh within an epoch": {
    breaks: "J3",
    world: "3n-E2W2",
    finds: "lost",
    rules: { decideEntry: journals.startingAfresh },
  },
  "an entry is appended behind a hole": {
    breaks: "J3",
    world: "3n-E2W2",
    finds: "gap",
    rules: { decideEntry: journals.leavingHoles },
  },
  "word of a newer epoch's coverage keeps the old tail": {
    breaks: "J4",
    world: "3n-E2W2",
    finds: "lost",
    rules: { decideNotice: journals.renamingTails },
    habits: mayReturn,
  },
  "an entry beyond the told coverage is dropped": {
    breaks: "J4",
    world: "3n-E2W2",
    finds: "gap",
    rules: { decideNotice: journals.droppingTooMuch },
  },
  "no promise": {
    breaks: "J5",
    world: "3n-E2W2",
    finds: "lost",
    rules: { decidePromise: journals.promisingNothing },
    habits: unfenced,
  },
  "a tail is let go when it has been handed over": {
    breaks: "J5",
    world: "3n-E2W2",
    finds: "gap",
    rules: { decidePromise: journals.lettingGo },
  },
  "a lost disk answers as the old one": {
    breaks: "J5",
    world: "3n-E2W2-disk",
    finds: "lost",
    habits: { keepsIdentity: true },
  },
  "a new journal answers a claimer for the one before it": {
    breaks: "J5",
    world: "3n-E2W2-disk",
    finds: "lost",
    rules: { decidePromise: journals.answeringForOthers },
  },
  "a promise is forgotten with the entries": {
    breaks: "J6",
    world: "2n-E4W1-forgetful-late",
    finds: "lost",
    rules: { begun: journals.beginningAtNothing },
    habits: unfenced,
  },
  "a journal that forgot promises without a look at the record": {
    breaks: "J6",
    world: "2n-E4W1-forgetful-late",
    finds: "lost",
    habits: { promisesUnread: true, ...unfenced },
  },
  "a journal that forgot takes word of the coverage without a look at the record": {
    breaks: "J6",
    world: "3n-E2W2-forgetful",
    finds: "lost",
    habits: { noticesUnread: true, ...unfenced },
  },
  "what was read of a record is used twice": {
    breaks: "J6",
    world: "2n-E4W1-forgetful-late",
    finds: "lost",
    habits: { keepsReadings: true, ...unfenced },
  },
};

/** What owners do. */
const OWNERS: Record<string, Variant> = {
  "an owner serves before its CAS2 is known": {
    breaks: "O1",
    world: "3n-E2W2",
    finds: "lost",
    habits: { servesEarly: true, ...unfenced },
  },
  "W − 1 acknowledgements release": { breaks: "O2", world: "3n-E2W2", finds: "lost", rules: owners.releasingTooSoon },
  "acknowledgements of journals outside the set count": {
    breaks: "O2",
    world: "4n-E2W1-set",
    finds: "lost",
    rules: owners.countingStrangers,
    habits: { shipsToAll: true },
  },
  "an answer to another epoch counts": {
    breaks: "O2",
    world: "3n-E2W2",
    finds: "lost",
    rules: owners.countingOtherEpochs,
    habits: unfenced,
  },
  "journals are told of coverage before the record has it": {
    breaks: "O2, J4",
    world: "3n-E2W2",
    finds: "gap",
    habits: { tellsEarly: true },
  },
  "a set change leaves released writes uncovered": {
    breaks: "O3",
    world: "4n-E2W1-set",
    finds: "lost",
    rules: owners.changingUncovered,
  },
  "the old set alone releases during a set change": {
    breaks: "O3",
    world: "4n-E2W1-set",
    finds: "lost",
    rules: owners.releasingByOld,
  },
  "the new set alone releases from when the change is sent": {
    breaks: "O3",
    world: "2n-upto2-E2W1-set2-from1",
    finds: "lost",
    rules: owners.releasingByNew,
  },
  "a clean release leaves released writes uncovered": {
    breaks: "O4",
    world: "3n-E2W2-release",
    finds: "lost",
    rules: owners.leavingUncovered,
  },
  "a set change is taken for failed on an unchanged version": {
    breaks: "O5",
    world: "4n-E2W1-set",
    finds: "lost",
    rules: owners.givingUpEarly,
  },
  "a clean release is taken for failed on an unchanged version": {
    breaks: "O4, O5",
    world: "3n-E2W2-release",
    finds: "lost",
    rules: owners.givingUpEarly,
  },
  "a set change is taken for landed by epoch and session, without its rid": {
    breaks: "O5",
    world: "2n-upto2-E2W2-set",
    finds: "lost",
    rules: owners.adoptingAnything,
  },
};

/** What claimers do, and what records say. */
const CLAIMS: Record<string, Variant> = {
  "CAS1 replaces the set": {
    breaks: "C1",
    world: "4n-E2W1-set",
    finds: "lost",
    rules: owners.replacingSets,
  },
  "CAS1 counts as a completed takeover": {
    breaks: "C1",
    world: "3n-E2W2",
    finds: "lost",
    rules: owners.claimingTails,
  },
  "the clean flag is kept at a claim": {
    breaks: "C1",
    world: "3n-E2W2-release",
    finds: "lost",
    rules: owners.stayingClean,
  },
  "the old set is kept at a claim of a clean record": {
    breaks: "C1",
    world: "4n-E2W1-release",
    finds: "lost",
    rules: owners.keepingOldSet,
  },
  "N − W answers are enough": {
    breaks: "C2",
    world: "3n-E2W2",
    finds: "lost",
    rules: { chooseTail: journals.askingTooFew },
  },
  "the tail of the last epoch is chosen": {
    breaks: "C3",
    world: "3n-E2W3",
    finds: "two_lines",
    rules: { chooseTail: journals.choosingLastEpoch },
    habits: mayReturn,
  },
  "the tail under the last promise is chosen": {
    breaks: "C3",
    world: "3n-E2W2",
    finds: "lost",
    rules: { chooseTail: journals.choosingLastPromise, decidePromise: journals.tellingPromises },
    habits: mayReturn,
  },
  "the longest tail is chosen, of whichever epoch": {
    breaks: "C3",
    world: "3n-E3W2",
    finds: "lost",
    rules: { chooseTail: journals.choosingLongest },
    habits: mayReturn,
  },
  "a tail of a dead epoch comes back": {
    breaks: "C3",
    world: "3n-E3W1",
    finds: "resurrected",
    rules: { chooseTail: journals.choosingLongest },
  },
  "CAS2 leaves the tail uncovered": { breaks: "C4", world: "3n-E2W2", finds: "lost", rules: owners.coveringNothing },
  "CAS2 does not say whose tails count from now on": {
    breaks: "C4",
    world: "3n-E2W2",
    finds: "lost",
    rules: owners.keepingTailEpoch,
    habits: mayReturn,
  },
  "a returning node's own file is taken, of whichever epoch": {
    breaks: "C5",
    world: "2n-E3W2-files",
    finds: "resurrected",
    rules: { chooseTail: journals.trustingOwnFile },
  },
};

export const VARIANTS: Record<string, Variant> = { ...JOURNALS, ...OWNERS, ...CLAIMS };

export interface HarmlessVariant {
  readonly worlds: readonly SmallName[];
  readonly rules: Partial<Rules>;
  readonly habits?: Habits;
}

/** Rules taken differently that lose nothing, where they matter most: kept, so that nobody need wonder. */
export const HARMLESS: Record<string, HarmlessVariant> = {
  "what is covered is dropped, whoever says so (J4)": {
    worlds: ["3n-E2W2", "2n-E3W2"],
    rules: { decideNotice: journals.droppingWhatIsCovered },
  },
  "a gap, as ours answers it, is taken for an acknowledgement (J3)": {
    worlds: ["3n-E2W3"],
    rules: owners.countingGaps,
  },
  "one CAS claims and completes where the bucket alone released (C1)": {
    worlds: ["2n-upto2-E2W1-set2-from1", "2n-upto2-E2W1-set-answers"],
    rules: owners.claimingAtOnce,
  },
};
