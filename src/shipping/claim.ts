/** What a session owns of an object: its record in the bucket. */
import type { Version } from "../bucket/bucket.js";
import type { ObjectIdentity } from "../identity.js";
import { ObjectKeys } from "./layout.js";
import { inlineBytes, type Manifest } from "./manifest.js";
import type { NextSweep } from "./retention.js";

/** One owned object's record, as this session last wrote it. Only the object's leg changes it. */
export class Claim {
  readonly object: ObjectIdentity;
  nextSweep: NextSweep = { kind: "due" };
  #manifest: Manifest;
  #version: Version;
  #inlineBytes: number;
  /** Thousands are claimed that nobody calls for long. */
  #keys: ObjectKeys | undefined;

  constructor(object: ObjectIdentity, manifest: Manifest, version: Version) {
    this.object = object;
    this.#manifest = manifest;
    this.#version = version;
    this.#inlineBytes = inlineBytes(manifest);
  }

  get keys(): ObjectKeys {
    this.#keys ??= new ObjectKeys(this.object);
    return this.#keys;
  }

  /** What the record holds of segments, bytes. */
  get inlineBytes(): number {
    return this.#inlineBytes;
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  get version(): Version {
    return this.#version;
  }

  advance(manifest: Manifest, version: Version): void {
    this.#manifest = manifest;
    this.#version = version;
    this.#inlineBytes = inlineBytes(manifest);
  }
}
