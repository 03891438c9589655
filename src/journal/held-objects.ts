/**
 * All objects that the journal knows, what their entries and heads take on the disk, and whom it may forget: those without
 * entries, the longest unheard of first.
 */
import { type HeldObject, mayForget } from "../cluster/journal-rules.js";
import type { HeldSlot, KeptPayload } from "./held-slot.js";
import { headBytesMax } from "./records.js";

export class HeldObjects {
  readonly #slots = new Map<string, HeldSlot>();
  /** Those without entries, the longest unheard of first. */
  readonly #idle = new Set<HeldSlot>();
  /** Those of which no record on its way says all of the head. */
  readonly late = new Set<HeldSlot>();
  #entryBytes = 0;
  #headBytes = 0;

  /** What is needed of the files, at most. */
  get bytes(): number {
    return this.#entryBytes + this.#headBytes;
  }

  get(object: string): HeldSlot | undefined {
    return this.#slots.get(object);
  }

  isKnown(slot: HeldSlot): boolean {
    return this.#slots.get(slot.object) === slot;
  }

  *withEntries(): Generator<HeldSlot> {
    for (const slot of this.#slots.values()) if (!mayForget(slot.held)) yield slot;
  }

  /** The last heard of first. */
  withoutEntries(): string[] {
    return Array.from(this.#idle, ({ object }) => object).reverse();
  }

  add(slot: HeldSlot): void {
    this.#slots.set(slot.object, slot);
    this.#headBytes += headBytesOf(slot);
    for (const { payload } of slot.held.entries) this.#entryBytes += payload.frameBytes;
    if (mayForget(slot.held)) this.#idle.add(slot);
  }

  /** Makes `next` the object's state, which drops what it does not hold any more. */
  change(slot: HeldSlot, next: HeldObject<KeptPayload>): void {
    this.#release(slot.held, next);
    slot.held = next;
    this.#idle.delete(slot);
    if (mayForget(next)) this.#idle.add(slot);
  }

  /** The entry is held, and stands, or will stand, in a frame of this size. */
  count(payload: KeptPayload, frameBytes: number): void {
    this.#entryBytes += frameBytes - payload.frameBytes;
    payload.frameBytes = frameBytes;
  }

  /** Those to forget until there are no more than `max`; the caller forgets each. */
  *tooMany(max: number): Generator<HeldSlot> {
    for (const slot of this.#idle) {
      if (this.#slots.size <= max) return;
      yield slot;
    }
  }

  forget(slot: HeldSlot): void {
    this.#slots.delete(slot.object);
    this.#idle.delete(slot);
    this.late.delete(slot);
    this.#headBytes -= headBytesOf(slot);
  }

  #release(before: HeldObject<KeptPayload>, next: HeldObject<KeptPayload>): void {
    if (before.entries === next.entries) return;
    const isSameTail = before.tailEpoch === next.tailEpoch;
    for (const { toSeq, payload } of before.entries) {
      if (isSameTail && toSeq > next.base) return;
      payload.isHeld = false;
      this.#entryBytes -= payload.frameBytes;
    }
  }
}

function headBytesOf(slot: HeldSlot): number {
  return headBytesMax(Buffer.byteLength(slot.object));
}
