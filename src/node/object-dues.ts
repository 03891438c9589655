/**
 * Has objects of this node do what they owe: run their timers that are due, send what they have to send, tell their directory row.
 * Of an object that has ended, its directory is told just that.
 */
import type { NodeDelay } from "../delay/node-delay.js";
import type { Directories } from "../directory/directories.js";
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { Objects } from "../object/objects.js";
import type { WakeTeller, Woken } from "../object/work.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import type { Admission } from "./admission.js";

export interface ObjectDuesParts {
  readonly world: Pick<World, "clock">;
  readonly settings: Pick<Settings, "CALL_TIMEOUT_MS">;
  readonly objects: Objects;
  readonly directories: Directories;
  readonly delay: NodeDelay;
  readonly admission: Admission;
}

const SYSTEM: Caller = { kind: "system" };
/** What waking an object that is not there comes to. */
const NOWHERE: Woken = { epoch: 0, seq: 0, ran: 0, inMs: null, dueMs: null };

export class ObjectDues {
  readonly #parts: ObjectDuesParts;

  constructor(parts: ObjectDuesParts) {
    this.#parts = parts;
  }

  /**
   * Has an object run its due timers and take up what else it owes; resolves when what they did is durable, and whoever is to
   * know of its next one does.
   * @throws MoonportError `moved` when the object is another node's
   */
  async wake(object: ObjectIdentity, teller: WakeTeller): Promise<Woken> {
    const { world, settings, objects, delay, admission } = this.#parts;
    admission.assertServing(SYSTEM);
    const exists = await objects.exists(object);
    const expiresMs = world.clock.monotonicMs() + settings.CALL_TIMEOUT_MS;
    return delay.waking(object, teller, async () => {
      if (exists) return objects.runTimers(object, teller, expiresMs);
      await this.#tellGone(object);
      return NOWHERE;
    });
  }

  /** The object tells its row again, or that it is gone; resolves when its directory has it. */
  async tellRow(object: ObjectIdentity): Promise<void> {
    const { objects, directories, admission } = this.#parts;
    admission.assertServing();
    directories.forget(object);
    admission.assertKnown(object);
    if (await objects.exists(object)) await objects.tellRow(object);
    else await this.#tellGone(object);
    await directories.whenTold(object);
  }

  /** Resolves when directories have heard of everything that was committed before. */
  async rowsTold(): Promise<void> {
    await this.#parts.objects.rowsLanded();
    await this.#parts.directories.whenIdle();
  }

  /** Of an object that has ended, its directory may not know so yet. */
  async #tellGone(object: ObjectIdentity): Promise<void> {
    const { objects, directories } = this.#parts;
    const manifest = await objects.manifest(object);
    // Claimed since by a call that wrote nothing, it is no less gone.
    if (manifest === undefined || (!manifest.destroyed && manifest.pages > 0)) return;
    directories.rows.gone(object, manifest.epoch, manifest.seq);
  }
}
