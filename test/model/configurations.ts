/**
 * The worlds that are explored, by name. What each is there for is said in README.md, with how many states it has.
 *
 * Names: nodes, epochs (E), writes (W), and what else may happen in it.
 */
import type { Quorum } from "../../src/cluster/quorum.js";
import type { Scope } from "./rules.js";

const ALONE: Quorum = { copies: 1, acksToLand: 0 };
const PAIR: Quorum = { copies: 2, acksToLand: 2 };
const TRIO: Quorum = { copies: 3, acksToLand: 2 };

const two = { nodes: 2, start: PAIR, quorums: [PAIR] };
const three = { nodes: 3, start: TRIO, quorums: [TRIO] };
const four = { ...three, nodes: 4 };
/** Other settings of OBJECT_QUORUM. */
function landingAt(acksToLand: number, copies = 3) {
  const quorum: Quorum = { copies, acksToLand };
  return { nodes: copies, start: quorum, quorums: [quorum] };
}
/** Nodes come and go between one and two, and up to three. */
const upToTwo = { nodes: 2, start: PAIR, quorums: [ALONE, PAIR] };
const upToThree = { nodes: 3, start: TRIO, quorums: [ALONE, PAIR, TRIO] };

/** Small ones, explored whole in every test run. */
export const SMALL = {
  "3n-E2W2": { ...three, epochs: 2, writes: 2, oldCoverage: true, strayAnswers: true },
  "3n-E3W1": { ...three, epochs: 3, writes: 1, oldCoverage: true },
  "2n-E3W2": { ...two, epochs: 3, writes: 2, oldCoverage: true },
  "3n-E2W3": { ...three, epochs: 2, writes: 3 },
  "3n-E3W2": { ...three, epochs: 3, writes: 2 },
  "3n-W1-E2W2": { ...landingAt(1), epochs: 2, writes: 2 },
  "3n-W3-E2W2": { ...landingAt(3), epochs: 2, writes: 2 },
  "4n-E2W1-set": { ...four, epochs: 2, writes: 1, setChanges: 1 },
  "2n-upto2-E2W2-set": { ...upToTwo, epochs: 2, writes: 2, setChanges: 1 },
  "2n-upto2-E2W1-set2-from1": { ...upToTwo, start: ALONE, epochs: 2, writes: 1, setChanges: 2 },
  "3n-E2W2-disk": { ...three, epochs: 2, writes: 2, disks: 1 },
  "2n-E3W2-disk": { ...two, epochs: 3, writes: 2, disks: 1 },
  "3n-E2W1-disk2": { ...three, epochs: 2, writes: 1, disks: 2 },
  "3n-E2W2-release": { ...three, epochs: 2, writes: 2, releases: 1 },
  "4n-E2W1-release": { ...four, epochs: 2, writes: 1, releases: 1 },
  "2n-E2W2-release2-thaw": { ...two, epochs: 2, writes: 2, releases: 2, thaws: true },
  "3n-E2W2-forgetful": { ...three, epochs: 2, writes: 2, forgetful: true },
  "2n-E4W1-forgetful-late": { ...two, epochs: 4, writes: 1, forgetful: true, latePromises: true },
  "3n-E3W1-late": { ...three, epochs: 3, writes: 1, latePromises: true },
  "3n-E2W2-answers": { ...three, epochs: 2, writes: 2, lateAnswers: true },
  "2n-upto2-E2W1-set-answers": { ...upToTwo, epochs: 2, writes: 1, setChanges: 1, lateAnswers: true },
  "3n-E2W2-flights": { ...three, epochs: 2, writes: 2, longFlights: true },
  "2n-E2W3-flights": { ...two, epochs: 2, writes: 3, longFlights: true },
  "2n-E3W2-files": { ...two, epochs: 3, writes: 2, ownFiles: true },
} as const satisfies Record<string, Scope>;

