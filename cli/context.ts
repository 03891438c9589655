/** What every command starts from: the shared flags, the folders they mean, the settings, and where to say things. */
import fs from "node:fs";
import path from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { MoonportError } from "../src/errors.js";
import { bucketUrlOf } from "../src/folder-bucket.js";
import { checkAppName, DEFAULT_APP } from "../src/identity.js";
import { resolveSettings, type Settings, settingsFromEnvironment } from "../src/settings/settings.js";
import { RealFolder } from "../src/world/real-folder.js";
import { Output } from "./output.js";

export interface Context {
  readonly output: Output;
  readonly quiet: boolean;
  readonly app: string;
  /** Absolute: the folder with `classes/`. */
  readonly dir: string;
  /** Absolute: the data folder. */
  readonly data: string;
  readonly bucketUrl: string;
  /** A running node that the command line names; for `start` and `dev` the name of the node itself. */
  readonly nodeUrl: string | undefined;
  /** Sent to a running node. */
  readonly token: string | undefined;
  readonly settings: Settings;
  /** What `--set` gave of them, as it stands on the command line. */
  readonly given: readonly string[];
  /** Where units may reach the network. */
  readonly allowHosts: readonly string[];
  /** Whether `--bucket` was given. */
  readonly namesBucket: boolean;
  /** Whether `--set`, `--allow-host` or `--bucket` was given: a node that already runs does not hear of it. */
  readonly configured: boolean;
}

interface SharedFlags {
  readonly dir: string;
  readonly app: string;
  readonly data?: string;
  readonly bucket?: string;
  readonly node?: string;
  readonly token?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly set?: readonly string[];
  readonly allowHost?: readonly string[];
}

export function addSharedFlags(program: Command): void {
  program
    .option("--dir <folder>", "the app's folder, with classes/ in it", ".")
    .option("--app <name>", "the app's name", DEFAULT_APP)
    .option("--data <folder>", "the data folder (default: .moonport in the app's folder)")
    .option(
      "--bucket <url>",
      "where landed writes are kept: sqlite:PATH, s3://BUCKET/PREFIX or memory: (default: where this data folder's were last, at first a file in it)",
    )
    .option(
      "--node <url>",
      "a running node, http://HOST:PORT (default: the data folder's own); for start and dev, what this node is called in its fleet",
    )
    .option("--token <token>", "sent to a running node; better given as the environment's MOONPORT_TOKEN")
    .option("--set <name=value>", "a setting; may be repeated; goes before the environment", collect)
    .option("--allow-host <host>", "a host that units may fetch from, HOST or HOST:PORT; may be repeated", collect)
    .option("--json", "one JSON document on stdout, errors included")
    .option("--quiet", "no talk on stderr");
}

/**
 * @param folder the app's, where a command takes it as an argument
 * @throws MoonportError `bad_option`, `bad_name`, `bad_setting`
 */
export function contextOf(command: Command, folder?: string): Context {
  const flags = command.optsWithGlobals<SharedFlags>();
  const { set = [], allowHost: allowHosts = [] } = flags;
  checkAppName(flags.app);
  const quiet = flags.quiet ?? false;
  const dir = path.resolve(folder ?? flags.dir);
  const data = flags.data === undefined ? path.join(dir, ".moonport") : path.resolve(flags.data);
  return {
    output: new Output({ json: flags.json ?? false, quiet }),
    quiet,
    app: flags.app,
    dir,
    data,
    bucketUrl: bucketUrlOf(new RealFolder(data), flags.bucket),
    nodeUrl: flags.node,
    token: flags.token ?? (process.env.MOONPORT_TOKEN || undefined),
    settings: settingsOf(set),
    given: set,
    allowHosts,
    namesBucket: flags.bucket !== undefined,
    configured: set.length > 0 || allowHosts.length > 0 || flags.bucket !== undefined,
  };
}

/**
 * Before anything is opened or made: whether this is an app's folder at all.
 * @throws MoonportError `bad_option`
 */
export function checkAppFolder({ dir }: Context): void {
  if (hasClasses(dir)) return;
  throw MoonportError.of("bad_option", `${dir} is not an app's folder: it has no classes/`, {
    hint: "moonport new my-app makes one; --dir names another, --node a running node",
  });
}

/**
 * The same for what can also be served from a release in the bucket, if there is a bucket.
 * @throws MoonportError `bad_option`
 */
export function checkServable(context: Context): void {
  if (!context.namesBucket && !fs.existsSync(context.data)) checkAppFolder(context);
}

export function hasClasses(dir: string): boolean {
  return fs.existsSync(path.join(dir, "classes"));
}

/** A commander parser for whole numbers of a range. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`);
  };
}

function settingsOf(assignments: readonly string[]): Settings {
  const given: Record<string, string> = {};
  for (const assignment of assignments) {
    const sign = assignment.indexOf("=");
    if (sign < 1) throw MoonportError.of("bad_option", `--set takes NAME=VALUE, not "${assignment}"`);
    given[assignment.slice(0, sign)] = assignment.slice(sign + 1);
  }
  return resolveSettings({ ...settingsFromEnvironment(process.env), ...given });
}

/** A commander parser for a flag that may be repeated. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
