/**
 * The record of an app's releases, and what may follow it. Decisions alone; where it stands is release/store.ts's affair.
 *
 * R1: the record changes only by compare-and-swap, and a number is given once. R2: whatever is current was published by the
 * write that made it so, and
 * carries an id that no other deployment has, by which a write without an answer is recognised. Beside the releases the record keeps, for each class, the migrations that its objects may have
 * applied: the longest list of any release that was current.
 */
import { MoonportError } from "../errors.js";
import type { Release } from "./contract.js";

/** Of each class the hashes of its migrations, in order. */
export type Declared = ReadonlyMap<string, readonly string[]>;

export interface ReleaseRecord {
  readonly app: string;
  /** The oldest first, numbers ascending; the last is current. Never empty. */
  readonly releases: readonly Release[];
  readonly migrations: Declared;
}

/** Objects of the class that have applied more than so many may not be served by the release in question. */
export interface MigrationLimit {
  readonly className: string;
  readonly declared: number;
  /** The texts differ from there on: nobody can serve such an object, whatever was accepted. */
  readonly isChanged: boolean;
}

export interface NextParts {
  readonly app: string;
  readonly release: Omit<Release, "number">;
  readonly declared: Declared;
  readonly keptMax: number;
}

export function currentOf({ releases }: ReleaseRecord): Release {
  return releases.at(-1) as Release;
}

/** What the record says when one more release is deployed over it. */
export function nextRecord(before: ReleaseRecord | undefined, parts: NextParts): ReleaseRecord {
  const { app, release, declared, keptMax } = parts;
  const number = before === undefined ? 1 : currentOf(before).number + 1;
  const releases = [...(before?.releases ?? []), { number, ...release }].slice(-keptMax);
  const migrations = new Map(before?.migrations ?? []);
  for (const [className, hashes] of declared) {
    const known = migrations.get(className) ?? [];
    // Of lists that differ, the objects were looked at: none has come as far as where they do.
    if (!isPrefix(hashes, known)) migrations.set(className, hashes);
  }
  return { app, releases, migrations };
}

/** The classes of which objects may have applied more, or other, migrations than are declared now. */
export function limitsOf(before: ReleaseRecord | undefined, declared: Declared): MigrationLimit[] {
  const limits: MigrationLimit[] = [];
  for (const [className, hashes] of declared) {
    const known = before?.migrations.get(className) ?? [];
    const common = commonLength(known, hashes);
    if (common < known.length) {
      limits.push({ className, declared: common, isChanged: common < hashes.length });
    }
  }
  return limits;
}

function isPrefix(shorter: readonly string[], longer: readonly string[]): boolean {
  return commonLength(shorter, longer) === shorter.length;
}

function commonLength(left: readonly string[], right: readonly string[]): number {
  const differs = left.findIndex((hash, index) => hash !== right[index]);
  return differs === -1 ? left.length : differs;
}

const FORMAT = 1;

/** Readable in any bucket browser. */
export function encodeReleaseRecord({ app, releases, migrations }: ReleaseRecord): Uint8Array {
  const document = { format: FORMAT, app, releases, migrations: [...migrations] };
  return Buffer.from(JSON.stringify(document), "utf8");
}

/** Fields that a later version adds are passed over. @throws MoonportError `release_damaged` */
export function decodeReleaseRecord(app: string, bytes: Uint8Array): ReleaseRecord {
  const refuse = (what: string): never => {
    throw MoonportError.of("release_damaged", `the record of ${app}'s releases is damaged: ${what}`, {
      hint: "nodes go on with what they serve; deploying needs the record",
    });
  };
  const document = tableIn(parsed(bytes)) ?? refuse("it is no JSON object");
  if (document.format !== FORMAT) refuse(`format ${String(document.format)} is not known to this version`);
  if (document.app !== app) refuse(`it belongs to ${String(document.app)}`);
  const listed = Array.isArray(document.releases) ? document.releases : refuse("its releases are missing");
  const releases = listed.map((one: unknown) => releaseIn(one) ?? refuse("a release has the wrong form"));
  if (releases.length === 0) refuse("it has no release");
  if (!releases.every(({ number }, index) => number > (releases[index - 1]?.number ?? 0))) refuse("its order is wrong");
  const lists = Array.isArray(document.migrations) ? document.migrations : refuse("its migrations are missing");
  const migrations = new Map(lists.map((one: unknown) => migrationsIn(one) ?? refuse("a class has the wrong form")));
  return { app, releases, migrations };
}

const HASH = /^[0-9a-f]{64}$/;

function releaseIn(value: unknown): Release | undefined {
  const { number, id, bundle, files, bytes, atMs, by, message, rollbackOf, acceptsMigrated } = tableIn(value) ?? {};
  if (!isCount(number) || number === 0 || !isCount(files) || !isCount(bytes) || typeof atMs !== "number")
    return undefined;
  if (typeof bundle !== "string" || !HASH.test(bundle)) return undefined;
  if (typeof id !== "string" || typeof by !== "string" || typeof message !== "string") return undefined;
  return {
    ...{ number, id, bundle, files, bytes, atMs, by, message },
    ...(isCount(rollbackOf) && { rollbackOf }),
    ...(acceptsMigrated === true && { acceptsMigrated }),
  };
}

function migrationsIn(value: unknown): [string, readonly string[]] | undefined {
  if (!Array.isArray(value) || value.length !== 2) return undefined;
  const [className, hashes] = value as unknown[];
  if (typeof className !== "string" || !Array.isArray(hashes)) return undefined;
  return hashes.every((hash) => typeof hash === "string") ? [className, hashes as string[]] : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function tableIn(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
