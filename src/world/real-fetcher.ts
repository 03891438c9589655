/** The platform's own `fetch`, with the body bounded as it arrives. */
import { MoonportError } from "../errors.js";
import type { FetchedResponse, Fetcher, FetchRequest } from "./fetcher.js";

export const realFetcher: Fetcher = { fetch: fetchOnce };

async function fetchOnce(request: FetchRequest, signal: AbortSignal): Promise<FetchedResponse> {
  const { url, method, headers, body, bytesMax } = request;
  try {
    const response = await fetch(url, {
      method,
      headers,
      redirect: "manual",
      signal,
      ...(body !== undefined && { body: typeof body === "string" ? body : new Uint8Array(body) }),
    });
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: await bodyOf(response, bytesMax),
    };
  } catch (cause) {
    throw cause instanceof MoonportError ? cause : unreachable(url, cause);
  }
}

async function bodyOf({ body }: Response, bytesMax: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body as AsyncIterable<Uint8Array>) {
    bytes += part.length;
    // Leaving the loop cancels the rest.
    if (bytes > bytesMax) throw MoonportError.of("too_large", `the answer is larger than ${bytesMax} bytes`);
    parts.push(part);
  }
  return new Uint8Array(Buffer.concat(parts));
}

/** The platform says "fetch failed" and keeps the reason in the cause. */
function unreachable(url: string, thrown: unknown): MoonportError {
  const { cause } = thrown as { cause?: { code?: string; message?: string } };
  const reason = cause?.code ?? cause?.message ?? (thrown instanceof Error ? thrown.message : String(thrown));
  return MoonportError.of("fetch_failed", `${new URL(url).host} could not be reached: ${reason}`, { cause: thrown });
}
