/** An owner's steps: commits, CASes of every kind, what becomes known of them, and shipping. */
import type { Attempt } from "../../src/cluster/ownership.js";
import type { Model } from "./rules.js";
import { shipping } from "./shipping-steps.js";
import { noted, replicaSets, type Sink, settled, withOwner } from "./sink.js";
import { committedSeq, isOwner, type ModelState, type Owner, sessionOf, type Write, writeOf } from "./state.js";

export function owners(model: Model, state: ModelState, sink: Sink): void {
  for (const owner of state.claimants) {
    if (!isOwner(owner)) continue;
    if (owner.takeover) lateTakeover(model, state, owner, sink);
    if (owner.unlearned) learn(model, state, owner, sink);
    if (owner.setChange || owner.release) readBack(model, state, owner, sink);
    if (owner.kind === "serving") serve(model, state, owner, sink);
    if (owner.kind === "frozen" && model.scope.thaws && isCurrent(state, owner)) {
      covers(model, state, owner, committedSeq(owner), "e$1 thaws: covers through $2", sink);
    }
    if (owner.setChange?.on === state.version) landSetChange(model, state, owner, owner.setChange, sink);
    if (owner.release?.on === state.version) landRelease(model, state, owner, owner.release, sink);
    shipping(model, state, owner, sink);
  }
}

function serve(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const { scope } = model;
  const { spent, log } = state;
  const { epoch } = owner;
  if (spent.writes < scope.writes) {
    const next = withOwner(state, { ...owner, committed: owner.committed + 1 });
    const writes = { ...spent, writes: spent.writes + 1 };
    sink.step(settled(model, { ...next, spent: writes }), "e$1 commits seq $2", epoch, committedSeq(owner) + 1);
  }
  if (!isCurrent(state, owner)) return;
  for (let seq = log.length + 1; seq <= committedSeq(owner); seq++) {
    covers(model, state, owner, seq, "e$1 covers through $2", sink);
  }
  if (owner.setChange !== undefined || owner.release !== undefined) return;
  if (spent.setChanges < (scope.setChanges ?? 0)) sendSetChanges(model, state, owner, sink);
  if (spent.releases < (scope.releases ?? 0)) sendRelease(model, state, owner, sink);
}

/** Whether a CAS of its own would win: it knows the version that stands. */
function isCurrent({ version }: ModelState, { known, unlearned, takeover }: Owner): boolean {
  return known.version === version && unlearned === undefined && takeover === undefined;
}

function me({ epoch }: Owner): { session: string; epoch: number } {
  return { session: sessionOf(epoch), epoch };
}

function covers(model: Model, state: ModelState, owner: Owner, seq: number, what: string, sink: Sink): void {
  const rid = `cover of version ${state.version}`;
  const next = model.rules.cover(owner.known.record, me(owner), rid, seq);
  if (next.kind === "refused") return;
  const attempt = { on: state.version, record: next.record };
  const applied = apply(state, owner, attempt);
  sink.step(settled(model, withOwner(applied, known(model, owner, attempt))), what, owner.epoch, seq);
  sink.step(
    settled(model, withOwner(applied, { ...owner, unlearned: attempt })),
    `${what}; unanswered`,
    owner.epoch,
    seq,
  );
}

/** The bucket once the attempt has landed, with the writes that its record says are covered. */
function apply(state: ModelState, { epoch }: Owner, { record }: Attempt<number>): ModelState {
  const log: Write[] = [...state.log];
  while (log.length < record.covered) log.push(writeOf(epoch, log.length + 1));
  return { ...state, record, version: state.version + 1, log };
}

/** An owner that knows that its attempt won. Every other one of its own has lost with that. */
function known({ rules }: Model, owner: Owner, { on, record }: Attempt<number>): Owner {
  return {
    ...owner,
    kind: rules.standing(record, me(owner)) === "serving" ? "serving" : owner.kind,
    known: { version: (on ?? 0) + 1, record },
    book: noted(owner.book, (book) => rules.noteWon(book, record)),
    unlearned: undefined,
    setChange: undefined,
    release: undefined,
  };
}

function learn(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const { unlearned, epoch } = owner;
  if (unlearned === undefined) return;
  const next = withOwner(state, known(model, owner, unlearned));
  sink.step(settled(model, next), "e$1 learns that its CAS won: covers $2", epoch, unlearned.record.covered);
}

