/** The objects' records as they stand in the bucket at this moment, past all that slows a bucket down or loses its answers. */
import { LIST_LIMIT_MAX } from "../../src/bucket/bucket.js";
import type { MemoryContents } from "../../src/bucket/memory-contents.js";
import { type ObjectIdentity, objectOfId } from "../../src/identity.js";
import { ObjectKeys, objectOfKey } from "../../src/shipping/layout.js";
import { decodeManifest, type Manifest } from "../../src/shipping/manifest.js";

const OBJECTS_PREFIX = "objects/";

export interface StandingManifest {
  readonly manifest: Manifest;
  readonly version: string;
}

export function manifestIn(contents: MemoryContents, object: ObjectIdentity): StandingManifest | undefined {
  const found = contents.get(new ObjectKeys(object).manifest);
  return found && { manifest: decodeManifest(object.id, found.bytes), version: found.version };
}

export function manifestsIn(contents: MemoryContents): readonly Manifest[] {
  const manifests: Manifest[] = [];
  for (let after: string | undefined; ; ) {
    const page = contents.list(OBJECTS_PREFIX, after, LIST_LIMIT_MAX);
    for (const key of page.keys) {
      if (!key.endsWith("/manifest")) continue;
      const id = objectOfKey(key)?.id ?? "";
      const standing = manifestIn(contents, objectOfId(id));
      if (standing !== undefined) manifests.push(standing.manifest);
    }
    if (page.next === undefined) return manifests;
    after = page.next;
  }
}
