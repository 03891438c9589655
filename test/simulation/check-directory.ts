/** Whether a directory holds what its objects are: a row for each that is there, and none for those that are gone. */
import type { FoundPage } from "../../src/node-api.js";
import type { Doer } from "./ledger.js";

/** @param node whom it was asked @returns what is wrong, a sentence each */
export function checkDirectory(node: string, { rows }: FoundPage, doers: readonly Doer[]): string[] {
  const faults: string[] = [];
  const found = new Map(rows.map(({ key, row }) => [key, JSON.stringify([row.entries, row.token])]));
  for (const { key, ledger } of doers) {
    const last = ledger.at(-1);
    const due = last && JSON.stringify([ledger.length, last.token]);
    if (found.get(key) !== due)
      faults.push(`through ${node} the row of ${key} is ${found.get(key)}, and has to be ${due}`);
    found.delete(key);
  }
  for (const [key, row] of found) faults.push(`through ${node} there is ${key}: ${row}`);
  return faults;
}
