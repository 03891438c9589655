/**
 * `npm run bench`: the kernel in process, and through the doors, beside floors taken in the same run. See bench/README.md.
 *
 * Rows that belong together are measured in turns, a round each, so that a machine that slows down slows all of them.
 */
import { loadavg, tmpdir } from "node:os";
import path from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { Activations } from "./groups/activation.js";
import { BucketPuts } from "./groups/bucket.js";
import { Calls } from "./groups/calls.js";
import { Doors } from "./groups/doors.js";
import { Fleet } from "./groups/fleet.js";
import { Floors } from "./groups/floors.js";
import { handoffRow, measureHandoff } from "./groups/handoff.js";
import { LuaRows } from "./groups/lua.js";
import { measureMemory, memoryRows } from "./groups/memory.js";
import { dueRow, measureDue, measurePending, pendingRow } from "./groups/pending.js";
import { Queries } from "./groups/queries.js";
import { S3Cost } from "./groups/s3-cost.js";
import { measureS3Idle, S3_IDLE_ROW } from "./groups/s3-idle.js";
import { Slices } from "./groups/slices.js";
import { measureSubscribers, subscribersRow } from "./groups/subscribers.js";
import { measureTakeover, takeoverRow } from "./groups/takeover.js";
import { TimerRows } from "./groups/timers.js";
import { Units } from "./groups/units.js";
import { againstPeers, Peers } from "./peers/peers.js";
import { BENCH_FOLDER } from "./support/bench-node.js";
import type { Amount, Case, Group } from "./support/case.js";
import { type Figures, figuresOf, type Round, type RoundBounds } from "./support/measure.js";
import { machine, type Report, resultsOf, tableOf, writeReport } from "./support/report.js";
import { S3_PRICES } from "./support/s3-prices.js";
import { S3Server, type S3Store } from "./support/s3-server.js";

interface Options {
  readonly quick: boolean;
  readonly only: readonly string[];
  readonly floors: boolean;
  readonly peers: boolean;
  readonly s3?: S3Store;
  readonly rounds?: number;
  readonly roundMs?: number;
  readonly folder: string;
  readonly results: string;
  readonly json: boolean;
}

interface Plan {
  readonly rounds: number;
  readonly bounds: RoundBounds;
  readonly residents: number;
  /** Objects that a round of activations wakes. */
  readonly sleepers: number;
  readonly subscribers: number;
  readonly events: number;
  /** Objects of the node that is killed. */
  readonly takeover: number;
  /** Objects of the node that is drained. */
  readonly handoff: number;
  /** Delayed commands that wait, and that fall due together. */
  readonly pending: number;
  readonly due: number;
}

const FULL: Plan = {
  rounds: 4,
  bounds: { ms: 300, calls: 400_000 },
  residents: 5_000,
  sleepers: 200,
  subscribers: 10_000,
  events: 40,
  takeover: 10_000,
  handoff: 1_000,
  pending: 1_000_000,
  due: 100_000,
};
const QUICK: Plan = {
  rounds: 2,
  bounds: { ms: 100, calls: 100_000 },
  residents: 1_200,
  sleepers: 40,
  subscribers: 10_000,
  events: 10,
  takeover: 1_000,
  handoff: 200,
  pending: 50_000,
  due: 5_000,
};

/** What a run came to. */
type Measured = Pick<Report, "peers" | "rows" | "amounts">;

async function main(options: Options): Promise<void> {
  const startedMs = performance.now();
  const takenAt = new Date().toISOString();
  const [loadBefore = 0] = loadavg();
  const { s3 } = options;
  const measured = s3 === undefined ? await measureKernel(options) : await measureS3(options, new S3Server(s3));
  const seconds = (performance.now() - startedMs) / 1_000;
  const report: Report = { takenAt, seconds, machine: machine(), loadBefore, ...measured };
  say("");
  process.stdout.write(options.json ? `${JSON.stringify(report, undefined, 2)}\n` : `${tableOf(report)}\n`);
  const file = writeReport(options.results, report);
  process.stderr.write(`written to ${path.relative(process.cwd(), file)}\n`);
}

