/**
 * Which methods of which objects are not run because they stalled their node, each so often that it is no accident.
 *
 * Promises: a stall that was written down counts exactly once, before this node serves its first call; what is in quarantine
 * runs nowhere on this node, by whichever way it is called, until an operator clears it. One statement that never ends costs
 * an object's one method, and not the fleet, node by node.
 */
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { identityOf, type ObjectIdentity } from "../identity.js";
import type { QuarantineEntry } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { CONSOLE_ENTRY } from "../world/watchdog/running-record.js";
import { parseStall, STALLS_FOLDER, type Stall, stallText } from "../world/watchdog/stall.js";
import type { World } from "../world/world.js";
import { type PoisonRecord, PoisonRecords } from "./poison-records.js";

export class Quarantine {
  readonly #records: PoisonRecords;
  readonly #stallsMax: number;
  /** By object and method. */
  readonly #held = new Map<string, PoisonRecord>();

  /**
   * Takes note of the stalls that earlier processes on this folder wrote down, and learns what is in quarantine.
   * @throws MoonportError `bucket_failed`, `storage_*`
   */
  static async open(
    world: Pick<World, "folder" | "log">,
    bucket: Bucket,
    settings: Pick<Settings, "QUARANTINE_STALLS">,
  ): Promise<Quarantine> {
    const records = new PoisonRecords(bucket);
    await takeNote(world, records);
    const quarantine = new Quarantine(records, settings.QUARANTINE_STALLS);
    await quarantine.list();
    return quarantine;
  }

  private constructor(records: PoisonRecords, stallsMax: number) {
    this.#records = records;
    this.#stallsMax = stallsMax;
  }

  /** Why this method of this object may not run; `undefined` for nearly all. */
  refusal(object: ObjectIdentity, method: string): MoonportError | undefined {
    if (this.#held.size === 0) return undefined;
    const record = this.#held.get(nameOf(object.id, method));
    if (record === undefined) return undefined;
    const { className, key, id } = object;
    const { length } = record.stalls;
    return MoonportError.of("quarantined", `${method} of ${id} stalled its node ${length} times and is not run`, {
      object: id,
      hint: `when its cause is mended: moonport quarantine clear ${className}/${key} ${method}`,
      details: { method, stalls: length },
    });
  }

  /** Every method that ever stalled, as the bucket knows it now; what other nodes noted or cleared holds here from then on. */
  async list(): Promise<QuarantineEntry[]> {
    const records = await this.#records.all();
    this.#held.clear();
    for (const record of records) {
      if (this.#isPoison(record)) this.#held.set(nameOf(record.object, record.method), record);
    }
    return records.map((record) => this.#entryOf(record));
  }

  /** @returns whether any stall of it was known */
  async clear(object: ObjectIdentity, method: string): Promise<boolean> {
    const wasKnown = await this.#records.forget(object, method);
    this.#held.delete(nameOf(object.id, method));
    return wasKnown;
  }

  #isPoison({ stalls }: PoisonRecord): boolean {
    return stalls.length >= this.#stallsMax;
  }

  #entryOf(record: PoisonRecord): QuarantineEntry {
    const { object, method, stalls } = record;
    const last = stalls.at(-1);
    return {
      object,
      method,
      quarantined: this.#isPoison(record),
      stalls: stalls.length,
      lastAtMs: last?.atMs ?? 0,
      lastSilentMs: last?.silentMs ?? 0,
      ...(last?.statement !== undefined && { statement: last.statement }),
    };
  }
}

/** A file goes once its stall is in the bucket, so a crash in between notes it again, which counts once. */
async function takeNote({ folder, log }: Pick<World, "folder" | "log">, records: PoisonRecords): Promise<void> {
  for (const name of folder.list(STALLS_FOLDER).sort()) {
    const path = `${STALLS_FOLDER}/${name}`;
    const stall = parseStall(folder.readFile(path) ?? new Uint8Array());
    if (stall === undefined) {
      log.warn({ path }, "a stall was written down, but not to its end");
    } else {
      log.error({ ...stall }, `an earlier process ended itself: ${stallText(stall)}`);
      const blamed = blamedBy(stall);
      if (blamed !== undefined) await records.note(blamed.object, blamed.method, stall);
    }
    folder.remove(path);
  }
}

/** The method to blame; none when no object's class code ran, or an operator's statement. */
function blamedBy({ object, entry }: Stall): { readonly object: ObjectIdentity; readonly method: string } | undefined {
  if (object === undefined || entry === undefined || entry === CONSOLE_ENTRY) return undefined;
  const [app = "", className = "", ...key] = object.split("/");
  try {
    return { object: identityOf(app, className, key.join("/")), method: entry };
  } catch (error) {
    // The main thread wrote while it was read after all: no object has this name.
    if (error instanceof MoonportError) return undefined;
    throw error;
  }
}

/** No method holds a line break. */
function nameOf(id: string, method: string): string {
  return `${id}\n${method}`;
}
