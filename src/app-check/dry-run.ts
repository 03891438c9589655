/**
 * What objects that are there lack of their class's migrations, tried on copies of them.
 *
 * Each copy is restored from the bucket as it stands, whether a node serves the object or not; nothing is claimed and
 * nothing written but the copy.
 */
import type { AppSource } from "../app-source.js";
import type { BucketReader } from "../bucket/bucket.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Finding } from "../lint/contract.js";
import type { LuaClass } from "../lua/contract.js";
import type { Settings } from "../settings/settings.js";
import { Claim } from "../shipping/claim.js";
import { classPrefix, ObjectKeys, objectOfKey } from "../shipping/layout.js";
import { decodeManifest, hasContent } from "../shipping/manifest.js";
import { bringToPosition, removeLocalFile } from "../shipping/open-file.js";
import { applyMigrations } from "../store/migrations.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { World } from "../world/world.js";
import { migrationFinding } from "./class-database.js";

export interface DryRunInput {
  readonly app: AppSource;
  readonly classes: readonly LuaClass[];
  readonly bucket: BucketReader;
  readonly settings: Settings;
  readonly world: World;
  readonly objectsMax: number;
}

export interface DryRun {
  readonly findings: readonly Finding[];
  readonly objects: {
    readonly tried: number;
    /** Those that lacked something. */
    readonly migrated: number;
    /** Classes that have more objects than were tried. */
    readonly more: readonly string[];
  };
}

/** A history that is compacted while it is read has a gap; what replaced it stands in the next manifest. */
const READINGS_MAX = 3;

export async function dryRun(input: DryRunInput): Promise<DryRun> {
  const findings: Finding[] = [];
  const more: string[] = [];
  let [tried, migrated] = [0, 0];
  for (const lua of input.classes) {
    const { objects, hasMore } = await objectsOf(input, lua.name);
    if (hasMore) more.push(lua.name);
    const source = input.app.classes.find(({ name }) => name === lua.name);
    for (const object of objects) {
      try {
        const applied = await onCopy(input, lua, object);
        if (applied === undefined) continue;
        tried++;
        if (applied > 0) migrated++;
      } catch (thrown) {
        tried++;
        const error = asMoonportError(thrown);
        const { file = lua.file, text = "" } = source ?? {};
        findings.push(migrationFinding({ kind: "class", name: lua.name, file, text }, error, `${object.id}: `));
      }
    }
  }
  return { findings, objects: { tried, migrated, more } };
}

async function objectsOf(
  { app, bucket, objectsMax }: DryRunInput,
  className: string,
): Promise<{ readonly objects: readonly ObjectIdentity[]; readonly hasMore: boolean }> {
  const prefix = classPrefix(app.app, className);
  const objects: ObjectIdentity[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await bucket.list(prefix, { limit: 1, ...(after !== undefined && { after }) });
    const [key] = page.keys;
    if (key === undefined) return { objects, hasMore: false };
    if (objects.length === objectsMax) return { objects, hasMore: true };
    const object = objectOfKey(key);
    if (object === undefined) throw MoonportError.of("bucket_unusable", `${key} in the bucket is no object's`);
    objects.push(object);
    // The next sign after the slash: behind all keys of this object, before all of others that begin alike.
    after = `${new ObjectKeys(object).prefix.slice(0, -1)}0`;
  }
}

/** @returns how many migrations it lacked; `undefined` for an object without content */
async function onCopy(input: DryRunInput, lua: LuaClass, object: ObjectIdentity): Promise<number | undefined> {
  const { world, settings } = input;
  const path = await restored(input, object);
  if (path === undefined) return undefined;
  const database = ObjectDatabase.open(world.folder, path, settings, { mustExist: true });
  try {
    const { meta } = new ObjectTables(database, settings);
    database.begin();
    const applied = applyMigrations(database, meta, lua);
    database.rollback();
    return applied;
  } finally {
    database.close();
    removeLocalFile(world, path);
  }
}

async function restored({ world, bucket }: DryRunInput, object: ObjectIdentity): Promise<string | undefined> {
  for (let reading = 1; ; reading++) {
    const found = await bucket.get(new ObjectKeys(object).manifest);
    if (found === undefined) return undefined;
    const manifest = decodeManifest(object.id, found.bytes);
    if (manifest.destroyed || !hasContent(manifest)) return undefined;
    try {
      return (await bringToPosition(world, bucket, new Claim(object, manifest, found.version))).path;
    } catch (error) {
      if (reading === READINGS_MAX) throw error;
    }
  }
}