async function measureKernel(options: Options): Promise<Measured> {
  const plan = planOf(options);
  const peers = new Peers(options.folder);
  const fleet = new Fleet(options.folder);
  // Activation comes first: in a process that has had thousands of files open, opening one costs three times as much.
  const passes: Group[][] = [
    [new Activations(options.folder, plan.sleepers)],
    [
      new Floors(options.folder),
      new BucketPuts(options.folder),
      new LuaRows(options.folder),
      new Calls(options.folder),
      new Units(options.folder),
      new Queries(options.folder),
      new TimerRows(options.folder),
      new Slices(options.folder),
      new Doors(options.folder),
      fleet,
      ...peers.groups,
    ],
  ];
  const all = againstPeers(passes.flat().flatMap((group) => group.cases));
  const names = new Set(all.map(({ name }) => name));
  const amountRows = amountRowsOf(options.folder, plan).filter((row) => isAsked(row, options, names));
  const selected = selectedOf(all, options, names);
  for (const hint of peers.hints(options.peers, options.only)) process.stderr.write(`${hint}\n`);
  if (selected.size === 0 && amountRows.length === 0) throw unknownRow(options.only, all);

  const figures = new Map<string, Figures>();
  for (const pass of passes) for (const [name, taken] of await runPass(pass, selected, plan)) figures.set(name, taken);
  const amounts: Amount[] = [...fleet.amounts()];
  for (const { name, measure } of amountRows) {
    say(name);
    amounts.push(...(await measure()));
  }
  const rows = resultsOf(all, figures);
  const versions = peers.versions(rows.filter(({ isPeer }) => isPeer).map(({ name }) => name));
  return { peers: versions, rows, amounts };
}

interface AmountRow extends Pick<Case, "name"> {
  measure(): Promise<readonly Amount[]>;
}

/** Taken after the rates, one after the other. */
function amountRowsOf(folder: string, plan: Plan): AmountRow[] {
  const takeover = takeoverRow(plan.takeover);
  const handoff = handoffRow(plan.handoff);
  const subscribers = subscribersRow(plan.subscribers, plan.events);
  const pending = pendingRow(plan.pending);
  const due = dueRow(plan.due);
  return [
    { name: takeover.name, measure: () => measureTakeover(folder, takeover) },
    { name: handoff.name, measure: () => measureHandoff(folder, handoff) },
    ...memoryRows(plan.residents).map((row) => ({
      name: row.name,
      measure: async () => [await measureMemory(folder, row)],
    })),
    { name: subscribers.name, measure: () => measureSubscribers(folder, subscribers) },
    { name: pending.name, measure: async () => [await measurePending(folder, pending)] },
    { name: due.name, measure: () => measureDue(folder, due) },
  ];
}

/** On a server of the run's own, which ends with it. */
async function measureS3(options: Options, server: S3Server): Promise<Measured> {
  const group = new S3Cost(options.folder, server);
  const names = new Set([...group.cases, S3_IDLE_ROW].map(({ name }) => name));
  const selected = selectedOf(group.cases, options, names);
  const isIdleAsked = isAsked(S3_IDLE_ROW, options, names);
  if (selected.size === 0 && !isIdleAsked) throw unknownRow(options.only, [...group.cases, S3_IDLE_ROW]);
  try {
    say("starting an S3 server");
    const figures = await runPass([group], selected, planOf(options));
    const amounts = group.amounts();
    if (isIdleAsked) {
      say(S3_IDLE_ROW.name);
      amounts.push(await measureS3Idle(options.folder, server));
    }
    return {
      peers: [`bucket requests at the list prices of ${S3_PRICES.name}`],
      rows: resultsOf(group.cases, figures),
      amounts,
    };
  } finally {
    await server.stop();
  }
}

function planOf({ quick, rounds, roundMs }: Options): Plan {
  const plan = quick ? QUICK : FULL;
  return { ...plan, rounds: rounds ?? plan.rounds, bounds: { ...plan.bounds, ms: roundMs ?? plan.bounds.ms } };
}

