/** Timers, messages and commands that are forgotten, or done twice, or of which somebody is told what is not so. */
import type { Entry } from "../../../src/delay/shard-entry.js";
import type { ShardDatabase } from "../../../src/delay/shard-tables.js";
import type { PlainValue } from "../../../src/values.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

type ApplyEntry = (database: ShardDatabase, entry: Entry, atMs: number) => PlainValue;

/** Nobody else is at work. */
const DOERS = { doers: 3, endingDoers: 0, clients: 0, objects: 1, destroyShare: 0 } as const;
const CRASHES = only({ crash_between_steps: 4, crash: 2, power_cut: 1, reset: 1 });

export const OBLIGATIONS: Record<string, Variant> = {
  "a record is written before its object stands in the owing list": {
    breaks: "What obliges is listed, and nobody waits for that before the bucket names it (W1).",
    replaces: [
      replacing("delay/owed-keeper", ({ OwedKeeper }) => ({
        OwedKeeper: class extends OwedKeeper {
          override listed(...owing: Parameters<InstanceType<typeof OwedKeeper>["listed"]>): undefined {
            super.listed(...owing)?.catch(() => {});
          }
        },
      })),
    ],
    plan: {
      ...DOERS,
      nodes: 1,
      strikeMs: 500,
      ...only({ crash_between_steps: 4, crash: 1, bucket_loses_requests: 2 }),
    },
    seed: 8,
    caughtBy: "timers",
  },
  "a message leaves the outbox before whom it is for has it": {
    breaks: "What was sent is forgotten as soon as it is under way (W2).",
    replaces: [
      replacing("delay/outgoing-message", ({ sendMessage }) => ({
        sendMessage: async (...message) => {
          sendMessage(...message).catch(() => {});
        },
      })),
    ],
    plan: { ...DOERS, strikeMs: 500, ...CRASHES },
    seed: 1,
    caughtBy: "messages",
  },
  "who drives a shard after another tries under ids of its own": {
    breaks: "A try whose outcome nobody knows is made again under another call id (W2).",
    replaces: [
      applying((apply) => (database, entry, atMs) => {
        const result = apply(database, entry, atMs);
        const sql = "UPDATE command SET call_id = NULL, call_id_ms = NULL, tries = tries + 1 WHERE doubtful = 1";
        if (entry.kind === "resume") database.sqlExec(sql, []);
        return result;
      }),
    ],
    plan: { ...DOERS, strikeMs: 500, ...CRASHES },
    seed: 1,
    caughtBy: "messages",
  },
  "that a command was delivered is not written down": {
    breaks: "Its next run, or the next try, goes by what stood there before it was tried.",
    replaces: [
      applying((apply) => (database, entry, atMs) => {
        if (entry.kind !== "ended" || entry.outcome.kind !== "done") return apply(database, entry, atMs);
        const sql =
          "UPDATE command SET state = 'retrying', look_ms = ?, tries = tries + 1, call_id = NULL WHERE id = ?";
        return database.sqlExec(sql, [atMs + 5_000, entry.id]).changes;
      }),
    ],
    plan: DOERS,
    seed: 1,
    caughtBy: "messages",
  },
  "the next run follows from when the last one ran": {
    breaks: "A recurring timer is set for its interval after now.",
    replaces: [
      replacing("object/due-time", ({ takeUp }) => ({
        takeUp: (plan, dueMs, nowMs, lateMs) => {
          const taken = takeUp(plan, dueMs, nowMs, lateMs);
          return plan.kind === "every" ? { ...taken, nextMs: nowMs + plan.everyMs } : taken;
        },
      })),
    ],
    plan: DOERS,
    seed: 3,
    caughtBy: "timers",
  },
  "the last word of an object's wake time counts, however old": {
    breaks: "A shard takes an earlier word of an object for its newest (epoch, seq).",
    replaces: [
      applying((apply) => (database, entry, atMs) => {
        if (entry.kind === "wake") database.sqlExec("DELETE FROM wake WHERE object = ?", [entry.object]);
        return apply(database, entry, atMs);
      }),
    ],
    plan: {
      ...DOERS,
      doers: 2,
      nodes: 3,
      strikeMs: 500,
      ...only({ slow_link: 3, reset: 2, bucket_slow: 2, cut_one_way: 2 }),
    },
    seed: 1,
    caughtBy: "timers",
  },
  "a cancel takes back what is being delivered": {
    breaks: "It answers that it is done while a try of the command is under way.",
    replaces: [
      applying((apply) => (database, entry, atMs) => {
        const result = apply(database, entry, atMs);
        if (entry.kind !== "cancel" || result !== "delivering") return result;
        database.sqlExec("UPDATE command SET state = 'cancelled', look_ms = NULL, ended_ms = ? WHERE id = ?", [
          atMs,
          entry.id,
        ]);
        return "done";
      }),
    ],
    plan: { ...DOERS, strikeMs: 500, ...only({ slow_link: 3, crash_between_steps: 3, crash: 2, bucket_slow: 2 }) },
    seed: 6,
    caughtBy: "messages",
  },
  "a cancel is answered by done whenever it comes": {
    breaks: "It does not tell what was delivered from what was taken back.",
    replaces: [
      applying((apply) => (database, entry, atMs) => {
        const result = apply(database, entry, atMs);
        return entry.kind === "cancel" && result === "delivered" ? "done" : result;
      }),
    ],
    plan: DOERS,
    seed: 1,
    caughtBy: "messages",
  },
  "who ends a session does not wake what it owes": {
    breaks: "The owing lists of sessions that died are not read (W1).",
    replaces: [
      replacing("delay/owed-sessions", ({ OwedSessions }) => ({
        OwedSessions: class extends OwedSessions {
          override look = (): void => {};
        },
      })),
    ],
    plan: { ...DOERS, nodes: 1, strikeMs: 500, ...CRASHES },
    seed: 6,
    caughtBy: "timers",
  },
};

function applying(broken: (apply: ApplyEntry) => ApplyEntry): Variant["replaces"][number] {
  return replacing("delay/shard-tables", ({ applyEntry }) => ({ applyEntry: broken(applyEntry) }));
}
