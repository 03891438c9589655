/**
 * The objects of a bucket, one after the other, from nothing but listings: a page at a time, so that a bucket of any size takes
 * the memory of one page. Keys of one object stand together in a listing: bodies, the manifest, past manifests.
 *
 * Keys that belong to no object and to nothing else that is known come along the way, as strays.
 */

import type { BucketReader } from "../bucket/bucket.js";
import { PROBE_PREFIX } from "../bucket/probe.js";
import type { ObjectIdentity } from "../identity.js";
import { NODES_PREFIX } from "../membership/node-record.js";
import {
  APPS_PREFIX,
  classPrefix,
  DELAY_PREFIX,
  FLEET_KEY,
  OBJECTS_PREFIX,
  ObjectKeys,
  OWING_PREFIX,
  objectOfKey,
  PAST_WALK_KEY,
  POISON_PREFIX,
  PROBE_KEY,
  parseBodyKey,
  parsePastKey,
} from "../shipping/layout.js";

/** What to walk: all apps, one, one class of it, or one object. */
export type Scope =
  | { readonly kind: "all" }
  | { readonly kind: "app"; readonly app: string }
  | { readonly kind: "class"; readonly app: string; readonly className: string }
  | { readonly kind: "object"; readonly object: ObjectIdentity };

export interface SeenObject {
  readonly kind: "object";
  readonly object: ObjectIdentity;
  readonly keys: ObjectKeys;
  /** Keys of its segments and snapshots, in the order of the listing. */
  readonly bodies: readonly string[];
  /** The same of its past manifests. */
  readonly past: readonly string[];
  /** Of an object with very many keys they come in several lots; this is the last. */
  readonly isLast: boolean;
}

export type Seen = SeenObject | { readonly kind: "stray"; readonly key: string };

/** Some forty times what an object's manifest names by default. */
const LOT_KEYS_MAX = 2_500;
/** Classes that are looked for beforehand; with more of them nobody knows how far a walk has come. */
const CLASSES_MAX = 1_000;

export async function* walk(bucket: BucketReader, scope: Scope): AsyncGenerator<Seen> {
  let lot: Lot | undefined;
  for await (const key of keysUnder(bucket, prefixOf(scope))) {
    if (lot !== undefined && !key.startsWith(lot.keys.prefix)) {
      yield lot.taken(true);
      lot = undefined;
    }
    const found: Lot | undefined = lot ?? Lot.of(key);
    if (found?.take(key) !== true) {
      if (!isKnown(key)) yield { kind: "stray", key };
      continue;
    }
    lot = found;
    if (lot.isFull) yield lot.taken(false);
  }
  if (lot !== undefined) yield lot.taken(true);
}

/** How far a walk has come when it meets an object: from 0 to 1, as far as its place among the classes and partitions tells. */
export async function placesIn(
  bucket: BucketReader,
  scope: Scope,
): Promise<((object: ObjectIdentity) => number) | undefined> {
  const classes = new Map<string, number>();
  let after: string | undefined;
  for (;;) {
    const page = await bucket.list(objectsPrefixOf(scope), { limit: 1, ...(after !== undefined && { after }) });
    const [key] = page.keys;
    if (key === undefined) break;
    if (classes.size >= CLASSES_MAX) return undefined;
    const prefix = /^objects\/[^/]+\/[^/]+\//.exec(key)?.[0];
    classes.set(prefix ?? key, classes.size);
    // The next sign after the slash: behind all keys of this class, before all of others that begin alike.
    after = prefix === undefined ? key : `${prefix.slice(0, -1)}0`;
  }
  return (object) => {
    const nth = classes.get(classPrefix(object.app, object.className)) ?? 0;
    const partition = Number.parseInt(new ObjectKeys(object).prefix.split("/")[3] ?? "0", 16);
    return (nth + partition / 256) / Math.max(1, classes.size);
  };
}

async function* keysUnder(bucket: BucketReader, prefix: string): AsyncGenerator<string> {
  for (let after: string | undefined; ; ) {
    const page = await bucket.list(prefix, after === undefined ? {} : { after });
    yield* page.keys;
    if (page.next === undefined) return;
    after = page.next;
  }
}

/** Keys of one object, as they come. */
class Lot {
  readonly object: ObjectIdentity;
  readonly keys: ObjectKeys;
  #bodies: string[] = [];
  #past: string[] = [];

  private constructor(object: ObjectIdentity, keys: ObjectKeys) {
    this.object = object;
    this.keys = keys;
  }

  /** Of the object whose key it seems to be, which {@link take} decides; nothing for a key that no object can have. */
  static of(key: string): Lot | undefined {
    const object = objectNamedBy(key);
    return object && new Lot(object, new ObjectKeys(object));
  }

  get isFull(): boolean {
    return this.#bodies.length + this.#past.length >= LOT_KEYS_MAX;
  }

  /** @returns whether it is a key of a manifest, a past manifest or a body */
  take(key: string): boolean {
    if (key === this.keys.manifest) return true;
    if (isBodyKey(this.keys, key)) this.#bodies.push(key);
    else if (isPastKey(this.keys, key)) this.#past.push(key);
    else return false;
    return true;
  }

  taken(isLast: boolean): SeenObject {
    const [bodies, past] = [this.#bodies, this.#past];
    [this.#bodies, this.#past] = [[], []];
    return { kind: "object", object: this.object, keys: this.keys, bodies, past, isLast };
  }
}

function objectNamedBy(key: string): ObjectIdentity | undefined {
  try {
    return objectOfKey(key);
  } catch {
    return undefined;
  }
}

/** Whether the key is exactly as one is written: `e01/3-3.seg` is no body's, though its numbers can be read. */
function isBodyKey(keys: ObjectKeys, key: string): boolean {
  const body = parseBodyKey(key);
  if (body === undefined) return false;
  const fromSeq = Number(/(\d+)-\d+\.seg$/.exec(key)?.[1] ?? 0);
  return key === keys.segment({ ...body, fromSeq }) || key === keys.snapshot({ epoch: body.epoch, seq: body.toSeq });
}

/** As with bodies. */
function isPastKey(keys: ObjectKeys, key: string): boolean {
  const name = parsePastKey(key);
  return name !== undefined && key === keys.pastManifest(name);
}

function isKnown(key: string): boolean {
  // A start that is under way has keys under the probe's prefix.
  if (key === FLEET_KEY || key === PROBE_KEY || key === PAST_WALK_KEY) return true;
  return [APPS_PREFIX, POISON_PREFIX, PROBE_PREFIX, NODES_PREFIX, OWING_PREFIX, DELAY_PREFIX].some((prefix) =>
    key.startsWith(prefix),
  );
}

function prefixOf(scope: Scope): string {
  return scope.kind === "all" ? "" : objectsPrefixOf(scope);
}

function objectsPrefixOf(scope: Scope): string {
  switch (scope.kind) {
    case "all":
      return OBJECTS_PREFIX;
    case "app":
      return `${OBJECTS_PREFIX}${scope.app}/`;
    case "class":
      return classPrefix(scope.app, scope.className);
    case "object":
      return new ObjectKeys(scope.object).prefix;
  }
}
