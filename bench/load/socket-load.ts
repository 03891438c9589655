/** Calls over one WebSocket by the light client: what one read answers is called again in one write. */
import { pack } from "msgpackr";
import { MSGPACK_PROTOCOL, SOCKET_PATH } from "../../src/wire/frames.js";
import { type Round, type RoundBounds, timed } from "../support/measure.js";
import { CallFrames, replyId } from "./call-frames.js";
import type { Load, LoadSpec } from "./load.js";
import { clientFrame, RawSocket } from "./raw-socket.js";

export class SocketLoad implements Load {
  readonly #socket: RawSocket;
  readonly #frames: CallFrames;
  readonly #inFlight: number;

  private constructor(socket: RawSocket, spec: LoadSpec) {
    this.#socket = socket;
    this.#frames = new CallFrames(spec);
    this.#inFlight = spec.inFlight;
  }

  static async open(spec: LoadSpec): Promise<SocketLoad> {
    const socket = await RawSocket.open(`${spec.url.replace("http", "ws")}${SOCKET_PATH}`, MSGPACK_PROTOCOL);
    await new Promise<void>((resolve, reject) => {
      socket.listen({ message: () => resolve(), readDone: () => {}, failed: reject });
      socket.send(clientFrame(pack({ type: "hello" })));
    });
    return new SocketLoad(socket, spec);
  }

  round(bounds: RoundBounds): Promise<Round> {
    return timed(
      bounds,
      (taking) =>
        new Promise((resolve, reject) => {
          const begunMs = new Float64Array(this.#inFlight + 1);
          let underWay = 0;
          let outgoing: Buffer[] = [];
          const begin = (id: number): void => {
            const index = taking.next();
            if (index === undefined) return;
            underWay++;
            begunMs[id] = performance.now();
            outgoing.push(this.#frames.next(id, index));
          };
          const send = (): void => {
            if (outgoing.length > 0)
              this.#socket.send(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
            outgoing = [];
            if (underWay === 0) resolve();
          };
          this.#socket.listen({
            message: (payload) => {
              const id = replyId(payload);
              underWay--;
              taking.took(performance.now() - (begunMs[id] as number));
              begin(id);
            },
            readDone: send,
            failed: reject,
          });
          for (let id = 1; id <= this.#inFlight; id++) begin(id);
          send();
        }),
    );
  }

  async close(): Promise<void> {
    this.#socket.close();
  }
}
