/**
 * Copies of other nodes' objects on this node, for readers who allow it: at most REPLICA_COPIES_MAX, and REPLICA_BYTES_MAX of files;
 * the longest unread go first. None outlives the process.
 */
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import { pendingMigrations } from "../store/migrations.js";
import type { PlainValue } from "../values.js";
import type { HostFile } from "./call-host.js";
import type { ObjectContext } from "./object-context.js";
import { type Reading, runReading } from "./reading.js";
import { type CopyRead, type Position, ReplicaCopy, type ReplicaCopyParts } from "./replica-copy.js";

const FOLDER = "copies";

type CopiesContext = Pick<
  ObjectContext,
  "world" | "settings" | "bucket" | "running" | "catalog" | "log" | "quarantine" | "counters"
>;

/** What a reading method returned, if the copy is of its class's version. */
type Answer = { readonly kind: "answer"; readonly value: PlainValue } | { readonly kind: "other_version" };

export class ReplicaCopies {
  readonly #context: CopiesContext;
  readonly #parts: ReplicaCopyParts;
  /** By object id, in order of last use. */
  readonly #copies = new Map<string, ReplicaCopy>();
  #made = 0;
  #isClosed = false;

  constructor(context: CopiesContext, entries: ReplicaCopyParts["entries"]) {
    this.#context = context;
    const { world, settings, bucket, running } = context;
    this.#parts = { world, settings, bucket, running, entries, makeRoom: (copy, bytes) => this.#makeRoom(copy, bytes) };
    world.folder.removeTree(FOLDER);
    world.folder.ensureDirectory(FOLDER);
  }

  get size(): number {
    return this.#copies.size;
  }

  get bytes(): number {
    let bytes = 0;
    for (const copy of this.#copies.values()) bytes += copy.bytes;
    return bytes;
  }

  /**
   * @returns undefined where the owner is to be asked: no copy can be brought to the position, or it is of another version of the
   * class. @throws MoonportError what the method throws
   */
  async read(object: ObjectIdentity, position: Position, reading: Reading): Promise<CopyRead<PlainValue> | undefined> {
    const { lua } = reading;
    if (position.version !== lua.version) return undefined;
    const copy = this.#copyOf(object);
    if (copy === undefined) return undefined;
    const read = await copy.read(position, (file) => this.#answer(file, reading));
    return read?.value.kind === "answer" ? { value: read.value.value, seq: read.seq } : undefined;
  }

  close(): void {
    this.#isClosed = true;
    for (const copy of this.#copies.values()) copy.close();
    this.#copies.clear();
    this.#context.world.folder.removeTree(FOLDER);
  }

  async #answer(file: HostFile, reading: Reading): Promise<Answer> {
    if (!isOf(file, reading.lua)) return { kind: "other_version" };
    return { kind: "answer", value: await runReading(this.#context, file, reading) };
  }

  #copyOf(object: ObjectIdentity): ReplicaCopy | undefined {
    if (this.#isClosed) return undefined;
    const known = this.#copies.get(object.id);
    if (known !== undefined) {
      this.#copies.delete(object.id);
      this.#copies.set(object.id, known);
      return known;
    }
    if (this.#copies.size >= this.#context.settings.REPLICA_COPIES_MAX && !this.#dropOne()) return undefined;
    const copy = new ReplicaCopy(this.#parts, object, `${FOLDER}/${++this.#made}.db`);
    this.#copies.set(object.id, copy);
    return copy;
  }

  #makeRoom(copy: ReplicaCopy, bytes: number): boolean {
    const most = this.#context.settings.REPLICA_BYTES_MAX - bytes;
    while (this.bytes - copy.bytes > most) if (!this.#dropOne()) return false;
    return most >= 0;
  }

  /** The longest unread that nobody uses. */
  #dropOne(): boolean {
    for (const [id, copy] of this.#copies) {
      if (copy.isInUse) continue;
      this.#copies.delete(id);
      copy.close();
      return true;
    }
    return false;
  }
}

/** R4: a copy cannot be migrated; it is served as it stands, or not. */
function isOf({ tables: { meta } }: HostFile, lua: LuaClass): boolean {
  return meta.get("class_version") === lua.version && pendingMigrations(meta, lua) === 0;
}
