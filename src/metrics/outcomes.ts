/**
 * How calls ended: by class and method, each with its count of every outcome.
 *
 * Promise: there are never more entries than the app's files name and the error table holds, whatever callers send. Only names
 * that were announced by {@link CallOutcomes.know} have an entry; what names anything else is counted together.
 */
import { ERROR_CODES, type MoonportError } from "../errors.js";
import { WaitHistogram } from "./histogram.js";

/** What a class throws with a code of its own: those codes are anybody's to make up. */
export const CLASS_ERROR_OUTCOME = "class_error";

export class Outcomes {
  ok = 0;
  /** By code. */
  readonly failed = new Map<string, number>();

  count(error: MoonportError | undefined): void {
    if (error === undefined) this.ok++;
    else this.#fail(outcomeOf(error));
  }

  #fail(code: string): void {
    this.failed.set(code, (this.failed.get(code) ?? 0) + 1);
  }
}

/** What is known of a class's calls. */
export class ClassOutcomes {
  readonly methods = new Map<string, Outcomes>();
  /** Of calls that named none of the methods. */
  readonly noMethod = new Outcomes();
  readonly tookMs = new WaitHistogram();
}

export class CallOutcomes {
  /** By app, then by class. */
  readonly apps = new Map<string, Map<string, ClassOutcomes>>();
  /** Of calls that named none of the classes. */
  readonly noClass = new Outcomes();

  /** From now on these have entries of their own. What was known stays: a counter never goes back. */
  know(app: string, className: string, methods: Iterable<string>): void {
    const known = entry(
      entry(this.apps, app, () => new Map()),
      className,
      () => new ClassOutcomes(),
    );
    for (const method of methods) entry(known.methods, method, () => new Outcomes());
  }

  ended(app: string, className: string, method: string, tookMs: number, error?: MoonportError): void {
    const known = this.apps.get(app)?.get(className);
    if (known === undefined) return this.noClass.count(error);
    known.tookMs.record(tookMs);
    (known.methods.get(method) ?? known.noMethod).count(error);
  }
}

/** What is known of a unit's requests. */
export class UnitOutcomes extends Outcomes {
  readonly tookMs = new WaitHistogram();
}

export class RequestOutcomes {
  /** By app, then by unit. */
  readonly apps = new Map<string, Map<string, UnitOutcomes>>();
  /** Of requests that named none of the units. */
  readonly noUnit = new Outcomes();

  know(app: string, unit: string): void {
    entry(
      entry(this.apps, app, () => new Map()),
      unit,
      () => new UnitOutcomes(),
    );
  }

  ended(app: string, unit: string, tookMs: number, error?: MoonportError): void {
    const known = this.apps.get(app)?.get(unit);
    known?.tookMs.record(tookMs);
    (known ?? this.noUnit).count(error);
  }
}

function outcomeOf(error: MoonportError): string {
  return error.source === "moonport" && Object.hasOwn(ERROR_CODES, error.code) ? error.code : CLASS_ERROR_OUTCOME;
}

function entry<V>(map: Map<string, V>, name: string, make: () => V): V {
  const known = map.get(name);
  if (known !== undefined) return known;
  const made = make();
  map.set(name, made);
  return made;
}
