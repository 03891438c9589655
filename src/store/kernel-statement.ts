/** A statement of the kernel's own on an object's file. */
import type { SqlValue } from "../values.js";
import type { RawStatement } from "./statement-cache.js";

/** Numbers are bound as REAL: the columns they meet have INTEGER affinity. */
export class KernelStatement {
  readonly handle: RawStatement;
  readonly #around: <T>(isWrite: boolean, action: () => T) => T;

  constructor(handle: RawStatement, around: <T>(isWrite: boolean, action: () => T) => T) {
    this.handle = handle;
    this.#around = around;
    if (handle.reader) handle.raw(true);
  }

  /** Runs a write in the open transaction, which then counts as writing; returns how many rows changed. */
  run(...parameters: readonly SqlValue[]): number {
    return this.#around(true, () => this.handle.run(parameters)).changes;
  }

  /** As {@link run}, of an INSERT of one row; returns the row's id. */
  insert(...parameters: readonly SqlValue[]): number {
    return Number(this.#around(true, () => this.handle.run(parameters)).lastInsertRowid);
  }

  get(...parameters: readonly SqlValue[]): readonly unknown[] | undefined {
    return this.#around(false, () => this.handle.get(parameters));
  }

  all(...parameters: readonly SqlValue[]): readonly (readonly unknown[])[] {
    return this.#around(false, () => this.handle.all(parameters));
  }
}
