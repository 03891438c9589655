/** The run as people and programs read it: a table on stdout, a JSON file beside it. */
import { mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { Amount, Case, Comparison } from "./case.js";
import type { Figures } from "./measure.js";

export interface Ratio {
  readonly figure: "rate" | "p50";
  readonly floors: readonly string[];
  /** Of rates: ours over that of the floors, one after the other. Of p50: ours over the floors' sum. */
  readonly ratio: number;
  /** CPU of the main thread per call, ours over the floors' sum: the steadiest of the ratios. */
  readonly cpuRatio: number | undefined;
}

export interface Result extends Figures {
  readonly name: string;
  readonly isFloor: boolean;
  /** Of another product's. */
  readonly isPeer: boolean;
  readonly ratios: readonly Ratio[];
}

export interface Report {
  readonly takenAt: string;
  readonly seconds: number;
  readonly machine: { readonly cpu: string; readonly cores: number; readonly memoryGib: number; readonly node: string };
  /** Of the minute before: a busy machine's figures say little. */
  readonly loadBefore: number;
  /** What the other products that were measured call themselves. */
  readonly peers: readonly string[];
  readonly rows: readonly Result[];
  readonly amounts: readonly Amount[];
}

export function resultsOf(cases: readonly Case[], figures: ReadonlyMap<string, Figures>): Result[] {
  return cases.flatMap(({ name, isFloor = false, against = [], peerOf }) => {
    const own = figures.get(name);
    if (own === undefined) return [];
    const ratios = against.flatMap((comparison) => ratioOf(own, comparison, figures) ?? []);
    return [{ name, isFloor, isPeer: peerOf !== undefined, ratios, ...own }];
  });
}

/** Several floors are things done one after the other: their times add up. */
function ratioOf(
  own: Figures,
  { figure, floors }: Comparison,
  figures: ReadonlyMap<string, Figures>,
): Ratio | undefined {
  const taken = floors.flatMap((name) => figures.get(name) ?? []);
  if (taken.length < floors.length) return undefined;
  const sum = (of: (floor: Figures) => number): number => taken.reduce((total, floor) => total + of(floor), 0);
  const ratio =
    figure === "rate" ? own.perSecond * sum((floor) => 1 / floor.perSecond) : own.p50Ms / sum((floor) => floor.p50Ms);
  const cpuRatio =
    own.mainCpuUs === undefined ? undefined : own.mainCpuUs / sum((floor) => floor.mainCpuUs ?? Number.NaN);
  return { figure, floors, ratio, cpuRatio };
}

export function machine(): Report["machine"] {
  return {
    cpu: os.cpus()[0]?.model ?? "unknown",
    cores: os.cpus().length,
    memoryGib: Math.round(os.totalmem() / 2 ** 30),
    node: process.version,
  };
}

export function tableOf(report: Report): string {
  const head = ["", "per second", "±%", "p50 ms", "p99 ms", "main µs", "all µs", "load µs", "against its floors"];
  const line = (row: Result): string[] => [
    row.name,
    whole(row.perSecond),
    row.spreadPercent.toFixed(0),
    millis(row.p50Ms),
    millis(row.p99Ms),
    row.mainCpuUs === undefined ? "" : row.mainCpuUs.toFixed(1),
    row.allCpuUs.toFixed(1),
    row.loadCpuUs?.toFixed(1) ?? "",
    row.ratios.map(ratioText).join("; "),
  ];
  const floors = report.rows.filter((row) => row.isFloor).map(line);
  const peers = report.rows.filter((row) => row.isPeer).map(line);
  const rows = report.rows.filter((row) => !row.isFloor && !row.isPeer).map(line);
  const amounts = report.amounts.map(
    ({ name, value, unit, digits = 1, note }) => `${name}: ${value.toFixed(digits)} ${unit} (${note})`,
  );
  const { cpu, cores, node } = report.machine;
  return [
    ...report.peers,
    `${cpu}, ${cores} cores, Node ${node}, load ${report.loadBefore.toFixed(1)} before, ${report.seconds.toFixed(0)} s`,
    "",
    ...aligned([
      ["floors", ...head.slice(1)],
      ...floors,
      ...(peers.length === 0 ? [] : [[""], ["peers", ...head.slice(1, -1)], ...peers]),
      [""],
      ["moonport", ...head.slice(1)],
      ...rows,
    ]),
    "",
    ...amounts,
  ].join("\n");
}

/** @returns the file's path */
export function writeReport(folder: string, report: Report): string {
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${report.takenAt.replaceAll(":", "-").slice(0, 19)}.json`);
  writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
  return file;
}

function ratioText({ figure, floors, ratio, cpuRatio }: Ratio): string {
  const name = floors.join(" + ");
  if (figure === "p50") return `p50 ${ratio.toFixed(2)}x (${name})`;
  return `${ratio.toFixed(2)} of ${name}${cpuRatio === undefined ? "" : `, cpu ${cpuRatio.toFixed(1)}x`}`;
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const last = 8;
  const width = Array.from({ length: last }, (_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) => {
    const [name = "", ...figures] = row.slice(0, last);
    const cells = figures.map((figure, index) => figure.padStart(width[index + 1] ?? 0));
    return [name.padEnd(width[0] ?? 0), ...cells, row[last] ?? ""].join("  ").trimEnd();
  });
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function millis(ms: number): string {
  return ms < 0.1 ? ms.toFixed(4) : ms < 10 ? ms.toFixed(2) : ms.toFixed(1);
}
