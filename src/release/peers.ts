/** What nodes of a fleet ask each other about releases. */
import type { MigratedObject, ServedApp } from "./contract.js";
import type { MigrationLimit } from "./record.js";

export type ReleaseQuestion =
  /** Compile what is about to be deployed, and say what does not load. */
  | { readonly kind: "prepare"; readonly app: string; readonly bundle: string; readonly bytes: Uint8Array }
  /** Look for the current release, serve it, and say what you serve. */
  | { readonly kind: "look"; readonly app: string }
  /** What do you serve? */
  | { readonly kind: "standing"; readonly app: string }
  /** Which of your objects have applied more migrations than that? */
  | { readonly kind: "migrated"; readonly app: string; readonly limits: readonly MigrationLimit[] };

export interface Prepared {
  readonly faults: readonly { readonly file: string; readonly message: string }[];
}

export interface MigratedAnswer {
  readonly objects: readonly MigratedObject[];
  readonly count: number;
}

export interface ReleaseAnswers {
  readonly prepare: Prepared;
  readonly look: ServedApp;
  readonly standing: ServedApp;
  readonly migrated: MigratedAnswer;
}

export interface ReleasePeers {
  /** This node. */
  readonly self: string;
  /** Those that live, without this one, and what their records say that they serve. */
  others(): readonly { readonly node: string; readonly releases: readonly ServedApp[] }[];
  /** @throws MoonportError where the node does not answer, `node_unreachable`, `link_broken` and so on */
  ask<Kind extends ReleaseQuestion["kind"]>(
    node: string,
    question: Extract<ReleaseQuestion, { kind: Kind }>,
  ): Promise<ReleaseAnswers[Kind]>;
}
