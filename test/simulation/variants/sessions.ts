/** Sessions that are over for some and not for others, and answers that rest on them. */
import type { ProcessMarks } from "../../../src/bucket/bucket.js";
import type { FleetView } from "../../../src/shipping/fleet-view.js";
import type { VirtualWorld } from "../../../src/testing/virtual-world.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

const FEW = { nodes: 3, objects: 1, workload: "register", readShare: 0.5 } as const;

export const SESSIONS: Record<string, Variant> = {
  "a read is answered without a look at the session": {
    breaks: "An owner that was stopped and goes on answers reads as if no time had passed (E4).",
    replaces: [
      replacing("object/resident-object", ({ ResidentObject }) => ({
        ResidentObject: class extends ResidentObject {
          constructor(...[context, ...rest]: ConstructorParameters<typeof ResidentObject>) {
            super({ ...context, fleet: alwaysValid(context.fleet) }, ...rest);
          }
        },
      })),
    ],
    plan: { ...FEW, resume: "arrivals", ...only({ pause: 1 }) },
    seed: 1,
    caughtBy: "history",
  },
  "a session is called dead without its time being up": {
    breaks: "Whoever finds a node's record unchanged calls its session dead, whenever that is.",
    replaces: [
      replacing("membership/sightings", ({ Sightings }) => ({
        Sightings: class extends Sightings {
          constructor() {
            super(Number.NEGATIVE_INFINITY);
          }
        },
      })),
    ],
    plan: FEW,
    seed: 1,
    caughtBy: "history",
  },
  "a process that is stopped counts as one that has ended": {
    breaks: "Its mark is said to be free, and others take what it goes on to answer for (M6).",
    replaces: [
      replacing("testing/virtual-marks", ({ VirtualMarks }) => ({
        VirtualMarks: class extends VirtualMarks {
          readonly #worlds: VirtualWorld[] = [];
          override of(world: VirtualWorld): ProcessMarks {
            const marks = super.of(world);
            this.#worlds[Number(marks.hold())] = world;
            const isStopped = (mark: string): boolean => this.#worlds[Number(mark)]?.isStopped === true;
            return { ...marks, hasEnded: (mark) => isStopped(mark) || marks.hasEnded(mark) };
          }
        },
      })),
    ],
    plan: { ...FEW, atomicBucket: true, resume: "arrivals", ...only({ pause: 1 }) },
    seed: 4,
    caughtBy: "history",
  },
  "a session counts from the end of its renewal": {
    breaks: "A renewal is good for a ttl from when its answer came, not from when it was begun.",
    replaces: [replacing("membership/own-session", countingFromTheEnd)],
    plan: {
      ...FEW,
      clients: 12,
      clockRates: [1, 1, 1],
      settings: { NODE_TTL_MARGIN_MS: 10 },
      strikeMs: 800,
      ...only({ bucket_slow: 1 }),
    },
    seed: 1,
    caughtBy: "history",
  },
};

function alwaysValid(fleet: FleetView): FleetView {
  return {
    get session() {
      return fleet.session;
    },
    isValid: () => true,
    get isLeavingToOthers() {
      return fleet.isLeavingToOthers;
    },
    standing: (session) => fleet.standing(session),
    nodeOf: (session) => fleet.nodeOf(session),
    replicasFor: (object) => fleet.replicasFor(object),
    mustRenew: (current) => fleet.mustRenew(current),
    journalOf: (member) => fleet.journalOf(member),
  };
}

function countingFromTheEnd({ OwnSession }: typeof import("../../../src/membership/own-session.js")) {
  class Late extends OwnSession {
    readonly #goodUntilMs: () => number;
    readonly #now: () => number;
    #isStopped = false;

    constructor(options: ConstructorParameters<typeof OwnSession>[0]) {
      const { world, bucket, record, marginMs, startedMs } = options;
      let endedMs = startedMs;
      const noted: typeof bucket = {
        ...bucket,
        write: async (writes) => {
          const outcome = await bucket.write(writes);
          if (outcome.kind === "landed") endedMs = world.clock.monotonicMs();
          return outcome;
        },
        get: (key) => bucket.get(key),
      };
      super({ ...options, bucket: noted });
      this.#goodUntilMs = () => endedMs + record.ttlMs - marginMs;
      this.#now = () => world.clock.monotonicMs();
    }

    override stop(): void {
      this.#isStopped = true;
      super.stop();
    }

    override isValid(): boolean {
      if (!this.#isStopped && this.#now() < this.#goodUntilMs()) return true;
      return super.isValid();
    }
  }
  return { OwnSession: Late };
}
