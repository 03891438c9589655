/**
 * What a running node says on stdout: that it is ready, and from then on what happens, a line each.
 *
 * With `--json` the first line is `{"url", "pid", "session"}`, with `"node"` and `"address"` in a fleet, and each further one an object with a single key that names its
 * kind. What happens before the node is ready is told after it.
 */
import { asMoonportError } from "../src/errors.js";
import type { Observation } from "../src/observation.js";
import { jsonText, type Output } from "./output.js";
import { faultText } from "./own-node.js";

export interface ReadyNode {
  readonly url: string;
  readonly pid: number;
  readonly session: string;
  /** The data folder. */
  readonly data: string;
  /** What it is called in its fleet, and the address of its links. */
  readonly fleet?: { readonly node: string; readonly address: string };
}

export class Teller {
  readonly #output: Output;
  readonly #show: { readonly events: boolean; readonly flights: boolean };
  #early: Observation[] | undefined = [];

  constructor(output: Output, show: { readonly events: boolean; readonly flights: boolean }) {
    this.#output = output;
    this.#show = show;
  }

  ready({ url, pid, session, data, fleet }: ReadyNode): void {
    const who = fleet === undefined ? "" : ` as ${fleet.node} of a fleet, linked at ${fleet.address}`;
    this.#output.result(`ready at ${url}${who} (process ${pid}, data in ${data})`, { url, pid, session, ...fleet });
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const observation of early) this.#tell(observation);
  }

  observe(observation: Observation): void {
    if (this.#early === undefined) this.#tell(observation);
    else this.#early.push(observation);
  }

  /** The app's folder could not be read; the classes that served go on serving. */
  notReloaded(error: unknown): void {
    this.#output.talk(`not reloaded: ${asMoonportError(error).message}`);
  }

  stopped(): void {
    this.#output.talk("stopped");
  }

  #tell(observation: Observation): void {
    switch (observation.kind) {
      case "landed": {
        if (!this.#show.flights) return;
        const { kind: _kind, ...flight } = observation;
        return this.#output.result(flightText(observation), { flight });
      }
      case "event": {
        if (!this.#show.events) return;
        const { kind: _kind, ...event } = observation;
        const { object, number, name, data } = event;
        return this.#output.result(`event   ${object} #${number} ${name} ${jsonText(data)}`, { event });
      }
      case "class_loaded":
        return this.#tellClass(`loaded  ${observation.name} (${observation.file})`, "loaded", observation);
      case "class_removed":
        return this.#tellClass(`removed ${observation.name}`, "removed", observation);
      case "class_failed":
        return this.#tellClass(`BROKEN  ${faultText(observation)}`, "failed", observation);
      case "unit_loaded":
        return this.#tellUnit(`loaded  ${observation.name} (${observation.file})`, "loaded", observation);
      case "unit_removed":
        return this.#tellUnit(`removed ${observation.name} (unit)`, "removed", observation);
      case "unit_failed":
        return this.#tellUnit(`BROKEN  ${faultText(observation)}`, "failed", observation);
      case "module_loaded":
        return this.#tellModule(`loaded  ${observation.name} (${observation.file})`, "loaded", observation);
      case "module_removed":
        return this.#tellModule(`removed ${observation.name} (module)`, "removed", observation);
      case "module_failed":
        return this.#tellModule(`BROKEN  ${faultText(observation)}`, "failed", observation);
    }
  }

  /** Classes come and go in `dev` only; `start` has loaded its own or refused. */
  #tellClass(text: string, change: string, { kind: _kind, ...fields }: Observation): void {
    if (this.#show.events) this.#output.result(text, { class: { change, ...fields } });
  }

  #tellUnit(text: string, change: string, { kind: _kind, ...fields }: Observation): void {
    if (this.#show.events) this.#output.result(text, { unit: { change, ...fields } });
  }

  #tellModule(text: string, change: string, { kind: _kind, ...fields }: Observation): void {
    if (this.#show.events) this.#output.result(text, { module: { change, ...fields } });
  }
}

function flightText(flight: Extract<Observation, { kind: "landed" }>): string {
  const { object, seq, ticketsReleased, sinceCommitMs, carried, bytes } = flight;
  const tickets = ticketsReleased === 1 ? "1 ticket" : `${ticketsReleased} tickets`;
  return `landed  ${object} seq ${seq} flight ${flight.flight} (${carried}, ${bytes} bytes) ${tickets} released, ${sinceCommitMs.toFixed(1)} ms after commit`;
}
