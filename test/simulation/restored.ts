/** What the bucket alone gives back of an object, when no node runs any more: its value and its events. */
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import type { MemoryContents } from "../../src/bucket/memory-contents.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { Settings } from "../../src/settings/settings.js";
import { Claim } from "../../src/shipping/claim.js";
import { hasContent } from "../../src/shipping/manifest.js";
import { bringToPosition } from "../../src/shipping/open-file.js";
import type { EventRow } from "../../src/store/events.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { ObjectTables } from "../../src/store/object-tables.js";
import type { VirtualWorld } from "../../src/testing/virtual-world.js";
import { manifestIn } from "./manifests.js";

export interface Restored {
  /** As its reading method answers. */
  readonly value: unknown;
  readonly events: readonly EventRow[];
}

const EVENTS_MAX = 100_000;

/** @throws MoonportError `object_corrupt` */
export async function restored(
  world: VirtualWorld,
  contents: MemoryContents,
  settings: Settings,
  path: string,
): Promise<Restored> {
  const object = identityOfPath(path);
  const standing = manifestIn(contents, object);
  if (standing === undefined || !hasContent(standing.manifest)) return { value: emptyOf(object), events: [] };
  const bucket = new MemoryBucket(world, { contents });
  await bucket.start();
  const claim = new Claim(object, standing.manifest, standing.version);
  const file = await bringToPosition(world, bucket, claim);
  await bucket.stop();
  const database = ObjectDatabase.open(world.folder, file.path, settings, { mustExist: true });
  try {
    database.verify();
    const tables = new ObjectTables(database, settings);
    const events = tables.events.read(0, EVENTS_MAX);
    if (object.className !== "List") return { value: tables.store.get("value") ?? 0, events };
    const { rows } = database.all("SELECT value FROM items ORDER BY place", [], "read");
    return { value: rows.map(([value]) => value), events };
  } finally {
    database.close();
  }
}

/** @param path `Class/key` */
export function identityOfPath(path: string): ObjectIdentity {
  const [className = "", key = ""] = path.split("/");
  return identityOf("default", className, key);
}

function emptyOf({ className }: ObjectIdentity): unknown {
  return className === "List" ? [] : 0;
}
