/** The crash drill. It is started by main.ts, and ends with it. */
import { constants } from "node:os";
import { Command, InvalidArgumentError } from "commander";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import type { EndMessage } from "./apart.js";
import { Machine } from "./faults.js";
import { DrillServer } from "./fleet.js";
import { Load } from "./load.js";
import { Report } from "./report.js";
import { OBLIGATIONS, TABLE } from "./rows.js";
import { soak } from "./soak.js";
import { type Row, type Scene, WAYS } from "./trial.js";
import { runWorldRow, WORLD, type WorldRow } from "./world-rows.js";

const whole = (text: string): number => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError("a whole number");
  return number;
};

interface Flags {
  readonly short?: true;
  readonly times?: number;
  readonly row?: RegExp;
  readonly seed?: number;
  readonly soak?: number;
  readonly keep?: true;
}

const program = new Command("drill")
  .description("Kills nodes of a real fleet at named points, under load; ends with 1 when a promise was broken.")
  .option("--short", "each row that counts most, once")
  .option("--times <n>", "how often each row is tried, in place of its own number", whole)
  .option("--row <pattern>", "only rows whose name matches this", (text) => new RegExp(text))
  .option("--seed <n>", "of what the callers do", whole)
  .option("--soak <minutes>", "instead of rows: faults at random for so long, and what it does to memory", whole)
  .option("--keep", "leave logs and data of the nodes where they are");
program.parse();
const flags = program.opts<Flags>();

const seed = flags.seed ?? Math.floor(Math.random() * 2 ** 31);
const random = new SeededRandom(seed);
const startedMs = performance.now();
const LOADED = ["a", "b", "c", "d", "e", "f"];
const TARGETS = ["t1", "t2", "t3"];
const END_MAX_MS = 30_000;
const LOAD = { callers: 4, pauseMs: 100 };
/** How long a bucket stays gone or a link cut, in the two forms. */
const SPELL_MS = { short: 8_000, long: 60_000 };
console.log(`seed ${seed}`);

const report = new Report();
const starting = DrillServer.start();
endWhenTold();
const server = await starting;
try {
  if (flags.soak !== undefined) await report.row("soak", async () => soak(server, random, flags.soak as number));
  else {
    await killRows([...TABLE, ...OBLIGATIONS].filter(isWanted));
    await worldRows(WORLD.filter(isWanted));
  }
} catch (error) {
  report.failed(error as Error);
}
await server.stop(flags.keep === true || report.hasFailed);
console.log(report.table());
console.log(`${report.trials} trials in ${Math.round((performance.now() - startedMs) / 1_000)} s, seed ${seed}`);
process.exit(report.hasFailed ? 1 : 0);

/** Told to, or left alone. Nodes that hear nothing any more end by themselves. */
function endWhenTold(): void {
  let isEnding = false;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (isEnding) return;
    isEnding = true;
    console.log(`${signal}: the drill ends`);
    setTimeout(() => process.exit(1), END_MAX_MS);
    await (await starting).stop(false);
    process.exit(128 + constants.signals[signal]);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void end(signal));
  process.on("message", (message: EndMessage) => void end(message.end));
  process.on("disconnect", () => void end("SIGHUP"));
}

function isWanted({ name, isShort }: { readonly name: string; readonly isShort: boolean }): boolean {
  return (flags.row === undefined || flags.row.test(name)) && (flags.short === undefined || isShort);
}

async function killRows(rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const fleet = await server.fleet();
  const load = new Load({ fleet, random, keys: [...LOADED, ...TARGETS], loaded: LOADED, ...LOAD });
  const scene: Scene = { fleet, load, random, targets: TARGETS, isHurried: flags.short === true };
  load.start();
  for (const [index, row] of rows.entries()) {
    await runRow(scene, row, index);
    // Of a row that is broken as well: the next one begins with three nodes.
    await fleet.arm(null);
    await fleet.start();
  }
  await report.row("after all of them: nothing is lost, nothing owed", async (trial) => {
    await load.stop();
    await load.check();
    trial({ way: "load", heard: `${load.acknowledged} answered`, after: "there" });
    trial({ way: "load", heard: `${load.open} in doubt`, after: "there or not" });
  });
  await fleet.kill();
}

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

async function worldRows(rows: readonly WorldRow[]): Promise<void> {
  if (rows.length === 0) return;
  const machine = await Machine.make(server);
  const load = new Load({ fleet: machine.fleet, random, keys: LOADED, ...LOAD });
  const spellMs = flags.short ? SPELL_MS.short : SPELL_MS.long;
  for (const row of rows) await runWorldRow({ machine, load, proxy: server.proxy, spellMs }, row, report);
}
