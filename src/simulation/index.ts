/** `moonport/testing`: a fleet of real nodes in one process, under virtual time and from one seed, with your classes. */
export type { AppSource } from "../app-source.js";
export { identityOf } from "../identity.js";
export { SeededRandom } from "../testing/seeded-random.js";
export { type LatencyMs, SimulatedNetwork } from "../testing/simulated-network.js";
export { VirtualTime } from "../testing/virtual-time.js";
export { VirtualWorld } from "../testing/virtual-world.js";
export { appIn } from "./app-in.js";
export {
  type CrashOptions,
  SimulatedFleet,
  type SimulatedFleetOptions,
  SimulatedNode,
  type StartOptions,
} from "./simulated-fleet.js";
