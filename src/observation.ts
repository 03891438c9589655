/** What a node tells whoever watches it: one union, so that logs, `dev` and the demo speak of the same things. */
import type { PlainValue } from "./values.js";

export type Observation =
  /** A flight landed and released its tickets. */
  | {
      readonly kind: "landed";
      readonly object: string;
      readonly epoch: number;
      /** Last seq that the flight carried. */
      readonly seq: number;
      /** The flight's number in this residency, from 1. */
      readonly flight: number;
      readonly ticketsReleased: number;
      /** From the oldest commit it carried to its landing, milliseconds. */
      readonly sinceCommitMs: number;
      readonly bytes: number;
      readonly carried: "segment" | "snapshot";
    }
  /** An event of a class, after its flight landed (G1). */
  | {
      readonly kind: "event";
      readonly object: string;
      readonly number: number;
      readonly name: string;
      readonly data: PlainValue;
    }
  | {
      readonly kind: "class_loaded";
      readonly app: string;
      readonly name: string;
      readonly file: string;
      readonly version: string;
    }
  | {
      readonly kind: "class_failed";
      readonly app: string;
      readonly file: string;
      readonly line?: number;
      readonly message: string;
    }
  | { readonly kind: "class_removed"; readonly app: string; readonly name: string }
  | {
      readonly kind: "unit_loaded";
      readonly app: string;
      readonly name: string;
      readonly file: string;
      readonly version: string;
    }
  | {
      readonly kind: "unit_failed";
      readonly app: string;
      readonly file: string;
      readonly line?: number;
      readonly message: string;
    }
  | { readonly kind: "unit_removed"; readonly app: string; readonly name: string }
  | {
      readonly kind: "module_loaded";
      readonly app: string;
      readonly name: string;
      readonly file: string;
      readonly version: string;
    }
  | {
      readonly kind: "module_failed";
      readonly app: string;
      readonly file: string;
      readonly line?: number;
      readonly message: string;
    }
  | { readonly kind: "module_removed"; readonly app: string; readonly name: string };

export type Observer = (observation: Observation) => void;
