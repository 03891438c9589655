/** A whole HTTP answer as bytes, for connections that have no response object: broken requests and refused upgrades. */
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { MoonportError } from "../errors.js";
import { PROBLEM_TYPE, problemOf, retryAfterSeconds } from "../wire/problem.js";

/** Closes the connection for good: the HTTP server has let go of it, so no timeout ends one whose client keeps its half open. */
export function refuseConnection(socket: Duplex, error: MoonportError): void {
  socket.end(rawProblem(error), () => socket.destroy());
}

function rawProblem(error: MoonportError): string {
  const { status } = error.entry;
  const body = JSON.stringify(problemOf(error));
  const retryAfter = retryAfterSeconds(error);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    ...(retryAfter === undefined ? [] : [`Retry-After: ${retryAfter}`]),
    "Connection: close",
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}
