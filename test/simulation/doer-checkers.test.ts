/** What judges the doers can itself fail: each checker is shown something that is wrong. */
import { expect, it } from "vitest";
import { checkDirectory } from "./check-directory.js";
import { type AskedCommand, checkCommands, checkMessages, checkSettled } from "./check-messages.js";
import { checkAsked, checkTimers } from "./check-timers.js";
import type { Doer, EntryKind, LedgerEntry } from "./ledger.js";

const CALM_MS = 1_000_000;
const NONE = { timers: [], runs: [] };

function entry(what: EntryKind, token: string, atMs: number, more: Partial<LedgerEntry> = {}): LedgerEntry {
  return { what, token, atMs, dueMs: undefined, done: undefined, other: undefined, ...more };
}

/** Remembers the runs that it wrote down. */
function doer(ledger: readonly LedgerEntry[], key = "d0"): Doer {
  const ran = ledger.filter(({ what }) => what === "rang" || what === "ticked");
  const runs = ran.map(({ token, atMs }, timer) => ({
    timer,
    name: token,
    method: "_ring",
    dueMs: atMs,
    atMs,
    outcome: "done",
  }));
  return { key, isEnding: false, ledger, timers: { timers: [], runs: runs.reverse() } };
}

const set = entry("set", "t1", 0, { dueMs: 100 });

it.each([
  ["never ran", [set]],
  ["ran twice", [set, entry("rang", "t1", 100), entry("rang", "t1", 101)]],
  ["ran early", [set, entry("rang", "t1", 99)]],
  ["ran although it was cancelled", [set, entry("cancel", "t1", 10, { done: true }), entry("rang", "t1", 100)]],
  ["was not there to be cancelled, and was", [set, entry("cancel", "t1", 10, { done: false })]],
  [
    "ran before the time that it was moved to",
    [set, entry("move", "t1", 10, { dueMs: 500, done: true }), entry("rang", "t1", 100)],
  ],
  ["was never set", [entry("rang", "t1", 100)]],
  [
    "recurs, and had stopped long before it was cancelled in calm",
    [
      entry("every", "t2", 0, { dueMs: 2_000, other: "latest" }),
      entry("ticked", "t2", 2_000),
      entry("cancel", "t2", CALM_MS + 1, { done: true }),
    ],
  ],
])("a timer that %s is told", (_, ledger) => {
  expect(checkTimers(doer(ledger), new Map([["t2", 2_000]]), CALM_MS)).not.toEqual([]);
});

it("a run at no time of its plan is told", () => {
  const ledger = [
    entry("every", "t2", 0, { dueMs: 2_000 }),
    entry("ticked", "t2", 2_500),
    entry("cancel", "t2", 2_600, { done: true }),
  ];
  expect(checkTimers(doer(ledger), new Map([["t2", 2_000]]), CALM_MS)).not.toEqual([]);
});

it("timers that did what they were to do are let pass", () => {
  const ledger = [
    set,
    entry("rang", "t1", 100.5),
    entry("every", "t2", 100.5, { dueMs: 2_000, other: "latest" }),
    entry("ticked", "t2", 4_000),
    entry("cancel", "t2", 4_100, { done: true }),
    entry("cancel", "t2", 4_200, { done: false }),
  ];
  expect(checkTimers(doer(ledger), new Map([["t2", 2_000]]), CALM_MS)).toEqual([]);
});

it("what was acknowledged and is missing is told, and what failed and stands there", () => {
  const asked = { key: "d0", token: "t1" };
  expect(checkAsked(doer([]), [{ ...asked, ended: { kind: "ok", value: null } }])).not.toEqual([]);
  expect(checkAsked(doer([set]), [{ ...asked, ended: { kind: "failed", code: "moved" } }])).not.toEqual([]);
  expect(checkAsked(doer([set]), [{ ...asked, ended: { kind: "ok", value: null } }])).toEqual([]);
});

const sent = entry("sent", "m1", 0, { dueMs: 100, other: "d1" });
const took = entry("took", "m1", 120, { other: "default/Doer/d0" });

it.each([
  ["was lost", [sent], []],
  ["came twice", [sent], [took, took]],
  ["came early", [sent], [{ ...took, atMs: 90 }]],
  ["nobody sent", [], [took]],
])("a message that %s is told", (_, from, to) => {
  expect(checkMessages([doer(from), doer(to, "d1")], 0)).not.toEqual([]);
});

it("a message that came once is let pass, and one that was early by no more than clocks differ", () => {
  expect(checkMessages([doer([sent]), doer([took], "d1")], 0)).toEqual([]);
  expect(checkMessages([doer([sent]), doer([{ ...took, atMs: 90 }], "d1")], 20)).toEqual([]);
});

const ok = (value: unknown) => ({ ended: { kind: "ok" as const, value }, tries: 1 });
const send = { kind: "send" as const, dueMs: 100, ...ok(null) };
const cancel = (answer: string) => ({ kind: "cancel" as const, dueMs: undefined, ...ok(answer) });
const command = (...steps: AskedCommand["steps"]): AskedCommand[] => [{ id: "c1", key: "d0", tells: undefined, steps }];
const got = [entry("took", "c1", 120)];

it.each([
  ["never came", command(send), [], "done"],
  ["was taken back, and came", command(send, cancel("done")), got, "cancelled"],
  ["was said to be delivered, and never came", command(send, cancel("delivered")), [], "done"],
  ["was said to be unknown", command(send, cancel("unknown")), got, "done"],
  ["came early", command({ ...send, dueMs: 130 }), got, "done"],
  ["came, and is said to wait", command(send), got, "pending"],
] as const)("a command that %s is told", (_, commands, ledger, state) => {
  expect(checkCommands(commands, [doer(ledger)], new Map([["c1", state]]), 0)).not.toEqual([]);
});

it("commands of which all that was told is so are let pass", () => {
  const done = new Map([["c1", "done"]] as const);
  expect(checkCommands(command(send), [doer(got)], done, 0)).toEqual([]);
  expect(checkCommands(command(send, cancel("delivered")), [doer(got)], done, 0)).toEqual([]);
  expect(checkCommands(command(send, cancel("done")), [doer([])], new Map([["c1", "cancelled"]]), 0)).toEqual([]);
});

it("what waits or was given up in calm is told", () => {
  expect(checkSettled(new Map([["c1", "dead"]]))).not.toEqual([]);
  expect(checkSettled(new Map([["c1", "done"]]))).toEqual([]);
});

it("a row that is missing, that is of before, or whose object is gone is told", () => {
  const page = (...rows: [string, number, string][]) => ({
    rows: rows.map(([key, entries, token]) => ({ key, row: { entries, token } })),
  });
  const doers = [doer([set])];
  expect(checkDirectory("n0", page(["d0", 1, "t1"]), doers)).toEqual([]);
  expect(checkDirectory("n0", page(), doers)).not.toEqual([]);
  expect(checkDirectory("n0", page(["d0", 0, "t0"]), doers)).not.toEqual([]);
  expect(checkDirectory("n0", page(["d0", 1, "t1"]), [{ ...doer([]), timers: NONE }])).not.toEqual([]);
});
