/** Whether the events of one list are what they were told to be: one an append, numbered without gaps, told at most once. */
import type { EventRow } from "../../src/store/events.js";
import type { ToldEvent } from "./landings.js";

interface Appended {
  readonly value: number;
  readonly place: number;
}

/**
 * @param list as it is in the end
 * @param rows its events, as the bucket holds them in the end
 * @param told what nodes told of it while they ran, in order
 * @returns what is wrong, a sentence each
 */
export function checkEvents(list: readonly number[], rows: readonly EventRow[], told: readonly ToldEvent[]): string[] {
  const faults: string[] = [];
  if (rows.length !== list.length) faults.push(`${rows.length} events stand beside ${list.length} values`);
  for (const [index, { number, data }] of rows.entries()) {
    const { value, place } = data as unknown as Appended;
    if (number !== index + 1) faults.push(`event ${number} stands where ${index + 1} is due`);
    if (place !== index + 1 || value !== list[index]) faults.push(`event ${number} is of ${value} at ${place}`);
  }
  const seen = new Set<number>();
  const lastOf = new Map<string, number>();
  for (const { life, number, data } of told) {
    if (seen.has(number)) faults.push(`event ${number} was told twice, the second time by ${life}`);
    seen.add(number);
    if (number <= (lastOf.get(life) ?? 0)) faults.push(`event ${number} was told by ${life} after a later one`);
    lastOf.set(life, number);
    const { value } = data as unknown as Appended;
    const kept = rows[number - 1]?.data as unknown as Appended | undefined;
    if (kept?.value !== value)
      faults.push(`event ${number} was told by ${life} to be of ${value}, and is of ${kept?.value}`);
  }
  return faults;
}
