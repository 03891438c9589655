/**
 * What one simulation is: how large its fleet, what its clients do, what goes wrong and how often, with which settings. All
 * of it follows from the seed; a test that wants a certain situation changes fields of it.
 */
import { SeededRandom } from "../../src/testing/seeded-random.js";

export const WORKLOADS = ["list", "register", "counter", "mixed"] as const;
export type Workload = (typeof WORKLOADS)[number];

/** What goes wrong, and how often in comparison with the others. README.md says what each does. */
export const FAULT_WEIGHTS = {
  crash: 3,
  power_cut: 3,
  crash_between_steps: 6,
  pause: 3,
  cut: 2,
  cut_one_way: 3,
  partition: 1,
  reset: 2,
  slow_link: 2,
  bucket_refuses: 2,
  bucket_loses_requests: 2,
  bucket_loses_answers: 3,
  bucket_lands_late: 3,
  bucket_gone: 1,
  wall_clock_step: 1,
  stop: 1,
  bucket_slow: 2,
  disk_lost: 2,
  clock_leap: 4,
  drain: 1,
} as const;
export type FaultKind = keyof typeof FAULT_WEIGHTS;
export const FAULT_KINDS = Object.keys(FAULT_WEIGHTS) as FaultKind[];
export type FaultWeights = Readonly<Partial<Record<FaultKind, number>>>;

export interface Plan {
  readonly nodes: number;
  readonly workload: Workload;
  readonly objects: number;
  readonly clients: number;
  /** Who watch lists, if there are any. */
  readonly watchers: number;
  /** Objects that set timers, send messages and get commands; the last so many of them are destroyed now and then. */
  readonly doers: number;
  readonly endingDoers: number;
  /** Who deploy and roll back releases while all others call. */
  readonly deployers: number;
  /** Of virtual time, in which things go wrong. */
  readonly stormMs: number;
  /** Kinds without a weight do not happen. */
  readonly faults: FaultWeights;
  /** Longest pause between two of them. */
  readonly strikeMs: number;
  /** Which strikes are left out, by their number from 0; all else stays as it was drawn. */
  readonly skipped: readonly number[];
  /** What a process that was stopped and goes on sees first. */
  readonly resume: "in_order" | "arrivals";
  readonly atomicBucket: boolean;
  /** How fast the nodes' monotonic clocks run. */
  readonly clockRates: readonly number[];
  readonly diskSyncMs: number;
  /** Share of operations that read. */
  readonly readShare: number;
  /** Share of those that may be answered by a copy, on whatever node is asked. */
  readonly replicaShare: number;
  /** Share of the writes that end the object; what is ended forgets its calls' ids, so clients then repeat nothing. */
  readonly destroyShare: number;
  /** Share of a register's writes that fill it: no segment carries those, the bucket gets a snapshot ahead of the journals. */
  readonly fillShare: number;
  readonly settings: Readonly<Record<string, number>>;
}

const SETTINGS = {
  NODE_TTL_MS: 1_000,
  NODE_TTL_MARGIN_MS: 100,
  COVER_MS: 300,
  CLAIM_MS: 2_000,
  LINK_CONNECT_MS: 400,
  LINK_REQUEST_MS: 1_000,
  LINK_HEARTBEAT_MS: 100,
  LINK_BACKOFF_MAX_MS: 300,
  OBJECT_ACK_GATE_MS: 2_000,
  OBJECT_IDLE_MS: 2_000,
  CALL_TIMEOUT_MS: 4_000,
  DRAIN_MS: 2_000,
  UPKEEP_MS: 1_500,
  RELEASE_POLL_MS: 1_000,
  RELEASES_KEPT: 1_000,
  HEALTH_INTERVAL_MS: 0,
  JOURNAL_FILE_BYTES: 65_536,
  OBJECT_FLIGHT_BYTES_MAX: 1_048_576,
  // Wall clocks leap by hours: no event is to be too old for that.
  EVENT_RETENTION_MS: 365 * 24 * 3_600_000,
};

/**
 * No clocks leap where clients read or watch: an answer that no journal vouches for leans on clocks (E4), and where a
 * subscription begins is such an answer (seed 30577).
 */
const { clock_leap: CLOCK_LEAP, ...SANE_FAULTS } = FAULT_WEIGHTS;
const { bucket_slow: _, disk_lost: __, drain: ___, ...FIRST_FAULTS } = SANE_FAULTS;

const WATCH_SETTINGS = {
  // So that no watcher has to hear of a gap, whatever the wall clock does.
  EVENT_RETENTION_MS: 86_400_000,
  // Whoever comes back reads several pages.
  EVENT_PAGE_MAX: 8,
  EVENT_BUFFER_MAX: 4,
};

