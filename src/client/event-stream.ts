/** One connection to a node's event stream (Server-Sent Events): opened, read at the pace of its reader, given up when it falls silent. */
import http from "node:http";
import { asMoonportError, MoonportError } from "../errors.js";
import { EVENT_STREAM_TYPE, type StreamMessage, StreamReader } from "../wire/event-stream.js";
import { errorOf } from "../wire/problem.js";
import type { Timer, World } from "../world/world.js";

export interface StreamTarget {
  readonly host: string;
  readonly port: number;
  /** With its query, encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface StreamListener {
  /** In order; none follows {@link closed}. */
  message(message: StreamMessage): void;
  /** The position that the stream has reached, with or without a message. */
  reached(id: string): void;
  /** As {@link Sink.room}: until it resolves nothing more is read. */
  room(): Promise<void> | undefined;
  closed(cause: MoonportError): void;
}

/** The node says that it is alive more often than this (SSE_KEEPALIVE_MS): a silent connection is a dead one. */
const SILENCE_MAX_MS = 90_000;
const REFUSAL_BYTES_MAX = 64 * 1024;

export class EventStream {
  readonly #timers: World["timers"];
  readonly #target: StreamTarget;
  readonly #listener: StreamListener;
  #request: http.ClientRequest | undefined;
  #silence: Timer | undefined;

  constructor(timers: World["timers"], target: StreamTarget, listener: StreamListener) {
    this.#timers = timers;
    this.#target = target;
    this.#listener = listener;
  }

  /** Resolves when the node has agreed; the listener is told from then on. @throws MoonportError its refusal, `node_unreachable` */
  open(): Promise<void> {
    const { headers, ...target } = this.#target;
    return new Promise((resolve, reject) => {
      const request = http.get({ ...target, headers: { accept: EVENT_STREAM_TYPE, ...headers }, agent: false });
      this.#request = request;
      this.#heard();
      let isOpen = false;
      request.on("error", (cause) => {
        if (isOpen) return;
        this.close();
        reject(this.#unreachable("does not answer", cause));
      });
      request.on("response", (response) => {
        const isStream = response.headers["content-type"]?.startsWith(EVENT_STREAM_TYPE) === true;
        if (response.statusCode !== 200 || !isStream) {
          return this.#readRefusal(response)
            .finally(() => this.close())
            .then(reject, reject);
        }
        isOpen = true;
        this.#read(response);
        resolve();
      });
    });
  }

  /** The listener hears nothing more. Idempotent. */
  close(): void {
    this.#silence?.cancel();
    this.#request?.destroy();
    this.#request = undefined;
  }

  #read(response: http.IncomingMessage): void {
    const reader = new StreamReader();
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      this.#heard();
      try {
        for (const message of reader.push(text)) if (this.#request !== undefined) this.#listener.message(message);
      } catch (error) {
        return this.#closed(asMoonportError(error));
      }
      if (this.#request === undefined) return;
      this.#listener.reached(reader.id);
      this.#pauseForRoom(response);
    });
    response.on("error", () => {});
    response.on("close", () => this.#closed(this.#unreachable("ended the stream")));
  }

  #pauseForRoom(response: http.IncomingMessage): void {
    const room = this.#listener.room();
    if (room === undefined) return;
    response.pause();
    this.#silence?.cancel();
    void room.then(() => {
      this.#heard();
      response.resume();
    });
  }

  #closed(cause: MoonportError): void {
    if (this.#request === undefined) return;
    this.close();
    this.#listener.closed(cause);
  }

  #heard(): void {
    this.#silence?.cancel();
    const request = this.#request;
    if (request === undefined) return;
    this.#silence = this.#timers.after(SILENCE_MAX_MS, () => request.destroy(new Error("nothing was heard of it")));
  }

  async #readRefusal(response: http.IncomingMessage): Promise<MoonportError> {
    let text = "";
    for await (const part of response.setEncoding("utf8")) {
      text += part;
      if (text.length > REFUSAL_BYTES_MAX) break;
    }
    return refusalOf(text) ?? this.#unreachable(`answered ${response.statusCode} and is no Moonport node`);
  }

  #unreachable(what: string, cause?: unknown): MoonportError {
    const { host, port } = this.#target;
    return MoonportError.of("node_unreachable", `the node at ${host}:${port} ${what}`, {
      cause,
      hint: "start a node with `moonport start` or `moonport dev`",
    });
  }
}

function refusalOf(text: string): MoonportError | undefined {
  try {
    return errorOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}