/** O5: the owner looks at what stands there, and takes from it what it proves. */
function readBack(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const { resolve, standing } = model.rules;
  const found = { version: state.version, record: state.record };
  for (const attempt of [owner.setChange, owner.release]) {
    if (attempt === undefined) continue;
    const resolution = resolve(attempt, found);
    if (resolution === "landed" && attempt === owner.setChange) {
      const next = withOwner(state, known(model, owner, attempt));
      sink.step(settled(model, next), "e$1 finds its set change", owner.epoch);
    }
    if (resolution !== "superseded" || standing(state.record, me(owner)) !== "serving") continue;
    // By another CAS of its own, whose record it then knows: that is how it learns of that one.
    if (owner.unlearned !== undefined && resolve(owner.unlearned, found) === "landed") continue;
    takeForFailed(model, state, owner, attempt, sink);
  }
}

/** Never happens by our rules: the record is its own, and no attempt of its own made it. */
function takeForFailed(model: Model, state: ModelState, owner: Owner, attempt: Attempt<number>, sink: Sink): void {
  if (attempt === owner.setChange && owner.book.unresolved !== undefined) {
    const book = noted(owner.book, (copy) => {
      copy.unresolved = undefined;
    });
    const next = withOwner(state, { ...owner, book });
    sink.step(settled(model, next), "e$1 takes its set change for failed", owner.epoch);
  }
  if (attempt === owner.release && owner.kind === "frozen") {
    const next = withOwner(state, { ...owner, kind: "serving" });
    sink.step(settled(model, next), "e$1 takes its release for failed and goes on", owner.epoch);
  }
}

function sendSetChanges(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const { rules } = model;
  const setChanges = { ...state.spent, setChanges: state.spent.setChanges + 1 };
  const tries = replicaSets(model, state).flatMap((replicas) =>
    progresses(state, owner).map((progress) => ({ replicas, progress })),
  );
  for (const { replicas, progress } of tries) {
    const rid = `set of version ${state.version}`;
    const next = rules.changeSet(owner.known.record, me(owner), rid, replicas, progress);
    if (next.kind === "refused") continue;
    const { record } = next;
    const book = noted(owner.book, (copy) => rules.noteSetSent(copy, record));
    const sent = withOwner(state, { ...owner, book, setChange: { on: state.version, record } });
    const { copies } = replicas.quorum;
    sink.step(
      settled(model, { ...sent, spent: setChanges }),
      "e$1 sends a set of $2, covering $3",
      owner.epoch,
      copies,
      record.covered,
    );
  }
}

function landSetChange(model: Model, state: ModelState, owner: Owner, attempt: Attempt<number>, sink: Sink): void {
  const next = withOwner(apply(state, owner, attempt), { ...owner, unlearned: attempt });
  sink.step(settled(model, next), "the bucket applies e$1's set change", owner.epoch);
}

/** It asks for what covers all, and for what leaves something: the rules are there to refuse that. */
function progresses({ log }: ModelState, owner: Owner): { covered: number; committed: number }[] {
  const committed = committedSeq(owner);
  const all = { covered: committed, committed };
  return log.length < committed ? [all, { covered: log.length, committed }] : [all];
}

function sendRelease(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const rid = `release of version ${state.version}`;
  for (const progress of progresses(state, owner)) {
    const next = model.rules.releaseClean(owner.known.record, me(owner), rid, progress);
    if (next.kind === "refused") continue;
    const frozen: Owner = { ...owner, kind: "frozen", release: { on: state.version, record: next.record } };
    const spent = { ...state.spent, releases: state.spent.releases + 1 };
    const what = "e$1 freezes and sends its release, covering $2";
    sink.step(settled(model, { ...withOwner(state, frozen), spent }), what, owner.epoch, next.record.covered);
  }
}

function landRelease(model: Model, state: ModelState, owner: Owner, attempt: Attempt<number>, sink: Sink): void {
  const after: Owner = { ...owner, kind: owner.kind === "frozen" ? "ended" : owner.kind, release: undefined };
  const next = withOwner(apply(state, owner, attempt), after);
  sink.step(settled(model, next), "the bucket applies e$1's release", owner.epoch);
}

function lateTakeover(model: Model, state: ModelState, owner: Owner, sink: Sink): void {
  const { takeover, epoch } = owner;
  if (takeover === undefined || takeover.attempt.on !== state.version) return;
  const { record } = takeover.attempt;
  const landed = { ...state, record, version: state.version + 1, log: takeover.log };
  sink.step(
    settled(model, withOwner(landed, { ...owner, takeover: undefined })),
    "the bucket applies e$1's CAS2",
    epoch,
  );
}
