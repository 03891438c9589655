/** What is so of an object's file through transactions and savepoints, beside the file itself: for properties. */
import type { ObjectFile } from "./object-file.js";

export type TransactionStep = "savepoint" | "release" | "rollbackTo" | "commit" | "rollback" | "reopen";

/** Of a state that is changed by its owner, and copied where the file keeps one to go back to. */
export class TransactionModel<T> {
  current: T;
  committed: T;
  readonly #copy: (state: T) => T;
  #savepoints: T[] = [];

  constructor(first: T, copy: (state: T) => T) {
    this.current = first;
    this.committed = copy(first);
    this.#copy = copy;
  }

  /** @param between looks at the file where no transaction is open */
  play(file: ObjectFile, step: TransactionStep, between: () => void = () => {}): void {
    const { database } = file;
    switch (step) {
      case "savepoint":
        database.savepoint();
        this.#savepoints.push(this.#copy(this.current));
        return;
      case "release":
        if (this.#savepoints.pop() !== undefined) database.release();
        return;
      case "rollbackTo": {
        const saved = this.#savepoints.pop();
        if (saved === undefined) return;
        database.rollbackTo();
        this.current = saved;
        return;
      }
      case "commit":
        while (this.#savepoints.pop() !== undefined) database.release();
        database.commit();
        this.committed = this.#copy(this.current);
        break;
      case "rollback":
      case "reopen":
        if (step === "rollback") database.rollback();
        else file.reopen();
        this.#savepoints = [];
        this.current = this.#copy(this.committed);
    }
    between();
    file.database.begin();
  }
}
