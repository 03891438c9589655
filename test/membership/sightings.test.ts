import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NodeRecord } from "../../src/membership/contract.js";
import type { Phase } from "../../src/membership/node-record.js";
import type { Found, Reading } from "../../src/membership/reading.js";
import { Sightings } from "../../src/membership/sightings.js";

const TTL = 100;

function record(session: string, node = "a"): NodeRecord {
  return { node, session, address: "ws://a", zone: "z", weight: 1, version: "1", journal: "j", ttlMs: TTL };
}

function found(
  version: string,
  session: string,
  begunMs: number,
  seenMs = begunMs,
  phase: Phase = { kind: "open" },
): Found {
  return { stored: { record: record(session), phase, rid: version }, version, begunMs, seenMs };
}

function reading(all: Readonly<Record<string, Found>>): Reading {
  const begunMs = Math.min(...Object.values(all).map((one) => one.begunMs));
  const keys = new Set(Object.keys(all));
  return { begunMs, keys, found: new Map(Object.entries(all)), absent: new Set(), error: undefined };
}

/** A renewal that was begun, and landed a while later. */
interface Renewal {
  readonly startedMs: number;
  readonly landedMs: number;
}

const renewals = fc
  .array(fc.record({ pauseMs: fc.nat(TTL), tookMs: fc.nat(TTL / 2) }), { minLength: 1, maxLength: 6 })
  .map((steps) => {
    let atMs = 0;
    return steps.map(({ pauseMs, tookMs }): Renewal => {
      const startedMs = atMs + pauseMs;
      atMs = startedMs + tookMs;
      return { startedMs, landedMs: atMs };
    });
  });

/** One after the other: each is begun, takes effect, and is seen. */
const readings = fc
  .array(fc.record({ pauseMs: fc.nat(TTL), thereMs: fc.nat(TTL / 2), backMs: fc.nat(TTL / 2) }), { maxLength: 12 })
  .map((steps) => {
    let atMs = 0;
    return steps.map(({ pauseMs, thereMs, backMs }) => {
      const begunMs = atMs + pauseMs;
      const effectMs = begunMs + thereMs;
      atMs = effectMs + backMs;
      return { begunMs, effectMs, seenMs: atMs };
    });
  });

describe("what is seen of a session", () => {
  it("proves it dead only when its time was up before the record was read, however long requests take", () => {
    let deaths = 0;
    fc.assert(
      fc.property(renewals, readings, (written, read) => {
        // No margin: on one clock nothing may depend on it.
        const sightings = new Sightings(0);
        for (const { begunMs, effectMs, seenMs } of read) {
          const version = written.findLastIndex(({ landedMs }) => landedMs <= effectMs);
          const last = written[version];
          if (last === undefined) continue;
          const ended = sightings.note(reading({ k: found(`${version}`, "s", begunMs, seenMs) }));
          if (sightings.known("s") === "live") continue;
          expect(last.startedMs + TTL).toBeLessThanOrEqual(effectMs);
          expect(ended.length).toBe(1);
          deaths += 1;
          return;
        }
      }),
      { numRuns: 3_000, seed: 20260105 },
    );
    expect(deaths).toBeGreaterThan(100);
  });

  it("proves it dead as soon as a reading began later than ttl + margin after the first", () => {
    const sightings = new Sightings(10);
    sightings.note(reading({ k: found("1", "s", 0, 5) }));
    expect(sightings.provableFromMs()).toBe(115);
    sightings.note(reading({ k: found("1", "s", 115, 300) }));
    expect(sightings.known("s")).toBe("live");
    expect(sightings.note(reading({ k: found("1", "s", 116, 300) }))).toEqual([record("s")]);
    expect(sightings.known("s")).toBe("dead");
    expect(sightings.living()).toEqual([]);
    expect(sightings.provableFromMs()).toBeUndefined();
  });

  it("stays dead when a renewal lands after its end", () => {
    const sightings = new Sightings(10);
    sightings.note(reading({ k: found("1", "s", 0) }));
    sightings.note(reading({ k: found("1", "s", 200) }));
    expect(sightings.note(reading({ k: found("2", "s", 210) }))).toEqual([]);
    expect(sightings.known("s")).toBe("dead");
    for (let other = 0; other < 2_000; other++) sightings.noteEnded(`other-${other}`);
    sightings.note(reading({ k: found("3", "s", 220) }));
    expect(sightings.known("s")).toBe("dead");
  });

  it("ends when it says so, when another stands in its place, and when its record is gone; once", () => {
    const sightings = new Sightings(10);
    const three = (begunMs: number): Record<string, Found> => ({
      "1": found("1", "s1", begunMs),
      "2": found("1", "s2", begunMs),
      "3": found("1", "s3", begunMs),
    });
    expect(sightings.note(reading(three(0)))).toEqual([]);
    const after = {
      "1": found("2", "s1", 1, 1, { kind: "ended" }),
      "2": found("2", "s4", 1),
    };
    expect(sightings.note(reading(after)).map(({ session }) => session)).toEqual(["s1", "s2", "s3"]);
    expect(sightings.note(reading(after))).toEqual([]);
    expect(sightings.living().map(({ session }) => session)).toEqual(["s4"]);
    expect(["s1", "s2", "s3"].map((session) => sightings.known(session))).toEqual(["dead", "dead", "dead"]);
  });

  it("says nothing of what could not be read", () => {
    const sightings = new Sightings(10);
    sightings.note(reading({ k: found("1", "s", 0) }));
    const none = { found: new Map(), absent: new Set<string>(), error: undefined, begunMs: 500 };
    expect(sightings.note({ ...none, keys: undefined })).toEqual([]);
    expect(sightings.note({ ...none, keys: new Set(["k"]) })).toEqual([]);
    expect(sightings.known("s")).toBe("live");
    expect(sightings.note({ ...none, keys: new Set(["k"]), absent: new Set(["k"]) })).toEqual([record("s")]);
  });

  it("that is closing lives on until its time is up", () => {
    const sightings = new Sightings(10);
    sightings.note(reading({ k: found("1", "s", 0) }));
    sightings.note(reading({ k: found("2", "s", 50, 50, { kind: "closing", by: "t" }) }));
    expect(sightings.known("s")).toBe("live");
    sightings.note(reading({ k: found("2", "s", 161) }));
    expect(sightings.known("s")).toBe("dead");
  });
});