/** Larger ones, by `npm run model -- --config NAME`. */
export const LARGE = {
  "3n-E3W3": { ...three, epochs: 3, writes: 3 },
  "3n-E4W2": { ...three, epochs: 4, writes: 2 },
  "3n-E2W4": { ...three, epochs: 2, writes: 4 },
  "3n-E2W3-old": { ...three, epochs: 2, writes: 3, oldCoverage: true },
  "2n-E3W3-old": { ...two, epochs: 3, writes: 3, oldCoverage: true },
  "3n-W1-E3W2": { ...landingAt(1), epochs: 3, writes: 2 },
  "3n-W3-E3W2": { ...landingAt(3), epochs: 3, writes: 2 },
  "5n-W3-E2W2": { ...landingAt(3, 5), epochs: 2, writes: 2 },
  "4n-E3W2": { ...four, epochs: 3, writes: 2 },
  "4n-E2W2-set": { ...four, epochs: 2, writes: 2, setChanges: 1 },
  "4n-E3W1-set": { ...four, epochs: 3, writes: 1, setChanges: 1 },
  "3n-E2W2-disk-set": { ...three, epochs: 2, writes: 2, disks: 1, setChanges: 1 },
  "3n-E3W2-disk": { ...three, epochs: 3, writes: 2, disks: 1 },
  "2n-E4W2-disk": { ...two, epochs: 4, writes: 2, disks: 1 },
  "2n-upto2-E3W1-set2-from1": { ...upToTwo, start: ALONE, epochs: 3, writes: 1, setChanges: 2 },
  "2n-upto2-E3W2-set": { ...upToTwo, epochs: 3, writes: 2, setChanges: 1 },
  "2n-upto2-E2W2-set-release": { ...upToTwo, epochs: 2, writes: 2, setChanges: 1, releases: 1, thaws: true },
  "3n-upto3-E2W1-set-from1": { ...upToThree, start: ALONE, epochs: 2, writes: 1, setChanges: 1 },
  "3n-upto3-E2W2-set": { ...upToThree, epochs: 2, writes: 2, setChanges: 1 },
  "3n-upto3-E2W1-set-release": { ...upToThree, epochs: 2, writes: 1, setChanges: 1, releases: 1 },
  "2n-upto2-E3W1-set-release": { ...upToTwo, epochs: 3, writes: 1, setChanges: 1, releases: 1, thaws: true },
  "4n-E2W2-release": { ...four, epochs: 2, writes: 2, releases: 1 },
  "4n-E3W1-release": { ...four, epochs: 3, writes: 1, releases: 1 },
  "3n-E3W2-release-thaw": { ...three, epochs: 3, writes: 2, releases: 1, thaws: true },
  "3n-E3W2-forgetful-late": { ...three, epochs: 3, writes: 2, forgetful: true, latePromises: true },
  "3n-E4W1-forgetful-late": { ...three, epochs: 4, writes: 1, forgetful: true, latePromises: true },
  "3n-E3W2-answers": { ...three, epochs: 3, writes: 2, lateAnswers: true },
  "4n-E2W1-set-answers": { ...four, epochs: 2, writes: 1, setChanges: 1, lateAnswers: true },
  "3n-E2W3-flights": { ...three, epochs: 2, writes: 3, longFlights: true },
  "3n-E3W2-flights": { ...three, epochs: 3, writes: 2, longFlights: true },
  "3n-E3W2-files": { ...three, epochs: 3, writes: 2, ownFiles: true },
} as const satisfies Record<string, Scope>;

/** Too large to be explored whole: for random walks. */
export const WIDE = {
  "4n-upto3-E5W5": {
    ...four,
    quorums: [ALONE, PAIR, TRIO],
    epochs: 5,
    writes: 5,
    setChanges: 3,
    disks: 2,
    releases: 2,
    oldCoverage: true,
    thaws: true,
  },
  "3n-E5W5-messages": {
    ...three,
    epochs: 5,
    writes: 5,
    setChanges: 2,
    disks: 1,
    releases: 1,
    oldCoverage: true,
    longFlights: true,
    lateAnswers: true,
    latePromises: true,
    strayAnswers: true,
  },
  "2n-upto2-E5W5-from1": {
    ...upToTwo,
    start: ALONE,
    epochs: 5,
    writes: 5,
    setChanges: 3,
    releases: 2,
    oldCoverage: true,
    lateAnswers: true,
    thaws: true,
  },
  "4n-upto3-E4W4-forgetful": {
    ...four,
    quorums: [ALONE, PAIR, TRIO],
    epochs: 4,
    writes: 4,
    setChanges: 2,
    disks: 1,
    releases: 1,
    forgetful: true,
    latePromises: true,
    ownFiles: true,
  },
} as const satisfies Record<string, Scope>;

export type SmallName = keyof typeof SMALL;
