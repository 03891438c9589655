import { describe, expect, it } from "vitest";
import { RunningReader, RunningRecord } from "../../src/world/watchdog/running-record.js";

function recordAndReader(): { record: RunningRecord; reader: RunningReader } {
  const record = new RunningRecord();
  return { record, reader: new RunningReader(record.shared) };
}

describe("what the main thread is doing, as another thread reads it", () => {
  it("names object, method and statement while they run, and nothing afterwards", () => {
    const { record, reader } = recordAndReader();
    expect(reader.running()).toEqual({});
    record.enter("default/Auction/lot-42", "bid");
    expect(reader.running()).toEqual({ object: "default/Auction/lot-42", entry: "bid" });
    record.statementBegins("SELECT 1");
    expect(reader.running()).toEqual({ object: "default/Auction/lot-42", entry: "bid", statement: "SELECT 1" });
    record.statementEnds();
    record.leave();
    expect(reader.running()).toEqual({});
  });

  it("names a unit by its entry alone", () => {
    const { record, reader } = recordAndReader();
    record.enter("", "unit default/bid");
    expect(reader.running()).toEqual({ entry: "unit default/bid" });
  });

  it("is right for more objects, methods and statements than it has slots, each time they come round", () => {
    const { record, reader } = recordAndReader();
    for (let round = 0; round < 3; round++) {
      for (let index = 0; index < 600; index++) {
        record.enter(`default/Lot/${index}`, `method_${index % 300}`);
        record.statementBegins(`SELECT ${index}`);
        expect(reader.running()).toEqual({
          object: `default/Lot/${index}`,
          entry: `method_${index % 300}`,
          statement: `SELECT ${index}`,
        });
        record.statementEnds();
        record.leave();
      }
    }
  });

  it("keeps the method's name while the statements of one call use up every slot", () => {
    const { record, reader } = recordAndReader();
    record.enter("default/Lot/1", "sweep");
    for (let index = 0; index < 600; index++) {
      record.statementBegins(`SELECT ${index}`);
      expect(reader.running()).toEqual({ object: "default/Lot/1", entry: "sweep", statement: `SELECT ${index}` });
      record.statementEnds();
    }
  });

  it("holds the longest object id whole", () => {
    const { record, reader } = recordAndReader();
    const id = `${"a".repeat(63)}/${"B".repeat(63)}/${"é".repeat(128)}`;
    record.enter(id, "m".repeat(63));
    expect(reader.running()).toEqual({ object: id, entry: "m".repeat(63) });
  });

  it.each([
    ["ASCII", "x", 200],
    ["two bytes", "é", 100],
    ["three bytes", "€", 66],
    ["four bytes", "😀", 50],
  ])("cuts a long statement of %s after 200 bytes, never inside a character", (_name, sign, count) => {
    const { record, reader } = recordAndReader();
    for (const length of [250, 399, 400, 401, 5_000, 60_000]) {
      record.statementBegins(sign.repeat(length));
      expect(reader.running().statement).toBe(`${sign.repeat(count)}...`);
    }
    record.statementBegins(sign.repeat(count));
    expect(reader.running().statement).toBe(sign.repeat(count));
  });

  it("counts beats, passes on whether somebody debugs, and the wish to stop", () => {
    const { record, reader } = recordAndReader();
    record.beat(false);
    expect([reader.beats, reader.isDebugged, reader.isStopped]).toEqual([1, false, false]);
    record.beat(true);
    record.stop();
    expect([reader.beats, reader.isDebugged, reader.isStopped]).toEqual([2, true, true]);
    // Returns at once, or this test never ends.
    reader.sleep(1_000_000);
  });
});
