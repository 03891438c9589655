/** What the drill and the process that started it (main.ts) say to each other. */

/** The drill is to end, and leave nothing behind. */
export interface EndMessage {
  readonly end: NodeJS.Signals;
}

/** DRILL_APART says this, or why not. */
export const APART = "yes";

/** @throws Error saying why the drill has no namespaces of its own, if it has none */
export function assertApart(): void {
  const { DRILL_APART: told = "no namespaces of its own: main.ts makes them" } = process.env;
  if (told !== APART) throw new Error(told);
}
