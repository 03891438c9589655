/** `moonport verify`, from the bucket's URL to the last line: opens it to read, verifies, tells. */
import fs from "node:fs";
import type { BucketReader } from "../src/bucket/bucket.js";
import { openBucketReader } from "../src/bucket/open-bucket.js";
import { sqliteLocation } from "../src/bucket/sqlite-location.js";
import { MoonportError } from "../src/errors.js";
import { checkClassName } from "../src/identity.js";
import type { Named, VerifyReport } from "../src/verify/report.js";
import { type VerifyOptions, verifyBucket } from "../src/verify/verify-bucket.js";
import type { Scope } from "../src/verify/walk.js";
import { silentLogger } from "../src/world/logger.js";
import { realWorld } from "../src/world/real-world.js";
import type { World } from "../src/world/world.js";
import type { Context } from "./context.js";
import { EXIT_DAMAGED } from "./exit-codes.js";
import { ProgressBar } from "./progress.js";
import { scratchFolder } from "./scratch-folder.js";
import { objectOf } from "./words.js";

/** The exit code of "try later": not everything could be read, and what was is whole. */
const EXIT_UNREAD = 5;

export interface VerifyFlags {
  /** Class or Class/key. */
  readonly word: string | undefined;
  /** Whether the app was named, or is the default one. */
  readonly isAppGiven: boolean;
  /** Whether what objects were is proved, too. */
  readonly past: boolean;
  readonly jobs: number;
}

