/**
 * The object's local file, brought to exactly the manifest's position: the copy on disk if its whole content is what the
 * manifest names, else a fresh restore from the bucket. A local tail that never landed is discarded with it.
 */
import { PAGE_BYTES } from "../store/object-database.js";
import { type World, yieldTurn } from "../world/world.js";
import { assembleState, type StateReader } from "./assemble-state.js";
import type { Claim } from "./claim.js";
import { databasePath } from "./layout.js";
import { hasContent } from "./manifest.js";
import { PageLedger } from "./wal/page-identity.js";

export interface LocalFile {
  /** Relative to the data folder. */
  readonly path: string;
  /** Of its content; empty for an object without content, whose file does not exist yet. */
  readonly ledger: PageLedger;
  readonly origin: "new" | "local" | "restored";
}

/** @throws MoonportError `object_corrupt` when the history in the bucket is damaged or has a gap, `storage_*`, `bucket_failed` */
export async function bringToPosition(world: World, bucket: StateReader, claim: Claim): Promise<LocalFile> {
  const path = databasePath(claim.object);
  if (!hasContent(claim.manifest)) {
    removeLocalFile(world, path);
    world.folder.ensureDirectory(path.slice(0, path.lastIndexOf("/")));
    return { path, ledger: new PageLedger(PAGE_BYTES), origin: "new" };
  }
  const local = await localLedger(world, claim, path);
  if (local !== undefined) return { path, ledger: local, origin: "local" };
  const { keys, manifest } = claim;
  const ledger = await assembleState({ bucket, folder: world.folder, keys, manifest }, path);
  return { path, ledger, origin: "restored" };
}

/** The file and what SQLite leaves beside it. */
export function removeLocalFile(world: Pick<World, "folder">, path: string): void {
  world.folder.remove(path);
  removeSideFiles(world, path);
}

/** What SQLite would take for the newest writes of the file, whatever stands in it by now. */
export function removeSideFiles(world: Pick<World, "folder">, path: string): void {
  for (const suffix of ["-wal", "-shm", "-journal"]) world.folder.remove(`${path}${suffix}`);
}

/** Reads the whole file: a copy of any other position, or damaged anywhere, has another identity. */
async function localLedger(world: World, claim: Claim, path: string): Promise<PageLedger | undefined> {
  const { manifest } = claim;
  const size = world.folder.stat(path)?.sizeBytes;
  if (size !== manifest.pages * manifest.pageSize || manifest.pageSize !== PAGE_BYTES) return undefined;
  // A WAL is left by a crash: what it holds beyond the manifest never landed.
  if ((world.folder.stat(`${path}-wal`)?.sizeBytes ?? 0) > 0) return undefined;
  const file = world.folder.open(path, "read");
  try {
    const steps = PageLedger.ofFile(file, PAGE_BYTES);
    let step = steps.next();
    for (let count = 1; !step.done; count++) {
      if (count % 16 === 0) await yieldTurn(world);
      step = steps.next();
    }
    return step.value?.identity() === manifest.identity ? step.value : undefined;
  } finally {
    file.close();
  }
}
