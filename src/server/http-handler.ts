/**
 * What stands behind the HTTP door: a list of handlers, asked in order which of them a request line belongs to.
 *
 * A handler says what the caller must be allowed before a byte of the body is read, and then gives one answer: a whole one
 * that the door writes, or an open one that the handler goes on writing itself (Server-Sent Events). Errors are thrown, as
 * MoonportErrors, and rendered by the door.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Principal } from "../auth/contract.js";
import type { Presence } from "../world/presence.js";
import type { RequestLine } from "./request-line.js";

export interface HttpHandler {
  /** `undefined`: this path is another's. @throws MoonportError when the path is its own and wrong all the same */
  operation(line: RequestLine): HttpOperation | undefined;
  /** The door is closing: open answers are to end. */
  stop?(): void;
}

export interface HttpOperation {
  /** Asked before the body is read; `undefined`: anybody may. @throws MoonportError `forbidden` */
  readonly check: ((principal: Principal) => void) | undefined;
  /** Answers even while the door is closing (others get `node_stopping`). */
  readonly whileStopping?: true;
  /** @throws MoonportError */
  answer(request: HttpRequest): Promise<HttpAnswer>;
}

export interface HttpRequest {
  readonly line: RequestLine;
  readonly headers: IncomingHttpHeaders;
  /** At most HTTP_BODY_BYTES_MAX, or what a release may have, of any content type. */
  readonly body: Buffer | undefined;
  /** Everybody, where the operation asks for nothing. */
  readonly principal: Principal;
  /** Gone once its connection is closed before the answer is written. */
  readonly caller: Presence;
  readonly isStopping: boolean;
}

export type HttpAnswer =
  | {
      readonly kind: "whole";
      readonly status: number;
      readonly body: string | Uint8Array;
      /** In lower case; `content-type` is JSON unless given. */
      readonly headers?: Readonly<Record<string, string | readonly string[]>>;
    }
  /** The door's standing headers are set on the response; head and body are the handler's, until it ends it. */
  | { readonly kind: "open"; take(response: ServerResponse): void };

/** Takes over connections that ask for another protocol (WebSocket) at one path. */
export interface UpgradeHandler {
  /** As it stands in the request line, without the query. */
  readonly path: string;
  /** Host and Origin have been checked; tokens are the handler's affair. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** The door is closing: resolves when every connection taken over is closed. */
  stop(): Promise<void>;
}
