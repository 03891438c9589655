/** `moonport check`, from the app's folder to the last line: reads, checks, tells. */
import fs from "node:fs";
import { type AppReport, checkApp } from "../src/app-check/check-app.js";
import { readAppSource, readTestSources } from "../src/app-source.js";
import type { BucketReader } from "../src/bucket/bucket.js";
import { openBucketReader } from "../src/bucket/open-bucket.js";
import { sqliteLocation } from "../src/bucket/sqlite-location.js";
import type { Finding } from "../src/lint/contract.js";
import { silentLogger } from "../src/world/logger.js";
import { RealFolder } from "../src/world/real-folder.js";
import { realWorld } from "../src/world/real-world.js";
import type { World } from "../src/world/world.js";
import type { Context } from "./context.js";
import { scratchFolder } from "./scratch-folder.js";

/** Something was found: a class refuses or would fail. */
const FOUND_EXIT = 4;

/** @param objectsMax of each class, whose copies pending migrations are tried on */
export async function checkFolder(context: Context, native: readonly string[], objectsMax: number): Promise<void> {
  const report = await checkedFolder(context, native, objectsMax);
  context.output.result(textOf(report), documentOf(report));
  if (report.findings.length > 0) process.exitCode = FOUND_EXIT;
}

/** The same without a word. */
export async function checkedFolder(
  context: Context,
  native: readonly string[],
  objectsMax: number,
): Promise<AppReport> {
  const { app, dir, settings } = context;
  const folder = new RealFolder(dir);
  const scratch = scratchFolder("check");
  const world = realWorld(scratch, silentLogger);
  const bucket = objectsMax === 0 ? undefined : existingBucket(context, world);
  try {
    await bucket?.start();
    return await checkApp({
      app: readAppSource(app, folder),
      tests: readTestSources(app, folder, []),
      native,
      settings,
      world,
      objectsMax,
      ...(bucket !== undefined && { bucket }),
    });
  } finally {
    await bucket?.stop();
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

/** The data folder's bucket, if there is one: a check makes none. A node may be at work on it. */
function existingBucket({ bucketUrl, settings }: Context, world: World): BucketReader | undefined {
  const file = sqliteLocation(bucketUrl)?.path;
  if (file === undefined || !fs.existsSync(file)) return undefined;
  return openBucketReader(bucketUrl, world, settings);
}

export function findingsText({ findings }: Pick<AppReport, "findings">): string[] {
  return findings.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`);
}

function textOf(report: AppReport): string {
  const { findings, files, objects } = report;
  const lines = findingsText(report);
  const found = findings.length === 1 ? "1 finding" : `${findings.length === 0 ? "no" : findings.length} findings`;
  const counted = `${files} ${files === 1 ? "file" : "files"}, ${found}`;
  return [...lines, objects === undefined ? counted : `${counted}; ${objectsText(objects)}`].join("\n");
}

function objectsText({ tried, migrated, more }: NonNullable<AppReport["objects"]>): string {
  const text = `${tried} ${tried === 1 ? "object" : "objects"} tried, ${migrated} to be migrated`;
  return more.length === 0 ? text : `${text}; there are more of ${more.join(", ")} (--objects)`;
}

function documentOf({ findings, files, objects }: AppReport): object {
  return {
    files,
    findings: findings.map(({ file, line, column, message }: Finding) => ({ file, line, column, message })),
    ...(objects && { objects: { ...objects, more: [...objects.more] } }),
  };
}