export async function verify(context: Context, { word, isAppGiven, past, jobs }: VerifyFlags): Promise<void> {
  const { nodeUrl, output, quiet, settings } = context;
  if (nodeUrl !== undefined) {
    throw MoonportError.of("bad_option", "verify asks no node; it reads the bucket itself, which --bucket names");
  }
  const scope = scopeOf(context.app, word, isAppGiven);
  const stopping = new Stopping();
  const scratch = scratchFolder("verify");
  const bar = quiet ? undefined : new ProgressBar(process.stderr, () => performance.now());
  try {
    const world = realWorld(scratch, silentLogger);
    const bucket = existingBucket(context, world);
    const report = await verifyOpened(bucket, {
      world,
      settings,
      scope,
      past,
      jobs,
      signal: stopping.signal,
      onProgress: ({ share, objects, damaged }) => {
        bar?.show(share, `${counted(objects, "object")}${damaged === 0 ? "" : `, ${damaged} damaged`}`);
      },
    });
    bar?.clear();
    if (report.complete && report.objects === 0 && scope.kind !== "all") throw nothingThere(bucket.name, scope);
    output.result(textOf(bucket.name, report), { bucket: bucket.name, ...documentOf(report) });
    if (!report.complete) output.talk("stopped before the end: this is what was looked at until then");
    process.exitCode = stopping.exitCode ?? exitCodeOf(report);
  } finally {
    bar?.clear();
    stopping.end();
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

function scopeOf(app: string, word: string | undefined, isAppGiven: boolean): Scope {
  if (word === undefined) return isAppGiven ? { kind: "app", app } : { kind: "all" };
  if (word.includes("/")) return { kind: "object", object: objectOf(app, word) };
  checkClassName(word);
  return { kind: "class", app, className: word };
}

/** One that is there: reading makes none. */
function existingBucket({ bucketUrl, settings }: Context, world: World): BucketReader {
  const bucket = openBucketReader(bucketUrl, world, settings);
  const file = sqliteLocation(bucketUrl)?.path;
  if (file === undefined || fs.existsSync(file)) return bucket;
  throw MoonportError.of("bucket_unusable", `there is no bucket ${bucket.name}`, {
    hint: "--dir, --data or --bucket name another one",
  });
}

async function verifyOpened(bucket: BucketReader, options: Omit<VerifyOptions, "bucket">): Promise<VerifyReport> {
  try {
    await bucket.start();
    return await verifyBucket({ ...options, bucket });
  } catch (error) {
    throw error instanceof MoonportError && error.details?.needsOperator === true ? unusable(error) : error;
  } finally {
    await bucket.stop();
  }
}

/** Wrong credentials, say: to try again later would change nothing. */
function unusable(error: MoonportError): MoonportError {
  const { message, hint, details } = error;
  return MoonportError.of("bucket_unusable", message, {
    cause: error,
    ...(hint !== undefined && { hint }),
    ...(details !== undefined && { details }),
  });
}

/** The first signal ends it in order, so that no database is left in the temporary folder; a second one at once. */
class Stopping {
  readonly #controller = new AbortController();
  readonly #onInterrupt = (): void => this.#stop(130);
  readonly #onTerminate = (): void => this.#stop(143);
  exitCode: number | undefined;

  constructor() {
    process.once("SIGINT", this.#onInterrupt);
    process.once("SIGTERM", this.#onTerminate);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    process.off("SIGINT", this.#onInterrupt);
    process.off("SIGTERM", this.#onTerminate);
  }

  #stop(exitCode: number): void {
    this.exitCode = exitCode;
    this.#controller.abort();
  }
}

function exitCodeOf({ damaged, unread, past }: VerifyReport): number {
  if (damaged.count + past.damaged.count > 0) return EXIT_DAMAGED;
  return unread.count + past.unread.count > 0 ? EXIT_UNREAD : 0;
}

function nothingThere(bucketName: string, scope: Exclude<Scope, { kind: "all" }>): MoonportError {
  const what = { app: "object of that app", class: "object of that class", object: "such object" }[scope.kind];
  return MoonportError.of("object_not_found", `${bucketName} has no ${what}`);
}

function textOf(bucketName: string, report: VerifyReport): string {
  const { damaged, unread, past, strays, garbage, underWay } = report;
  const lines = [
    ...named(damaged, ({ object, key, reason }) => `damaged  ${object}: ${reason}\n         ${key}`),
    ...named(unread, ({ object, reason }) => `unread   ${object}: ${reason}`),
    ...named(past.damaged, ({ object, key, reason }) => `damaged  the past of ${object}: ${reason}\n         ${key}`),
    ...named(past.unread, ({ object, reason }) => `unread   the past of ${object}: ${reason}`),
    ...named(strays, (key) => `stray    ${key}`),
    `${counted(report.objects, "object")} in ${bucketName}: ${countsText(report)}`,
  ];
  const pastText = pastTextOf(report);
  if (pastText !== undefined) lines.push(pastText);
  if (garbage.bodies > 0) {
    const of = counted(garbage.objects.count, "object");
    lines.push(`garbage: ${garbage.bodies} segments and snapshots of ${of}, ${garbage.bytes} bytes`);
  }
  if (underWay > 0)
    lines.push(`not named yet, of flights under way or cut off: ${counted(underWay, "body", "bodies")}`);
  if (strays.count > 0) lines.push(`belong to nothing: ${counted(strays.count, "key")}`);
  return lines.join("\n");
}

function countsText(report: VerifyReport): string {
  const { restorable, databaseBytes, unwritten, destroyed, damaged, unread } = report;
  const parts = [`${restorable} restorable (${databaseBytes} bytes)`];
  const others = { unwritten, destroyed, DAMAGED: damaged.count, unread: unread.count };
  for (const [name, count] of Object.entries(others)) if (count > 0) parts.push(`${count} ${name}`);
  return parts.join(", ");
}

function pastTextOf({ past: { restorable, damaged, unread } }: VerifyReport): string | undefined {
  const eras = restorable + damaged.count + unread.count;
  if (eras === 0) return undefined;
  const parts = [`${restorable} restorable`];
  if (damaged.count > 0) parts.push(`${damaged.count} DAMAGED`);
  if (unread.count > 0) parts.push(`${unread.count} unread`);
  return `what they were: ${counted(eras, "past manifest")}, ${parts.join(", ")}`;
}

function named<T>({ first, count }: Named<T>, textOfOne: (one: T) => string): string[] {
  const lines = first.map(textOfOne);
  return count > first.length ? [...lines, `         and ${count - first.length} more`] : lines;
}

function documentOf(report: VerifyReport): object {
  const listed = <T>({ count, first }: Named<T>): Named<T> => ({ count, first: [...first] });
  const { damaged, unread, past, strays, garbage } = report;
  return {
    ...report,
    damaged: listed(damaged),
    unread: listed(unread),
    past: { ...past, damaged: listed(past.damaged), unread: listed(past.unread) },
    garbage: { ...garbage, objects: listed(garbage.objects) },
    strays: listed(strays),
  };
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
