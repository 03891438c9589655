/**
 * What is fixed for the life of a fleet, kept in the bucket: its identity, its numbers, and the settings that all its nodes
 * share. A node whose own differ refuses to start. The number of delay shards alone may grow; what it was before stays written.
 *
 * The record only grows, by compare-and-swap: who finds something missing, in a record of an older version, adds it.
 */
import type { Bucket, BucketObject } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { PARTITION_COUNT } from "../identity.js";
import { SETTING_NAMES, SETTINGS, type SettingEntry, type SettingName, type Settings } from "../settings/settings.js";
import { uuidv7, type World } from "../world/world.js";
import { FLEET_KEY } from "./layout.js";
import { MANIFEST_FORMAT } from "./manifest.js";

const FIXED = { format: 1, partitions: PARTITION_COUNT, manifestFormat: MANIFEST_FORMAT };

const SHARED: readonly SettingName[] = SETTING_NAMES.filter(
  (name) => (SETTINGS[name] as SettingEntry).scope === "fleet",
);

/** Races that one start may lose: each means that another node has just added what was missing. */
const RACES_MAX = 16;

export interface JoinFleetOptions {
  readonly bucket: Bucket;
  readonly world: Pick<World, "clock" | "random">;
  /** Of a node that is one of several: those of scope `fleet` are compared. A node that is alone passes none. */
  readonly settings?: Settings;
  /** How many delay shards the node would have. Where there are more, it goes by those; where there are fewer, there are so many from now on. */
  readonly delayShards: number;
}

export interface JoinedFleet {
  /** Random, made once: nodes of two fleets never take each other for one. */
  readonly fleet: string;
  /** How many delay shards there were, in order; there are as many as the last says. */
  readonly delayShards: readonly number[];
}

interface FleetRecord extends Readonly<Record<string, unknown>> {
  readonly fleet: string;
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** @throws MoonportError `fleet_mismatch` naming what differs, `bucket_unusable`, `bucket_failed` */
export async function joinFleet({ bucket, world, settings, delayShards }: JoinFleetOptions): Promise<JoinedFleet> {
  for (let races = 0; races < RACES_MAX; races++) {
    const found = await bucket.get(FLEET_KEY);
    const before = found && parsed(found);
    if (before !== undefined) compareFixed(bucket, before);
    if (before !== undefined && settings !== undefined) compareSettings(before, settings);
    const next = { ...completed(before, settings, world), ...withShards(before, delayShards) };
    const joined = { fleet: next.fleet, delayShards: shardsOf(next) };
    if (JSON.stringify(next) === JSON.stringify(before)) return joined;
    const condition = found === undefined ? { absent: true as const } : { version: found.version };
    // Who loses reads again: what another node added may be all that was missing, or differ.
    const outcome = await bucket.write([
      { key: FLEET_KEY, bytes: Buffer.from(JSON.stringify(next), "utf8"), condition },
    ]);
    if (outcome.kind === "landed") return joined;
  }
  throw MoonportError.of("bucket_failed", `${FLEET_KEY} changes faster than this node can join`);
}

/** How many delay shards there were and are, as the fleet's record says now. @throws MoonportError `bucket_failed` */
export async function delayShardsOf(bucket: Pick<Bucket, "get">): Promise<readonly number[]> {
  const found = await bucket.get(FLEET_KEY);
  return found === undefined ? [] : shardsOf(parsed(found));
}

function shardsOf({ delayShards, delayShardsBefore }: Readonly<Record<string, unknown>>): readonly number[] {
  const before = Array.isArray(delayShardsBefore) ? delayShardsBefore : [];
  return [...before, delayShards].filter((count) => typeof count === "number");
}

function withShards(
  before: Readonly<Record<string, unknown>> | undefined,
  wanted: number,
): { delayShards: number; delayShardsBefore?: readonly number[] } {
  const counts = shardsOf(before ?? {});
  const newest = counts.at(-1);
  const next = newest === undefined || wanted > newest ? [...counts, wanted] : counts;
  const earlier = next.slice(0, -1);
  return { delayShards: next.at(-1) ?? wanted, ...(earlier.length > 0 && { delayShardsBefore: earlier }) };
}

/** What stands there stays as it is. */
function completed(
  before: Readonly<Record<string, unknown>> | undefined,
  settings: Settings | undefined,
  world: JoinFleetOptions["world"],
): FleetRecord {
  const fleet = typeof before?.fleet === "string" ? before.fleet : uuidv7(world);
  const record = { ...FIXED, ...before, fleet };
  if (settings === undefined) return record;
  const ours = Object.fromEntries(SHARED.map((name) => [name, settings[name]]));
  return { ...record, settings: { ...ours, ...settingsOf(before) } };
}

function compareFixed(bucket: Bucket, theirs: Readonly<Record<string, unknown>>): void {
  for (const [field, ours] of Object.entries(FIXED)) {
    if (theirs[field] === ours) continue;
    throw MoonportError.of("fleet_mismatch", `the fleet has ${field} ${String(theirs[field])}, this node has ${ours}`, {
      hint: `${bucket.name} was made by another version; use the version that made it, or another bucket`,
    });
  }
}

function compareSettings(theirs: Readonly<Record<string, unknown>>, settings: Settings): void {
  const shared = settingsOf(theirs);
  const different = SHARED.filter((name) => shared[name] !== undefined && shared[name] !== settings[name]);
  if (different.length === 0) return;
  const both = different.map((name) => `${name} ${String(shared[name])} where this node has ${settings[name]}`);
  const wanted = different.map((name) => `${name}=${String(shared[name])}`);
  throw MoonportError.of("fleet_mismatch", `the fleet has ${both.join(", ")}`, {
    hint: `all nodes of a fleet share these: start this one with ${wanted.join(" ")}`,
    details: { settings: different },
  });
}

function settingsOf(record: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, unknown>> {
  const settings = record?.settings;
  return typeof settings === "object" && settings !== null ? (settings as Readonly<Record<string, unknown>>) : {};
}

function parsed({ bytes }: BucketObject): Readonly<Record<string, unknown>> {
  try {
    const document: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    if (typeof document === "object" && document !== null) return document as Readonly<Record<string, unknown>>;
  } catch {
    // Said below.
  }
  throw MoonportError.of("bucket_unusable", `${FLEET_KEY} is no fleet's record`, {
    hint: "restore it from a copy of the bucket: it says how everything else there is to be read",
  });
}
