import { describe, expect, test } from "vitest";
import { CallTraffic } from "../../src/object/call-traffic.js";

/** One call after the other, each asked about while it is open. */
function alone(traffic: CallTraffic, calls: number): boolean[] {
  return Array.from({ length: calls }, () => {
    traffic.begun();
    const isLone = traffic.isLone();
    traffic.ended();
    return isLone;
  });
}

describe("who is alone", () => {
  test("has called a few times with nobody in between", () => {
    expect(alone(new CallTraffic(), 6)).toEqual([false, false, false, true, true, true]);
  });

  test("is it with a read between two writes, and not with many", () => {
    const traffic = new CallTraffic();
    alone(traffic, 4);
    const readsBetween = (count: number): boolean => {
      for (let read = 0; read < count; read++) {
        traffic.begun();
        traffic.ended();
      }
      return alone(traffic, 1)[0] as boolean;
    };
    expect(readsBetween(1)).toBe(true);
    expect(readsBetween(2)).toBe(false);
    expect(readsBetween(1)).toBe(true);
  });

  test("is nobody where two take turns, each of whom calls while the other waits", () => {
    const traffic = new CallTraffic();
    alone(traffic, 4);
    traffic.begun();
    for (let turn = 0; turn < 20; turn++) {
      traffic.begun();
      expect(traffic.isLone()).toBe(false);
      traffic.ended();
      expect(traffic.isLone()).toBe(false);
    }
    traffic.ended();
    expect(alone(traffic, 4).at(-1)).toBe(true);
  });
});
