/** The little of Redis's protocol that a load needs: commands laid out, replies cut out of what was read, errors noticed. */
import { connect, type Socket } from "node:net";

export interface RedisEvents {
  /** One whole reply, nested ones included. */
  reply(bytes: Buffer): void;
  /** All replies of one read have been told. */
  readDone(): void;
  failed(error: Error): void;
}

const ERROR = 0x2d;
const INTEGER = 0x3a;
const BULK = 0x24;
const ARRAY = 0x2a;
const SIMPLE = 0x2b;
const CR = 0x0d;
const LINE_END = "\r\n";
const MINUS = 0x2d;
const DIGIT_0 = 0x30;

export function command(...words: readonly string[]): Buffer {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}${LINE_END}${word}${LINE_END}`);
  return Buffer.from(`*${words.length}${LINE_END}${parts.join("")}`);
}

/** Where the reply that starts at `at` ends; undefined while not all of it is there. @throws Error for what is no reply */
export function replyEnd(bytes: Buffer, at: number): number | undefined {
  const lineEnd = bytes.indexOf(CR, at);
  if (lineEnd < 0 || lineEnd + LINE_END.length > bytes.length) return undefined;
  const end = lineEnd + LINE_END.length;
  const kind = bytes[at];
  if (kind === SIMPLE || kind === ERROR || kind === INTEGER) return end;
  if (kind !== BULK && kind !== ARRAY) throw new Error(`no reply of Redis: ${bytes.toString("latin1", at, at + 80)}`);
  const length = lengthIn(bytes, at + 1, lineEnd);
  if (kind === BULK) {
    const bulkEnd = length < 0 ? end : end + length + LINE_END.length;
    return bulkEnd <= bytes.length ? bulkEnd : undefined;
  }
  let next: number | undefined = end;
  for (let item = 0; item < length && next !== undefined; item++) next = replyEnd(bytes, next);
  return next;
}

/** Of a bulk or an array; below zero for the one that stands for nothing. */
function lengthIn(bytes: Buffer, from: number, to: number): number {
  if (bytes[from] === MINUS) return -1;
  let length = 0;
  for (let at = from; at < to; at++) length = length * 10 + (bytes[at] as number) - DIGIT_0;
  return length;
}

export class RedisConnection {
  readonly #socket: Socket;
  #events: RedisEvents = { reply: () => {}, readDone: () => {}, failed: () => {} };
  #rest: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (data: Buffer) => this.#read(data));
    socket.on("error", (error) => this.#events.failed(error));
    socket.on("close", () => this.#events.failed(new Error("Redis closed the connection")));
  }

  /** @param url `redis://127.0.0.1:6379` */
  static open(url: string): Promise<RedisConnection> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.removeListener("error", reject);
        resolve(new RedisConnection(socket));
      });
    });
  }

  listen(events: RedisEvents): void {
    this.#events = events;
  }

  send(commands: Uint8Array): void {
    this.#socket.write(commands);
  }

  /** One command while nobody listens. @returns the reply as it came */
  ask(...words: readonly string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#events = { reply: (bytes) => resolve(bytes.toString("utf8")), readDone: () => {}, failed: reject };
      this.send(command(...words));
    });
  }

  close(): void {
    this.#events = { reply: () => {}, readDone: () => {}, failed: () => {} };
    this.#socket.destroy();
  }

  #read(data: Buffer): void {
    const bytes = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    let at = 0;
    for (let end = next(bytes, at); end !== undefined; end = next(bytes, at)) {
      const reply = bytes.subarray(at, end);
      if (reply[0] === ERROR) this.#events.failed(new Error(`Redis answered ${reply.toString("utf8")}`));
      else this.#events.reply(reply);
      at = end;
    }
    this.#rest = bytes.subarray(at);
    this.#events.readDone();
  }
}

function next(bytes: Buffer, at: number): number | undefined {
  return at < bytes.length ? replyEnd(bytes, at) : undefined;
}
