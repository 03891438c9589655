/** What goes wrong in the HTTP library, under it and around it, as errors of ours. */
import type { IncomingHttpHeaders } from "node:http";
import { asMoonportError, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";

/** What the HTTP library throws is the request's fault when it says so, and ours otherwise. */
export function doorError(thrown: unknown, settings: Settings, url: string): MoonportError {
  if (thrown instanceof MoonportError) return thrown;
  const { code, statusCode, message } = thrown as { code?: string; statusCode?: number; message?: string };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    const isRelease = url.startsWith("/v1/admin/releases/");
    const bytes = isRelease ? releaseBodyMax(settings) : settings.HTTP_BODY_BYTES_MAX;
    return MoonportError.of("too_large", `the body is larger than ${bytes} bytes`, {
      hint: `the limit is ${isRelease ? "RELEASE_BYTES_MAX" : "HTTP_BODY_BYTES_MAX"}`,
    });
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return MoonportError.of("bad_request", message ?? "the request is malformed", { cause: thrown });
  }
  return asMoonportError(thrown);
}

/** Bytes of a body that deploys: JSON writes a new line or a quote in a text with two signs. */
export function releaseBodyMax({ HTTP_BODY_BYTES_MAX, RELEASE_BYTES_MAX }: Settings): number {
  return Math.max(HTTP_BODY_BYTES_MAX, 2 * RELEASE_BYTES_MAX);
}

export function listenError(cause: unknown, host: string, port: number): MoonportError {
  const errno = (cause as NodeJS.ErrnoException).code;
  if (errno === "EADDRINUSE") {
    return MoonportError.of("address_in_use", `${host}:${port} is taken by another process`, {
      cause,
      hint: "--port 0 picks a free one",
    });
  }
  if (errno === "EADDRNOTAVAIL" || errno === "EACCES" || errno === "EAFNOSUPPORT") {
    return MoonportError.of("bad_option", `cannot listen on ${host}:${port} (${errno})`, { cause });
  }
  return asMoonportError(cause);
}

/** For bytes that are no HTTP request, or not in time. */
export function malformed(errno: string | undefined, settings: Settings): MoonportError {
  if (errno === "HPE_HEADER_OVERFLOW") {
    const message = `the request line and the headers are larger than ${settings.HTTP_HEADER_BYTES_MAX} bytes`;
    return MoonportError.of("too_large", message, { hint: "the limit is HTTP_HEADER_BYTES_MAX; arguments fit a body" });
  }
  if (errno === "ERR_HTTP_REQUEST_TIMEOUT") {
    const { HTTP_HEADER_MS, HTTP_REQUEST_MS } = settings;
    const message = `headers have ${HTTP_HEADER_MS} ms to arrive, a whole request ${HTTP_REQUEST_MS} ms`;
    return MoonportError.of("request_timeout", message);
  }
  return MoonportError.of("bad_request", "this is not an HTTP/1.1 request");
}

/** RFC 6750: an error is named only to who sent a token. */
export function challenge({ authorization }: IncomingHttpHeaders): string {
  return authorization === undefined ? 'Bearer realm="moonport"' : 'Bearer realm="moonport", error="invalid_token"';
}
