/** Calls over HTTP/1.1: a kept connection for each call in flight, requests and answers handled as text. */
import { connect, type Socket } from "node:net";
import { callIdSource } from "../support/call-ids.js";
import { type Round, type RoundBounds, timed } from "../support/measure.js";
import { type Load, type LoadSpec, placeOf } from "./load.js";

const nextCallId = callIdSource();

export class HttpLoad implements Load {
  readonly #connections: readonly Connection[];
  readonly #spec: LoadSpec;

  private constructor(connections: readonly Connection[], spec: LoadSpec) {
    this.#connections = connections;
    this.#spec = spec;
  }

  static async open(spec: LoadSpec): Promise<HttpLoad> {
    const connections = await Promise.all(Array.from({ length: spec.inFlight }, () => Connection.open(spec.url)));
    return new HttpLoad(connections, spec);
  }

  round(bounds: RoundBounds): Promise<Round> {
    return timed(bounds, async (taking) => {
      const loop = (connection: Connection): Promise<void> =>
        new Promise((resolve, reject) => {
          let begunMs = 0;
          const next = (): void => {
            const index = taking.next();
            if (index === undefined) return resolve();
            begunMs = performance.now();
            connection.send(this.#request(index));
          };
          connection.listen({
            answered: () => {
              taking.took(performance.now() - begunMs);
              next();
            },
            failed: reject,
          });
          next();
        });
      await Promise.all(this.#connections.map(loop));
    });
  }

  async close(): Promise<void> {
    for (const connection of this.#connections) connection.close();
  }

  #request(index: number): string {
    const { operation, ids } = this.#spec;
    const id = ids ? `Idempotency-Key: ${nextCallId()}\r\n` : "";
    if (operation.kind === "unit") {
      const { key, objects } = operation;
      return post("/v1/default/units/writes", id, JSON.stringify({ key, objects }));
    }
    const { kind, keys } = operation;
    const path = `/v1/default/Work/${keys[placeOf(index, keys.length)]}/${kind}`;
    return kind === "write" ? post(path, id, `["ada",${index}]`) : `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  }
}

function post(path: string, headers: string, body: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`;
}

interface ConnectionEvents {
  answered(): void;
  failed(error: Error): void;
}

class Connection {
  readonly #socket: Socket;
  #events: ConnectionEvents = { answered: () => {}, failed: () => {} };
  #text = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#read(text));
    socket.on("error", (error) => this.#events.failed(error));
    socket.on("close", () => this.#events.failed(new Error("the server closed the connection")));
  }

  static open(url: string): Promise<Connection> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new Connection(socket)));
    });
  }

  listen(events: ConnectionEvents): void {
    this.#events = events;
  }

  send(request: string): void {
    this.#socket.write(request, "latin1");
  }

  close(): void {
    this.#events = { answered: () => {}, failed: () => {} };
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#text += text;
    const end = this.#text.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#text)?.[1];
    if (length !== undefined && this.#text.length < end + 4 + Number(length)) return;
    const answer = this.#text;
    this.#text = "";
    // The benchmark's answers are never chunked: one with neither body nor length is a unit's 204.
    if (/^HTTP\/1\.1 20[04] /.test(answer)) this.#events.answered();
    else this.#events.failed(new Error(`the server answered ${answer.slice(0, 600)}`));
  }
}
