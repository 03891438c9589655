/** What the drill has found, as a table. */
import { MoonportError } from "../../src/errors.js";
import { DrillBroken } from "./model.js";
import type { Trial } from "./trial.js";

/** Before why a row cannot be tried here, in the place of what was there after. */
export const SKIPPED = "SKIPPED: ";

interface Line {
  readonly name: string;
  readonly trials: Trial[];
  ms: number;
  broken: Error | undefined;
}

export class Report {
  readonly #lines: Line[] = [];

  get trials(): number {
    return this.#lines.reduce((sum, { trials }) => sum + trials.length, 0);
  }

  get hasFailed(): boolean {
    return this.#lines.some(({ broken }) => broken !== undefined);
  }

  /** Says how it went as soon as it is over. */
  async row(name: string, run: (trial: (trial: Trial) => void) => Promise<void>): Promise<void> {
    const line: Line = { name, trials: [], ms: 0, broken: undefined };
    this.#lines.push(line);
    const begunMs = performance.now();
    try {
      await run((trial) => void line.trials.push(trial));
    } catch (error) {
      line.broken = error as Error;
      if (!(error instanceof DrillBroken || error instanceof MoonportError)) throw error;
    } finally {
      line.ms = performance.now() - begunMs;
      console.log(`${verdictOf(line)}  ${name}  (${(line.ms / 1_000).toFixed(1)} s)`);
    }
  }

  /** Between the rows. */
  failed(error: Error): void {
    this.#lines.push({ name: "the drill itself", trials: [], ms: 0, broken: error });
    console.log(error.stack);
  }

  table(): string {
    const head = ["row", "times", "callers heard", "there after", "verdict"];
    const cells = this.#lines.map((line) => [
      line.name,
      String(line.trials.length),
      tally(line.trials.map(({ heard }) => heard)),
      tally(line.trials.map(({ after }) => after)),
      verdictOf(line),
    ]);
    const widths = head.map((title, at) => Math.max(title.length, ...cells.map((row) => (row[at] as string).length)));
    const text = (row: readonly string[]): string =>
      row.map((cell, at) => cell.padEnd(widths[at] as number)).join("  ");
    const lines = [text(head), widths.map((width) => "-".repeat(width)).join("  "), ...cells.map(text)];
    return `\n${lines.map((line) => line.trimEnd()).join("\n")}\n`;
  }
}

function verdictOf({ broken, trials }: Line): string {
  if (broken !== undefined) return `BROKEN: ${broken.message.split("\n")[0]}`;
  return trials.some(({ after }) => after.startsWith(SKIPPED)) ? "skipped" : "kept";
}

function tally(words: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => (count === 1 ? word : `${word} ×${count}`)).join(", ");
}
