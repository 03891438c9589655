/**
 * A WebSocket client that costs next to nothing, so that what is measured is the server: frames are laid out in advance, masked
 * with zeros, and written many at a time; what comes in is cut into messages and not copied.
 */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";

export interface RawSocketEvents {
  message(payload: Buffer): void;
  /** All messages of one read have been told. */
  readDone(): void;
  failed(error: Error): void;
}

const BINARY = 0x82;
const TEXT = 0x81;
const CLOSE = 0x8;
const PING = 0x9;
const MASKED = 0x80;
const PONG = Buffer.from([0x8a, MASKED, 0, 0, 0, 0]);

export class RawSocket {
  readonly #socket: Socket;
  #events: RawSocketEvents = { message: () => {}, readDone: () => {}, failed: () => {} };
  #rest: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** @param url `ws://127.0.0.1:7070/v1/socket` */
  static open(url: string, protocol: string): Promise<RawSocket> {
    const { hostname, port, pathname } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      const raw = new RawSocket(socket);
      socket.once("error", reject);
      socket.once("close", () => reject(new Error(`${url} closed the connection`)));
      socket.write(
        `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n` +
          `Sec-WebSocket-Protocol: ${protocol}\r\n\r\n`,
      );
      const answered = (data: Buffer): void => {
        raw.#rest = raw.#rest.length === 0 ? data : Buffer.concat([raw.#rest, data]);
        const end = raw.#rest.indexOf("\r\n\r\n");
        if (end < 0) return;
        const head = raw.#rest.toString("latin1", 0, end);
        if (!head.startsWith("HTTP/1.1 101 ")) return reject(new Error(`${url} answered ${head.slice(0, 80)}`));
        raw.#rest = raw.#rest.subarray(end + 4);
        socket.removeListener("data", answered);
        raw.#listen();
        resolve(raw);
      };
      socket.on("data", answered);
    });
  }

  listen(events: RawSocketEvents): void {
    this.#events = events;
  }

  /** @param frames whole ones, see {@link clientFrame} */
  send(frames: Uint8Array): void {
    this.#socket.write(frames);
  }

  close(): void {
    this.#events = { message: () => {}, readDone: () => {}, failed: () => {} };
    this.#socket.destroy();
  }

  #listen(): void {
    this.#socket.removeAllListeners("error");
    this.#socket.removeAllListeners("close");
    this.#socket.on("error", (error) => this.#events.failed(error));
    this.#socket.on("close", () => this.#events.failed(new Error("the server closed the socket")));
    this.#socket.on("data", (data: Buffer) => this.#read(data));
  }

  #read(data: Buffer): void {
    const bytes = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    let at = 0;
    for (;;) {
      if (at + 2 > bytes.length) break;
      const short = bytes[at + 1] as number;
      const headLength = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (at + headLength > bytes.length) break;
      const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : bytes.readUInt32BE(at + 6);
      const end = at + headLength + length;
      if (end > bytes.length) break;
      this.#frame((bytes[at] as number) & 0xf, bytes.subarray(at + headLength, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
    this.#events.readDone();
  }

  #frame(opcode: number, payload: Buffer): void {
    if (opcode === PING) this.#socket.write(PONG);
    else if (opcode === CLOSE) this.#events.failed(new Error(`closed: ${payload.toString("utf8", 2)}`));
    else this.#events.message(payload);
  }
}

/** One whole frame from a client. */
export function clientFrame(payload: Uint8Array | string): Buffer {
  const bytes = Buffer.from(payload);
  const head = bytes.length < 126 ? [MASKED | bytes.length] : [MASKED | 126, bytes.length >>> 8, bytes.length & 0xff];
  if (bytes.length > 0xffff) throw new Error("the benchmark's frames are small");
  return Buffer.concat([Buffer.from([typeof payload === "string" ? TEXT : BINARY, ...head, 0, 0, 0, 0]), bytes]);
}
