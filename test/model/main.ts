/**
 * `npm run model -- --config NAME`: explores one configuration, or every one with `--config all`; `--list` names them.
 * `--walks N [--seed S]` takes random walks through it instead. Prints one line each, and the way to a violation.
 */
import { parseArgs } from "node:util";
import { LARGE, SMALL, WIDE } from "./configurations.js";
import { explore } from "./explore.js";
import { modelOf, type Scope } from "./rules.js";
import { walk } from "./walk.js";

const SCOPES: Readonly<Record<string, Scope>> = { ...SMALL, ...LARGE, ...WIDE };

const { values } = parseArgs({
  options: {
    config: { type: "string" },
    list: { type: "boolean" },
    walks: { type: "string" },
    seed: { type: "string" },
    "states-max": { type: "string" },
  },
});

function run(name: string, scope: Scope): boolean {
  const startMs = process.cpuUsage().user / 1_000;
  const result =
    values.walks === undefined
      ? explore(modelOf(scope), Number(values["states-max"] ?? Number.POSITIVE_INFINITY))
      : walk(modelOf(scope), { seed: Number(values.seed ?? 1), walks: Number(values.walks) });
  const { violation, ...counts } = result;
  const seconds = (process.cpuUsage().user / 1_000 - startMs) / 1_000;
  process.stdout.write(`${name.padEnd(30)} ${JSON.stringify(counts)} ${seconds.toFixed(1)} s\n`);
  if (violation === undefined) return true;
  process.stdout.write(`${violation.kind}: ${violation.text}\n${violation.trace.join("\n")}\n`);
  return false;
}

function chosen(): [string, Scope][] {
  if (values.config === "all") return Object.entries({ ...SMALL, ...LARGE });
  const scope = SCOPES[values.config ?? ""];
  return scope === undefined ? [] : [[values.config as string, scope]];
}

const runs = chosen();
if (values.list || runs.length === 0) {
  process.stdout.write(`configurations: ${Object.keys(SCOPES).join(" ")}\n`);
  process.exitCode = values.list ? 0 : 2;
}
if (!runs.every(([name, scope]) => run(name, scope))) process.exitCode = 1;