const DOER_SETTINGS = {
  DELAY_WAIT_MAX_MS: 1_000,
  DELAY_BACKOFF_MS: 200,
  DELAY_BACKOFF_MAX_MS: 1_000,
  // Wall clocks step by hours: no id of a try is forgotten before it is known what became of it.
  CALL_ID_RETENTION_MS: 7 * 24 * 3_600_000,
  DELAY_KEPT_MS: 7 * 24 * 3_600_000,
  DIRECTORY_SHARDS: 2,
  DIRECTORY_BACKOFF_MAX_MS: 1_000,
};

const UNVARIED = {
  clients: 5,
  watchers: 0,
  doers: 0,
  endingDoers: 0,
  deployers: 0,
  stormMs: 12_000,
  faults: FIRST_FAULTS,
  strikeMs: 1_500,
  skipped: [],
  resume: "in_order",
  diskSyncMs: 0.5,
  readShare: 0.3,
  replicaShare: 0,
  destroyShare: 0,
  fillShare: 0,
} as const satisfies Partial<Plan>;

/**
 * @param changes `settings` are added to those that the seed draws, all else takes the place of what it draws
 * @param isVaried without it, as the first simulations were: seeds that found something then still mean the same
 */
export function planOf(seed: number, changes: Partial<Plan> = {}, isVaried = true): Plan {
  const random = new SeededRandom(seed * 7_919 + 17);
  const size = drawSize(random);
  const variety = isVaried ? drawVariety(new SeededRandom(seed * 6_151 + 5), size) : {};
  const plan = { ...size, ...UNVARIED, ...variety, ...changes };
  const clockRates = Array.from({ length: plan.nodes }, () => 1 + (random.fraction() - 0.5) * 0.02);
  return { clockRates, ...plan, settings: { ...size.settings, ...variety.settings, ...changes.settings } };
}

type Size = Pick<Plan, "nodes" | "workload" | "objects" | "settings" | "atomicBucket">;

function drawSize(random: SeededRandom): Size {
  const nodes = 1 + random.below(5);
  const workload = WORKLOADS[random.below(WORKLOADS.length)] as Workload;
  const objects = random.fraction() < 0.5 ? 1 + random.below(3) : 12;
  const settings = {
    ...SETTINGS,
    COMPACT_SEGMENTS_MAX: random.fraction() < 0.5 ? 4 : 64,
    SEGMENT_INLINE_BYTES_MAX: random.fraction() < 0.5 ? 0 : 8_192,
  };
  return { nodes, workload, objects, settings, atomicBucket: random.fraction() < 0.3 };
}

function drawVariety(random: SeededRandom, { workload }: Size): Partial<Plan> {
  const chance = (share: number): boolean => random.fraction() < share;
  const pick = <T>(...choices: readonly T[]): T => choices[random.below(choices.length)] as T;
  const doClocksLeap = chance(0.2);
  const isSwarm = chance(0.5);
  const kinds = isSwarm ? drawSwarm(random) : SANE_FAULTS;
  const mayDestroy = chance(0.3) && (workload === "register" || workload === "counter");
  const variety: Partial<Plan> & Pick<Plan, "settings"> = {
    faults: doClocksLeap ? { ...kinds, clock_leap: CLOCK_LEAP } : kinds,
    readShare: doClocksLeap ? 0 : 0.3,
    destroyShare: mayDestroy ? 0.1 : 0,
    strikeMs: pick(500, 1_500, 1_500),
    resume: pick("in_order", "arrivals"),
    diskSyncMs: pick(0.5, 0.5, 5, 25),
    settings: {
      OBJECT_IDLE_MS: pick(300, 2_000, 2_000),
      COVER_MS: pick(300, 300, 2_000),
      ...(chance(0.3) && { JOURNAL_OBJECTS_MAX: pick(1, 2) }),
      ...(chance(0.2) && { NODE_CLAIMS_MAX: 1 }),
      ...WATCH_SETTINGS,
      ...DOER_SETTINGS,
    },
    watchers: pick(0, 9, 9) * (doClocksLeap ? 0 : 1),
    fillShare: chance(0.15) ? 0.02 : 0,
    // They are at work beside fewer clients.
    ...(chance(1 / 3) && { doers: pick(3, 4), endingDoers: pick(0, 1), clients: 2 }),
  };
  const replicaShare = pick(0, 0.5, 1);
  const copies = chance(0.3) && { REPLICA_COPIES_MAX: pick(1, 2) };
  const deployers = pick(0, 0, 0, 1, 3);
  return { ...variety, replicaShare, deployers, settings: { ...variety.settings, ...copies } };
}

/** A few kinds, each more often: what needs the same thing twice is rare where everything happens (Groce and others, 2012). */
function drawSwarm(random: SeededRandom): FaultWeights {
  const kinds = (Object.keys(SANE_FAULTS) as FaultKind[]).filter(() => random.fraction() < 0.35);
  return Object.fromEntries(
    (kinds.length === 0 ? ["crash" as const] : kinds).map((kind) => [kind, 1 + random.below(6)]),
  );
}
