/** `npm run sim`: simulations by hand. */
import { Command, InvalidArgumentError } from "commander";
import { WORKLOADS, type Workload } from "./plan.js";
import { type SimulationResult, simulate } from "./simulate.js";

const whole = (text: string): number => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0) throw new InvalidArgumentError("a whole number");
  return number;
};
const range = (text: string): [number, number] => {
  const [, from, to] = /^(\d+)\.\.(\d+)$/.exec(text) ?? [];
  if (from === undefined || to === undefined) throw new InvalidArgumentError("two numbers: 1..300");
  return [Number(from), Number(to)];
};

interface Flags {
  readonly seed?: number;
  readonly seeds?: [number, number];
  readonly nodes?: number;
  readonly workload?: Workload;
  readonly objects?: number;
  readonly watchers?: number;
  readonly deployers?: number;
  readonly faults: boolean;
  readonly replicas?: number;
  readonly doers?: number;
  readonly embedded?: boolean;
  readonly first?: boolean;
  readonly trace?: boolean;
}

const program = new Command("sim")
  .description("Runs simulated fleets; ends with 1 when a promise was broken.")
  .option("--seed <n>", "one seed", whole)
  .option("--seeds <from..to>", "all seeds of a range", range)
  .option("--nodes <n>", "nodes; default by seed", whole)
  .option("--objects <n>", "objects; default by seed", whole)
  .option("--workload <name>", `${WORKLOADS.join(", ")}; default by seed`)
  .option("--watchers <n>", "who watch lists; default by seed", whole)
  .option("--deployers <n>", "who deploy releases; default by seed", whole)
  .option("--no-faults", "nothing goes wrong")
  .option("--replicas <percent>", "reads that a copy may answer; default by seed", whole)
  .option("--doers <n>", "who set timers and send messages; default by seed", whole)
  .option("--embedded", "the bucket is as the embedded one; default by seed")
  .option("--first", "as the first simulations were")
  .option("--trace", "print everything that happens");
program.parse();
const flags = program.opts<Flags>();
const [from, to] = flags.seeds ?? [flags.seed ?? 1, flags.seed ?? 1];

const SUM_EVERY = 250;
const faults = new Map<string, number>();
let [violated, acknowledged, fromCopies, unknown, virtualMs] = [0, 0, 0, 0, 0];
const startedMs = performance.now();
for (let seed = from; seed <= to; seed++) {
  const result = await simulate({
    seed,
    plan: {
      ...(flags.nodes !== undefined && { nodes: flags.nodes }),
      ...(flags.workload !== undefined && { workload: flags.workload }),
      ...(flags.objects !== undefined && { objects: flags.objects }),
      ...(flags.watchers !== undefined && { watchers: flags.watchers }),
      ...(flags.deployers !== undefined && { deployers: flags.deployers }),
      ...(!flags.faults && { faults: {} }),
      ...(flags.replicas !== undefined && { replicaShare: flags.replicas / 100 }),
      ...(flags.doers !== undefined && { doers: flags.doers }),
      ...(flags.embedded && { atomicBucket: true }),
    },
    isVaried: flags.first !== true,
    ...(flags.trace && { trace: (line: string) => console.log(line) }),
  });
  tally(result);
  // A long run says how far it has come, so that one that was ended goes on from there.
  if ((seed - from) % SUM_EVERY === SUM_EVERY - 1 && seed < to) sum(seed);
}
sum(to);
if (violated > 0) process.exitCode = 1;

function sum(through: number): void {
  const seconds = (performance.now() - startedMs) / 1_000;
  console.log(`faults: ${[...faults].map(([kind, count]) => `${kind} ${count}`).join(", ")}`);
  console.log(
    `${through - from + 1} seeds (${from}..${through}), ${violated} with violations; ${acknowledged} calls acknowledged, ${fromCopies} of them by copies, ${unknown} of unknown outcome; ` +
      `${(virtualMs / 60_000).toFixed(1)} virtual minutes in ${(seconds / 60).toFixed(1)} real ones`,
  );
}

function tally(result: SimulationResult): void {
  for (const [kind, count] of result.faults) faults.set(kind, (faults.get(kind) ?? 0) + count);
  acknowledged += result.acknowledged;
  fromCopies += result.fromCopies;
  unknown += result.unknown;
  virtualMs += result.virtualMs;
  if (result.violations.length === 0 && flags.seeds !== undefined) return;
  const { seed, hash } = result;
  const { nodes, workload } = result.plan;
  console.log(
    `seed ${seed}: ${nodes} nodes, ${workload}, ${result.acknowledged} ok, ${result.unknown} unknown, ${result.failed} failed, ${hash.slice(0, 12)}`,
  );
  for (const { check, what } of result.violations.slice(0, 6)) console.log(`  ${check}: ${what}`);
  if (result.violations.length > 0) violated++;
}
