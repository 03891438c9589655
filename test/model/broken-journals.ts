/** Journals and claimers that do it wrong, or otherwise: each function departs from the rule that its comment names, and keeps the others. */
import { EntryRun } from "../../src/cluster/entry-run.js";
import {
  begun,
  type Decided,
  decideEntry,
  decideNotice,
  decidePromise,
  type EntryAnswer,
  haveSeq,
} from "../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../src/cluster/ownership.js";
import { chooseTail, type OwnFile, type TailChoice } from "../../src/cluster/tail-choice.js";
import type { Rules } from "./rules.js";
import { type Answer, type Held, type Payload, type Write, writeOf } from "./state.js";

/** J1: whoever sends is listened to. */
export const ignoringEpochs: Rules["decideEntry"] = (journal, held, message) => {
  const { held: after, answer } = decideEntry(journal, { ...held, promised: 0 }, message);
  return { held: { ...after, promised: Math.max(held.promised, after.promised) }, answer };
};

/** J1: an entry raises no promise; only claimers do. */
export const acceptingUnpromised: Rules["decideEntry"] = (journal, held, message) => {
  const { held: after, answer } = decideEntry(journal, held, message);
  return { held: after.promised === held.promised ? after : { ...after, promised: held.promised }, answer };
};

/** J2: a newer epoch goes on behind an old tail where the numbers fit. */
export const continuingBySeq: Rules["decideEntry"] = (journal, held, message) => {
  const { epoch, afterSeq, toSeq, payload } = message;
  if (epoch < held.promised || epoch <= held.tailEpoch || afterSeq !== haveSeq(held)) {
    return decideEntry(journal, held, message);
  }
  const entries = held.entries.appended({ afterSeq, toSeq, payload });
  return {
    held: { ...held, promised: epoch, tailEpoch: epoch, entries },
    answer: { kind: "ack", journal, epoch, have: toSeq },
  };
};

/** J2: the answer to a newer epoch tells what an older one left. */
export const tellingOldTails: Rules["decideEntry"] = (journal, held, message) => {
  const { held: after, answer } = decideEntry(journal, held, message);
  return { held: after, answer: answer.kind === "gap" ? { ...answer, have: haveSeq(held) } : answer };
};

/** J3: what starts at the coverage that comes with it starts the tail afresh, also within an epoch. */
export const startingAfresh: Rules["decideEntry"] = (journal, held, message) => {
  const { epoch, covered, afterSeq, toSeq, payload } = message;
  if (epoch < held.promised || afterSeq > covered || toSeq <= covered) return decideEntry(journal, held, message);
  const entries = EntryRun.of({ afterSeq, toSeq, payload });
  return {
    held: { promised: epoch, tailEpoch: epoch, base: covered, entries },
    answer: { kind: "ack", journal, epoch, have: toSeq },
  };
};

/** J3: what leaves a hole is appended all the same. */
export const leavingHoles: Rules["decideEntry"] = (journal, held, message): Decided<Payload, EntryAnswer> => {
  const decided = decideEntry(journal, held, message);
  const { answer, held: after } = decided;
  if (answer.kind !== "gap" || after.tailEpoch !== message.epoch) return decided;
  const { afterSeq, toSeq, payload, epoch } = message;
  const entries = EntryRun.of({ afterSeq, toSeq, payload });
  return { held: { ...after, base: afterSeq, entries }, answer: { kind: "ack", journal, epoch, have: toSeq } };
};

/** J4: word of a newer epoch's coverage renames the tail instead of ending it. */
export const renamingTails: Rules["decideNotice"] = (journal, held, notice) => {
  const decided = decideNotice(journal, held, notice);
  if (notice.epoch <= held.tailEpoch || decided.answer.kind === "refused") return decided;
  const base = Math.max(held.base, notice.covered);
  return { ...decided, held: { ...decided.held, base, entries: held.entries.droppedThrough(base) } };
};

/** J4: what is covered is dropped, and one more. */
export const droppingTooMuch: Rules["decideNotice"] = (journal, held, notice) =>
  decideNotice(journal, held, { ...notice, covered: notice.covered + 1 });

