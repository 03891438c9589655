/**
 * The objects that a release with fewer migrations may not serve: those that have applied more than it declares.
 *
 * How many an object has applied stands in its own file, and in no index beside it, so all objects of the classes concerned
 * are read from the bucket. What an owner has committed and the bucket does not cover yet is known to the owner's node alone,
 * which is asked first. It is a look: an object that a newer release migrates after it was looked at is missed, and not harmed
 * (it answers `release_behind`).
 */
import type { Bucket } from "../bucket/bucket.js";
import { isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { assembleState } from "../shipping/assemble-state.js";
import { classPrefix, ObjectKeys, objectOfKey } from "../shipping/layout.js";
import { decodeManifest, hasContent } from "../shipping/manifest.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { appliedMigrations } from "../store/migrations.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { World } from "../world/world.js";
import type { MigratedObject } from "./contract.js";
import type { MigratedAnswer } from "./peers.js";
import type { MigrationLimit } from "./record.js";

export interface MigratedParts {
  /** Its folder takes a database for each object that is being read. */
  readonly world: World;
  readonly bucket: Pick<Bucket, "get" | "list" | "readStream">;
  readonly settings: Settings;
}

/** Objects that are listed; of others it is only said how many there are. */
export const LISTED_MAX = 100;
/** A history that is compacted while it is read has a gap; what replaced it stands in the next manifest. */
const READINGS_MAX = 5;
const FOLDER = "releases";

/** Those that were found: the first of them, and how many there are. */
export class MigratedList {
  readonly #listed = new Map<string, MigratedObject>();
  #more = 0;

  add(found: MigratedObject): void {
    if (this.#listed.has(found.object)) return;
    if (this.#listed.size < LISTED_MAX) this.#listed.set(found.object, found);
    else this.#more++;
  }

  /** What another list says; the two have no object in common. */
  addAll({ objects, count }: MigratedAnswer): void {
    for (const one of objects) this.add(one);
    this.#more += count - objects.length;
  }

  get objects(): readonly MigratedObject[] {
    return [...this.#listed.values()];
  }

  get count(): number {
    return this.#listed.size + this.#more;
  }
}

/**
 * Reads all objects of the classes from the bucket.
 * @throws MoonportError `objects_unread` when RELEASE_WALK_MS are over or an object cannot be read, `bucket_failed`
 */
export async function findMigrated(
  parts: MigratedParts,
  app: string,
  limits: readonly MigrationLimit[],
  found: MigratedList,
): Promise<void> {
  const { world, settings } = parts;
  const { clock, folder } = world;
  const untilMs = clock.monotonicMs() + settings.RELEASE_WALK_MS;
  const seen = objectsOf(parts, app, limits);
  folder.ensureDirectory(FOLDER);
  let walked = 0;
  const work = async (number: number): Promise<void> => {
    for (let next = await seen.next(); next.done !== true; next = await seen.next()) {
      if (clock.monotonicMs() >= untilMs) throw tooLong(settings, walked);
      const { object, limit } = next.value;
      const applied = await appliedBy(parts, object, `${FOLDER}/${number}.db`);
      walked++;
      if (applied > limit.declared) found.add({ object: object.id, applied, declared: limit.declared });
    }
  };
  const workers = Array.from({ length: settings.RELEASE_WALK_CONCURRENCY }, (_, number) => work(number));
  try {
    await Promise.all(workers);
  } finally {
    // One that failed does not stop the others in the middle of a file.
    await seen.return(undefined);
    await Promise.allSettled(workers);
    folder.removeTree(FOLDER);
  }
}

async function* objectsOf(
  { bucket }: MigratedParts,
  app: string,
  limits: readonly MigrationLimit[],
): AsyncGenerator<{ readonly object: ObjectIdentity; readonly limit: MigrationLimit }, void, void> {
  for (const limit of limits) {
    let after: string | undefined;
    let last: string | undefined;
    do {
      const page = await bucket.list(classPrefix(app, limit.className), after === undefined ? {} : { after });
      for (const key of page.keys) {
        const object = objectOfKey(key);
        if (object === undefined || object.id === last) continue;
        last = object.id;
        yield { object, limit };
      }
      after = page.next;
    } while (after !== undefined);
  }
}

/** @returns how many migrations it has applied, as the bucket has it; 0 for an object without content */
async function appliedBy(parts: MigratedParts, object: ObjectIdentity, path: string): Promise<number> {
  const { world, bucket, settings } = parts;
  const keys = new ObjectKeys(object);
  for (let reading = 1; ; reading++) {
    const found = await bucket.get(keys.manifest);
    if (found === undefined) return 0;
    try {
      const manifest = decodeManifest(object.id, found.bytes);
      if (manifest.destroyed || !hasContent(manifest)) return 0;
      await assembleState({ bucket, folder: world.folder, keys, manifest }, path);
      return appliedIn(world, settings, path);
    } catch (cause) {
      if (reading < READINGS_MAX && isOwn(cause, "object_corrupt")) continue;
      throw MoonportError.of("objects_unread", `${object.id} cannot be read: ${(cause as Error).message}`, {
        cause,
        object: object.id,
        hint: ACCEPT_HINT,
      });
    } finally {
      removeLocalFile(world, path);
    }
  }
}

function appliedIn(world: World, settings: Settings, path: string): number {
  const database = ObjectDatabase.open(world.folder, path, settings, { mustExist: true });
  try {
    return appliedMigrations(new ObjectTables(database, settings).meta);
  } finally {
    database.close();
  }
}

const ACCEPT_HINT = "accept migrated objects, and nobody looks at them: they are served as newer releases left them";

function tooLong({ RELEASE_WALK_MS }: Settings, walked: number): MoonportError {
  return MoonportError.of(
    "objects_unread",
    `${walked} objects were read in ${RELEASE_WALK_MS} ms, and there are more`,
    {
      hint: `raise RELEASE_WALK_MS, or ${ACCEPT_HINT}`,
    },
  );
}
