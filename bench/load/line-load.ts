/** Calls over lines that answer by number: whoever is answered calls again, and what one read answered leaves in one write. */
import { type Round, type RoundBounds, type Taking, timed } from "../support/measure.js";
import type { Load } from "./load.js";
import type { RawSocket } from "./raw-socket.js";

export interface Line {
  listen(events: LineEvents): void;
  /** The call is laid out and leaves with the next flush. @param id from 1 to the calls in flight; free again once answered */
  call(id: number, index: number): void;
  flush(): void;
  close(): void;
}

export interface LineEvents {
  answered(id: number): void;
  /** All answers of one read have been told. */
  readDone(): void;
  failed(error: Error): void;
}

export class LineLoad implements Load {
  readonly #lines: readonly Line[];
  readonly #inFlight: number;

  /** @param inFlight on each of the lines */
  constructor(lines: readonly Line[], inFlight: number) {
    this.#lines = lines;
    this.#inFlight = inFlight;
  }

  round(bounds: RoundBounds): Promise<Round> {
    return timed(bounds, async (taking) => {
      await Promise.all(this.#lines.map((line) => this.#calls(line, taking)));
    });
  }

  async close(): Promise<void> {
    for (const line of this.#lines) line.close();
  }

  #calls(line: Line, taking: Taking): Promise<void> {
    return new Promise((resolve, reject) => {
      const begunMs = new Float64Array(this.#inFlight + 1);
      let underWay = 0;
      const begin = (id: number): void => {
        const index = taking.next();
        if (index === undefined) return;
        underWay++;
        begunMs[id] = performance.now();
        line.call(id, index);
      };
      const send = (): void => {
        line.flush();
        if (underWay === 0) resolve();
      };
      line.listen({
        answered: (id) => {
          underWay--;
          taking.took(performance.now() - (begunMs[id] as number));
          begin(id);
        },
        readDone: send,
        failed: reject,
      });
      for (let id = 1; id <= this.#inFlight; id++) begin(id);
      send();
    });
  }
}

/** @param frameOf a whole frame, see {@link clientFrame} @param idOf the number that an answer carries */
export function socketLine(
  socket: RawSocket,
  frameOf: (id: number, index: number) => Buffer,
  idOf: (payload: Buffer) => number,
): Line {
  let outgoing: Buffer[] = [];
  return {
    listen: ({ answered, readDone, failed }) =>
      socket.listen({ message: (payload) => answered(idOf(payload)), readDone, failed }),
    call: (id, index) => outgoing.push(frameOf(id, index)),
    flush: () => {
      if (outgoing.length > 0) socket.send(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
      outgoing = [];
    },
    close: () => socket.close(),
  };
}
