/** `npm run drill`: the crash drill by hand and in continuous integration. See docs/testing.md. */
import { Command, InvalidArgumentError } from "commander";
import { asMoonportError } from "../../src/errors.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { DrillServer } from "./fleet.js";
import { Load } from "./load.js";
import { Report } from "./report.js";
import { OBLIGATIONS, TABLE } from "./rows.js";
import { type Row, type Scene, WAYS } from "./trial.js";

const whole = (text: string): number => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError("a whole number");
  return number;
};

interface Flags {
  readonly short?: true;
  readonly times?: number;
  readonly row?: string;
  readonly seed?: number;
  readonly keep?: true;
}

const program = new Command("drill")
  .description("Kills nodes of a real fleet at named points, under load; ends with 1 when a promise was broken.")
  .option("--short", "each row that counts most, once")
  .option("--times <n>", "how often each row is tried, in place of its own number", whole)
  .option("--row <text>", "only rows whose name has this in it")
  .option("--seed <n>", "of what the callers do", whole)
  .option("--keep", "leave logs and data of the nodes where they are");
program.parse();
const flags = program.opts<Flags>();

const seed = flags.seed ?? Math.floor(Math.random() * 2 ** 31);
const random = new SeededRandom(seed);
const startedMs = performance.now();
const LOADED = ["a", "b", "c", "d", "e", "f"];
const TARGETS = ["t1", "t2", "t3"];
console.log(`seed ${seed}`);

const rows = [...TABLE, ...OBLIGATIONS].filter(({ name, isShort }) => {
  return (flags.row === undefined || name.includes(flags.row)) && (flags.short === undefined || isShort);
});
const report = new Report();
const server = await DrillServer.start();
try {
  const fleet = await server.fleet();
  const load = new Load({ fleet, random, keys: [...LOADED, ...TARGETS], loaded: LOADED, callers: 4, pauseMs: 100 });
  const scene: Scene = { fleet, load, random, targets: TARGETS, isHurried: flags.short === true };
  load.start();
  for (const [index, row] of rows.entries()) await runRow(scene, row, index);
  await load.stop();
  await report.row("nothing acknowledged is lost, nothing is owed", async (trial) => {
    await load.check();
    trial({ way: `${load.acknowledged} calls`, heard: "answered", after: "there" });
    trial({ way: `${load.open} calls`, heard: "outcome_unknown", after: "either" });
  });
  await fleet.stop();
} catch (error) {
  report.failed(asMoonportError(error));
} finally {
  await server.stop(flags.keep === true || report.hasFailed);
}
console.log(report.table());
console.log(`${report.trials} trials in ${Math.round((performance.now() - startedMs) / 1_000)} s, seed ${seed}`);
process.exit(report.hasFailed ? 1 : 0);

async function runRow(scene: Scene, row: Row, rowIndex: number): Promise<void> {
  const times = flags.times ?? (flags.short ? 1 : (row.times ?? WAYS.length));
  await report.row(row.name, async (trial) => {
    for (let index = 0; index < times; index++) {
      // The short form takes another way for each row.
      trial(await row.run(scene, flags.short ? rowIndex + index : index));
      scene.load.throwBroken();
    }
  });
}
