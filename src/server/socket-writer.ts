/**
 * What a node sends over one WebSocket: gathered while a turn lasts, written at once.
 *
 * The replies that one flight releases come in one turn, so they leave in one write. Frames are laid out here, unmasked and
 * whole as RFC 6455 has them from a server, because a write (and a system call) for each would cost more than the call it
 * answers. Only whole frames are written, so the pings, pongs and the close frame that `ws` writes itself fall between them.
 */
import type { Duplex } from "node:stream";
import type { TurnEnd } from "./turn-end.js";

const TEXT_FRAME = 0x81;
const BINARY_FRAME = 0x82;
/** What is shared or large is written from where it lies instead of being copied. */
const COPY_BYTES_MAX = 16_384;

export class SocketWriter {
  readonly #socket: Duplex;
  readonly #firstByte: number;
  readonly #turnEnd: TurnEnd;
  #pieces: Uint8Array[] = [];
  #gathered = 0;
  #written = 0;
  #waiting: (() => void)[] = [];

  constructor(socket: Duplex, isBinary: boolean, turnEnd: TurnEnd) {
    this.#socket = socket;
    this.#turnEnd = turnEnd;
    this.#firstByte = isBinary ? BINARY_FRAME : TEXT_FRAME;
  }

  /** Bytes that the system has not taken yet. */
  get bufferedBytes(): number {
    return this.#gathered + this.#socket.writableLength;
  }

  /** Bytes that the system has taken; when it stands still while there are some to take, nobody reads. */
  get takenBytes(): number {
    return this.#written - this.#socket.writableLength;
  }

  /** One message; its two parts stand behind each other. */
  send(payload: Uint8Array, rest?: Uint8Array): void {
    if (this.#pieces.length === 0) this.#turnEnd.add(this.#flushSoon);
    const length = payload.length + (rest?.length ?? 0);
    const head = frameHead(this.#firstByte, length);
    this.#pieces.push(head, payload);
    if (rest !== undefined) this.#pieces.push(rest);
    this.#gathered += head.length + length;
  }

  /** Writes what was gathered. Whatever is written to the socket by others must come after. */
  flush(): void {
    if (this.#pieces.length === 0) return;
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#written += this.#gathered;
    this.#gathered = 0;
    if (this.#socket.destroyed || this.#socket.writableEnded) return this.#tookSome();
    const chunks = chunked(pieces);
    if (chunks.length > 1) this.#socket.cork();
    for (const chunk of chunks) this.#socket.write(chunk, this.#tookSome);
    if (chunks.length > 1) this.#socket.uncork();
  }

  /** Calls back the next time that the system has taken something, or will never take any more. */
  onTaken(wake: () => void): void {
    this.#waiting.push(wake);
  }

  /** The socket is gone. */
  end(): void {
    this.#pieces = [];
    this.#gathered = 0;
    this.#tookSome();
  }

  readonly #flushSoon = (): void => this.flush();

  readonly #tookSome = (): void => {
    if (this.#waiting.length === 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  };
}

function frameHead(firstByte: number, length: number): Uint8Array {
  if (length < 126) return Uint8Array.of(firstByte, length);
  if (length < 0x10000) return Uint8Array.of(firstByte, 126, length >>> 8, length);
  const head = new Uint8Array(10);
  head[0] = firstByte;
  head[1] = 127;
  // A message is far below 2^32 bytes.
  new DataView(head.buffer).setUint32(6, length);
  return head;
}

/** Neighbours that are small become one buffer. */
function chunked(pieces: readonly Uint8Array[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let from = 0;
  let bytes = 0;
  for (let index = 0; index <= pieces.length; index++) {
    const piece = pieces[index];
    if (piece !== undefined && piece.length <= COPY_BYTES_MAX) {
      bytes += piece.length;
      continue;
    }
    if (bytes > 0) chunks.push(joined(pieces, from, index, bytes));
    if (piece !== undefined) chunks.push(piece);
    from = index + 1;
    bytes = 0;
  }
  return chunks;
}

function joined(pieces: readonly Uint8Array[], from: number, until: number, bytes: number): Uint8Array {
  const chunk = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (let index = from; index < until; index++) {
    const piece = pieces[index] as Uint8Array;
    chunk.set(piece, at);
    at += piece.length;
  }
  return chunk;
}
