/** The units of a node: finds the one that a request names, bounds how many run at once, and ends them with the node. */
import { MoonportError } from "../errors.js";
import type { UnitRequest, UnitResponse } from "../node-api.js";
import { uuidv7 } from "../world/world.js";
import type { UnitContext } from "./unit-context.js";
import { UnitRun } from "./unit-run.js";

export class UnitRunner {
  readonly #context: UnitContext;
  readonly #running = new Set<UnitRun>();

  constructor(context: UnitContext) {
    this.#context = context;
  }

  get running(): number {
    return this.#running.size;
  }

  /** @throws MoonportError `units_full`, and all that {@link UnitRun.run} and finding the unit throw */
  async run(request: UnitRequest): Promise<UnitResponse> {
    const { world, settings } = this.#context;
    const unit = this.#context.unitOf(request.app, request.unit);
    if (this.#running.size >= settings.UNITS_RUNNING_MAX) {
      throw MoonportError.of("units_full", `${this.#running.size} units are running`, { retryAfterMs: 1_000 });
    }
    const run = new UnitRun(this.#context, unit, request, request.callId ?? uuidv7(world));
    this.#running.add(run);
    try {
      return await run.run();
    } finally {
      this.#running.delete(run);
    }
  }

  /** Ends whatever still runs. */
  stop(error: MoonportError): void {
    for (const run of this.#running) run.cut(error);
  }
}