/** J5: the tail is handed over, nothing is promised. */
export const promisingNothing: Rules["decidePromise"] = (journal, held, request) => ({
  held,
  answer: decidePromise(journal, { ...held, promised: 0 }, request).answer,
});

/** J5: the tail is handed over and not kept. */
export const lettingGo: Rules["decidePromise"] = (journal, held, request) => {
  const { held: after, answer } = decidePromise(journal, held, request);
  if (answer.kind !== "promised") return { held: after, answer };
  return { held: { ...after, base: haveSeq(held), entries: EntryRun.of() }, answer };
};

/** J5, together with a node that names its new journal like the old: asked for the old one, any journal answers. */
export const answeringForOthers: Rules["decidePromise"] = (_journal, held, request) =>
  decidePromise(request.journal, held, request);

/** For the choice by promise: the answer also says what had been promised before. */
export const tellingPromises: Rules["decidePromise"] = (journal, held, request) => {
  const { held: after, answer } = decidePromise(journal, held, request);
  if (answer.kind !== "promised") return { held: after, answer };
  return {
    held: after,
    answer: { ...answer, tail: { ...answer.tail, promisedBefore: held.promised } as typeof answer.tail },
  };
};

/** J6: who forgot an object begins it as if nothing had ever been promised. */
export const beginningAtNothing: Rules["begun"] = () => begun(0);

/** C2: one answer too few. */
export const askingTooFew: Rules["chooseTail"] = (record, answers, ownFile) => {
  const { copies, acksToLand } = record.quorum;
  const fewer = { copies: copies - 1, acksToLand };
  return chooseTail(acksToLand === 0 ? record : { ...record, quorum: fewer }, answers, ownFile);
};

/** C3: of all tails, whosever they are, the one that ranks highest. */
function choosingBy(rank: (answer: Extract<Answer, { kind: "promised" }>) => number): Rules["chooseTail"] {
  return (record, answers, ownFile) => {
    const choice = chooseTail(record, answers, ownFile);
    if (choice.kind === "waiting" || choice.kind === "own_file") return choice;
    let highest: Extract<Answer, { kind: "promised" }> | undefined;
    for (const answer of answers) {
      if (answer.kind !== "promised" || answer.tail.entries.length === 0) continue;
      if (highest === undefined || rank(answer) > rank(highest)) highest = answer;
    }
    return chosen(record, highest);
  };
}

function chosen(
  record: OwnershipRecord,
  answer: Extract<Answer, { kind: "promised" }> | undefined,
): TailChoice<Payload> {
  const { covered } = record;
  if (answer === undefined || answer.tail.have <= covered) return { kind: "bucket", throughSeq: covered };
  const { journal, tail } = answer;
  if (tail.base > covered) return { kind: "broken", journal, base: tail.base, covered };
  return { kind: "tail", journal, throughSeq: tail.have, entries: tail.entries.droppedThrough(covered) };
}

export const choosingLongest = choosingBy(({ tail }) => tail.have);
export const choosingLastEpoch = choosingBy(({ tail }) => lastWrite(tail));
export const choosingLastPromise = choosingBy(({ tail }) =>
  writeOf((tail as { promisedBefore?: number }).promisedBefore ?? 0, tail.have),
);

function lastWrite({ entries, have }: Pick<Held, "entries"> & { have: number }): Write {
  return writeOf(entries.at(entries.length - 1).payload, have);
}

/** C5: the own file is taken, whoever's it is. */
export const trustingOwnFile: Rules["chooseTail"] = (record, answers, ownFile?: OwnFile) =>
  chooseTail(record, answers, ownFile && { ...ownFile, epoch: record.tailEpoch });

/** J4, taken loosely: what is covered is dropped, whoever says so, and nothing else follows from it. */
export const droppingWhatIsCovered: Rules["decideNotice"] = (journal, held, { epoch, covered }) => {
  const base = Math.max(held.base, covered);
  const next = base === held.base ? held : { ...held, base, entries: held.entries.droppedThrough(base) };
  return { held: next, answer: { kind: "noted", journal, epoch, base } };
};
