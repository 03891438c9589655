/**
 * Whether a history of appends and readings of one list is linearizable. Values are unique and the list only grows, so no search is
 * needed: the longest reading is the order of all, and each operation has to fit into it in real time.
 */
import type { Recorded } from "./history.js";

/** @returns what is wrong, a sentence each; empty when it is linearizable */
export function checkList(history: readonly Recorded[]): readonly string[] {
  const faults: string[] = [];
  const readings = history.flatMap((one) => {
    if (one.operation.kind !== "list" || one.ended.kind !== "ok") return [];
    return [{ one, list: one.ended.value as readonly number[] }];
  });
  const final = readings.reduce<readonly number[]>((best, { list }) => (list.length > best.length ? list : best), []);
  for (const { one, list } of readings) {
    const at = list.findIndex((value, index) => final[index] !== value);
    if (at >= 0) faults.push(`${timeOf(one)}: read ${list[at]} at place ${at}, another reading has ${final[at]} there`);
  }
  const placeOf = new Map(final.map((value, place) => [value, place]));
  if (placeOf.size !== final.length) faults.push("a value stands in the list twice");
  const appends = history.filter((one) => one.operation.kind === "append");
  const known = new Set(appends.map(({ operation }) => (operation as { value: number }).value));
  for (const value of final) if (!known.has(value)) faults.push(`${value} was read and never appended`);
  for (const one of appends) faults.push(...checkAppend(one, placeOf, readings));
  // Two readings, one after the other: the later one is no shorter.
  const byEnd = [...readings].sort((left, right) => left.one.endedAt - right.one.endedAt);
  const byBegin = [...readings].sort((left, right) => left.one.begunAt - right.one.begunAt);
  let ended = 0;
  let longest = 0;
  for (const { one, list } of byBegin) {
    while (ended < byEnd.length && (byEnd[ended] as (typeof byEnd)[number]).one.endedAt < one.begunAt) {
      longest = Math.max(longest, (byEnd[ended] as (typeof byEnd)[number]).list.length);
      ended++;
    }
    if (list.length < longest) faults.push(`${timeOf(one)}: read ${list.length} values after ${longest} had been read`);
  }
  return faults;
}

interface Reading {
  readonly one: Recorded;
  readonly list: readonly number[];
}

function checkAppend(one: Recorded, placeOf: ReadonlyMap<number, number>, readings: readonly Reading[]): string[] {
  const { value } = one.operation as { value: number };
  const place = placeOf.get(value);
  const faults: string[] = [];
  if (one.ended.kind === "failed" && place !== undefined) {
    faults.push(`${timeOf(one)}: the append of ${value} failed with ${one.ended.code}, and it was read`);
  }
  if (one.ended.kind === "ok") {
    // The reply is the list's length after the append.
    const length = one.ended.value as number;
    if (place !== undefined && place !== length - 1) {
      faults.push(`${timeOf(one)}: ${value} was said to be at place ${length - 1} and was read at ${place}`);
    }
    for (const reading of readings) {
      if (reading.one.begunAt > one.endedAt && reading.list.length < length) {
        faults.push(`${timeOf(reading.one)}: ${value}, acknowledged at ${one.endedMs} ms, is missing`);
        break;
      }
    }
  }
  for (const reading of readings) {
    if (place !== undefined && reading.one.endedAt < one.begunAt && reading.list.length > place) {
      faults.push(`${timeOf(reading.one)}: ${value} was read before its append began`);
    }
  }
  return faults;
}

function timeOf({ object, begunMs, endedMs, client }: Recorded): string {
  return `${object}, client ${client}, ${begunMs} to ${endedMs} ms`;
}
