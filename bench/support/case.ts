/** What the benchmark is made of: groups open what their rows need, rows are measured in rounds, floors are rows too. */
import type { Round, RoundBounds } from "./measure.js";

/** How a row compares with what the machine could do at best, measured in the same run. */
export interface Comparison {
  /** `rate`: this row's rate as a share of the floors', done one after the other. `p50`: its median as a multiple of theirs together. */
  readonly figure: "rate" | "p50";
  /** Names of rows. */
  readonly floors: readonly string[];
}

export interface Case {
  /** Unique; what `--only` looks for. */
  readonly name: string;
  readonly isFloor?: boolean;
  readonly against?: readonly Comparison[];
  /** A row of another product's; names the rows of ours that do the same work. */
  readonly peerOf?: readonly string[];
  /** Bounds of one round where the run's own do not fit: fewer calls, or longer for calls that are dear. */
  readonly callsMax?: number;
  readonly msMin?: number;
  round(bounds: RoundBounds): Promise<Round>;
}

/** A figure that is no rate: so much of something. */
export interface Amount {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** After the point, where they are shown. Default 1. */
  readonly digits?: number;
  readonly note: string;
}

/** Of a row with one in flight: its first hundred calls find every cache cold, and a shorter round holds little more. */
export const ONE_IN_FLIGHT = { msMin: 1_500 };

export interface Group {
  readonly cases: readonly Case[];
  /** @param selected the rows that will run */
  open(selected: readonly Case[]): Promise<void>;
  close(): Promise<void>;
}
