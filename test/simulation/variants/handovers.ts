/** Objects that go to another node, and something of them does not, or not in its time. */
import type { ObjectIdentity } from "../../../src/identity.js";
import type { Claim } from "../../../src/shipping/claim.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/** Nodes come and go in order, under more calls than usual. */
const RESTARTS = { nodes: 3, clients: 10, ...only({ stop: 4, drain: 4 }), strikeMs: 500 };

export const HANDOVERS: Record<string, Variant> = {
  "an object is released before all of it has landed": {
    breaks: "The record says that the bucket has everything while journals alone have some of it (O4).",
    replaces: [
      replacing("object/resident-object", ({ ResidentObject }) => {
        class Hasty extends ResidentObject {
          override async leave(): Promise<void> {}
          override tryLeave(): boolean {
            return true;
          }
        }
        return { ResidentObject: Hasty };
      }),
    ],
    plan: { ...RESTARTS, objects: 3, settings: { COVER_MS: 2_000 } },
    seed: 1,
    caughtBy: "history",
  },
  "the owner serves on while its clean release is under way": {
    breaks: "What it commits meanwhile stands in journals that nobody asks any more (O4).",
    replaces: [
      replacing("shipping/claims", ({ Claims }) => {
        class Clinging extends Claims {
          readonly #kept = new Map<string, Claim>();
          override async release(object: ObjectIdentity): Promise<void> {
            const claim = super.held(object);
            if (claim !== undefined) this.#kept.set(object.id, claim);
            await super.release(object);
            this.#kept.delete(object.id);
          }
          override held(object: ObjectIdentity): Claim | undefined {
            return super.held(object) ?? this.#kept.get(object.id);
          }
          override async claim(object: ObjectIdentity): Promise<Claim> {
            return this.#kept.get(object.id) ?? (await super.claim(object));
          }
        }
        return { Claims: Clinging };
      }),
      replacing("object/objects", ({ Objects }) => {
        class Unheld extends Objects {
          override moving(): undefined {}
        }
        return { Objects: Unheld };
      }),
    ],
    plan: { ...RESTARTS, objects: 1 },
    seed: 1,
    caughtBy: "history",
  },
  "what is claimed away from its home stays there": {
    breaks: "Objects move when the ring changes, and at no other time.",
    replaces: [
      replacing("fleet/handover", ({ Handover }) => {
        class Content extends Handover {
          override claimed(): void {}
        }
        return { Handover: Content };
      }),
      replacing("object/objects", ({ Objects }) => {
        class Unheld extends Objects {
          override moving(): undefined {}
        }
        return { Objects: Unheld };
      }),
    ],
    plan: { ...RESTARTS, objects: 12 },
    seed: 1,
    caughtBy: "placed",
  },
};
