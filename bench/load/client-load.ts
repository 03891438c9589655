/** The same calls as a program makes them: moonport/client over MessagePack, everything else as it is by default. */
import { connect, type MoonportClient } from "../../src/client/index.js";
import { type Round, type RoundBounds, roundOfCalls } from "../support/measure.js";
import { type Load, type LoadSpec, placeOf } from "./load.js";

export class ClientLoad implements Load {
  readonly #client: MoonportClient;
  readonly #spec: LoadSpec;

  constructor(spec: LoadSpec) {
    this.#client = connect(spec.url.replace("http", "ws"), { codec: "msgpack" });
    this.#spec = spec;
  }

  round(bounds: RoundBounds): Promise<Round> {
    const { operation, inFlight } = this.#spec;
    if (operation.kind === "unit") throw new Error("the client calls no units");
    const { kind, keys } = operation;
    const objects = keys.map((key) => this.#client.object("Work", key));
    return roundOfCalls(bounds, inFlight, (index) => {
      const object = objects[placeOf(index, objects.length)] as (typeof objects)[number];
      return object.call(kind, kind === "write" ? ["ada", index] : []);
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}