/** One discarded round each, then rounds in turns. */
async function runPass(
  groups: readonly Group[],
  selected: ReadonlySet<string>,
  plan: Plan,
): Promise<Map<string, Figures>> {
  const open: Group[] = [];
  const rounds = new Map<string, Round[]>();
  try {
    const cases: Case[] = [];
    for (const group of groups) {
      const wanted = group.cases.filter(({ name }) => selected.has(name));
      if (wanted.length === 0) continue;
      open.push(group);
      await group.open(wanted);
      cases.push(...wanted);
    }
    for (let round = 0; round <= plan.rounds; round++) {
      for (const one of cases) {
        say(`${one.name}, ${round === 0 ? "warming up" : `round ${round} of ${plan.rounds}`}`);
        const calls = Math.min(plan.bounds.calls, one.callsMax ?? plan.bounds.calls);
        const taken = await one.round({ ms: Math.max(plan.bounds.ms, one.msMin ?? 0), calls });
        if (round > 0) rounds.set(one.name, [...(rounds.get(one.name) ?? []), taken]);
      }
    }
  } finally {
    for (const group of open) await group.close();
  }
  return new Map([...rounds].map(([name, taken]) => [name, figuresOf(taken)]));
}

/** The rows asked for, the peers' rows and ours that belong together, and the floors that ours are held against. */
function selectedOf(all: readonly Case[], options: Options, names: ReadonlySet<string>): Set<string> {
  const asked = all.filter((row) => isAsked(row, options, names) && (options.floors || row.isFloor !== true));
  const rows = new Set([...asked.map(({ name }) => name), ...asked.flatMap(({ peerOf = [] }) => peerOf)]);
  const peers = new Set(all.filter(({ peerOf }) => peerOf !== undefined).map(({ name }) => name));
  const compared = all
    .filter(({ name }) => rows.has(name))
    .flatMap(({ against = [] }) => against.flatMap(({ floors }) => floors));
  const wanted = compared.filter((name) => (peers.has(name) ? options.peers : options.floors));
  return new Set([...rows, ...wanted]);
}

/**
 * A whole name asks for that row alone, a part for every row that holds it. A peer's row is asked for by the beginning of its
 * name, or by `--peers`, which without names means the peers' rows and ours that do the same work.
 */
function isAsked(
  { name, peerOf }: Pick<Case, "name" | "peerOf">,
  { only, peers }: Options,
  names: ReadonlySet<string>,
): boolean {
  if (only.length === 0) return (peerOf !== undefined) === peers;
  const isMeant = (part: string): boolean => (peerOf === undefined ? name.includes(part) : name.startsWith(part));
  return only.some((part) => (names.has(part) ? name === part : isMeant(part)));
}

function unknownRow(only: readonly string[], all: readonly Pick<Case, "name">[]): Error {
  if (only.length === 0) return new Error("no other product is installed here");
  return new Error(`no row is called ${only.join(" or ")}; there are:\n  ${all.map(({ name }) => name).join("\n  ")}`);
}

/** What is being measured, on one line of a terminal that is written over. */
function say(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError("not a whole number above zero");
  return value;
}

const program = new Command("bench")
  .description(
    "Measures the object kernel, in this process and through the doors, against what the machine can do bare.",
  )
  .option("--quick", "fewer and shorter rounds, fewer objects", false)
  .option("--only <name...>", "rows whose name holds one of these, with their floors", [])
  .option("--no-floors", "without the floors: for a profiler")
  .option("--peers", "the same work on workerd and Redis, where they are installed, and our rows that do it", false)
  .addOption(
    new Option(
      "--s3 [store]",
      "only the rows on a real S3 server (Ceph's gateway), which is started for the run; it keeps objects in memory, or in a file",
    )
      .choices(["memstore", "bluestore"])
      .preset("memstore"),
  )
  .option("--rounds <count>", "rounds of each row", positive)
  .option("--round-ms <ms>", "length of a round, milliseconds", positive)
  .option("--folder <path>", "where scratch folders are made; the disk under it is what is measured", tmpdir())
  .option("--results <path>", "where the JSON goes", path.join(BENCH_FOLDER, "results"))
  .option("--json", "print JSON instead of the table", false);
program.parse();

try {
  await main(program.opts<Options>());
} catch (error) {
  process.stderr.write(`\n${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
