/** One request on its way through the fault proxy: what can be done to it, step by step. Which steps is the fault's matter. */
import { once } from "node:events";
import http from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

export interface ExchangeRoute {
  readonly host: string;
  readonly port: number;
  readonly agent: http.Agent;
}

export class ProxiedExchange {
  readonly request: http.IncomingMessage;
  readonly response: http.ServerResponse;
  /** A message lets go of its socket when it is done. */
  readonly #socket: Socket;
  readonly #route: ExchangeRoute;
  /** The client sends its body only when it is told to. */
  readonly #isHeldBack: boolean;
  #upstream: http.ClientRequest | undefined;
  /** The server's, once it has answered. */
  status: number | undefined;

  constructor(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    route: ExchangeRoute,
    { isHeldBack }: { readonly isHeldBack: boolean },
  ) {
    this.request = request;
    this.response = response;
    this.#socket = request.socket;
    this.#route = route;
    this.#isHeldBack = isHeldBack;
  }

  /** The whole body, of which the server has seen nothing. */
  async body(): Promise<Buffer> {
    if (this.#isHeldBack) this.response.writeContinue();
    return buffer(this.request);
  }

  /** Sends the request on and gives the server's answer, its body not yet read. Without a body the client's is streamed. */
  async forward(body?: Uint8Array): Promise<http.IncomingMessage> {
    const upstream = this.#open();
    const answered = answerTo(upstream);
    if (body) upstream.end(body);
    else this.request.pipe(upstream);
    const answer = await answered;
    this.status = answer.statusCode;
    return answer;
  }

  /** Sends the headers and so many bytes of the body on, then ends both connections. The last byte is never sent. */
  async forwardPart(bytes: number): Promise<void> {
    const length = Number(this.request.headers["content-length"] ?? Number.POSITIVE_INFINITY);
    let left = Math.min(bytes, length - 1);
    const upstream = this.#open();
    for await (const chunk of this.request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      const part = chunk.subarray(0, left);
      if (part.length > 0) await new Promise<void>((resolve) => upstream.write(part, () => resolve()));
      left -= part.length;
      if (left <= 0) break;
    }
    upstream.destroy();
    this.cut();
  }

  async relay(answer: http.IncomingMessage, pieces: AsyncIterable<Uint8Array> = answer): Promise<void> {
    this.writeHead(answer);
    await pipeline(pieces, this.response);
  }

  writeHead(answer: http.IncomingMessage): void {
    this.response.sendDate = false;
    this.response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders);
  }

  /** Passes headers and so many bytes on, then ends the client's connection. */
  async relayPart(answer: http.IncomingMessage, bytes: number): Promise<void> {
    const body = await buffer(answer);
    this.writeHead(answer);
    this.response.flushHeaders();
    if (bytes > 0) this.response.write(body.subarray(0, bytes));
    this.#socket.destroySoon();
    await this.#untilClosed();
  }

  async relayStatusLine(answer: http.IncomingMessage): Promise<void> {
    await discard(answer);
    this.#socket.write(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n`);
    this.#socket.destroySoon();
    await this.#untilClosed();
  }

  /** Resets the client's connection: nothing more arrives there. */
  cut(): void {
    this.#socket.resetAndDestroy();
  }

  /** As any proxy, lets go of the server when the client has gone. */
  abandonWithClient(): void {
    this.response.once("close", () => {
      if (!this.response.writableFinished || !this.#upstream?.writableFinished) this.abandon();
    });
  }

  /** Nobody waits for the answer any more. */
  abandon(): void {
    this.#upstream?.destroy();
  }

  #open(): http.ClientRequest {
    const { method, url, rawHeaders } = this.request;
    const upstream = http.request({ ...this.#route, method, path: url, headers: rawHeaders, setHost: false });
    upstream.on("error", () => {});
    if (this.#isHeldBack) {
      upstream.on("continue", () => this.response.writeContinue());
      upstream.flushHeaders();
    }
    this.#upstream = upstream;
    return upstream;
  }

  async #untilClosed(): Promise<void> {
    if (!this.#socket.closed) await once(this.#socket, "close");
  }
}

export async function discard(answer: Readable): Promise<void> {
  answer.resume();
  if (!answer.readableEnded) await once(answer, "end");
}

async function answerTo(upstream: http.ClientRequest): Promise<http.IncomingMessage> {
  const [answer] = (await once(upstream, "response")) as [http.IncomingMessage];
  return answer;
}
